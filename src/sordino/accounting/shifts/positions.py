"""The cheapest shifts for every position of the record at once, when batches follow each other in a fixed order.

With schedules that vary, or a partial last pass, the worst record need not sit in the last batch. A position's path has
one segment per pass: from its step of the pass to the step before its next one. A segment's volume is what is left of
one pass plus the beginning of the next, so running sums over passes give all positions in one sweep.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.accounting.shifts.minorant import minorant_energies
from sordino.accounting.shifts.solver import checked_steps, log_weights_of, rounded_root
from sordino.core.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]

# Passes whose weights are below exp(-150) are carried along unpushed; see `solver`.
_FORGOTTEN_LOG_WEIGHT = -150.0
_SMALLEST_LOG_RATIO = -345.0


def position_shifts(contractions: ArrayLike, moves: ArrayLike, noises: ArrayLike, period: int) -> Array:
    """The smallest mu for the record that moves steps j, j + period, ..., for each j that is a step, rounded up.

    `moves` says how far a step moves if it holds the record. Positions beyond the last step cost nothing, and have no
    entry.
    """
    c, s, tau = checked_steps(contractions, moves, noises)
    steps = len(s)
    period = min(period, steps)
    log_weights = log_weights_of(c)
    passes = -(-steps // period)
    shape, missing = (passes, period), passes * period - steps
    log_scales = np.pad(log_weights + np.log(tau), (0, missing), constant_values=-np.inf).reshape(shape)
    with np.errstate(divide="ignore"):
        log_ratios = np.pad(np.log(s / tau), (0, missing), constant_values=-np.inf).reshape(shape)
    kept, log_carried = _unpushed_past(log_scales, log_ratios)
    log_scales, log_ratios = log_scales[kept:], log_ratios[kept:]
    log_volumes = _segment_volumes(log_scales)
    # A segment moves by its first step; the first kept one by what the past carries, too.
    log_moved = log_scales + log_ratios
    log_moved[0] = np.logaddexp(log_moved[0], log_carried)
    segment_scales = 0.5 * log_volumes
    with np.errstate(invalid="ignore"):
        ratios = np.exp(np.maximum(log_moved - segment_scales, _SMALLEST_LOG_RATIO))
    result = np.zeros(period)
    last = period - missing
    for columns, rows in ((slice(0, last), len(log_scales)), (slice(last, period), len(log_scales) - 1)):
        energies = minorant_energies(segment_scales[:rows, columns].T, ratios[:rows, columns].T)
        result[columns] = rounded_root(energies, log_weights[kept * period :])
    return result


def _unpushed_past(log_scales: Array, log_ratios: Array) -> tuple[int, Array]:
    """How many first passes to leave unpushed, and log of the weighted distance they leave at each position."""
    passes, period = log_scales.shape
    heaviest = np.maximum.accumulate(log_scales.max(axis=1)) - log_scales[-1][np.isfinite(log_scales[-1])][-1]
    kept = min(int(np.searchsorted(heaviest, _FORGOTTEN_LOG_WEIGHT)), max(passes - 2, 0))
    if kept == 0:
        return 0, np.full(period, -np.inf)
    carried = np.logaddexp.reduce(log_scales[:kept] + log_ratios[:kept], axis=0)
    return kept, carried + 8 * passes * UNIT_ROUNDOFF * (1 + np.abs(np.where(np.isfinite(carried), carried, 0.0)))


def _segment_volumes(log_scales: Array) -> Array:
    """log of the sum of squared scales from each step to the one before it in the next pass."""
    passes, period = log_scales.shape
    squares = 2.0 * log_scales
    rest = np.logaddexp.accumulate(squares[:, ::-1], axis=1)[:, ::-1]
    beginning = np.full((passes, period), -math.inf)
    if period > 1:
        beginning[:-1, 1:] = np.logaddexp.accumulate(squares[1:, :-1], axis=1)
    return np.logaddexp(rest, beginning)
