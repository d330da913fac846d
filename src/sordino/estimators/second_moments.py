"""What noised sums of x x' say about the rows: their centre and their covariance, with no direction left empty.

A noised X'X is drawn towards what it would be if columns were independent, by as much as noise explains of the
difference (Ledoit & Wolf 2004). The centre comes from the products with the intercept. Of a category that centre is a
vector of shares, so noise that takes it out of the simplex is undone, and its variances follow from it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.data import Category, Schema

Array = NDArray[np.float64]

# Where noise hides a number's own variance: that of a number spread over a good part of its bounds.
_USUAL_VARIANCE, _LEAST_VARIANCE = 0.1, 0.02
_LEAST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """The centre of the columns without the intercept, and the eigenvalues and eigenvectors of their covariance.

    `blocks` are the places of the columns of each feature.
    """

    centre: Array
    values: Array
    vectors: Array
    blocks: tuple[slice, ...]

    @property
    def covariance(self) -> Array:
        """Of the columns without the intercept."""
        return (self.vectors * self.values) @ self.vectors.T


def second_moments(schema: Schema, gram: Array, noise: float, records: int) -> SecondMoments:
    """From the noised sum of x x', intercept first, and the deviation of the noise on its diagonal."""
    mean, spread = gram / records, noise / records
    expected = _independent(schema, mean, spread)
    apart = mean - expected
    size = len(mean)
    kept = 1.0 - min(1.0, spread**2 * size * (size + 1) / 2 / max(float((apart**2).sum()), 1e-300))
    found = expected + kept * apart
    # The intercept's own entry is 1, whatever the noise says.
    centre = found[1:, 0]
    covariance = found[1:, 1:] - np.outer(centre, centre)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    # The largest eigenvalue of the noise that is kept; below it a value may be an accident.
    floor = max(kept * spread * math.sqrt(size / 2), 1e-4 * float(np.mean(np.abs(values))), 1e-12)
    blocks = tuple(slice(block.start - 1, block.stop - 1) for _, block in schema.blocks())
    return SecondMoments(centre, np.maximum(values, floor), vectors, blocks)


def _independent(schema: Schema, mean: Array, spread: float) -> Array:
    """The mean of x x' if columns of different features were independent."""
    centre, variances = mean[0].copy(), np.zeros(len(mean))
    centre[0] = 1.0
    of_products = spread / math.sqrt(2.0)
    for feature, block in schema.blocks():
        if isinstance(feature.kind, Category):
            centre[block] = _shares(centre[block], of_products)
        else:
            trust = 0.25 / (0.25 + of_products**2)
            centre[block] *= trust
            own = float(mean[block.start, block.start]) - float(centre[block.start]) ** 2
            trust = _USUAL_VARIANCE / (_USUAL_VARIANCE + spread**2)
            variances[block] = max(_LEAST_VARIANCE, trust * own + (1.0 - trust) * _USUAL_VARIANCE)
    expected = np.outer(centre, centre) + np.diag(variances)
    for feature, block in schema.blocks():
        if isinstance(feature.kind, Category):
            expected[block, block] = np.diag(centre[block])
    return expected


def _shares(noised: Array, spread: float) -> Array:
    """Shares of the levels, drawn towards even ones by as much as noise explains of their differences."""
    even = 1.0 / len(noised)
    found = max(float(np.var(noised)) - spread**2, 1e-4)
    drawn = even + found / (found + spread**2) * (noised - even)
    inside = np.clip(drawn, _LEAST_SHARE * even, 1.0)
    return inside / inside.sum()
