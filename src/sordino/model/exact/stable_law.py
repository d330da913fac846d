"""Symmetric stable laws on the line, and finite mixtures of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.rounding import Bracket
from sordino.core.validate import POSITIVE, number
from sordino.model.exact import stable_standard
from sordino.model.exact.line_family import StableFamily
from sordino.model.exact.line_mixture import LineMixture
from sordino.model.exact.read_only import Array


@dataclass(frozen=True)
class StableLaw1D:
    """The law of location + scale * X with E exp(itX) = exp(-|t|^alpha); at alpha = 2, N(location, 2 scale^2)."""

    alpha: float
    location: float
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", stable_standard.check_alpha(self.alpha))
        object.__setattr__(self, "location", number("location", self.location))
        object.__setattr__(self, "scale", number("scale", self.scale, POSITIVE))

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        """Independent draws."""
        return self.line().sample(generator, size)

    def log_density(self, points: ArrayLike) -> Array:
        """Log density."""
        return self.line().log_density(points)

    def density(self, points: ArrayLike) -> Array:
        """Density."""
        return self.line().density(points)

    def cdf(self, points: ArrayLike) -> Array:
        """P(X <= point)."""
        return self.line().cdf(points)

    def line(self) -> LineMixture:
        """The same law as a mixture of one."""
        family = StableFamily(self.alpha)
        return LineMixture(family, np.ones(1), np.array([self.location]), np.array([self.scale]))


def shift_total_variation(alpha: float, shift: float, scale: float) -> Bracket:
    """TV between a stable law and its shift, 2 F_alpha(|shift| / (2 scale)) - 1, exact in any dimension.

    For rotation-invariant stable vectors `shift` is the Euclidean length: the best test is a half-space, and every
    projection is the one-dimensional law.
    """
    scale = number("scale", scale, POSITIVE)
    half = abs(number("shift", shift)) / (2 * scale)
    value = float(stable_standard.central(stable_standard.check_alpha(alpha), half))
    return Bracket(value * (1 - 1e-12), min(1.0, value * (1 + 1e-12)))
