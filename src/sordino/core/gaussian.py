"""Numbers rounded to the safe side, searches that end on a stated side, and the Gaussian trade-off and its inverse."""

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from importlib.util import LazyLoader, find_spec, module_from_spec

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.validate import refuse

# `scipy.special` imports every public name of NumPy, and with them the Fortran compiler's front end and the test tools:
# a third of the time that `sordino certify` takes to start. Those become the standard library's lazy modules.
for _name in ("f2py", "ma", "testing"):
    _spec = None if f"numpy.{_name}" in sys.modules else find_spec(f"numpy.{_name}")
    if _spec is not None and _spec.loader is not None:
        _spec.loader = LazyLoader(_spec.loader)
        sys.modules[_spec.name] = module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_spec.name])
        setattr(np, _name, sys.modules[_spec.name])

from scipy import special  # noqa: E402

# Upper bounds are rounded up, lower bounds down, in the arithmetic and in the printer. An operation is off by half a
# unit in the last place at most, so stepping to the next float outward keeps a bound a bound.

UNIT_ROUNDOFF = 2.0**-53


def up(value: float, units: int = 1) -> float:
    """The float `units` steps above `value`; infinity stays."""
    for _ in range(0 if math.isinf(value) else units):
        value = math.nextafter(value, math.inf)
    return value


def down(value: float, units: int = 1) -> float:
    """The float `units` steps below `value`; infinity stays, so an unbounded upper bound is never made finite."""
    return -up(-value, units)


def sum_up(values: Iterable[float]) -> float:
    """Upper bound on the real sum: `math.fsum` is correctly rounded, one step up covers its last bit."""
    try:
        total = math.fsum(values)
    except OverflowError:
        return math.inf
    return total if total == 0.0 or math.isinf(total) else up(total)


def weighted_sum_up(uses: Iterable[tuple[float, int]]) -> float:
    """The sum of value times count, computed exactly and rounded up once: however uses are listed, one answer."""
    listed = list(uses)
    if any(math.isinf(value) for value, _ in listed):
        return math.inf
    exact = sum((count * Fraction(value) for value, count in listed), Fraction(0))
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return up(nearest) if Fraction(nearest) < exact else nearest


def widen_up(value: float, relative: float) -> float:
    """Upper bound on a quantity known to `relative` accuracy."""
    return up(value + abs(value) * relative)


def widen_down(value: float, relative: float) -> float:
    """Lower bound on a quantity known to `relative` accuracy."""
    return down(value - abs(value) * relative)


@dataclass(frozen=True)
class Bracket:
    """A number that is known to be at least `low` and at most `high`; every two-sided computation answers with one.

    >>> from sordino.accounting import Bracket
    >>> Bracket(0.99, 1.01).high
    1.01
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise refuse("Bracket(low, high)", "to satisfy low <= high", (self.low, self.high))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """High minus low, rounded up; 0 when both ends are the same infinity."""
        return 0.0 if self.low == self.high else up(self.high - self.low)

    @property
    def relative_width(self) -> float:
        """Width over the upper end; 0 for a degenerate bracket, infinite for one with an infinite upper end."""
        return 0.0 if self.width == 0.0 else math.inf if math.isinf(self.high) else self.width / self.high


def _show(rounding: str, value: float, digits: int = 4) -> str:
    """Print with `digits` significant digits."""
    if not math.isfinite(value):
        return str(value)
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    plain = float(rounded)
    return f"{rounded:f}" if plain == 0 or 1e-4 <= abs(plain) < 1e6 else f"{rounded:e}"


show_up, show_down = partial(_show, ROUND_CEILING), partial(_show, ROUND_FLOOR)


def least_true(predicate: Callable[[float], bool], low: float, high: float) -> float:
    """Smallest float above low at which a monotone predicate holds, to a relative 1e-15; `high` is a first guess."""
    if predicate(low):
        return low
    while not predicate(high):
        if math.isinf(high):
            return high
        low, high = high, 2 * high
    return narrow(predicate, low, high)[1]


def narrow(
    predicate: Callable[[float], bool], low: float, high: float, near: float = 1e-15, halvings: float = math.inf
) -> tuple[float, float]:
    """Halve an interval to `near` times its upper end, where the monotone predicate holds; it fails at the lower."""
    while halvings > 0:
        middle = 0.5 * (low + high)
        if high - low <= near * high or not low < middle < high:
            break
        low, high = (low, middle) if predicate(middle) else (middle, high)
        halvings -= 1
    return low, high


def least_whole(
    predicate: Callable[[int], bool], low: int, high: int, between: Callable[[int, int], int] | None = None
) -> int:
    """The smallest whole number above `low` at which a monotone predicate holds; it is known to hold at `high`."""
    while high - low > 1:
        middle = between(low, high) if between else (low + high) // 2
        low, high = (low, middle) if predicate(middle) else (middle, high)
    return high


def golden_section(cost: Callable[[float], float], low: float, high: float, width: float) -> tuple[float, float]:
    """Where a cost with one valley is least, to within `width`, and the cost there."""
    ratio = (math.sqrt(5) - 1) / 2
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    costs = [cost(point) for point in inner]
    while high - low > width:
        if costs[0] <= costs[1]:
            high, inner[1], costs[1] = inner[1], inner[0], costs[0]
            inner[0] = high - ratio * (high - low)
            costs[0] = cost(inner[0])
        else:
            low, inner[0], costs[0] = inner[0], inner[1], costs[1]
            inner[1] = low + ratio * (high - low)
            costs[1] = cost(inner[1])
    return (inner[0], costs[0]) if costs[0] <= costs[1] else (inner[1], costs[1])


# The Gaussian trade-off: delta(epsilon) of N(mu, 1) against N(0, 1), exactly, with a certified two-sided error.
#
# With t = epsilon/mu - mu/2 and Mills' ratio R, delta = phi(t) (R(t) - R(t + mu)), which keeps relative accuracy far
# into the tail, where the textbook difference of two cdfs cancels (Balle & Wang 2018, Theorem 8).

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_MILLS = math.sqrt(math.pi / 2)
# A root takes some fifty values of delta, and a fit, its certificate and its ledger ask for the same few roots.
_known = lru_cache(maxsize=4096)


def delta_range(mu: ArrayLike, epsilon: ArrayLike) -> tuple[Array, Array]:
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


def _delta(mu: Array, epsilon: Array) -> tuple[Array, Array]:
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


def _epsilon(mu: float, delta: float, side: int) -> float:
    """Where the lower (0) or upper (1) bound on delta falls to `delta`."""
    # Chernoff: delta <= exp(-(epsilon - mu^2/2)^2 / (2 mu^2)); a little more covers rounding.
    ceiling = (mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))) * (1 + 1e-9) + 1e-300
    return least_true(lambda epsilon: float(delta_range(mu, epsilon)[side]) <= delta, 0.0, ceiling)


@_known
def epsilon_upper(mu: float, delta: float) -> float:
    """Smallest certified epsilon with delta(epsilon) <= delta; infinite only when mu is."""
    return mu if mu == 0.0 or math.isinf(mu) else _epsilon(mu, delta, 1)


@_known
def epsilon_lower(mu: float, delta: float) -> float:
    """Largest certified epsilon with delta(epsilon) > delta, or 0: a lower bound on the exact epsilon."""
    if mu == 0.0 or math.isinf(mu):
        return mu
    return down(found * (1 - 2e-15)) if (found := _epsilon(mu, delta, 0)) > 0.0 else 0.0


@_known
def largest_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian trade-off is certified to satisfy (epsilon, delta)."""

    def too_large(mu: float) -> bool:
        return float(delta_range(mu, epsilon)[1]) > delta

    ceiling = 1.0
    while not too_large(ceiling):
        ceiling *= 2
    mu, step = least_true(too_large, 0.0, ceiling), 4e-16
    while too_large(mu):
        mu, step = (mu * (1 - step) if mu > 1e-300 else 0.0), min(0.5, 2 * step)
    return mu


def beta_lower(mu: float, alpha: ArrayLike) -> Array:
    """Type II error of the best test of size alpha, rounded down."""
    alpha = np.asarray(alpha, float)
    quantile = -special.ndtri(np.clip(alpha, 1e-320, 1 - 2.0**-53))
    location = quantile - mu
    slack = 32 * UNIT_ROUNDOFF * (1 + np.abs(location)) * (1 + np.abs(quantile) + mu)
    beta = special.ndtr(location) * (1 - slack)
    return np.clip(np.where(alpha >= 1.0, 0.0, np.where(alpha <= 0.0, 1.0, beta)), 0.0, 1.0)


def composed(uses: Iterable[tuple[float, int]]) -> float:
    """mu of the composition of `count` uses of each mu, rounded up: the root of the exact sum of squares."""
    squares = sum((count * Fraction(mu) ** 2 for mu, count in uses), Fraction(0))
    if squares == 0:
        return 0.0
    # Scaling by a power of 4 keeps the sum within the range of floats, and its root exact.
    scale = (squares.numerator.bit_length() - squares.denominator.bit_length()) // 2
    return up(math.ldexp(up(math.sqrt(up(float(squares / Fraction(4) ** scale))), 1), scale), 1)
