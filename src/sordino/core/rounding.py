"""Numbers that know their direction.

Upper bounds are rounded up, lower bounds down, in the arithmetic and in the printer. A computed float carries a
rounding error of at most half a unit in the last place per operation; stepping to the next float outward after each
operation therefore keeps a bound a bound.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from sordino.core.validate import refuse

UNIT_ROUNDOFF = 2.0**-53


def up(value: float, units: int = 1) -> float:
    """The float `units` steps above `value`; infinity stays."""
    return value if math.isinf(value) else _step(value, math.inf, units)


def down(value: float, units: int = 1) -> float:
    """The float `units` steps below `value`; infinity stays, so an unbounded upper bound is never made finite."""
    return value if math.isinf(value) else _step(value, -math.inf, units)


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


def show_up(value: float, digits: int = 4) -> str:
    """Print with `digits` significant digits, never below `value`."""
    return _show(value, digits, ROUND_CEILING)


def show_down(value: float, digits: int = 4) -> str:
    """Print with `digits` significant digits, never above `value`."""
    return _show(value, digits, ROUND_FLOOR)


@dataclass(frozen=True)
class Bracket:
    """A number known to lie in ``[low, high]``; every two-sided computation answers with one."""

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
        if self.width == 0.0:
            return 0.0
        return math.inf if math.isinf(self.high) else self.width / self.high


def _step(value: float, towards: float, units: int) -> float:
    for _ in range(units):
        value = math.nextafter(value, towards)
    return value


def _show(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    plain = float(rounded)
    return f"{rounded:f}" if plain == 0 or 1e-4 <= abs(plain) < 1e6 else f"{rounded:e}"
