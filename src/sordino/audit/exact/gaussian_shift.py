"""Two laws that differ like N(mu, 1) and N(0, 1): what every chain in a fixed order comes down to."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sordino.audit.exact.leak import CURVE_POINTS
from sordino.audit.trade_off import TradeOffPoint
from sordino.core import gaussian
from sordino.core.rounding import down
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, number

_ERROR = 1e-13  # relative accuracy of a normal tail at an argument rounded to double precision


@dataclass(frozen=True)
class GaussianShift:
    """`mu` is a lower bound on the true distance; everything follows from it in closed form.

    >>> round(GaussianShift(1.0).epsilon(1e-5), 4)
    4.3772
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", number("mu", self.mu, NON_NEGATIVE))

    def epsilon(self, delta: float) -> float:
        """Exact up to the last digits."""
        return gaussian.epsilon_lower(self.mu, number("delta", delta, OPEN_UNIT))

    def delta(self, epsilon: float) -> float:
        """Exact up to the last digits."""
        return float(gaussian.delta_range(self.mu, number("epsilon", epsilon, NON_NEGATIVE))[0])

    def total_variation(self) -> float:
        """delta at epsilon 0."""
        return self.delta(0.0)

    def renyi(self, order: float) -> float:
        """Rényi divergence: order mu^2 / 2, rounded down."""
        return down(number("order", order, POSITIVE) * self.mu * self.mu / 2, 4)

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Thresholds spread evenly over both laws."""
        thresholds = np.linspace(-4.5, self.mu + 4.5, CURVE_POINTS)
        slack = _ERROR * (1 + thresholds * thresholds + self.mu * self.mu)
        false_positive = np.minimum(1.0, special.ndtr(-thresholds) * (1 + slack))
        false_negative = np.minimum(1.0, special.ndtr(thresholds - self.mu) * (1 + slack))
        return tuple(TradeOffPoint(float(a), float(b)) for a, b in zip(false_positive, false_negative, strict=True))


def composed_down(mus: ArrayLike) -> float:
    """The root of the sum of squares, rounded down: independent shifts seen together."""
    return math.sqrt(math.fsum(np.square(np.asarray(mus, float)).tolist())) * (1 - 1e-14)
