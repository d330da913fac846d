"""The cheapest shifts of the last iterate: full batches, cyclic batches, and one random order for the whole run."""

from itertools import pairwise

import numpy as np

from sordino.accounting.chain_assumptions import (
    BOUND,
    CONTRACTION,
    EVERY_RECORD,
    FALLS_WITH_CONVEXITY,
    MONOTONE_CHAIN,
    NUMERICAL,
    RISES_WITH_BOUND,
    SENSITIVITY,
    averaged_over_positions,
    chain_of,
    shift_certificates,
    shift_steps,
)
from sordino.accounting.evaluate import last_iterate_scope, theorem
from sordino.accounting.shifts.closed_forms import cyclic_shift, every_step_shift, gaussian_mixture, position_shifts
from sordino.accounting.shifts.contraction import Identical, Listed
from sordino.core.bound import Citation, Status
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec

# Quiet steps up to here are listed one by one, more of them in groups.
_ONE_BY_ONE = 1000


@theorem(
    id="shifted.full",
    statement=(
        "With full batches, contraction c and ratio kappa the last of T iterates is mu-Gaussian DP with "
        "mu^2 = kappa^2 (1 - c^T)/(1 + c^T) (1 + c)/(1 - c), and kappa^2 T for c >= 1; with varying schedules mu^2 is "
        "the least sum of a_k^2 / tau_k^2 over shifts z_k = c_k z_{k-1} + s_k - a_k >= 0 with z_T = 0. "
        "Equality holds on quadratics."
    ),
    citation=Citation("bok2024shifted", "Section 4, noisy gradient descent with strongly convex losses"),
    status=Status.AS_STATED,
    scope=last_iterate_scope(replace_one={Scheme.FULL}, add_remove={Scheme.FULL}),
    assumptions=(SENSITIVITY, BOUND, *NUMERICAL, CONTRACTION, EVERY_RECORD),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, RISES_WITH_BOUND, FALLS_WITH_CONVEXITY),
)
def full(spec: Spec) -> Guarantee:
    """Every step moves; identical steps have a closed form."""
    return GaussianDP(every_step_shift(shift_steps(spec)))


@theorem(
    id="shifted.cyclic",
    statement=(
        "With l >= 2 cyclic batches, contraction c < 1 and ratio kappa the last iterate after K epochs is mu-Gaussian "
        "DP with mu^2 = kappa^2 [1 + c^(2l-2) (1 - c^2)/(1 - c^l)^2 (1 - q)/(1 + q)], q = c^(l(K-1)); "
        "kappa^2 [1 + (K-1)/l] for c = 1. With varying schedules, a partial last epoch or c > 1 the least cost of "
        "shifts is computed for every position of the record, and the largest counts."
    ),
    citation=Citation("bok2024shifted", "Theorem 4.5"),
    status=Status.AS_STATED,
    scope=last_iterate_scope(replace_one={Scheme.CYCLIC}),
    assumptions=(SENSITIVITY, *NUMERICAL, CONTRACTION, EVERY_RECORD),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, FALLS_WITH_CONVEXITY),
)
def cyclic(spec: Spec) -> Guarantee:
    """With identical steps the worst record is the one whose last use is the last step; otherwise all are tried."""
    period, steps = chain_of(spec).batches_per_epoch(spec.n), shift_steps(spec)
    if isinstance(steps, Identical):
        return GaussianDP(cyclic_shift(steps.contraction, steps.ratio, period, -(-steps.count // period)))
    return GaussianDP(float(position_shifts(steps.contractions, steps.moves, steps.noises, period).max()))


@theorem(
    id="shifted.shuffle-once",
    statement=(
        "With records shuffled once, delta(epsilon) is at most the average over the record's batch j of the delta of "
        "a mu_j-Gaussian, mu_j being the least cost of shifts for a record in the j-th of the cyclic batches."
    ),
    citation=Citation("bok2024shifted", "Theorem 4.5, given the order, averaged over it"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one={Scheme.SHUFFLE_ONCE}),
    assumptions=(SENSITIVITY, *NUMERICAL, CONTRACTION, EVERY_RECORD),
    certificates=shift_certificates,
    monotone=MONOTONE_CHAIN,
)
def shuffle_once(spec: Spec) -> Guarantee:
    """Given the order the run is cyclic; the order is independent of the data and may be revealed."""
    chain, steps = chain_of(spec), shift_steps(spec)
    period = chain.batches_per_epoch(spec.n)
    if isinstance(steps, Listed):
        return averaged_over_positions(position_shifts(steps.contractions, steps.moves, steps.noises, period), spec)
    short = period * chain.divisor(spec.n) - spec.n
    mus, weights = _identical(steps, period, chain.divisor(spec.n), short)
    return gaussian_mixture(np.array(mus), np.array(weights))


def _identical(steps: Identical, period: int, size: int, short: int) -> tuple[list[float], list[float]]:
    """(mu, records) of groups of batches: mu depends on the uses and falls with the quiet steps after the last one.

    A group takes the mu of its least quiet batch. The last batch of a pass, which lacks `short` records, is the least
    quiet one with its number of uses, and a group of its own.
    """
    rest = (steps.count - 1) % period + 1
    uses = -(-steps.count // period)
    mus, weights = [], []
    for count, low, high in ((uses, 0, rest), (uses - 1, rest, period)):
        for first, stop in pairwise(_quiet_edges(low, high)):
            mus.append(cyclic_shift(steps.contraction, steps.ratio, period, count, first))
            weights.append(float((stop - first) * size))
    last = 0 if rest == period else len(_quiet_edges(0, rest)) - 1
    weights[last] -= short
    return mus, weights


def _quiet_edges(low: int, high: int) -> list[int]:
    """low, ..., high: one by one at first, then in steps of a tenth."""
    edges, edge = [low], low
    while edge < high:
        edge = min(high, edge + 1 + max(0, edge - low - _ONE_BY_ONE) // 10)
        edges.append(edge)
    return edges
