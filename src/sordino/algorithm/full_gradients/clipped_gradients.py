"""Sums over all records of clipped gradients of a linear score, exact whatever the order of the records.

The gradient of record i is r_i x_i', with r_i the derivative of its loss in the scores. It is taken as (r_i |x_i|)
times the direction of x_i, each cut to digits of a public unit, so every product and sum is a whole number
(`record_sums`).
Scores are exact too: the parameters, which are public, are rounded to 32 digits before they meet the rows.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.exact_noise import record_sums
from sordino.algorithm.full_gradients.residuals import residuals
from sordino.model.base import LinearScoreModel

Array = NDArray[np.float64]
# Directions have length 2^20 at most, so scores stay below 2^53 (Cauchy and Schwarz).
_PARAMETER_DIGITS = 32


class ClippedGradients:
    """Private rows, ready to be summed over."""

    def __init__(self, model: LinearScoreModel, X: Array, y: Array, clip: float) -> None:
        record_sums.check_size(X)
        self._model, self._y, self._clip = model, y, clip
        self._directions, self._lengths = record_sums.directions(X)
        self._clip_exponent = math.frexp(clip)[1]
        self.exponent = self._clip_exponent + record_sums.PRODUCT_EXPONENT

    def sums(self, theta: Array) -> record_sums.Sums:
        """The sum over records at the parameters, in units of 2^exponent; one record changes it by its clip at most."""
        weights, unit = _whole(theta.reshape(-1, self._model.outputs))
        gathered = np.zeros((self._directions.shape[1], self._model.outputs), np.int64)
        for first in range(0, len(self._y), record_sums.ROWS_PER_BLOCK):
            part = slice(first, first + record_sums.ROWS_PER_BLOCK)
            rows, lengths = self._directions[part], self._lengths[part, None]
            scores = (rows @ weights) * math.ldexp(1.0, unit - record_sums.DIGITS) * lengths
            found = residuals(self._model, scores, self._y[part]) * lengths
            gathered += record_sums.products(rows, record_sums.shortened(found, self._clip, self._clip_exponent))
        return gathered.ravel()

    def total(self, theta: Array) -> Array:
        """The same as floats."""
        return np.ldexp(self.sums(theta).astype(np.float64), self.exponent)


def _whole(weights: Array) -> tuple[Array, int]:
    """Parameters as whole numbers of 2^unit; those of one score have length at most 2^32 units."""
    longest = float(np.sqrt(np.sum(weights * weights, axis=0)).max())
    unit = math.frexp(longest)[1] - _PARAMETER_DIGITS
    return np.trunc(np.ldexp(weights, -unit)), unit
