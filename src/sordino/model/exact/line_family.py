"""Symmetric unimodal families on the line, standardised: what a numerical divergence has to know about them."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from sordino.model.exact import stable_standard
from sordino.model.exact.read_only import Array
from sordino.model.exact.stable_table import stable_table

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class LineFamily(Protocol):
    """A symmetric law with unit scale."""

    @property
    def accuracy(self) -> float:
        """Relative accuracy of `above` and `log_density`."""
        ...

    def log_density(self, points: Array) -> Array:
        """Log density."""
        ...

    def above(self, points: Array) -> Array:
        """P(X > point), accurate in the right tail."""
        ...

    def curvature(self, distances: Array) -> Array:
        """An upper bound on |density''| at all points at least this far from the centre."""
        ...

    def reach(self, tail: float) -> float:
        """A distance from the centre beyond which the probability is at most `tail`."""
        ...

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        """Independent draws."""
        ...


@dataclass(frozen=True)
class NormalFamily:
    """The standard normal law."""

    accuracy: float = 4e-15

    def log_density(self, points: Array) -> Array:
        return -0.5 * points * points - _HALF_LOG_2PI

    def above(self, points: Array) -> Array:
        return special.ndtr(-points)

    def curvature(self, distances: Array) -> Array:
        # |u^2 - 1| phi(u) is phi(0) at 0, has its second maximum 2 phi(sqrt 3) at sqrt 3, and falls from there on.
        beyond = np.maximum(distances, math.sqrt(3.0))
        falling = (beyond * beyond - 1.0) * np.exp(self.log_density(beyond))
        return np.where(distances < 1.0, math.exp(-_HALF_LOG_2PI), falling)

    def reach(self, tail: float) -> float:
        return float(-special.ndtri(tail / 2))

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        return generator.standard_normal(size)


@dataclass(frozen=True)
class StableFamily:
    """The law with characteristic function exp(-|t|^alpha)."""

    alpha: float
    accuracy: float = 1e-12

    def __post_init__(self) -> None:
        stable_standard.check_alpha(self.alpha)

    def log_density(self, points: Array) -> Array:
        if self.alpha == 2.0:
            return -points * points / 4 - 0.5 * math.log(4 * math.pi)
        return stable_table(self.alpha).log_density(points)

    def above(self, points: Array) -> Array:
        if self.alpha == 2.0:
            return stable_standard.above(2.0, points)
        return stable_table(self.alpha).above(points)

    def curvature(self, distances: Array) -> Array:
        # Everywhere |p''| <= (1/pi) int t^2 exp(-t^alpha) dt. A stable density is a mixture of centred normals, and
        # (u^4 + u^2) exp(-u^2/2) <= 9.78 exp(-u^2/4), so x^2 |p''(x)| <= 9.78 p(x / sqrt 2), which falls with x.
        everywhere = math.gamma(3 / self.alpha) / (self.alpha * math.pi)
        away = np.maximum(distances, 1.0)
        local = 9.78 * np.exp(self.log_density(away / math.sqrt(2))) / (away * away)
        return np.where(distances < 1.0, everywhere, np.minimum(everywhere, local))

    def reach(self, tail: float) -> float:
        distance = 1.0
        while float(self.above(np.array(distance))) > tail / 2:
            distance *= 2.0
        return distance

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        return stable_standard.sample(self.alpha, generator, size)


NORMAL = NormalFamily()
