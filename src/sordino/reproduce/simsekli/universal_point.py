"""Assumption 3, one point that is stable for every record: Examples 1 and 2, and the paper's two experiments."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special

from sordino.reproduce.simsekli.setting import Array

# A network of the size the example has in mind.
FEATURES, HIDDEN, RECORDS = 5, 8, 200
_ANGLES = 721


@dataclass(frozen=True)
class Network:
    """f(theta, (a, y)) = (theta_2 . tanh(theta_1^T a) - y)^2 / 2 + (lambda / 2) |theta|^2."""

    decay: float

    def gradient(self, theta: Array, a: Array, y: float) -> Array:
        """The gradient at one record."""
        first, second = theta[: FEATURES * HIDDEN].reshape(FEATURES, HIDDEN), theta[FEATURES * HIDDEN :]
        hidden = np.tanh(first.T @ a)
        residual = float(second @ hidden) - y
        inner = residual * np.outer(a, second * (1 - hidden**2))
        return np.concatenate([inner.reshape(-1), residual * hidden]) + self.decay * theta

    def largest_gradient_at_origin(self, seed: int) -> float:
        """Over random records: Example 1 says it is 0, because tanh(0) = 0."""
        rng = np.random.default_rng([seed, 71])
        zero = np.zeros(FEATURES * HIDDEN + HIDDEN)
        records = rng.standard_normal((RECORDS, FEATURES + 1))
        return max(float(np.linalg.norm(self.gradient(zero, row[:-1], float(row[-1])))) for row in records)

    def dissipation(self, length: float) -> float:
        """<grad f(theta) - grad f(0), theta> / |theta|^2 with theta_1 = 0 and |theta_2| = length; m in the limit.

        Without weight decay it is 0 however long theta_2 is, so Assumption 2 fails.
        """
        theta = np.zeros(FEATURES * HIDDEN + HIDDEN)
        theta[-1] = length
        a = np.ones(FEATURES)
        change = self.gradient(theta, a, 1.0) - self.gradient(np.zeros_like(theta), a, 1.0)
        return float(change @ theta) / length**2

    def steepness(self, length: float) -> float:
        """|grad f(theta) - grad f(theta')| / |theta - theta'| for two points at |theta_2| = length, at one record.

        It grows like length^2: no K1 of Assumption 1 covers it.
        """
        size = FEATURES * HIDDEN
        theta = np.zeros(size + HIDDEN)
        theta[-1] = length
        moved = theta.copy()
        moved[HIDDEN - 1] += 1e-6
        a = np.zeros(FEATURES)
        a[0] = 1.0
        change = self.gradient(moved, a, 0.0) - self.gradient(theta, a, 0.0)
        return float(np.linalg.norm(change)) / 1e-6


def smallest_worst_gradient(decay: float, *, logistic: bool) -> tuple[float, float]:
    """min over theta of sup over records |grad f(theta, x)| for section 5's losses; and where, as t theta_true.

    Records are a on the unit sphere with b = a.theta_true, |theta_true| = 1. Assumption 3 holds exactly when the
    minimum is 0. For ridge regression the supremum is convex in theta, so by symmetry the best is a multiple of
    theta_true; for logistic regression a row orthogonal to theta has (1/4 + lambda^2 |theta|^2)^(1/2), so 0 is best.
    """
    angles = np.linspace(0.0, math.pi, _ANGLES)
    along = np.cos(angles)

    def worst(t: float) -> float:
        if logistic:
            labels = np.where(along >= 0, 1.0, -1.0)
            pull = -labels * special.expit(-labels * t * along)
        else:
            pull = (t - 1) * along
        # The gradient is pull a + decay t theta_true.
        squares = pull**2 + 2 * pull * decay * t * along + (decay * t) ** 2
        return math.sqrt(float(squares.max()))

    found: Any = optimize.minimize_scalar(worst, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
    best = min((0.0, 1.0, float(found.x)), key=worst)
    return worst(best), best
