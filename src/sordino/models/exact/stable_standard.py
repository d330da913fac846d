"""The standard symmetric stable law, and read-only arrays of a stated shape for frozen values."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import InputError, Interval, number


def read_only(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """A read-only float64 copy of `value`; `None` in `shape` stands for any length of at least one."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Expected {name} to be numbers of shape {_shown(shape)}, got {value!r:.80}.") from None
    sizes = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or not all(have > 0 and wanted in {None, have} for have, wanted in sizes):
        raise InputError(f"Expected {name} of shape {_shown(shape)}, got shape {array.shape}.")
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


def _shown(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if length is None else str(length) for length in shape) + ")"


# The symmetric stable law with characteristic function exp(-|t|^alpha): density, tails and draws.
# Zolotarev's integral has a positive integrand, so tails keep their relative accuracy: for x > 0, a = alpha/(alpha-1),
#
#     P(X > x) = (1/pi) int_0^{pi/2} exp(-x^a V(theta)) dtheta,
#
# with V(theta) = (cos theta / sin(alpha theta))^a cos((alpha-1) theta) / cos theta (Nolan 1997, Theorem 1). In the
# variable w = log((pi/2 - theta) / theta) the integrand decays at both ends and is analytic in a strip of half-width
# pi / (2a), so the trapezoidal rule converges geometrically. At alpha = 2 the law is N(0, 2).

TAIL_INDEX = Interval(1.01, 2.0)
_DIGITS = 38.0  # exp(-38) is below one unit in the last place
_CHUNK = 1 << 21  # point-node pairs at a time
_SMALL = 1e-9  # below, density and central mass follow from their Taylor series to double precision
_LARGE = 1e100  # beyond, nothing is left: a probability below 1e-100, reported as 0


def check_alpha(alpha: float) -> float:
    """The tail index, refused outside the range where these integrals are accurate."""
    return number("alpha", alpha, TAIL_INDEX, "closer to 1 the integrals are too sharp for this accuracy")


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
        size = max(1, int(_CHUNK * step / (high - low + 2 * alpha)))
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
