"""Minimisers within a proven distance: a strongly convex objective's gradient bounds how far its minimiser can be.

If F is m-strongly convex, |theta - minimiser| <= |gradient at theta| / m, so a search ends where the gradient is short.
Accelerated descent always gets there (Nesterov 2004, Theorem 2.2.3).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.full_gradients.residuals import residuals
from sordino.model.base import LinearScoreModel

Array = NDArray[np.float64]
# Halvings of an interval, more than doubles have digits.
_HALVINGS = 200


def minimiser(
    model: LinearScoreModel, X: Array, y: Array, *, smoothness: float, regulariser: float, tolerance: float
) -> Array:
    """Minimise sum of losses + (regulariser / 2) |theta|^2 to within the tolerance.

    `smoothness` bounds the second derivative of the sum of the losses along any direction.
    """
    size = X.shape[1] * model.outputs

    def gradient(theta: Array) -> Array:
        found = X.T @ residuals(model, X @ theta.reshape(-1, model.outputs), y)
        return found.ravel() + regulariser * theta

    return _descended(gradient, np.zeros(size), smoothness + regulariser, regulariser, tolerance)


def _descended(
    gradient: Callable[[Array], Array], start: Array, smooth: float, convex: float, tolerance: float
) -> Array:
    """Nesterov's method with a constant step; ends as soon as the gradient is short enough."""
    ratio = np.sqrt(convex / smooth)
    momentum = (1.0 - ratio) / (1.0 + ratio)
    point, ahead = start, start
    while True:
        slope = gradient(ahead)
        if float(np.linalg.norm(slope)) <= convex * tolerance:
            return ahead
        moved = ahead - slope / smooth
        point, ahead = moved, moved + momentum * (moved - point)


def ridge_in_ball(gram: Array, cross: Array, regulariser: float, radius: float) -> Array:
    """Minimise theta' gram theta / 2 - cross' theta + (regulariser / 2) |theta|^2 over |theta| <= radius."""
    values, vectors = np.linalg.eigh(gram)
    turned, values = vectors.T @ cross, np.maximum(values, 0.0) + regulariser
    found = turned / values
    if float(np.linalg.norm(found)) > radius:
        low, high = 0.0, float(np.linalg.norm(turned)) / radius
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if float(np.linalg.norm(turned / (values + middle))) > radius:
                low = middle
            else:
                high = middle
        found = turned / (values + high)
    return vectors @ found
