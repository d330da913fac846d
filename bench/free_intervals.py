"""Intervals without privacy, of the same rows: what a private interval's width is compared with.

Least squares, Huber's regression (threshold 1.345, scale from the median residual), and maximum likelihood for classes
and counts, each with the sandwich of its scores; rows of one person are summed first. Survival has a row for each
person and time bin, as the private fit has. NON-PRIVATE: figures of a bench, never of a release.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

NORMAL_95 = 1.959964
HUBER, NORMAL_MEDIAN = 1.345, 0.6745
STEPS, SETTLED = 30, 1e-8
# A coefficient whose standard error by the model is above so many prior standard deviations has no useful interval:
# a class or a level that hardly a row has.
MOST_ERROR = 10.0


class Free(NamedTuple):
    """Coefficients and their standard errors, intercept first, outputs innermost; NaN where rows do not say."""

    mean: Array
    error: Array

    @property
    def width(self) -> Array:
        return 2.0 * NORMAL_95 * self.error


class Parts(NamedTuple):
    """At a point: every row's residual (rows, outputs), and weights of the slopes for each pair of outputs."""

    residual: Array
    slope: Array  # (outputs, outputs, rows)


def free(
    family: str,
    X: Array,
    y: Array,
    start: Array,
    scale: float,
    exposure: Array | None = None,
    unit: NDArray[np.int64] | None = None,
    classes: int | None = None,
) -> Free:
    """The fit without privacy, from a start that is near; `scale` is the prior standard deviation of effects."""
    outputs = 1 if classes is None else classes - 1
    rows = np.column_stack([np.ones(len(X)), X])
    try:
        return _fitted(family, rows, y, start, scale, np.ones(len(y)) if exposure is None else exposure, unit, outputs)
    except np.linalg.LinAlgError:
        return Free(*np.full((2, rows.shape[1] * outputs), np.nan))


def _fitted(
    family: str,
    rows: Array,
    y: Array,
    start: Array,
    scale: float,
    exposure: Array,
    unit: NDArray[np.int64] | None,
    outputs: int,
) -> Free:
    size = rows.shape[1] * outputs
    if family in ("linear", "robust"):
        point, dispersion = np.asarray(np.linalg.lstsq(rows, y, rcond=None)[0], np.float64), 0.0
    else:
        point, dispersion = np.resize(np.asarray(start, np.float64), size).copy(), 0.0
    rounds = 2 if family == "negative-binomial" else 1
    for number in range(rounds):
        if number:
            mean = exposure * np.exp(np.minimum(rows @ point, 30.0))
            dispersion = max(float(np.sum((y - mean) ** 2 - mean) / np.sum(mean**2)), 0.0)
        for _ in range(STEPS):
            parts = _parts(family, rows, y, point, exposure, outputs, dispersion)
            step = np.linalg.solve(_summed(rows, parts.slope), (rows.T @ parts.residual).ravel())
            point = point + step * min(1.0, 5.0 * scale / max(float(np.abs(step).max()), 1e-300))
            if np.abs(step).max() <= SETTLED * scale:
                break
    parts = _parts(family, rows, y, point, exposure, outputs, dispersion)
    inverse = np.linalg.inv(_summed(rows, parts.slope))
    sandwich = inverse @ _meat(rows, parts.residual, unit) @ inverse
    # Of numbers the model's error is that of residuals of their own spread; of the others the inverse of the slopes.
    spread = float(np.mean(parts.residual**2)) if family in ("linear", "robust") else 1.0
    model = np.sqrt(np.maximum(np.diag(inverse), 0.0) * spread)
    said = np.isfinite(point) & (model <= MOST_ERROR * scale)
    return Free(np.where(said, point, np.nan), np.where(said, np.sqrt(np.maximum(np.diag(sandwich), 0.0)), np.nan))


def _parts(family: str, rows: Array, y: Array, point: Array, exposure: Array, outputs: int, dispersion: float) -> Parts:
    if family in ("linear", "robust"):
        residual = y - rows @ point
        if family == "linear":
            return Parts(residual[:, None], np.ones((1, 1, len(y))))
        cut = HUBER * float(np.median(np.abs(residual))) / NORMAL_MEDIAN
        return Parts(np.clip(residual, -cut, cut)[:, None], (np.abs(residual) < cut).astype(float)[None, None])
    if family == "logistic":
        p = special.expit(rows @ point)
        return Parts((y - p)[:, None], (p * (1.0 - p))[None, None])
    if family == "multinomial":
        p = special.softmax(np.column_stack([np.zeros(len(y)), rows @ point.reshape(-1, outputs)]), axis=1)[:, 1:]
        residual = (y[:, None] == np.arange(1, outputs + 1)) - p
        return Parts(residual, np.eye(outputs)[:, :, None] * p.T[:, None] - p.T[:, None] * p.T[None])
    mean = exposure * np.exp(np.minimum(rows @ point, 30.0))
    steepness = 1.0 / (1.0 + dispersion * mean)
    return Parts(((y - mean) * steepness)[:, None], (mean * steepness)[None, None])


def _summed(rows: Array, slope: Array) -> Array:
    """The matrix of slopes, intercept first and outputs innermost; a hair of a ridge keeps it invertible."""
    outputs = len(slope)
    found = np.empty((rows.shape[1], outputs, rows.shape[1], outputs))
    for a in range(outputs):
        for b in range(a + 1):
            found[:, a, :, b] = (rows * slope[a, b][:, None]).T @ rows
            found[:, b, :, a] = found[:, a, :, b]
    size = rows.shape[1] * outputs
    matrix = found.reshape(size, size)
    return matrix + 1e-9 * np.eye(size) * max(float(np.trace(matrix)) / size, 1e-12)


def _meat(rows: Array, residual: Array, unit: NDArray[np.int64] | None) -> Array:
    """The squares of scores, those of one person summed first."""
    scores = (rows[:, :, None] * residual[:, None, :]).reshape(len(rows), -1)
    if unit is not None:  # rows of a person follow one another
        scores = np.add.reduceat(scores, np.flatnonzero(np.diff(unit, prepend=unit[0] - 1)), axis=0)
    return scores.T @ scores
