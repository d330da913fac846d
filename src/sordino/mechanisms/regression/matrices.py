"""Noised matrices: drawn to what is known about them as far as noise explains the difference, and kept positive."""

import contextlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array

# A group of entries that noise hides altogether is taken to lie at least this share of its prior spread away.
_LEAST_LEVEL = 0.3
# In units of the diagonal: far above rounding, far below what anything is known to.
_RIDGE = 1e-10


class Shrunk(NamedTuple):
    """A positive definite matrix, and the variance of every entry that noise leaves open."""

    matrix: Array
    open: Array


def power(matrix: Array, exponent: float) -> Array:
    """Of a positive definite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    # Far below anything that is known, and far above rounding.
    return (vectors * np.maximum(values, 1e-12 * max(values[-1], 1e-280)) ** exponent) @ vectors.T


def inverse(matrix: Array) -> Array:
    """Of a positive definite matrix, however different its scales are; one that noise made singular has an answer."""
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    both = scale[:, None] * scale
    return np.asarray(np.linalg.inv(matrix / both + _RIDGE * np.eye(len(matrix))) / both, np.float64)


def roots_of_precisions(precisions: Array) -> tuple[Array, Array]:
    """For a stack of precisions P: matrices R with R'R the inverse of P, each times the scale that is returned."""
    scale = np.sqrt(np.maximum(np.diagonal(precisions, axis1=1, axis2=2), 1e-300))
    scaled = precisions / (scale[:, :, None] * scale[:, None, :])
    scaled = 0.5 * (scaled + np.swapaxes(scaled, 1, 2))
    # Rounding can be far above what it should be where answers are not those of any table; there is an answer still.
    for ridge in (_RIDGE, 1e-7, 1e-4, float(precisions.shape[1])):
        with contextlib.suppress(np.linalg.LinAlgError):
            lower = np.linalg.cholesky(scaled + ridge * np.eye(precisions.shape[1]))
            return np.asarray(np.linalg.inv(lower), np.float64), scale
    return np.broadcast_to(np.eye(precisions.shape[1]), scaled.shape), scale


def floored(matrix: Array, like: Array, least: float) -> Array:
    """The matrix with no direction below `least` times what `like` has there; for stacks of matrices too."""
    half, less = power(like, 0.5), power(like, -0.5)
    values, vectors = np.linalg.eigh(less @ ((matrix + np.swapaxes(matrix, -1, -2)) / 2.0) @ less)
    kept = vectors * np.maximum(values, least)[..., None, :]
    return half @ (kept @ np.swapaxes(vectors, -1, -2)) @ half


def shrunk(
    matrix: Array,
    noise: float,
    near: tuple[float, float],
    floor: float,
    like: Array,
    outputs: int = 1,
    level: float | None = None,
) -> Shrunk:
    """A noised matrix of coefficients, intercepts first, drawn to a multiple of `like`.

    Entries of a kind (slopes' diagonal, slopes off it, intercept with slope) are taken to lie around the same place of
    `like`, by as much as their spread exceeds the noise, and by at least `near` of the diagonal. The intercept's own
    block is seen far better than noise hides it and is left alone.
    `noise` is its standard deviation on the diagonal, `near` as in `Tuned`, `floor` the least share of `like` in any
    direction, and `level` the mean of the slopes' diagonal where it is known better than from the matrix.
    """
    size, k = len(matrix), outputs
    if level is None:
        level = max(float(np.mean(np.diag(matrix)[k:])), _LEAST_LEVEL * noise) if size > k else 1.0
    scale = float(np.mean(np.diag(like)[k:])) if size > k else 1.0
    to = like * (level / scale)
    found, left = matrix.copy(), np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    on = rows == columns
    inner = columns < k
    cross = (rows < k) & ~inner
    kinds: list[tuple[NDArray[np.bool_], float, float]] = [
        (on & ~inner, noise**2, near[0]),
        (~on & ~inner & ~cross, noise**2 / 2.0, near[1]),
        (cross, noise**2 / 2.0, near[0]),
        (inner & on, noise**2, 1.0),
        (inner & ~on, noise**2 / 2.0, 1.0),
    ]
    for chosen, variance, least in kinds:
        if not chosen.any():
            continue
        i, j = rows[chosen], columns[chosen]
        # Entries of several outputs differ in size with their classes' shares: each in units of its own diagonal.
        unit = np.sqrt(np.abs(np.diag(to)[i] * np.diag(to)[j]))
        away = matrix[i, j] - to[i, j]
        spread = max(
            float(np.mean(away**2)) - variance * (1.0 + np.sqrt(2.0 / len(i))), (least * float(np.mean(unit))) ** 2
        )
        own = spread * np.maximum(1.0, unit / max(float(np.mean(unit)), 1e-300)) ** 2
        kept = own / (own + variance)
        found[i, j] = found[j, i] = to[i, j] + kept * away
        left[i, j] = left[j, i] = kept * variance
    return Shrunk(floored(found, to, floor), left)
