"""The cheapest shifts when the step's modulus is not linear: dynamic programming over the distance, rounded up.

If |F(x) - F'(y)| <= omega(|x - y|) + s_k with omega non-decreasing, the shift theorem holds with
z_k = omega(z_{k-1}) + s_k - a_k (theory section 3). The distance is kept on a grid: a push either lands on a grid point
exactly, or stops short and the distance is rounded up to one. Both are allowed shifts, so the value is an upper bound
whatever the grid; the excess falls with the square of its spacing.
"""

import math
from collections.abc import Callable

import numpy as np


def dynamic_shift(
    modulus: Callable[[np.ndarray], np.ndarray], moves: np.ndarray, noises: object, *, ceiling: float, points: int = 400
) -> float:
    """The smallest mu on a grid of distances up to a ceiling that is never passed; both chains start at one point."""
    grid = np.linspace(0.0, ceiling, points + 1)
    stretched = modulus(grid)
    # cost[i]: the cheapest way to be at most grid[i] apart after the steps so far.
    cost = np.zeros(len(grid))
    for move, noise in zip(moves, np.broadcast_to(noises, moves.shape), strict=True):
        pushes = np.maximum((stretched + move)[:, None] * (1 + 1e-15) - grid, 0.0) / noise
        cost = np.min(cost[:, None] + pushes**2, axis=0)
    return math.sqrt(cost[0]) * (1 + 1e-12)
