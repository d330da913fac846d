"""The one array alias: numbers in double precision, of any shape; and quantiles of weighted draws."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import OPEN_UNIT, number

Array = NDArray[np.float64]


def weighted_quantiles(draws: Array, weights: Array, levels: Sequence[float]) -> Array:
    """Quantiles of weighted draws, (columns, levels); as numpy's for equal weights, up to the gap of two draws."""
    order = np.argsort(draws, axis=0)
    values = np.take_along_axis(draws, order, axis=0)
    reached = np.cumsum(weights[order], axis=0) - 0.5 * weights[order]
    return np.array([np.interp(levels, reached[:, j], values[:, j]) for j in range(draws.shape[1])])


def tails(level: float) -> list[float]:
    """The shares of draws below the lower and below the upper end of a central interval."""
    number("level", level, OPEN_UNIT)
    return [0.5 - 0.5 * level, 0.5 + 0.5 * level]
