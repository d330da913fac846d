"""Axes of a line figure: from values to positions on the page, and ticks at round numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_TICKS = 7
# Within few decades a logarithmic axis also has ticks between the powers of ten.
_FINE, _MEDIUM = (1, 2, 5), (1, 3)


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from `low` to `high` (both included), drawn from `begin` to `end`.

    `whole` says that only whole numbers exist along it, such as steps; then no tick lies between two of them.
    """

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool
    whole: bool = False

    @classmethod
    def over(
        cls, values: Sequence[float], begin: float, end: float, *, logarithmic: bool, whole: bool = False
    ) -> "Axis":
        """The smallest axis with round ends that shows all values; on a logarithmic one they are positive."""
        low, high = min(values), max(values)
        if logarithmic:
            low, high = _round_down(low), _round_up(high)
            return cls(low, high if high > low else 10 * low, begin, end, logarithmic=True, whole=whole)
        step = _round_step(low, high, whole=whole)
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
        return cls(low, high if high > low else low + step, begin, end, logarithmic=False, whole=whole)

    def at(self, value: float) -> float:
        """Where a value is drawn."""
        low, high, shown = self.low, self.high, value
        if self.logarithmic:
            low, high, shown = math.log(low), math.log(high), math.log(value)
        return self.begin + (self.end - self.begin) * (shown - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values along the axis, at most about seven."""
        if not self.logarithmic:
            step = _round_step(self.low, self.high, whole=self.whole)
            count = round((self.high - self.low) / step)
            return [self.low + k * step for k in range(count + 1)]
        first, last = math.floor(math.log10(self.low) + 1e-9), math.ceil(math.log10(self.high) - 1e-9)
        for parts in (_FINE, _MEDIUM, (1,)):
            found = [part * 10.0**power for power in range(first, last + 1) for part in parts]
            found = [tick for tick in found if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
            if len(found) <= _MOST_TICKS + 1:
                return found
        every = math.ceil((last - first) / _MOST_TICKS)
        return [10.0**power for power in range(first, last + 1, every)]


def label(value: float) -> str:
    """A tick as text: plain digits where they are few, a power of ten otherwise.

    >>> [label(value) for value in (0.05, 2.0, 3000.0, 1e6, 2e7, 1e-5)]
    ['0.05', '2', '3,000', '10⁶', '2·10⁷', '10⁻⁵']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.6g}" if abs(value) < 1e3 else f"{value:,.0f}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    leading = value / 10.0**power
    return f"10{digits}" if math.isclose(leading, 1.0) else f"{leading:.3g}·10{digits}"


def _round_step(low: float, high: float, *, whole: bool) -> float:
    """1, 2 or 5 times a power of ten, so that about five steps lead from low to high; 1 at least on a whole axis."""
    span = high - low if high > low else max(abs(high), 1.0)
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(part * power for part in (1, 2, 5, 10) if part * power >= span / 5 * (1 - 1e-9))
    return max(step, 1.0) if whole else step


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-12)
    return max(part * power for part in _FINE if part * power <= value * (1 + 1e-9))


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) - 1e-12)
    return min(part * power for part in (*_FINE, 10) if part * power >= value * (1 - 1e-9))
