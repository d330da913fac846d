"""Laws on a line: Gaussian and stable families, their mixtures, and what a shift of a stable law shows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sordino.core.arrays import Array
from sordino.core.gaussian import Bracket
from sordino.core.validate import POSITIVE, InputError, check_numbers, number
from sordino.models.exact import stable_standard
from sordino.models.exact.stable_standard import probabilities, read_only, stable_table


def log_sum(logs: Array) -> Array:
    """log of the sum of exp(logs) along the last axis; a sum of nothing but zeros is -inf."""
    peak = np.max(logs, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.sum(np.exp(logs - safe), axis=-1)) + safe[..., 0])


_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class NormalFamily:
    """The standard normal law; `accuracy` is the relative one of `above` and `log_density`."""

    accuracy: ClassVar[float] = 4e-15

    def log_density(self, points: Array) -> Array:
        return -0.5 * points * points - _HALF_LOG_2PI

    def above(self, points: Array) -> Array:
        """P(X > point), accurate in the right tail."""
        return special.ndtr(-points)

    def curvature(self, distances: Array) -> Array:
        """An upper bound on |density''| at all points at least this far from the centre."""
        # |u^2 - 1| phi(u) is phi(0) at 0, has its second maximum 2 phi(sqrt 3) at sqrt 3, and falls from there on.
        beyond = np.maximum(distances, math.sqrt(3.0))
        falling = (beyond * beyond - 1.0) * np.exp(self.log_density(beyond))
        return np.where(distances < 1.0, math.exp(-_HALF_LOG_2PI), falling)

    def reach(self, tail: float) -> float:
        """A distance from the centre beyond which the probability is at most `tail`."""
        return float(-special.ndtri(tail / 2))


@dataclass(frozen=True)
class StableFamily:
    """The law with characteristic function exp(-|t|^alpha); it answers what `NormalFamily` does."""

    accuracy: ClassVar[float] = 1e-12

    alpha: float

    def __post_init__(self) -> None:
        stable_standard.check_alpha(self.alpha)

    def log_density(self, points: Array) -> Array:
        if self.alpha == 2.0:
            return -points * points / 4 - 0.5 * math.log(4 * math.pi)
        return stable_table(self.alpha).log_density(points)

    def above(self, points: Array) -> Array:
        return stable_standard.above(2.0, points) if self.alpha == 2.0 else stable_table(self.alpha).above(points)

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


LineFamily = NormalFamily | StableFamily
NORMAL = NormalFamily()
_CHUNK = 1 << 20  # point-component pairs at a time


@dataclass(frozen=True, eq=False)
class LineMixture:
    """Component j is locations[j] + scales[j] * X, X of the family, with probability weights[j]."""

    family: LineFamily
    weights: Array
    locations: Array
    scales: Array

    def __post_init__(self) -> None:
        weights = probabilities("weights", self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "locations", read_only("locations", self.locations, (len(weights),)))
        object.__setattr__(self, "scales", read_only("scales", self.scales, (len(weights),)))
        if self.scales.min() <= 0:
            raise InputError(f"Expected scales to be positive, got {self.scales.min()!r}.")

    def log_density(self, points: ArrayLike) -> Array:
        def of_some(at: Array) -> Array:
            logs = self.family.log_density((at[:, None] - self.locations) / self.scales) - np.log(self.scales)
            return log_sum(logs + np.log(np.maximum(self.weights, 1e-320)))

        return self._over_points(points, of_some)

    def density(self, points: ArrayLike) -> Array:
        return np.exp(self.log_density(points))

    def cdf(self, points: ArrayLike) -> Array:
        """P(X <= point), accurate in the left tail."""
        return self._over_points(points, lambda at: self._tails(at, -1.0))

    def above(self, points: ArrayLike) -> Array:
        """P(X > point), accurate in the right tail."""
        return self._over_points(points, lambda at: self._tails(at, 1.0))

    def mass(self, left: Array, right: Array) -> Array:
        """P(left < X <= right), each from the tail that is nearer."""
        by_tail = self.above(left) - self.above(right)
        return np.where(left >= float(np.median(self.locations)), by_tail, self.cdf(right) - self.cdf(left))

    def curvature(self, left: Array, right: Array) -> Array:
        """An upper bound on |density''| over each interval."""

        def bound(ends: Array) -> Array:
            gaps = np.maximum(ends[0][:, None] - self.locations, self.locations - ends[1][:, None])
            local = self.family.curvature(np.maximum(gaps, 0.0) / self.scales)
            return local @ (self.weights / self.scales**3)

        return self._in_chunks(np.stack([left, right]), bound)

    def line(self) -> "LineMixture":
        return self

    def _tails(self, points: Array, sign: float) -> Array:
        return self.family.above(sign * (points[:, None] - self.locations) / self.scales) @ self.weights

    def _over_points(self, points: ArrayLike, evaluate: Callable[[Array], Array]) -> Array:
        at = np.asarray(points, float)
        return self._in_chunks(at.reshape(-1), evaluate).reshape(at.shape)

    def _in_chunks(self, given: Array, evaluate: Callable[[Array], Array]) -> Array:
        size, count = max(1, _CHUNK // len(self.weights)), given.shape[-1]
        parts = [evaluate(given[..., first : first + size]) for first in range(0, count, size)]
        return np.concatenate(parts) if parts else np.empty(0)


# The difference p - factor q of two mixtures on the line, components they share cancelled before anything is computed.


@dataclass(frozen=True, eq=False)
class SignedMixture:
    """f = positive_total * positive - negative_total * negative; a part whose total is 0 is not looked at."""

    positive: LineMixture
    positive_total: float
    negative: LineMixture
    negative_total: float

    @classmethod
    def difference(cls, first: LineMixture, second: LineMixture, factor: float) -> "SignedMixture":
        """p - factor q, for two mixtures of one family."""
        if first.family != second.family:
            raise InputError(f"Expected two mixtures of one family, got {first.family} and {second.family}.")
        rows = np.concatenate([np.stack([law.locations, law.scales], axis=1) for law in (first, second)])
        kinds, place = np.unique(rows, axis=0, return_inverse=True)
        weights = np.concatenate([first.weights, -factor * second.weights])
        merged = np.bincount(place.reshape(-1), weights=weights, minlength=len(kinds))
        positive, positive_total = _part(first, kinds, np.maximum(merged, 0.0))
        negative, negative_total = _part(first, kinds, np.maximum(-merged, 0.0))
        return cls(positive, positive_total, negative, negative_total)

    def density(self, points: Array) -> Array:
        return self.positive_total * self.positive.density(points) - self.negative_total * self.negative.density(points)

    def masses(self, left: Array, right: Array) -> tuple[Array, Array]:
        above = self.positive_total * self.positive.mass(left, right)
        return above, self.negative_total * self.negative.mass(left, right)

    def curvature(self, left: Array, right: Array) -> Array:
        above = self.positive_total * self.positive.curvature(left, right)
        return above + self.negative_total * self.negative.curvature(left, right)


def _part(like: LineMixture, kinds: Array, weights: Array) -> tuple[LineMixture, float]:
    total, used = float(weights.sum()), weights > 0
    if total == 0.0:
        return like, 0.0
    return LineMixture(like.family, weights[used] / total, kinds[used, 0], kinds[used, 1]), total


@dataclass(frozen=True)
class StableLaw1D:
    """The law of location + scale * X with E exp(itX) = exp(-|t|^alpha); at alpha = 2, N(location, 2 scale^2)."""

    alpha: float
    location: float
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", stable_standard.check_alpha(self.alpha))
        object.__setattr__(self, "location", number("location", self.location))
        check_numbers(self, scale=POSITIVE)

    def line(self) -> LineMixture:
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
