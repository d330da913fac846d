"""Rounds of noised sums: T rounds over all records, rounds on batches drawn independently, and permuted passes.

Statements.
    Each round releases a sum of contributions, bounded by C, plus noise of m times C. Let sigma be the noise over how
    far one unit moves the sum: m / 2 under replace-one (m / sqrt 2 where contributions are rank-one matrices), m under
    add-remove. `noised-sums.rounds`: T full rounds are mu-Gaussian DP with mu^2 = sum of 1 / sigma_t^2.
    `noised-sums.passes`: a record is used once an epoch, so K epochs have mu^2 = K / sigma^2; no amplification holds.
    `noised-sums.subsampled`: rounds on batches drawn independently are subsampled Gaussian mechanisms with ratio
    1 / sigma (Poisson under replace-one: 1 / m either way), composed as loss distributions.

Formal guarantees.
    Of every round's noised sum, hence of the posterior and of anything computed from them (steps of any size, damping,
    repairs, momentum, predictions); rounded up.

Assumptions.
    Machine-checked: schedules and ratios are within numerical reach. Caller-checked: bounded contributions, public
    scaling.

Edge cases.
    What multiplies a noised sum does not enter, because sum and noise share it. A partial last epoch counts as one.
    A batch of all records is not sampled at all. Vinaroz & Park run passes and account for independent draws; that is
    not valid.

References.
    Dong, Roth & Su 2022, Corollary 3.3; Zhu, Dong & Wang 2022, Theorems 10 and 11, Proposition 30; Vinaroz & Park 2022,
    Algorithm 3 and Proposition 1.
"""

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

_KINDS = frozenset({"noised-sums"})
_VIEWS = frozenset({View.POSTERIOR_PARAMETERS, View.ALL_ITERATES})
_MONOTONE = (("algorithm.noise_multiplier", Monotone.FALLS), ("algorithm.rounds", Monotone.RISES))
_ASSUMPTIONS = (
    *NUMERICAL,
    caller_checked(
        "bounded contributions",
        "each unit's contribution to a round is a function of the unit's records and of released values, is bounded as "
        "a whole (unknown precisions included), and whatever multiplies the sum multiplies its noise too",
    ),
    caller_checked(
        "public scaling", "features and targets are scaled by declared bounds, not by values computed from the records"
    ),
)
_FULL = frozenset({Scheme.FULL})


@theorem(
    id="noised-sums.passes",
    formerly="sep.passes",
    statement=(
        "Passes in permuted order use each record once an epoch, so K epochs of noised sums are mu-Gaussian DP with "
        "mu^2 = K / sigma^2, sigma the noise over the sum's sensitivity; no amplification by sampling holds."
    ),
    citation=Citation("vinaroz2022differentially", "Algorithm 3 and Proposition 1, accounted by parallel epochs"),
    status=Status.CORRECTED,
    scope=Scope(_KINDS, _VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.RESHUFFLED})}),
    assumptions=_ASSUMPTIONS,
    monotone=_MONOTONE,
)
def passes(spec: Spec) -> Guarantee:
    """Given the permutations each epoch is one Gaussian mechanism for the record."""
    return parallel_epochs.proof(spec)


@theorem(
    id="noised-sums.rounds",
    formerly="sep.rounds",
    statement=(
        "T full-batch rounds, each a sum of contributions of length at most C plus noise of m C, are mu-Gaussian DP "
        "with mu^2 = sum of 1 / sigma_t^2, sigma = m / 2 under replace-one (m / sqrt 2 for rank-one contributions, "
        "m C / R where a replacement is proved to move the sum by at most R) and m under add-remove, whatever is done "
        "with the sums."
    ),
    citation=Citation("dong2022gaussian", "Corollary 3.3, with the sensitivity of Vinaroz & Park 2022, Proposition 1"),
    status=Status.OURS,
    scope=Scope(_KINDS, _VIEWS, {Relation.REPLACE_ONE: _FULL, Relation.ADD_REMOVE: _FULL}),
    assumptions=_ASSUMPTIONS,
    monotone=_MONOTONE,
)
def rounds(spec: Spec) -> Guarantee:
    """Every round uses every record, so the rounds are Gaussian mechanisms in a row."""
    return gaussian.proof(spec)


_PROOFS: dict[Scheme | None, Theorem] = {
    Scheme.POISSON: subsampled_poisson,
    Scheme.WITHOUT_REPLACEMENT: subsampled_without_replacement,
}


@theorem(
    id="noised-sums.subsampled",
    formerly="sep.subsampled",
    statement=(
        "Rounds of noised sums on batches drawn independently, uniform of fixed size or Poisson, compose as subsampled "
        "Gaussian steps with ratio 1/sigma, sigma the noise over the sum's sensitivity (for Poisson batches over the "
        "contribution bound), whatever is done with the sums."
    ),
    citation=Citation("zhu2022optimal", "Theorems 10 and 11, with Vinaroz & Park 2022, Proposition 1"),
    status=Status.CORRECTED,
    scope=Scope(
        _KINDS,
        _VIEWS,
        {
            Relation.REPLACE_ONE: frozenset({Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT}),
            Relation.ADD_REMOVE: frozenset({Scheme.POISSON}),
        },
    ),
    assumptions=_ASSUMPTIONS,
    monotone=_MONOTONE,
)
def subsampled(spec: Spec) -> Guarantee:
    """The scheme decides which pair dominates a round."""
    return _PROOFS[scheme_of(spec.algorithm)].proof(spec)
