"""Closed forms of the cheapest shifts when every step has the same contraction c, move s and noise tau.

In units of kappa = s / tau, with weights w_k = c^(T-k): a run of steps of which the first moves is one segment, and
segments pool as the minorant of `solver` says. Everything is written with x = -log c and expm1 or tanh, so that c near
1, c = 0 and 10^9 steps cost nothing and lose nothing. Every function rounds up.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.shifts.minorant import minorant_energy
from sordino.accounting.shifts.solver import best_window
from sordino.core.rounding import UNIT_ROUNDOFF, up, widen_up

Array = NDArray[np.float64]

# Logarithm, products, exponentials, quotients and roots: each form is a few dozen roundings away from its inputs, and
# none of them is ill-conditioned in x.
_ACCURACY = 512 * UNIT_ROUNDOFF
# How many moves, and how many e-foldings, a window that starts at the diameter is given.
_MOST_SEGMENTS = 100_000
_LONGEST_DECAY = 120.0
# A start this many noises away is of no use; smaller costs than the second are rounded up to it.
_FARTHEST = 1e100
_SMALLEST = 1e-150


def full_shift(contraction: float, ratio: float, steps: int) -> float:
    """Every step moves: mu^2 = kappa^2 (1 - c^T)/(1 + c^T) (1 + c)/(1 - c); kappa^2 T for c >= 1.

    >>> round(full_shift(0.98, 0.2, 100) ** 2 / 2, 5)
    1.51632
    """
    x = _rate(contraction)
    if steps == 1:
        return ratio
    if x <= 0.0:
        return up(ratio * math.sqrt(steps), 3)
    return _rounded(ratio * math.sqrt(math.tanh(steps * x / 2) / math.tanh(x / 2)))


def cyclic_shift(contraction: float, ratio: float, period: int, uses: int, quiet: int = 0) -> float:
    """One step in `period` moves, `uses` times in all, and `quiet` < period steps follow the last move.

    Batch j0 (from 0) of l batches in K whole epochs has uses K and quiet l - 1 - j0; the last batch, with quiet 0, is
    the worst. Extra quiet steps at the end are post-processing, so mu falls in `quiet`; it grows in `uses`.
    """
    if uses == 0:
        return 0.0
    if uses == 1 and quiet == 0:
        return ratio
    x = _rate(contraction)
    if math.isinf(x):
        return _rounded(ratio) if quiet == 0 else 0.0
    if x <= 0.0:
        # Expanding: the slopes grow from segment to segment, and nothing pools.
        alone = (uses - 1) * _one_move(x, period) + _one_move(x, quiet + 1)
        return _rounded(ratio * math.sqrt(alone))
    earlier = _earlier_uses(x, period, uses)
    if uses == 1 or _rises(x, period, uses, quiet):
        return _rounded(ratio * math.sqrt(earlier + _one_move(x, quiet + 1)))
    return _rounded(ratio * math.sqrt(_pooled(x, period, uses, quiet)))


def uses_of(steps: int, period: int, position: int) -> tuple[int, int]:
    """How often the steps position, position + period, ... occur among 0, ..., steps - 1, and the steps after them."""
    left = steps - 1 - position
    return (0, 0) if left < 0 else (left // period + 1, left % period)


def bounded_full_shift(contraction: float, ratio: float, steps: int, diameter_ratio: float) -> float:
    """Every step moves, and any step may be taken as a start at the diameter: the best window.

    mu^2 = min_w (c^w D + s (1 - c^w)/(1 - c))^2 (1 - c^2) / (tau^2 (1 - c^2w)), and no more than `full_shift`;
    `diameter_ratio` is D / tau.
    """
    x = _rate(contraction)
    if x < -_LONGEST_DECAY or diameter_ratio > _FARTHEST:
        return full_shift(contraction, ratio, steps)

    def from_window(window: int) -> float:
        return _one_pool(x, ratio, diameter_ratio, window)

    return min(full_shift(contraction, ratio, steps), _rounded(best_window(from_window, steps)))


def bounded_cyclic_shift(contraction: float, ratio: float, period: int, steps: int, diameter_ratio: float) -> float:
    """The last of `period` batches moves, and any step may be taken as a start at the diameter: the best window."""
    x = _rate(contraction)
    free = cyclic_shift(contraction, ratio, period, -(-steps // period))
    if math.isinf(x) or x < -_LONGEST_DECAY or diameter_ratio > _FARTHEST:
        return free
    # Beyond these windows the start is forgotten, or costs more than it saves; shorter ones are always allowed.
    longest = min(steps, _MOST_SEGMENTS * period, steps if x == 0.0 else math.ceil(_LONGEST_DECAY / abs(x)))

    def from_window(window: int) -> float:
        return math.sqrt(minorant_energy(*_segments(x, ratio, period, window, diameter_ratio)))

    return min(free, _rounded(best_window(from_window, longest)))


def _rate(contraction: float) -> float:
    """-log c; infinite for c = 0, negative for c > 1."""
    return math.inf if contraction == 0.0 else -math.log(contraction)


def _one_move(x: float, length: int) -> float:
    """A move and the quiet steps after it, `length` in all: c^(2(p-1)) (1 - c^2) / (1 - c^2p); 1/p at c = 1."""
    if x == 0.0:
        return 1.0 / length
    if x < 0.0:
        return math.expm1(2 * x) / math.expm1(2 * x * length)
    return math.exp(-2 * x * (length - 1)) * math.expm1(-2 * x) / math.expm1(-2 * x * length)


def _earlier_uses(x: float, period: int, uses: int) -> float:
    """All uses but the last, pooled: c^(2l-2) (1 - c^2) / (1 - c^l)^2 * (1 - q)/(1 + q), q = c^(l(K-1))."""
    geometric = math.exp(-2 * x * (period - 1)) * -math.expm1(-2 * x) / math.expm1(-x * period) ** 2
    return geometric * math.tanh(period * (uses - 1) * x / 2)


def _rises(x: float, period: int, uses: int, quiet: int) -> bool:
    """Whether the last use's slope S_B / V_B is at least that of all earlier ones, S_A / V_A (then they do not pool).

    S_A / V_A = c^(l-r-2) (1 - c^2) / ((1 - c^l) (1 + q)) and S_B / V_B = c^r (1 - c^2) / (1 - c^2(r+1)).
    """
    q = math.exp(-x * period * (uses - 1))
    earlier = math.exp(-x * (period - 1)) / (-math.expm1(-x * period) * (1 + q))
    last = math.exp(-x * (2 * quiet + 1)) / -math.expm1(-2 * x * (quiet + 1))
    return last >= earlier


def _pooled(x: float, period: int, uses: int, quiet: int) -> float:
    """All uses in one pool: (c^r (1 - c^lK)/(1 - c^l))^2 (1 - c^2) / (1 - c^(2(r+1) + 2l(K-1)))."""
    moved = math.exp(-x * quiet) * math.expm1(-x * period * uses) / math.expm1(-x * period)
    length = (quiet + 1) + period * (uses - 1)
    return moved**2 * math.expm1(-2 * x) / math.expm1(-2 * x * length)


def _one_pool(x: float, ratio: float, diameter_ratio: float, window: int) -> float:
    """The cost of a window that starts at the diameter, in one pool; infinite where the pool is not allowed."""
    if x == 0.0:
        return (diameter_ratio + window * ratio) / math.sqrt(window)
    if x > 0.0:
        if math.isinf(x):
            return ratio
        travelled = math.exp(-x * window) * diameter_ratio + ratio * math.expm1(-x * window) / math.expm1(-x)
        return travelled * math.sqrt(math.expm1(-2 * x) / math.expm1(-2 * x * window))
    # Expanding, in units of the first weight c^w: slopes grow, so the last step must not be steeper than the pool.
    travelled = diameter_ratio + ratio * math.expm1(x * window) / math.expm1(x) * math.exp(x)
    volume = math.exp(2 * x) * math.expm1(2 * x * window) / math.expm1(2 * x)
    allowed = travelled >= ratio * math.exp(-x * window) * volume if -x * window < 700 else ratio == 0.0
    return travelled / math.sqrt(volume) if allowed else math.inf


def _segments(x: float, ratio: float, period: int, window: int, diameter_ratio: float) -> tuple[Array, Array]:
    """(log scale, ratio) of each segment of a window that starts at the diameter and ends with a move."""
    moves = (window - 1) // period + 1
    before = window - 1 - (moves - 1) * period
    after = period * np.arange(moves - 1, -1, -1, dtype=np.float64)
    log_scales = -x * np.maximum(after - period + 1, 0.0) + np.where(after > 0, _half_log_volume(x, period), 0.0)
    ratios = ratio * np.exp(-x * after - log_scales)
    if before == 0:
        ratios[0] += diameter_ratio * math.exp(-x * window - log_scales[0])
        return log_scales, ratios
    first = -x * (after[0] + 1) + _half_log_volume(x, before)
    started = diameter_ratio * math.exp(-x * window - first)
    return np.append(first, log_scales), np.append(started, ratios)


def _half_log_volume(x: float, length: int) -> float:
    """Half the log of 1 + c^2 + ... + c^(2 (length - 1))."""
    return 0.5 * math.log(length if x == 0.0 else math.expm1(-2 * x * length) / math.expm1(-2 * x))


def _rounded(mu: float) -> float:
    return max(widen_up(mu, _ACCURACY), _SMALLEST)
