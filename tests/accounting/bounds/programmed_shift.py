"""The cheapest shifts when the step's modulus is not linear: dynamic programming over the distance, rounded up.

If |F(x) - F'(y)| <= omega(|x - y|) + s_k with omega non-decreasing, the shift theorem holds with
z_k = omega(z_{k-1}) + s_k - a_k (theory section 3). The distance is kept on a grid: a push either lands on a grid point
exactly, or stops short and the distance is rounded up to one. Both are allowed shifts, so the value is an upper bound
whatever the grid; the excess falls with the square of its spacing.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.gaussian import UNIT_ROUNDOFF, widen_up
from sordino.core.validate import POSITIVE, InputError, Interval, number, whole_number

Array = NDArray[np.float64]
Modulus = Callable[[Array], Array]

_SLACK = 8 * UNIT_ROUNDOFF


def dynamic_shift(
    modulus: Modulus,
    moves: ArrayLike,
    noises: ArrayLike,
    *,
    ceiling: float,
    start: float = 0.0,
    always_below: bool = False,
    points: int = 400,
) -> float:
    """The smallest mu found on the grid, an upper bound on the true minimum.

    Args:
        modulus: omega, vectorised and non-decreasing; rounded up by the caller.
        moves: s_k of each step; at least one of moves and noises is an array.
        noises: tau_k of each step.
        ceiling: the largest distance on the grid; a larger one is never entered.
        start: the distance of the two starting points.
        always_below: whether the chains are known to stay within `ceiling` (a diameter, or a fixed point of
            omega + s), so that any step may be taken as a start there.
        points: grid points between 0 and the ceiling.
    """
    s, tau = np.broadcast_arrays(np.asarray(moves, dtype=np.float64), np.asarray(noises, dtype=np.float64))
    if s.ndim != 1 or len(s) == 0 or not np.all(np.isfinite(s)) or s.min() < 0 or not tau.min() > 0:
        raise InputError("Expected moves at least 0 and noises above 0, one of each per step.")
    number("ceiling", ceiling, POSITIVE)
    number("start", start, Interval(0.0, ceiling), "raise the ceiling")
    grid = np.linspace(0.0, ceiling, whole_number("points", points, Interval(2)) + 1)
    stretched = np.asarray(modulus(grid), dtype=np.float64)
    if stretched.shape != grid.shape or np.any(np.diff(stretched) < 0) or stretched[0] < 0:
        raise InputError("Expected the modulus to be non-negative and non-decreasing on the grid.")
    # cost[i]: the cheapest way to be at most grid[i] apart after the steps so far.
    cost = np.where(grid >= start, 0.0, math.inf)
    for move, noise in zip(s.tolist(), tau.tolist(), strict=True):
        if always_below:
            cost[-1] = 0.0
        cost = _stepped(cost, grid, (stretched + move) * (1 + _SLACK), noise)
    return widen_up(math.sqrt(cost[0]), len(s) * 4 * UNIT_ROUNDOFF + 1e-14)


def _stepped(cost: Array, grid: Array, reached: Array, noise: float) -> Array:
    """One step: from distance i, which `reached` stretches, to every grid point at the least push."""
    useful = np.isfinite(cost)
    pushes = np.maximum(reached[useful][:, None] - grid, 0.0) / noise
    return np.min(cost[useful][:, None] + pushes**2, axis=0)
