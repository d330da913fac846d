"""Laws on a line: Gaussian and symmetric stable families, their mixtures, and the total variation of a shift."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import ANY_REAL, POSITIVE, Declared, InputError, Interval


def read_only(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """A read-only float64 copy of `value`; `None` in `shape` stands for any length of at least one."""
    shown = "(" + ", ".join("any" if length is None else str(length) for length in shape) + ")"
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Expected {name} to be numbers of shape {shown}, got {value!r:.80}.") from None
    sizes = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or not all(have > 0 and wanted in {None, have} for have, wanted in sizes):
        raise InputError(f"Expected {name} of shape {shown}, got shape {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise InputError(f"{name} has an infinite or missing value.")
    array.flags.writeable = False
    return array


def probabilities(name: str, value: ArrayLike) -> Array:
    """Read-only weights that are non-negative and add to one; a rounding error in the sum is removed."""
    weights = read_only(name, value, (None,))
    total = float(weights.sum())
    if weights.min() < 0 or abs(total - 1) > 1e-9:
        raise InputError(f"Expected {name} to be non-negative and to add to 1, got a sum of {total!r}.")
    return read_only(name, weights / total, (None,))


# The symmetric stable law with characteristic function exp(-|t|^alpha): density, tails and draws.
# Zolotarev's integral has a positive integrand, so tails keep their relative accuracy: for x > 0, a = alpha/(alpha-1),
#
#     P(X > x) = (1/pi) int_0^{pi/2} exp(-x^a V(theta)) dtheta,
#
# with V(theta) = (cos theta / sin(alpha theta))^a cos((alpha-1) theta) / cos theta (Nolan 1997, Theorem 1). In the
# variable w = log((pi/2 - theta) / theta) the integrand decays at both ends and is analytic in a strip of half-width
# pi / (2a), so the trapezoidal rule converges geometrically. At alpha = 2 the law is N(0, 2).

TAIL_INDEX = Interval(1.01, 2.0)  # closer to 1 the integrals are too sharp for this accuracy
_DIGITS = 38.0  # exp(-38) is below one unit in the last place
_STABLE_CHUNK = 1 << 21  # point-node pairs at a time
_SMALL = 1e-9  # below, density and central mass follow from their Taylor series to double precision
_LARGE = 1e100  # beyond, nothing is left: a probability below 1e-100, reported as 0


def above(alpha: float, points: ArrayLike) -> Array:
    """P(X > point), with relative accuracy for positive points."""
    at = np.asarray(points, float)
    if alpha == 2.0:
        return 0.5 * special.erfc(at / 2)
    tail = _integrate(alpha, np.abs(at), lambda g: np.exp(-g)) / math.pi
    tail = np.select([at == 0, np.abs(at) > _LARGE], [0.5, 0.0], tail)
    return np.where(at >= 0, tail, 1.0 - tail)


def central(alpha: float, points: ArrayLike) -> Array:
    """P(|X| <= point), with relative accuracy for small points."""
    at = np.asarray(points, float)
    if alpha == 2.0:
        return special.erf(at / 2)
    mass = _integrate(alpha, at, lambda g: -np.expm1(-g)) * 2 / math.pi
    return np.where(at < _SMALL, 2 * at * _at_zero(alpha), mass)


def density(alpha: float, points: ArrayLike) -> Array:
    """The density."""
    at = np.abs(np.asarray(points, float))
    if alpha == 2.0:
        return np.exp(-at * at / 4) / math.sqrt(4 * math.pi)
    safe = np.maximum(at, _SMALL)
    value = _integrate(alpha, safe, lambda g: g * np.exp(-g)) * alpha / (math.pi * (alpha - 1) * safe)
    return np.select([at < _SMALL, at > _LARGE], [_at_zero(alpha), 0.0], value)


def _at_zero(alpha: float) -> float:
    return math.gamma(1 + 1 / alpha) / math.pi


def _integrate(alpha: float, points: Array, function: Callable[[Array], Array]) -> Array:
    """The integral over theta of function(x^a V(theta)) for each x > 0."""
    flat = np.clip(points.reshape(-1), _SMALL, _LARGE)
    log_points = np.log(flat)
    order = np.argsort(log_points)
    result = np.empty_like(flat)
    step = 2 * math.pi * 0.85 * (alpha - 1) * math.pi / (2 * alpha) / _DIGITS
    start = 0
    while start < len(flat):
        # Far out the mass sits at pi/2 - theta of order (2-alpha)^2 x^-alpha; near zero it sits at theta of order x.
        low = -_DIGITS - alpha * max(0.0, log_points[order[start]] + 2.0) + 2 * math.log(2 - alpha)
        high = _DIGITS + max(0.0, -log_points[order[start]])
        size = max(1, int(_STABLE_CHUNK * step / (high - low + 2 * alpha)))
        chosen = order[start : start + size]
        near = chosen[log_points[chosen] <= log_points[chosen[0]] + 2.0]
        start += len(near)
        nodes = low + step * np.arange(math.ceil((high - low) / step), dtype=np.float64)
        log_v, weights = _kernel(alpha, nodes)
        exponent = alpha / (alpha - 1) * log_points[near, None] + log_v
        result[near] = function(np.exp(np.minimum(exponent, 700.0))) @ (weights * step)
    return result.reshape(points.shape)


def _kernel(alpha: float, nodes: Array) -> tuple[Array, Array]:
    """log V and dtheta/dw at each node w, with theta and pi/2 - theta both to full relative accuracy."""
    theta = math.pi / 2 * special.expit(-nodes)
    rest = math.pi / 2 * special.expit(nodes)
    sine = np.where(nodes > 0, np.sin(alpha * theta), np.sin((2 - alpha) * math.pi / 2 + alpha * rest))
    # cos((alpha - 1) theta), which is nearly 0 where both theta is near pi/2 and alpha is near 2.
    cosine = np.sin((2 - alpha) * math.pi / 2 + (alpha - 1) * rest)
    power = alpha / (alpha - 1)
    log_v = power * (np.log(np.sin(rest)) - np.log(sine)) + np.log(cosine) - np.log(np.sin(rest))
    return log_v, theta * special.expit(nodes)


# log P(X > x) and the log density are interpolated by Chebyshev polynomials on pieces of asinh(x); beyond the last
# piece the law follows its power tail. About forty times faster than the integrals, and within 1e-12 of them.

_END = 29.0  # of the last piece, in units of asinh(x): x = 2e12
_LAST = float(np.sinh(_END))
_DEGREE = 18
_NEARLY_NORMAL = 1.85  # above, a Gaussian bulk turns into a power tail within a short distance
_PIECE, _SHORT_PIECE = 1 / 2, 1 / 32


class StableTable:
    """Chebyshev coefficients of the two logarithms, one column per piece, for a tail index below 2."""

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha
        self._piece = _PIECE if alpha <= _NEARLY_NORMAL else _SHORT_PIECE
        nodes = chebyshev.chebpts1(_DEGREE + 1)
        points = np.sinh(self._piece * (np.arange(round(_END / self._piece)) + (nodes[:, None] + 1) / 2))
        fit: Array = np.array(np.linalg.inv(chebyshev.chebvander(nodes, _DEGREE)), dtype=np.float64)
        self._above = fit @ np.log(above(alpha, points))
        self._density = fit @ np.log(density(alpha, points))

    def above(self, points: Array) -> Array:
        tail = np.exp(self._evaluate(self._above, np.abs(points), self._alpha))
        return np.where(points >= 0, tail, 1.0 - tail)

    def log_density(self, points: Array) -> Array:
        return self._evaluate(self._density, np.abs(points), self._alpha + 1)

    def _evaluate(self, coefficients: Array, points: Array, tail_power: float) -> Array:
        place = np.arcsinh(np.minimum(points, _LAST)) / self._piece
        piece = np.minimum(place.astype(np.int64), coefficients.shape[1] - 1)
        t = 2 * (place - piece) - 1
        # Clenshaw's recurrence, with each point reading the coefficients of its own piece.
        first, second = np.zeros_like(t), np.zeros_like(t)
        for row in coefficients[:0:-1]:
            first, second = row[piece] + 2 * t * first - second, first
        value = coefficients[0][piece] + t * first - second
        return value - tail_power * np.log(np.maximum(points, _LAST) / _LAST)


stable_table = lru_cache(maxsize=16)(StableTable)


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
class StableFamily(Declared):
    """The law with characteristic function exp(-|t|^alpha); it answers what `NormalFamily` does."""

    accuracy: ClassVar[float] = 1e-12

    alpha: Annotated[float, TAIL_INDEX]

    def log_density(self, points: Array) -> Array:
        if self.alpha == 2.0:
            return -points * points / 4 - 0.5 * math.log(4 * math.pi)
        return stable_table(self.alpha).log_density(points)

    def above(self, points: Array) -> Array:
        return above(2.0, points) if self.alpha == 2.0 else stable_table(self.alpha).above(points)

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
            return self.family.curvature(np.maximum(gaps, 0.0) / self.scales) @ (self.weights / self.scales**3)

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


class SignedMixture:
    """f = positive_total * positive - negative_total * negative; a part whose total is 0 is not looked at."""

    def __init__(self, first: LineMixture, second: LineMixture, factor: float) -> None:
        """p - factor q, for two mixtures of one family."""
        if first.family != second.family:
            raise InputError(f"Expected two mixtures of one family, got {first.family} and {second.family}.")
        rows = np.concatenate([np.stack([law.locations, law.scales], axis=1) for law in (first, second)])
        kinds, place = np.unique(rows, axis=0, return_inverse=True)
        weights = np.concatenate([first.weights, -factor * second.weights])
        merged = np.bincount(place.reshape(-1), weights=weights, minlength=len(kinds))
        self.positive, self.positive_total = _part(first, kinds, np.maximum(merged, 0.0))
        self.negative, self.negative_total = _part(first, kinds, np.maximum(-merged, 0.0))

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
class StableLaw1D(Declared):
    """The law of location + scale * X with E exp(itX) = exp(-|t|^alpha); at alpha = 2, N(location, 2 scale^2)."""

    alpha: Annotated[float, TAIL_INDEX]
    location: Annotated[float, ANY_REAL]
    scale: Annotated[float, POSITIVE]

    def line(self) -> LineMixture:
        family = StableFamily(self.alpha)
        return LineMixture(family, np.ones(1), np.array([self.location]), np.array([self.scale]))
