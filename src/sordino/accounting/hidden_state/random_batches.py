"""Rényi values of runs over random batches: a shuffled partition (Theorem 4.2) and fresh draws (Theorem 4.3)."""

import math

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.hidden_state.fixed_batches import strongly_convex

Array = NDArray[np.float64]

# Passes of more batches than this are summed over groups of positions, each at its worst one.
_MOST_POSITIONS = 2048
# The recursion takes single steps up to this many, then blocks of at most this share of the steps already taken.
_SINGLE_STEPS = 2048
# Some 2e4 blocks at 1e6 steps, each rounded a few times.
_ACCURACY = 1e-11


def shuffled(orders: Array, contraction: float, u: float, period: int, steps: int) -> Array:
    """Theorem 4.2: log of the mean over positions of exp((order - 1) value), over order - 1.

    A record j positions into the pass has its last use r steps before the end; as j runs over the pass, r takes each
    of 1, ..., l once, and was used one time more before if r <= T mod l.
    """
    whole, rest = divmod(steps, period)
    starts = _groups(period, rest)
    weights = np.diff(np.append(starts, period + 1)) / period
    earlier = np.where(starts <= rest, whole, whole - 1)
    used = earlier >= 0
    coefficient = np.where(used, strongly_convex(contraction, u, period, np.maximum(earlier, 0), starts), 0.0)
    exponents = (orders * (orders - 1))[:, None] * coefficient[None, :]
    peak = exponents.max(axis=1)
    # Most of the mean is near 1 for small exponents: sum expm1 there, so that no digits are lost.
    small = np.log1p(np.expm1(np.minimum(exponents, 1.0)) @ weights)
    large = peak + np.log(np.exp(exponents - peak[:, None]) @ weights)
    mean = np.where(peak <= 1.0, small, large)
    return np.minimum(mean / (orders - 1), orders * coefficient.max()) * (1 + _ACCURACY)


def _groups(period: int, rest: int) -> Array:
    """First members of groups of 1, ..., period; values fall within a group, and `rest` ends one."""
    if period <= _MOST_POSITIONS:
        return np.arange(1.0, period + 1)
    starts = np.unique(np.floor(np.geomspace(1.0, period, _MOST_POSITIONS)))
    return np.unique(np.append(starts, min(rest + 1, period)))


def subsampled(orders: Array, contraction: float, u: float, rate: float, steps: int) -> Array:
    """Theorem 4.3: log S / (order - 1), with S <- q e^{(order-1) order u} S + (1-q) S^{c^2} from S = 1.

    L = log S grows by D(L) = log(q e^A + (1-q) e^{-(1-c^2) L}), which falls as L grows, and never passes the fixed
    point of the recursion where there is one. So a block of n steps adds at most n D(L): blocks as long as 1/2048 of
    the steps already taken bound the rest of a long run from above.
    """
    growth = orders * (orders - 1) * u
    fade = -math.expm1(2 * math.log(contraction)) if contraction < 1.0 else 0.0
    ceiling = _fixed_point(growth, fade, rate)
    total, taken = np.zeros(len(orders)), 0
    while taken < steps:
        block = min(max(1, taken // _SINGLE_STEPS), steps - taken)
        reached = np.minimum(total + block * _gain(total, growth, fade, rate), ceiling)
        if np.array_equal(reached, total):
            break
        total, taken = reached, taken + block
    return np.minimum(total, steps * growth) / (orders - 1) * (1 + _ACCURACY)


def _gain(total: Array, growth: Array, fade: float, rate: float) -> Array:
    """D(L), rounded up; accurate when it is small, and without overflow when it is large."""
    capped = np.minimum(growth, 500.0)
    added = rate * np.expm1(capped)
    small = np.log1p(np.maximum(added + (1 - rate) * np.expm1(-fade * total), 0.0)) + 4e-15 * np.minimum(added, 2.0)
    large = growth + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-capped)) + 4e-15 * growth
    return np.where(growth <= 500.0, small, large)


def _fixed_point(growth: Array, fade: float, rate: float) -> Array:
    """log((1-q) / (1 - q e^A)) / (1 - c^2) where q e^A < 1, rounded up; infinite elsewhere."""
    room = 1 - rate * np.exp(np.minimum(growth, 700.0))
    if fade <= 0.0:
        return np.full(len(growth), np.inf)
    kept = np.maximum(room, 1e-6)
    excess = rate * np.expm1(np.minimum(growth, 600.0)) / kept
    # 1 - q e^A is known to about 4e-16; divided by itself that is its relative error.
    return np.where(room > 1e-6, np.log1p(excess) / fade * (1 + 1e-15 / kept), np.inf)
