"""Revealed batches: the law of the cheapest shift over the random participation of a record, rounded up.

Given who takes part in which step, the last iterate is mu-Gaussian DP with mu of the cheapest shifts, so with batches
drawn independently of the data delta(epsilon) is at most the average of the mus' deltas. Everything here is in units of
kappa. All patterns are listed when there are at most 1e6. Otherwise, for contractions c <= 1, simplifications that only
raise mu. Fresh draws: before a window whose patterns are listed, pushes follow a rule that does not look ahead, see
`feedback`; what they cost, plus the least cost of the window from the distance they leave, is the cost of some shifts
and at least mu^2. Passes: a use is moved to a later step (what an earlier one leaves is smaller there, so the later
one's pushes suffice), and the uses of old passes to the last step of theirs.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.participation.feedback import pushed_before
from sordino.accounting.shifts.closed_forms import full_shift
from sordino.accounting.shifts.minorant import minorant_energies

Array = NDArray[np.float64]

MOST_PATTERNS = 1_000_000
_MOST_MUS = 200
# Fresh draws: steps of the window that is listed when there are more.
_WINDOW = 10
# Costs told apart before the window, and in it, from each distance; and e-foldings of probability among them.
_MOST_COSTS, _MOST_ENDINGS, _RARE_FOLDINGS = 60, 120, 35.0
# Passes: positions told apart in the last pass, the one before, ...; older passes count at their last position.
_POSITIONS = (48, 16, 8, 6, 4)
# Two positions a pass make 2^20 patterns in 20 passes; with one, there is nothing to list.
_MOST_LISTED_PASSES = 20
_ACCURACY = 1e-12
# exp(-300): smaller moves are rounded up to it, and cost nothing.
_SMALLEST_LOG_RATIO = -300.0
# Mus above all but this probability are told apart less finely.
_RARE = 1e-8
# Running sums of at most 1e6 positive numbers.
_SUMMATION = 1e-9


@dataclass(frozen=True)
class ShiftLaw:
    """P(mu = mus[i]) = weights[i], in units of kappa; stochastically above the law it stands for."""

    weights: tuple[float, ...]
    mus: tuple[float, ...]


@lru_cache(maxsize=64)
def drawn_batches(contraction: float, rate: float, steps: int) -> ShiftLaw:
    """Every step holds the record with probability `rate`, independently."""
    exact = 2**steps <= MOST_PATTERNS if steps < 64 else False
    window = steps if exact else min(steps, _WINDOW)
    used = np.array(list(itertools.product((0.0, 1.0), repeat=window)))
    count = used.sum(axis=1)
    chances = rate**count * (1 - rate) ** (window - count)
    if exact:
        return _binned(chances, _step_mus(contraction, used))
    before = pushed_before(contraction, rate, steps, window)
    weights, squares = [], []
    for distance, masses in zip(before.distances, before.masses, strict=True):
        if masses.any():
            moves = used.copy()
            moves[:, 0] += contraction * distance * (1 + 1e-15)
            # What the window costs from this distance, on top of what was spent before it.
            likely, costs = _grouped(masses, before.costs, _MOST_COSTS)
            then, added = _grouped(chances, _step_mus(contraction, moves) ** 2, _MOST_ENDINGS)
            weights.append(np.outer(likely, then).ravel())
            squares.append(np.add.outer(costs, added).ravel())
    mus = np.sqrt(np.concatenate(squares)) * (1 + _ACCURACY)
    worst = float(full_shift(contraction, 1.0, steps))
    return _binned(np.append(np.concatenate(weights), before.lost), np.append(np.minimum(mus, worst), worst))


def _grouped(weights: Array, values: Array, most: int) -> tuple[Array, Array]:
    """Values rounded up onto few: in groups of equal probability, and finer where they are large and rare."""
    order = np.argsort(values)
    ordered, beyond = values[order], np.cumsum(weights[order][::-1])[::-1]
    held = beyond > 0
    share = np.where(held, np.log(np.where(held, beyond, 1.0)), 0.0)
    # Half of the groups split the probability evenly, half of them its logarithm.
    even = np.floor((1 - beyond / beyond[0]) * most / 2)
    rare = np.floor((share[0] - np.maximum(share, share[0] - _RARE_FOLDINGS)) / _RARE_FOLDINGS * most / 2)
    ends = np.append(np.flatnonzero(np.diff(even) + np.diff(rare)), len(ordered) - 1)
    totals = np.diff(np.append(0.0, np.cumsum(weights[order])[ends]))
    return np.maximum(totals, 0.0), ordered[ends]


@lru_cache(maxsize=64)
def reshuffled_passes(contraction: float, period: int, steps: int) -> ShiftLaw:
    """Each pass of `period` steps holds the record once, at a uniform position; the last pass may stop early."""
    whole, rest = divmod(steps, period)
    if not rest:
        return _passes(contraction, period, 0, 0, whole)
    # A pass that stops early holds the record with probability rest / period.
    held, missed = _passes(contraction, period, rest, 1, whole), _passes(contraction, period, rest, 0, whole)
    share = rest / period
    weights = np.concatenate([share * np.asarray(held.weights), (1 - share) * np.asarray(missed.weights)])
    return _binned(weights, np.concatenate([held.mus, missed.mus]))


def _passes(contraction: float, period: int, rest: int, uses_in_rest: int, whole: int) -> ShiftLaw:
    """`whole` passes, then `rest` steps that hold the record `uses_in_rest` times."""
    total, shown = uses_in_rest + whole, min(whole, _MOST_LISTED_PASSES)
    if total == 0:
        return ShiftLaw((1.0,), (0.0,))
    # The latest passes first: their lengths, and how many steps follow each.
    lengths = [rest] * uses_in_rest + [period] * shown
    first_steps = [0] * uses_in_rest + [rest + index * period for index in range(shown)]
    listed = total == len(lengths) and math.prod(lengths) <= MOST_PATTERNS
    window = total if listed else min(total, len(_POSITIONS))
    stages = [
        [(first_steps[index] + place, chance) for place, chance in _places(lengths[index], index, listed)]
        for index in range(window)
    ]
    # Rows are patterns, columns the record's last use, the one before, ...: steps from the end, and chances.
    grids = np.meshgrid(*(np.arange(len(stage)) for stage in stages), indexing="ij")
    chosen = [grid.ravel() for grid in grids]
    uses = np.stack([np.array([at for at, _ in stages[i]])[chosen[i]] for i in range(window)], axis=1)
    chances = np.prod([np.array([p for _, p in stages[i]])[chosen[i]] for i in range(window)], axis=0)
    older = total - window
    reached = first_steps[window - 1] + lengths[window - 1]
    return _binned(chances, _use_mus(contraction, uses, older, reached, period))


def _places(length: int, index: int, listed: bool) -> list[tuple[int, float]]:
    """Positions counted from the end of a pass, with chances; groups of positions stand at their latest one."""
    if listed or length <= _POSITIONS[index]:
        return [(place, 1 / length) for place in range(length)]
    starts = np.unique(np.floor(np.geomspace(1.0, length, _POSITIONS[index]))).astype(np.int64) - 1
    sizes = np.diff(np.append(starts, length))
    return [(int(start), size / length) for start, size in zip(starts, sizes, strict=True)]


def _step_mus(contraction: float, moves: Array) -> Array:
    """mu of patterns given step by step, in units of kappa."""
    log_scales = np.arange(moves.shape[1] - 1, -1, -1.0) * math.log(contraction)
    return np.sqrt(minorant_energies(np.broadcast_to(log_scales, moves.shape), moves)) * (1 + _ACCURACY)


def _use_mus(contraction: float, uses: NDArray[np.int64], older: int, reached: int, period: int) -> Array:
    """mu of patterns given by the steps (from the end) of their uses, latest first, after `older` worst-case passes.

    A segment of the path runs from a use to the step before the next one. Of the older uses all but the latest are one
    pool: they are equally spaced, and slopes fall along them.
    """
    log = math.log(contraction)
    if older:
        uses = np.pad(uses, ((0, 0), (0, 1)), constant_values=reached)
    earliest_after = np.pad(uses[:, :-1] + 1, ((0, 0), (1, 0)))
    scales = 2 * log * earliest_after + _log_geometric(2 * log, uses - earliest_after + 1)
    log_moves = log * uses
    if older > 1:
        first = reached + 1
        pool_scale = 2 * log * first + _log_geometric(2 * log, np.array((older - 1) * period))
        pool_move = log * (reached + period) + _log_geometric(period * log, np.array(older - 1))
        scales = np.pad(scales, ((0, 0), (0, 1)), constant_values=float(pool_scale))
        log_moves = np.pad(log_moves, ((0, 0), (0, 1)), constant_values=float(pool_move))
    ratios = np.exp(np.maximum(log_moves - scales / 2, _SMALLEST_LOG_RATIO))
    return np.sqrt(minorant_energies(scales[:, ::-1] / 2, ratios[:, ::-1])) * (1 + _ACCURACY)


def _log_geometric(log_ratio: float, terms: NDArray[np.int64]) -> Array:
    """log of sum_{j < terms} exp(j log_ratio), log_ratio <= 0."""
    if log_ratio == 0.0:
        return np.log(terms)
    return np.log(np.expm1(log_ratio * terms) / math.expm1(log_ratio))


def _binned(weights: Array, mus: Array) -> ShiftLaw:
    """Round the mus up onto few values, dense where the probability is, and the chances of large ones up, too."""
    order = np.argsort(mus)
    ordered, beyond = mus[order], np.cumsum(weights[order][::-1])[::-1]
    bulk = ordered[max(int(np.searchsorted(-beyond, -_RARE)) - 1, 0)]
    dense, sparse = np.linspace(ordered[0], bulk, _MOST_MUS * 4 // 5), np.linspace(bulk, ordered[-1], _MOST_MUS // 5)
    edges = np.unique(np.concatenate([dense, sparse]))
    # P(mu > edge), rounded up; the differences then are a law above the exact one.
    after = np.searchsorted(ordered, edges[:-1], side="right")
    survival = np.minimum(beyond[after] * (1 + _SUMMATION), 1.0)
    chances = -np.diff(np.concatenate([[1.0], survival, [0.0]]))
    held = chances > 0
    return ShiftLaw(tuple(chances[held].tolist()), tuple(edges[held].tolist()))
