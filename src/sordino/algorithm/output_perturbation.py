"""Minimisers within a proven distance: a strongly convex objective's gradient bounds how far its minimiser can be.

If F is m-strongly convex, |theta - minimiser| <= |gradient at theta| / m, so a search ends where the gradient is short.
Accelerated descent always gets there (Nesterov 2004, Theorem 2.2.3).

The gradient is computed in double precision, and a sum of n terms of length L may be off by n L u times the number of
additions a term goes through, u = 2^-53. Sums are taken in blocks of 4,096 rows, so that is at most 4,096 + n / 4,096,
and for up to 2^25 records the error is below 4.6e-5 L: less than half of a tolerance of 1e-4 L / m, which is what
private fits ask for. The search ends at the other half.
"""

from collections.abc import Callable

import numpy as np

from sordino.algorithm.noise.exact import ExactGaussians
from sordino.algorithm.noise.randomness import Randomness
from sordino.algorithm.noise.sums import noised_numbers
from sordino.algorithm.rounds.gradients import residuals
from sordino.core.arrays import Array
from sordino.core.spec import AverageNoiseKind, OutputPerturbation, Spec
from sordino.core.validate import instance_of, refuse
from sordino.model.base import LinearScoreModel

# Halvings of an interval, more than doubles have digits.
_HALVINGS = 200
_ROWS_PER_BLOCK = 4096


def minimiser(
    model: LinearScoreModel, X: Array, y: Array, *, smoothness: float, regulariser: float, tolerance: float
) -> Array:
    """Minimise sum of losses + (regulariser / 2) |theta|^2 to within the tolerance.

    `smoothness` bounds the second derivative of the sum of the losses along any direction.
    """
    size = X.shape[1] * model.outputs

    def gradient(theta: Array) -> Array:
        weights = theta.reshape(-1, model.outputs)
        found = summed(lambda part: X[part].T @ residuals(model, X[part] @ weights, y[part]), len(X), weights.shape)
        return found.ravel() + regulariser * theta

    return _descended(gradient, np.zeros(size), smoothness + regulariser, regulariser, 0.5 * tolerance)


def summed(of_rows: Callable[[slice], Array], rows: int, shape: tuple[int, ...]) -> Array:
    """The sum over blocks of rows of a function that sums over one block."""
    total = np.zeros(shape)
    for first in range(0, rows, _ROWS_PER_BLOCK):
        total += of_rows(slice(first, min(first + _ROWS_PER_BLOCK, rows)))
    return total


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


# Release a minimiser with the noise that a spec describes.


def run_output(spec: Spec, point: Array, randomness: Randomness) -> Array:
    """The point plus noise; the caller answers for the point being within the spec's tolerance of the minimiser."""
    algorithm: OutputPerturbation = instance_of("spec.algorithm", spec.algorithm, OutputPerturbation)
    if len(point) != algorithm.dim:
        raise refuse("the point", f"to have algorithm.dim = {algorithm.dim} entries", len(point))
    if algorithm.noise.kind is not AverageNoiseKind.GAUSSIAN:
        raise refuse("algorithm.noise.kind", "to be gaussian for a run", algorithm.noise.kind.value)
    noise = ExactGaussians.of(randomness, algorithm.dim)
    return noised_numbers(point, algorithm.noise.scale, noise)
