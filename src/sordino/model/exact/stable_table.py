"""A table of a stable law's tail and density, for the many evaluations a numerical divergence needs.

log P(X > x) and the log density are interpolated by Chebyshev polynomials on pieces of asinh(x); beyond the last piece
the law follows its power tail. About forty times faster than the integrals, and within 1e-12 of them.
"""

from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev

from sordino.model.exact import stable_standard
from sordino.model.exact.read_only import Array

_END = 29.0  # of the last piece, in units of asinh(x): x = 2e12
_LAST = float(np.sinh(_END))
_DEGREE = 18
_NEARLY_NORMAL = 1.85  # above, a Gaussian bulk turns into a power tail within a short distance
_PIECE, _SHORT_PIECE = 1 / 2, 1 / 32


@lru_cache(maxsize=16)
def stable_table(alpha: float) -> "StableTable":
    """The table for a tail index below 2."""
    return StableTable(alpha)


class StableTable:
    """Chebyshev coefficients of the two logarithms, one column per piece."""

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._piece = _PIECE if alpha <= _NEARLY_NORMAL else _SHORT_PIECE
        nodes = chebyshev.chebpts1(_DEGREE + 1)
        points = np.sinh(self._piece * (np.arange(round(_END / self._piece)) + (nodes[:, None] + 1) / 2))
        fit: Array = np.array(np.linalg.inv(chebyshev.chebvander(nodes, _DEGREE)), dtype=np.float64)
        self._above = fit @ np.log(stable_standard.above(alpha, points))
        self._density = fit @ np.log(stable_standard.density(alpha, points))

    def above(self, points: Array) -> Array:
        """P(X > point)."""
        tail = np.exp(self._evaluate(self._above, np.abs(points), self._alpha))
        return np.where(points >= 0, tail, 1.0 - tail)

    def log_density(self, points: Array) -> Array:
        """The log density."""
        return self._evaluate(self._density, np.abs(points), self._alpha + 1)

    def _evaluate(self, coefficients: Array, points: Array, tail_power: float) -> Array:
        place = np.arcsinh(np.minimum(points, _LAST)) / self._piece
        piece = np.minimum(place.astype(np.int64), coefficients.shape[1] - 1)
        t = 2 * (place - piece) - 1
        # Clenshaw's recurrence, with each point reading the coefficients of its own piece.
        first, second = np.zeros_like(t), np.zeros_like(t)
        for row in coefficients[:0:-1]:
            first, second = row[piece] + 2 * t * first - second, first
        value = coefficients[0][piece] + t * first - second
        return value - tail_power * np.log(np.maximum(points, _LAST) / _LAST)
