"""The law of errors around a regression, read off noised counts of their sizes.

From tails heavier than a double exponential's to a nearly flat law, of density exp(-|r / a|^exponent): 2 is the
normal law, 1 the double exponential.
"""

import math

import numpy as np
from scipy import special

from sordino.core.arrays import Array

MOST_PEAKED, FLATTEST = 0.5, 6.0


def unit_quantile(level: float, exponent: float) -> float:
    """How far from 0 a symmetric error of variance 1 is with this probability at most; exponent 2 is the Gaussian.

    >>> round(unit_quantile(0.9, 2.0), 4)
    1.6449
    """
    reach = special.gammaincinv(1.0 / exponent, level) ** (1.0 / exponent)
    return float(reach * np.exp(0.5 * (special.gammaln(1.0 / exponent) - special.gammaln(3.0 / exponent))))


def unit_shares(ends: Array, exponent: float) -> Array:
    """The probability that an error of variance 1 is at most these sizes."""
    scale = np.exp(0.5 * (special.gammaln(1.0 / exponent) - special.gammaln(3.0 / exponent)))
    return special.gammainc(1.0 / exponent, (np.asarray(ends) / scale) ** exponent)


def median_size(counts: Array, ends: Array, records: int) -> float:
    """The end of the bin in which half of the records are reached."""
    reached = np.flatnonzero(np.cumsum(counts) >= 0.5 * records)
    return float(ends[min(int(reached[0]), len(ends) - 1)]) if len(reached) else float(ends[-1])


_EXPONENTS = np.geomspace(MOST_PEAKED, FLATTEST, 32)
_DEVIATIONS = np.geomspace(0.2, 5.0, 120)
# The logarithm of an exponent over 2 has this deviation before the data speak.
_SHAPES = 0.3


def residual_law(counts: Array, ends: Array, records: int, noise: float) -> tuple[float, float]:
    """Variance and exponent of a symmetric law whose expected counts are closest to noised ones, and near a normal."""
    scale, best = float(ends[len(ends) // 2]), (math.inf, 1.0, 2.0)
    for exponent in _EXPONENTS:
        inner = unit_shares(ends[None] / (scale * _DEVIATIONS[:, None]), float(exponent))
        expected = records * np.diff(inner, axis=1, prepend=0.0, append=1.0)
        misfit = ((counts - expected) ** 2 / (noise**2 + np.maximum(expected, 1.0))).sum(axis=1)
        misfit = misfit + (math.log(exponent / 2.0) / _SHAPES) ** 2
        place = int(np.argmin(misfit))
        best = min(best, (float(misfit[place]), float(scale * _DEVIATIONS[place]), float(exponent)))
    return best[1] ** 2, best[2]
