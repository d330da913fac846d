"""Composition over steps: every step that may hold the record is one mechanism, and the steps compose.

Gaussian for full and fixed batches and for reshuffled passes (no amplification may be claimed there); loss
distributions for sampled batches; and Rényi curves for all of them, never tighter than loss distributions, and what the
papers print.
"""

import math
from collections.abc import Callable

import numpy as np

from sordino.accounting.chain_assumptions import (
    ANY_TWO_RECORDS,
    BOUND,
    MONOTONE_STEPS,
    NUMERICAL,
    RISES_WITH_BOUND,
    RISES_WITH_SENSITIVITY,
    SENSITIVITY,
    required_steps,
    used_certificates,
)
from sordino.accounting.convert import compose, pairs, repeat, to_renyi
from sordino.accounting.evaluate import STEP_KINDS, STEP_VIEWS, Monotone, Scope, theorem
from sordino.accounting.noisy_steps import NoisySteps, largest_position
from sordino.accounting.renyi import poisson_renyi, without_replacement_renyi
from sordino.core.bound import Citation, Relation, Status
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, RenyiDP
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair
from sordino.core.loss.pair import Pair
from sordino.core.spec import Scheme, Spec


@theorem(
    id="composition.gaussian",
    statement=(
        "With full or fixed (cyclic, shuffle-once) batches the iterates are mu-Gaussian DP with "
        "mu^2 = sum of kappa_k^2 over the steps whose batch holds the record, kappa_k = eta_k Delta / (b tau_k); the "
        "worst position of the record counts."
    ),
    citation=Citation("dong2022gaussian", "Theorem 2.7 and Corollary 3.3"),
    status=Status.AS_STATED,
    scope=Scope(
        STEP_KINDS,
        STEP_VIEWS,
        {
            Relation.REPLACE_ONE: frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}),
            Relation.ADD_REMOVE: frozenset({Scheme.FULL}),
        },
    ),
    assumptions=(SENSITIVITY, BOUND, *NUMERICAL),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, RISES_WITH_SENSITIVITY, RISES_WITH_BOUND),
)
def gaussian(spec: Spec) -> Guarantee:
    """Gaussian mechanisms compose to one; the position that is used most decides."""
    steps = required_steps(spec)
    period = steps.batches_per_epoch
    if steps.constant_ratio is not None:
        return repeat(GaussianDP(steps.constant_ratio), -(-steps.steps // period))
    return GaussianDP(_worst_position(steps, period))


def _worst_position(steps: NoisySteps, period: int) -> float:
    """sqrt of the largest sum of squares over the steps k = j mod period, rounded up."""
    return up(math.sqrt(largest_position(steps.ratios() ** 2, period) * (1 + 2e-14)), 2)


@theorem(
    id="composition.parallel-epochs",
    statement=(
        "With batches reshuffled every epoch a record is used at most once an epoch, so K epochs are mu-Gaussian DP "
        "with mu^2 = sum over epochs of the largest kappa_k^2 in the epoch (K kappa^2 for constant schedules)."
    ),
    citation=Citation("dong2022gaussian", "Corollary 3.3, applied given the permutations"),
    status=Status.CORRECTED,
    scope=Scope(STEP_KINDS, STEP_VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.RESHUFFLED})}),
    assumptions=(SENSITIVITY, *NUMERICAL),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, RISES_WITH_SENSITIVITY),
)
def parallel_epochs(spec: Spec) -> Guarantee:
    """Given the permutations each epoch is one Gaussian mechanism for the record, at its worst position."""
    steps = required_steps(spec)
    period = steps.batches_per_epoch
    if steps.constant_ratio is not None:
        return repeat(GaussianDP(steps.constant_ratio), -(-steps.steps // period))
    squares = steps.ratios() ** 2
    padded = np.pad(squares, (0, -len(squares) % period)).reshape(-1, period)
    return GaussianDP(up(math.sqrt(float(padded.max(axis=1).sum()) * (1 + 1e-14)), 2))


def _pair(relation: Relation, rate: float, ratio: float) -> Pair:
    """One step; at rate 1 every record is in every batch and the pair is Gaussian."""
    if relation is Relation.ADD_REMOVE:
        return GaussianPair(ratio) if rate >= 1.0 else PoissonRemovePair(rate, ratio)
    return GaussianPair(2 * ratio) if rate >= 1.0 else PoissonReplacePair(rate, ratio)


@theorem(
    id="composition.subsampled-poisson",
    statement=(
        "Each step of a Poisson-sampled run with rate q is dominated, under add-remove, by "
        "((1-q) N(0,1) + q N(kappa,1), N(0,1)) and its reverse, kappa = eta G / (b tau); under replace-one by the pair "
        "with N(kappa,1) and N(-kappa,1) in the two mixtures. The steps compose as loss distributions."
    ),
    citation=Citation("zhu2022optimal", "Theorem 10 and Theorem 11"),
    status=Status.AS_STATED,
    scope=Scope(
        STEP_KINDS,
        STEP_VIEWS,
        {Relation.REPLACE_ONE: frozenset({Scheme.POISSON}), Relation.ADD_REMOVE: frozenset({Scheme.POISSON})},
    ),
    assumptions=(BOUND, *NUMERICAL),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, RISES_WITH_BOUND, ("algorithm.batch.rate", Monotone.RISES)),
)
def subsampled_poisson(spec: Spec) -> Guarantee:
    """Steps with the same ratio are counted, not listed."""
    steps = required_steps(spec)
    return pairs((_pair(spec.relation, steps.rate, ratio), count) for ratio, count in steps.grouped())


@theorem(
    id="composition.subsampled-without-replacement",
    statement=(
        "A step on b of n records drawn without replacement is dominated under replace-one by the symmetrised "
        "subsampled pair C_q of a kappa-Gaussian, q = b/n, kappa = eta Delta / (b tau). The steps compose as loss "
        "distributions."
    ),
    citation=Citation("zhu2022optimal", "Theorem 10 and Proposition 30"),
    status=Status.AS_STATED,
    scope=Scope(STEP_KINDS, STEP_VIEWS, {Relation.REPLACE_ONE: frozenset({Scheme.WITHOUT_REPLACEMENT})}),
    assumptions=(SENSITIVITY, *NUMERICAL, ANY_TWO_RECORDS),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, RISES_WITH_SENSITIVITY),
)
def subsampled_without_replacement(spec: Spec) -> Guarantee:
    """Steps with the same ratio are counted, not listed; a batch of all records is not sampled at all."""
    steps = required_steps(spec)
    rate = steps.rate
    return pairs(
        (GaussianPair(ratio) if rate >= 1.0 else WithoutReplacementPair(rate, ratio), count)
        for ratio, count in steps.grouped()
    )


OneStep = Callable[[float, NoisySteps, float, Relation], float]

# A curve has hundreds of orders, each an integral or a sum, for every ratio.
_MOST_RATIOS = 32

_SAMPLED: dict[Scheme, OneStep] = {
    Scheme.POISSON: lambda order, steps, ratio, relation: poisson_renyi(order, steps.rate, ratio, relation),
    Scheme.WITHOUT_REPLACEMENT: lambda order, steps, ratio, _: without_replacement_renyi(order, steps.rate, ratio),
}
_UNSAMPLED = {
    Scheme.FULL: gaussian,
    Scheme.CYCLIC: gaussian,
    Scheme.SHUFFLE_ONCE: gaussian,
    Scheme.RESHUFFLED: parallel_epochs,
}


@theorem(
    id="composition.renyi",
    statement=(
        "Rényi divergences of the steps add, order by order. Gaussian steps: order kappa^2 / 2. Poisson-sampled steps: "
        "the exact divergence of the sampled Gaussian. Without replacement: the bound of Wang, Balle & Kasiviswanathan."
    ),
    citation=Citation("mironov2017renyi", "Proposition 1, with Mironov, Talwar & Zhang 2019, Section 3"),
    status=Status.AS_STATED,
    scope=Scope(
        STEP_KINDS,
        STEP_VIEWS,
        {
            Relation.REPLACE_ONE: frozenset(Scheme),
            Relation.ADD_REMOVE: frozenset({Scheme.FULL, Scheme.POISSON}),
        },
    ),
    assumptions=(SENSITIVITY, BOUND, *NUMERICAL, ANY_TWO_RECORDS),
    certificates=used_certificates,
    monotone=(*MONOTONE_STEPS, RISES_WITH_SENSITIVITY, RISES_WITH_BOUND),
)
def renyi(spec: Spec) -> Guarantee:
    """Unsampled schemes reuse the Gaussian theorems' mu; sampled ones add one-step curves."""
    steps = required_steps(spec)
    if steps.scheme in _UNSAMPLED:
        return to_renyi(_UNSAMPLED[steps.scheme].proof(spec))
    one_step = _SAMPLED[steps.scheme]
    curves = [
        (RenyiDP(ORDERS, tuple(one_step(order, steps, ratio, spec.relation) for order in ORDERS)), count)
        for ratio, count in steps.grouped(_MOST_RATIOS)
    ]
    return compose(curves)
