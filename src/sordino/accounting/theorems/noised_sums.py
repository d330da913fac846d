"""What the message-passing theorems need beyond their composition: messages see one record and released values only."""

from sordino.accounting.assumptions import caller_checked
from sordino.accounting.chain_assumptions import NUMERICAL
from sordino.accounting.evaluate import Monotone, Scope, Theorem, theorem
from sordino.accounting.noisy_steps import scheme_of
from sordino.accounting.theorems.composition import (
    gaussian,
    parallel_epochs,
    subsampled_poisson,
    subsampled_without_replacement,
)
from sordino.core.bound import Citation, Relation, Status, View
from sordino.core.guarantee import Guarantee
from sordino.core.spec import Scheme, Spec

KINDS = frozenset({"message-passing"})
VIEWS = frozenset({View.POSTERIOR_PARAMETERS, View.ALL_ITERATES})

MONOTONE = (("algorithm.noise_multiplier", Monotone.FALLS), ("algorithm.steps", Monotone.RISES))

CLIPPED_MESSAGES = caller_checked(
    "clipped messages",
    "each record's stacked message is a function of the record and of released values, is shortened to the clip as a "
    "whole (unknown precisions included), and step and noise share one damping",
)
PUBLIC_SCALING = caller_checked(
    "public scaling", "features and targets are scaled by declared bounds, not by values computed from the records"
)


# Permuted passes of stochastic expectation propagation, as published, without the amplification claimed there.
#
# Statement:
#     Each record is used once an epoch, so K epochs are mu-Gaussian DP with mu^2 = K / sigma^2.
#
# Formal guarantees:
#     Gaussian differential privacy of all rounds' natural parameters, hence of the posterior; mu is rounded up.
#
# Assumptions:
#     Machine-checked: schedules and ratios are within numerical reach. Caller-checked: clipped messages, public
#       scaling.
#
# Edge cases:
#     A partial last epoch counts as one. Vinaroz & Park run passes and account for independent draws; that is not
#       valid.
#
# References:
#     Dong, Roth & Su 2022, Corollary 3.3; Vinaroz & Park 2022, Algorithm 3 and Proposition 1.


@theorem(
    id="sep.passes",
    statement=(
        "Passes of stochastic expectation propagation in permuted order use each record once an epoch, so K epochs "
        "are mu-Gaussian DP with mu^2 = K / sigma^2, whatever the damping; no amplification by sampling holds."
    ),
    citation=Citation("vinaroz2022differentially", "Algorithm 3 and Proposition 1, accounted by parallel epochs"),
    status=Status.CORRECTED,
    scope=Scope(KINDS, VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.RESHUFFLED})}),
    assumptions=(*NUMERICAL, CLIPPED_MESSAGES, PUBLIC_SCALING),
    monotone=MONOTONE,
)
def passes(spec: Spec) -> Guarantee:
    """Given the permutations each epoch is one Gaussian mechanism for the record."""
    return parallel_epochs.proof(spec)


# Full-batch rounds of stochastic expectation propagation: every round is one Gaussian mechanism.
#
# Statement:
#     theta <- (1 - rho) theta + rho (theta_0 + sum of clipped messages + D sigma xi) with D = 2 C under replace-one
#       and
#     C under add-remove: T rounds are mu-Gaussian DP with mu^2 = sum of 1 / sigma_t^2.
#
# Formal guarantees:
#     Gaussian differential privacy of every round's natural parameters, hence of the posterior and of anything
#       computed
#     from them (repairs, momentum, predictions); mu is rounded up.
#
# Assumptions:
#     Machine-checked: schedules and ratios are within numerical reach. Caller-checked: clipped messages, public
#       scaling.
#
# Edge cases:
#     The damping does not enter: it multiplies the noised sum, so step and noise share it.
#
# References:
#     Dong, Roth & Su 2022, Corollary 3.3; Vinaroz & Park 2022, Proposition 1, for the sensitivity.

_FULL = frozenset({Scheme.FULL})


@theorem(
    id="sep.rounds",
    statement=(
        "T full-batch rounds of stochastic expectation propagation, each the sum of messages of length at most C plus "
        "noise of sigma times the sum's sensitivity (2C under replace-one, C under add-remove), are mu-Gaussian DP "
        "with mu^2 = sum of 1 / sigma_t^2, whatever the damping."
    ),
    citation=Citation("dong2022gaussian", "Corollary 3.3, with the sensitivity of Vinaroz & Park 2022, Proposition 1"),
    status=Status.OURS,
    scope=Scope(KINDS, VIEWS, {Relation.REPLACE_ONE: _FULL, Relation.ADD_REMOVE: _FULL}),
    assumptions=(*NUMERICAL, CLIPPED_MESSAGES, PUBLIC_SCALING),
    monotone=MONOTONE,
)
def rounds(spec: Spec) -> Guarantee:
    """Every round uses every record, so the rounds are Gaussian mechanisms in a row."""
    return gaussian.proof(spec)


# Rounds of stochastic expectation propagation on independently drawn batches.
#
# Statement:
#     Rounds on uniform batches of fixed size, or on Poisson batches, are subsampled Gaussian mechanisms with ratio
#     1 / sigma (Poisson under replace-one: 1 / (2 sigma) either way), composed as loss distributions.
#
# Formal guarantees:
#     The loss distribution of all rounds' natural parameters, hence of the posterior, rounded to the safe side.
#
# Assumptions:
#     Machine-checked: schedules and ratios are within numerical reach. Caller-checked: clipped messages, public
#       scaling,
#     and batches drawn independently for every round; permuted passes are `sep.passes`.
#
# Edge cases:
#     A batch of all records is not sampled at all.
#
# References:
#     Zhu, Dong & Wang 2022, Theorems 10 and 11, Proposition 30; Vinaroz & Park 2022, Proposition 1.

_PROOFS: dict[Scheme | None, Theorem] = {
    Scheme.POISSON: subsampled_poisson,
    Scheme.WITHOUT_REPLACEMENT: subsampled_without_replacement,
}


@theorem(
    id="sep.subsampled",
    statement=(
        "Rounds of stochastic expectation propagation on batches drawn independently, uniform of fixed size or "
        "Poisson, compose as subsampled Gaussian steps with ratio 1/sigma (1/(2 sigma) for Poisson batches under "
        "replace-one), whatever the damping."
    ),
    citation=Citation("zhu2022optimal", "Theorems 10 and 11, with Vinaroz & Park 2022, Proposition 1"),
    status=Status.CORRECTED,
    scope=Scope(
        KINDS,
        VIEWS,
        {
            Relation.REPLACE_ONE: frozenset({Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT}),
            Relation.ADD_REMOVE: frozenset({Scheme.POISSON}),
        },
    ),
    assumptions=(*NUMERICAL, CLIPPED_MESSAGES, PUBLIC_SCALING),
    monotone=MONOTONE,
)
def subsampled(spec: Spec) -> Guarantee:
    """The scheme decides which pair dominates a round."""
    return _PROOFS[scheme_of(spec.algorithm)].proof(spec)
