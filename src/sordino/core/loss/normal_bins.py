"""Probabilities of intervals under unit normals, from whichever tail is smaller, with absolute error bounds."""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]

# scipy's ndtr is good to a few units in the last place; tested against mpmath in tests/core/loss/test_normal_bins.py.
_NDTR_ERROR = 8 * UNIT_ROUNDOFF


def normal_mass(edges: Array, mean: float) -> tuple[Array, Array]:
    """Mass of N(mean, 1) between consecutive edges and a bound on its absolute error."""
    centred = edges - mean
    lower, upper = special.ndtr(centred), special.ndtr(-centred)
    from_left = centred[1:] <= 0
    mass = np.where(from_left, lower[1:] - lower[:-1], upper[:-1] - upper[1:])
    size = np.where(from_left, lower[1:], upper[:-1])
    # Rounding of `centred` moves an edge by one unit in its last place: phi * |edge| * u is below 4 u * tail * edge^2.
    wobble = 1 + np.minimum(centred[1:] ** 2, 1e3)
    return np.maximum(mass, 0.0), _NDTR_ERROR * size * wobble


def below(edge: float, mean: float) -> float:
    """P(N(mean, 1) < edge), rounded up."""
    return float(special.ndtr(edge - mean)) * (1 + 1e-12)


def above(edge: float, mean: float) -> float:
    """P(N(mean, 1) > edge), rounded up."""
    return float(special.ndtr(mean - edge)) * (1 + 1e-12)


def quantile(tail: float) -> float:
    """z with P(N(0, 1) > z) <= tail."""
    return float(-special.ndtri(tail)) * (1 + 1e-12)
