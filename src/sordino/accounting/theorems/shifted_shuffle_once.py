"""One random order for the whole run, last iterate: the position of the record is random, and delta is the average."""

from itertools import pairwise

import numpy as np

from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.shifts.chain_steps import Identical, Listed
from sordino.accounting.shifts.closed_forms import cyclic_shift
from sordino.accounting.shifts.gaussian_mixture import gaussian_mixture
from sordino.accounting.shifts.positions import position_shifts
from sordino.accounting.theorems.shift_needs import (
    CONTRACTION,
    EVERY_RECORD,
    MONOTONE_CHAIN,
    averaged_over_positions,
    chain_of,
    shift_certificates,
    shift_steps,
)
from sordino.accounting.theorems.step_needs import NUMERICAL, SENSITIVITY
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee
from sordino.core.relation import Relation
from sordino.core.spec import Scheme, Spec
from sordino.core.view import View

_ONE_BY_ONE = 1000


@theorem(
    id="shifted.shuffle-once",
    statement=(
        "With records shuffled once, delta(epsilon) is at most the average over the record's batch j of the delta of "
        "a mu_j-Gaussian, mu_j being the least cost of shifts for a record in the j-th of the cyclic batches."
    ),
    citation=Citation("bok2024shifted", "Theorem 4.5, given the order, averaged over it"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.SHUFFLE_ONCE})},
    ),
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
