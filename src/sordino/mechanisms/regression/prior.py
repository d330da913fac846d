"""The prior on effects, and how mean gradients bend.

Encoded coefficients of one column have a multivariate t law around 0 with the declared scale: normal given a factor of
its own for each column, and the factor has an inverse gamma law. One degree of freedom (Cauchy) lets data overrule it:
an effect of five prior standard deviations that is known to one of them is drawn in by .4 standard deviations, where a
normal prior would halve it. Intercepts are nearly free.
"""

import math

import numpy as np
from scipy import special

from sordino.core.arrays import Array

DEGREES = 1.0
# Half of a Cauchy law of this scale lies within .67 prior standard deviations, as half of a normal law does.
SCALE = 0.67
# Intercepts: so many prior standard deviations around the place of the target.
INTERCEPT = 10.0


class Effects:
    """The prior in whitened coordinates: coefficients t = (intercepts, slopes g), encoded slopes b = W g."""

    def __init__(self, whitening: Array, scale: float, middle: Array) -> None:
        self.outputs = len(middle)
        self.whitening, self.middle = whitening, np.zeros((1 + len(whitening)) * self.outputs)
        self.middle[: self.outputs] = middle
        self.variance = (SCALE * scale) ** 2 / (2.0 if self.outputs > 1 else 1.0)
        self.intercept = 1.0 / (INTERCEPT * scale) ** 2

    def encoded(self, t: Array) -> Array:
        """Encoded slopes, (..., columns, outputs)."""
        slopes = t[..., self.outputs :].reshape(*t.shape[:-1], -1, self.outputs)
        return self.whitening @ slopes

    def precision(self, factors: Array) -> Array:
        """The precision of all coefficients where columns have these factors, (..., columns)."""
        k, columns = self.outputs, len(self.whitening)
        inner = np.swapaxes(self.whitening, 0, 1) @ (self.whitening / (self.variance * factors)[..., None])
        found = np.zeros((*inner.shape[:-2], (1 + columns) * k, (1 + columns) * k))
        found[..., range(k), range(k)] = self.intercept
        for output in range(k):
            found[..., k + output :: k, k + output :: k] = inner
        return found

    def likely_factors(self, t: Array, covariance: Array) -> Array:
        """The inverse of each factor's posterior mean precision, given the mean and covariance of coefficients."""
        k = self.outputs
        squares = np.sum(self.encoded(t) ** 2, axis=-1)
        for output in range(k):
            own = covariance[k + output :: k, k + output :: k]
            squares = squares + np.einsum("ij,jk,ik->i", self.whitening, own, self.whitening)
        return (DEGREES + squares / self.variance) / (DEGREES + k)

    def drawn_factors(self, t: Array, generator: np.random.Generator) -> Array:
        """Factors given coefficients, (..., columns)."""
        squares = np.sum(self.encoded(t) ** 2, axis=-1) / self.variance
        return 0.5 * (DEGREES + squares) / generator.standard_gamma(0.5 * (DEGREES + self.outputs), squares.shape)


# Levels beyond this are those of no table; slopes there would be 0 in double precision.
_LARGEST = 20.0
# In units of a typical slope: no direction is flatter.
_RIDGE = 1e-3
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def curve(kind: str, t: Array) -> tuple[Array, Array]:
    """The mean gradient of Gaussian rows at coefficients t, and its derivative; for one output.

    Used for how a mean gradient bends between two points, relative to its released slope, and as what noised slopes of
    classes are drawn to where noise hides them. Nothing else is taken from such rows. Rows are summed up at nodes along
    the direction of the slopes, so the derivative is that of the sum, and positive definite.
    """
    slopes, size = t[1:], len(t)
    level, reach = float(np.clip(t[0], -_LARGEST, _LARGEST)), float(np.linalg.norm(slopes))
    along = slopes / max(reach, 1e-300)
    if kind == "log":
        mean = math.exp(min(level + reach**2 / 2.0, _LARGEST))
        first, second = (mean, mean * reach), (mean, mean * reach, mean * (1.0 + reach**2))
    else:
        p = special.expit(level + reach * _NODES)
        first = float(p @ _WEIGHTS), float((_NODES * p) @ _WEIGHTS)
        second = tuple(float((_NODES**power * p * (1.0 - p)) @ _WEIGHTS) for power in range(3))
    found = np.empty((size, size))
    found[0, 0], found[0, 1:], found[1:, 0] = second[0], second[1] * along, second[1] * along
    found[1:, 1:] = second[0] * np.eye(size - 1) + (second[2] - second[0]) * np.outer(along, along)
    return np.append(first[0], first[1] * along), found + _RIDGE * second[0] * np.eye(size)


def moved(kind: str, a: Array, b: Array) -> tuple[Array, Array]:
    """How far a mean gradient moves from a to b, over its slope at a; and its slope at b, over the same."""
    if not kind:
        return b - a, np.eye(len(a))
    (at_a, slope_a), (at_b, slope_b) = curve(kind, a), curve(kind, b)
    way, turned = np.linalg.solve(slope_a, at_b - at_a), np.linalg.solve(slope_a, slope_b)
    return np.asarray(way, np.float64), np.asarray(turned, np.float64)
