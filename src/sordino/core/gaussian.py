"""The Gaussian trade-off: delta(epsilon) of N(mu, 1) against N(0, 1), exactly, with a certified two-sided error.

With t = epsilon/mu - mu/2 and Mills' ratio R, delta = phi(t) (R(t) - R(t + mu)), which keeps relative accuracy far
into the tail, where the textbook difference of two cdfs cancels (Balle & Wang 2018, Theorem 8).
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.core.rounding import UNIT_ROUNDOFF, down, up
from sordino.core.search import least_true

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_MILLS = math.sqrt(math.pi / 2)


def delta_range(mu: ArrayLike, epsilon: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower and upper bounds on delta(epsilon) of the mu-Gaussian trade-off, elementwise."""
    mu, epsilon = np.broadcast_arrays(np.asarray(mu, float), np.asarray(epsilon, float))
    value, error = np.zeros(mu.shape), np.zeros(mu.shape)
    positive = mu > 0
    value[~positive] = np.maximum(-np.expm1(np.minimum(epsilon[~positive], 0.0)), 0.0)
    # Beyond the range of floats (mu above 1e150) nothing is known but 0 <= delta <= 1.
    with np.errstate(over="ignore", invalid="ignore"):
        value[positive], error[positive] = _delta(mu[positive], epsilon[positive])
        low, high = np.clip(value - error, 0.0, 1.0), np.clip(value + error, 0.0, 1.0)
    return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)


def _delta(mu: NDArray[np.float64], epsilon: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    far, near = epsilon / mu, mu / 2
    t = far - near
    # t carries an absolute error of a few units in the last place of its two terms; phi(t) magnifies it by |t|.
    t_error = 4 * UNIT_ROUNDOFF * (np.abs(far) + near)
    in_tail = t > -1.0
    # Past 1e5 the tail underflows to 0, and its square must not overflow before that.
    tail = np.where(in_tail, np.minimum(t, 1e5), 0.0)
    phi = np.exp(-0.5 * tail * tail - _HALF_LOG_2PI)
    first = phi * _MILLS * special.erfcx(tail / math.sqrt(2))
    second = phi * _MILLS * special.erfcx((tail + mu) / math.sqrt(2))
    relative = 16 * UNIT_ROUNDOFF * (1 + tail * tail) + 4 * (np.abs(tail) + 1) * t_error
    body_first, body_second = special.ndtr(-t), np.exp(epsilon + special.log_ndtr(-t - mu))
    body_relative = 16 * UNIT_ROUNDOFF * (1 + np.abs(epsilon) + (t + mu) ** 2) + 4 * (np.abs(t + mu) + 1) * t_error
    value = np.where(in_tail, first - second, body_first - body_second)
    error = np.where(in_tail, relative * first, 16 * UNIT_ROUNDOFF + t_error + body_relative * body_second)
    return value, error + np.finfo(float).tiny


def epsilon_upper(mu: float, delta: float) -> float:
    """Smallest certified epsilon with delta(epsilon) <= delta; infinite only when mu is."""
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return math.inf

    def private(epsilon: float) -> bool:
        return float(delta_range(mu, epsilon)[1]) <= delta

    return least_true(private, 0.0, _ceiling(mu, delta))


def epsilon_lower(mu: float, delta: float) -> float:
    """Largest certified epsilon with delta(epsilon) > delta, or 0: a lower bound on the exact epsilon."""
    if mu == 0.0:
        return 0.0

    def maybe_private(epsilon: float) -> bool:
        return float(delta_range(mu, epsilon)[0]) <= delta

    if maybe_private(0.0):
        return 0.0
    return down(least_true(maybe_private, 0.0, _ceiling(mu, delta)) * (1 - 2e-15))


def _ceiling(mu: float, delta: float) -> float:
    """Chernoff: delta <= exp(-(epsilon - mu^2/2)^2 / (2 mu^2)); a little more covers rounding."""
    return (mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))) * (1 + 1e-9) + 1e-300


def largest_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian trade-off is certified to satisfy (epsilon, delta)."""

    def too_large(mu: float) -> bool:
        return float(delta_range(mu, epsilon)[1]) > delta

    ceiling = 1.0
    while not too_large(ceiling):
        ceiling *= 2
    return _step_below(least_true(too_large, 0.0, ceiling), too_large)


def beta_lower(mu: float, alpha: ArrayLike) -> NDArray[np.float64]:
    """Type II error of the best test of size alpha, rounded down."""
    alpha = np.asarray(alpha, float)
    quantile = -special.ndtri(np.clip(alpha, 1e-320, 1 - 2.0**-53))
    location = quantile - mu
    slack = 32 * UNIT_ROUNDOFF * (1 + np.abs(location)) * (1 + np.abs(quantile) + mu)
    beta = special.ndtr(location) * (1 - slack)
    inside = np.where(alpha >= 1.0, 0.0, np.where(alpha <= 0.0, 1.0, beta))
    return np.clip(inside, 0.0, 1.0)


def composed(uses: Iterable[tuple[float, int]]) -> float:
    """mu of the composition of `count` uses of each mu, rounded up: the root of the exact sum of squares."""
    squares = sum((count * Fraction(mu) ** 2 for mu, count in uses), Fraction(0))
    if squares == 0:
        return 0.0
    # Scaling by a power of 4 keeps the sum within the range of floats, and its root exact.
    scale = (squares.numerator.bit_length() - squares.denominator.bit_length()) // 2
    return up(math.ldexp(up(math.sqrt(up(float(squares / Fraction(4) ** scale))), 1), scale), 1)


def _step_below(value: float, predicate: Callable[[float], bool]) -> float:
    step = 4e-16
    while predicate(value):
        value, step = (value * (1 - step) if value > 1e-300 else 0.0), min(0.5, 2 * step)
    return value
