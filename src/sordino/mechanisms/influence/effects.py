"""The prior of coefficients: effects of a declared size, whose common scale is averaged over values around it.

Encoded slopes are independent and normal, with a common standard deviation that is the declared scale of effects times
one of a few factors: most likely the declared one, and a twenty-fifth each for half and three times it. The intercept,
the score of a record in the middle of all bounds, has a scale of its own.
"""

import numpy as np

from sordino.core.arrays import Array
from sordino.mechanisms.influence.plan import Plan

# Common scales of effects around the declared one, and their weights.
EFFECT_SCALES = np.array([0.5, 0.85, 1.0, 1.18, 1.8, 3.0])
EFFECT_WEIGHTS = np.array([0.04, 0.20, 0.46, 0.20, 0.06, 0.04])
# Many coefficients would settle their common scale for sure, from residuals whose size is known only roughly.
_TEMPERED = 24.0


class Effects:
    """The prior of whitened coefficients, which `to_encoded` maps to the declared ones."""

    def __init__(self, plan: Plan, to_encoded: Array) -> None:
        self.outputs = plan.outputs
        self.scale = plan.kind.effect_scale(plan.declaration)
        self.intercept_scale = plan.kind.intercept_scale(plan.declaration)
        self.intercept_mean = 0.0
        self.slopes = to_encoded[self.outputs :]
        self._gram = self.slopes.T @ self.slopes
        self._intercept = to_encoded[: self.outputs] / self.intercept_scale
        self.temper = min(1.0, _TEMPERED / len(self.slopes))

    @property
    def scales(self) -> list[tuple[float, float]]:
        """Common scales of effects, and their weights."""
        return list(zip((self.scale * EFFECT_SCALES).tolist(), EFFECT_WEIGHTS.tolist(), strict=True))

    def precision(self, inverse_square: float) -> tuple[Array, Array]:
        """For a mean of 1 / scale^2 of effects; and the precision times the prior mean."""
        intercept = self._intercept
        middle = np.full(self.outputs, self.intercept_mean / self.intercept_scale)
        return inverse_square * self._gram + intercept.T @ intercept, np.asarray(intercept.T @ middle, np.float64)

    def log(self, theta: Array) -> Array:
        """Logarithms of the density at (draws, size), the common scale of effects integrated out."""
        scales = self.scale * EFFECT_SCALES
        effects = np.sum((theta @ self.slopes.T) ** 2, axis=1)[:, None]
        logs = np.log(EFFECT_WEIGHTS) - 0.5 * effects / scales**2 - len(self.slopes) * np.log(scales)
        away = theta @ self._intercept.T - self.intercept_mean / self.intercept_scale
        return np.logaddexp.reduce(logs, axis=1) - 0.5 * np.sum(away**2, axis=1)

    def inverse_square(self, theta: Array, covariance: Array) -> float:
        """The mean of one over the square of the common scale of effects, given coefficients of this law."""
        scales = self.scale * EFFECT_SCALES
        length = np.sum((self.slopes @ theta) ** 2) + np.sum(self._gram * covariance)
        logs = np.log(EFFECT_WEIGHTS) - self.temper * (0.5 * length / scales**2 + len(self.slopes) * np.log(scales))
        weights = np.exp(logs - logs.max())
        return float(np.sum(weights / scales**2) / weights.sum())
