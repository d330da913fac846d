"""Columns that become one number: measurements between bounds, words in an order, dates, and products of columns.

In a product a number counts from the middle of its bounds, where the coefficients of the parts alone hold, and a word
is 1 where the cell holds it and 0 elsewhere. So a product of numbers of half widths h and h' lies within h h' of 0, one
of a number and a word within h, one of words between 0 and 1. A missing cell makes it 0, whatever its column declares.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import fields as shapes
from sordino.core.spec.fields import Contradiction, Word
from sordino.core.validate import InputError, Interval, refuse, shown_names
from sordino.data.columns import base
from sordino.data.columns.base import TextLine, WordList, clean_text
from sordino.data.columns.category import Boolean, Category
from sordino.data.raw_columns import NO_DAY, TEXT, THOUSANDS, Column
from sordino.data.scaling import LARGEST_ENCODED, RAW_RANGE, SMALLEST_SCALE, SYMMETRIC, Scaling, add_up, float32_up
from sordino.data.table import as_codes, as_days, as_numbers

_RAW = shapes.Number(RAW_RANGE)


class OutOfRange(StrEnum):
    """What a value outside the bounds does: it is clipped to them and counted, or stops the run."""

    CLIP = "clip"
    REFUSE = "refuse"


class Measurement(base.ColumnKind):
    """A kind whose values are numbers between two public ends, scaled by public constants."""

    as_target: ClassVar[bool] = False
    low: float
    high: float
    scaling: str = SYMMETRIC
    out_of_range: str = OutOfRange.CLIP
    domain: str = "numbers"
    one_more: str = ""  # what one more of it is, where that is not one in the unit of the bounds

    @property
    def limits(self) -> tuple[float, float]:
        return Scaling(self.scaling).limits(self.low, self.high)

    @property
    def centre_and_scale(self) -> tuple[float, float]:
        """The constants of the scaling: encoded = (value - centre) / scale."""
        return Scaling(self.scaling).affine(self.low, self.high)

    @property
    def block_norm(self) -> float:  # type: ignore[override]
        return max(self.bound, 1.0) if self.missing.adds_indicator else self.bound

    @property
    def bound(self) -> float:  # type: ignore[override]
        """The largest encoded magnitude, rounded up to a single-precision number so that it holds there too."""
        return float32_up(max(map(abs, self.limits)))

    @property
    def width(self) -> float:  # type: ignore[override]
        low, high = self.limits
        return add_up(float32_up(high), float32_up(-low))

    @property
    def fill(self) -> float | None:
        return None if self.missing.value is None else float(self.missing.value)

    @abstractmethod
    def measured(self, name: str, column: Column, tokens: Sequence[str]) -> NDArray[np.float64]:
        """The values as numbers in the unit of the bounds, in a fresh array, NaN where a cell holds none."""

    def read(self, name: str, column: Column, tokens: Sequence[str]) -> base.ReadCells:
        values = self.measured(name, column, tokens)
        if values.size and self.low <= values.min() and values.max() <= self.high:  # nor is any NaN then
            return base.ReadCells(self.scaled(values), np.zeros(len(values), bool))
        missing = np.isnan(values)
        self.missing.check(name, missing, self.domain, self._hint(column))
        clipped = int(np.count_nonzero((values < self.low) | (values > self.high)))
        if clipped and self.out_of_range == OutOfRange.REFUSE:
            remedy, allowed = "correct them, or declare out_of_range as 'clip'", f"in [{self.low:g}, {self.high:g}]"
            raise refuse(f"the values of column {name!r}", allowed, f"{clipped} outside", remedy)
        np.clip(values, self.low, self.high, out=values)
        if self.fill is not None:
            values[missing] = self.fill
        return base.ReadCells(self.scaled(values), missing, clipped)

    def _hint(self, column: Column) -> str:
        return ""

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale values between the bounds, in place."""
        centre, scale = self.centre_and_scale
        np.subtract(values, centre, out=values)
        np.divide(values, scale, out=values)
        return np.clip(values, *self.limits, out=values)

    def decode(self, encoded: object) -> np.ndarray:
        centre, scale = self.centre_and_scale
        return np.asarray(encoded, dtype=np.float64) * scale + centre

    def extremes(self) -> tuple[base.RawValue, base.RawValue]:
        low, high = map(abs, self.limits)
        largest, smallest = self.target_extremes()
        return (smallest, largest) if low > high else (largest, smallest)

    def target_extremes(self) -> tuple[base.RawValue, base.RawValue]:
        return self.high, self.low


@base.column_kind("number")
class Number(Measurement):
    """A measurement in [low, high]; values outside are clipped and counted, or refused if so declared."""

    as_target: ClassVar[bool] = True
    optional_keys: ClassVar[frozenset[str]] = frozenset({"thousands", "symbol"})

    low: Annotated[float, _RAW, "public lower bound"]
    high: Annotated[float, _RAW, "public upper bound, above low"]
    scaling: Annotated[str, Word(tuple(Scaling))] = SYMMETRIC
    missing: Annotated[base.MissingRule, base.MissingRuleShape(_RAW)] = base.REFUSE
    out_of_range: Annotated[str, Word(tuple(OutOfRange)), "clip and count, or stop"] = OutOfRange.CLIP
    thousands: Annotated[str | None, Word({word: word for word in THOUSANDS}), "mark of thousands in text"] = None
    symbol: Annotated[str | None, TextLine(blank=False), "beside a number in text, such as EUR or %"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        if not self.low < self.high:
            yield Contradiction("high", f"to be above low = {self.low:g}", self.high, "leave out a constant column")
            return
        fill, allowed = self.missing.value, Interval(self.low, self.high)
        if isinstance(fill, float) and fill not in allowed:
            yield Contradiction("missing.value", f"in {allowed}", fill, "stay inside the bounds")
        if self.centre_and_scale[1] < SMALLEST_SCALE:
            wanted = f"to be further apart from low = {self.low:g}"
            yield Contradiction("high", wanted, self.high, "change the unit of measurement")
        elif max(map(abs, self.limits)) > LARGEST_ENCODED:
            yield Contradiction("scaling", f"to encode within {LARGEST_ENCODED:g}", str(self.scaling), "scale")

    @property
    def can_refuse(self) -> tuple[str, ...]:
        outside = ("values out of range",) if self.out_of_range == OutOfRange.REFUSE else ()
        return super().can_refuse + outside

    def measured(self, name: str, column: Column, tokens: Sequence[str]) -> NDArray[np.float64]:
        return as_numbers(column.without_marks(self.thousands, self.symbol), name, tokens)

    def _hint(self, column: Column) -> str:
        if column.kind != TEXT:
            return ""
        comma = getattr(column, "decimal", ".") == ","
        mark = " Its decimal mark is declared a comma." if comma else " If its decimal mark is a comma, declare that."
        return f"{mark} Marks of thousands and signs such as EUR or % are declared by thousands and symbol."


@base.column_kind("ordered")
class Ordered(Measurement):
    """A word from a list in an order, as even steps from -1 to 1, for features; any other word counts as missing."""

    low: ClassVar[float] = 0.0  # type: ignore[misc]
    values: Annotated[tuple[str, ...], WordList(least=2), "the words, the lowest first"]
    missing: Annotated[base.MissingRule, base.MissingRuleShape(TextLine())] = base.REFUSE

    def contradictions(self) -> Iterator[Contradiction]:
        if self.missing.rule == "value" and self.missing.value not in self.values:
            yield Contradiction("missing.value", "to be one of the declared values", self.missing.value)

    @property
    def high(self) -> float:  # type: ignore[override]
        return float(len(self.values) - 1)

    @property
    def one_more(self) -> str:  # type: ignore[override]
        return f"a step from {self.values[0]} to {self.values[-1]}"

    @property
    def fill(self) -> float | None:
        return None if self.missing.value is None else float(self.values.index(str(self.missing.value)))

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.values

    @property
    def domain(self) -> str:  # type: ignore[override]
        return f"one of {shown_names(self.values)}"

    def measured(self, name: str, column: Column, tokens: Sequence[str]) -> NDArray[np.float64]:
        codes = as_codes(column, name, self.values, tokens)
        return np.where(codes < 0, np.nan, codes.astype(np.float64))

    def target_extremes(self) -> tuple[base.RawValue, base.RawValue]:
        return self.values[-1], self.values[0]


class DatePart(StrEnum):
    """What of a date is learned from: days, or the number of its year, its month or its day of the week."""

    DAYS = "days"
    YEAR = "year"
    MONTH = "month"
    WEEKDAY = "weekday"


_ENDS = {DatePart.MONTH: (1.0, 12.0), DatePart.WEEKDAY: (1.0, 7.0)}


class Day(TextLine):
    """A date as YYYY-MM-DD."""

    def read(self, path: str, value: Any) -> str:
        try:
            if len(clean_text(path, value)) == 10 and date.fromisoformat(value):
                return value
        except ValueError:
            pass
        raise refuse(path, "to be a date as YYYY-MM-DD", value)

    def schema(self, definitions: dict[str, shapes.Schema]) -> shapes.Schema:
        return {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}


@base.column_kind("date")
class Date(Measurement):
    """A date between two others, as days or as one of its parts, for features only; dates outside are clipped."""

    first: Annotated[str, Day(), "public first date"]
    last: Annotated[str, Day(), "public last date, after the first"]
    part: Annotated[str, Word(tuple(DatePart)), "days, or the number of year, month or day of the week"] = DatePart.DAYS
    format: Annotated[str, TextLine(blank=False), "such as %d.%m.%Y, or several: %d.%m.%Y|%Y-%m-%d"] = "%Y-%m-%d"
    missing: Annotated[base.MissingRule, base.MissingRuleShape(Day())] = base.REFUSE

    def contradictions(self) -> Iterator[Contradiction]:
        if not self.first < self.last:
            yield Contradiction("last", f"to be after first = {self.first}", self.last)
            return
        if not self.low < self.high:
            yield Contradiction("part", f"to differ between {self.first} and {self.last}", str(self.part))
        fill = self.missing.value
        if isinstance(fill, str) and not self.first <= fill <= self.last:
            yield Contradiction("missing.value", f"between {self.first} and {self.last}", fill)

    @property
    def low(self) -> float:  # type: ignore[override]
        return _ENDS[DatePart(self.part)][0] if self.part in _ENDS else self._number(self.first)

    @property
    def high(self) -> float:  # type: ignore[override]
        return _ENDS[DatePart(self.part)][1] if self.part in _ENDS else self._number(self.last)

    @property
    def one_more(self) -> str:  # type: ignore[override]
        words = ("a day, counted from 1970-01-01", "a year", "a month of the year", "a day of the week, Monday being 1")
        return words[list(DatePart).index(DatePart(self.part))]

    @property
    def fill(self) -> float | None:
        return None if self.missing.value is None else self._number(str(self.missing.value))

    @property
    def domain(self) -> str:  # type: ignore[override]
        return f"dates as {self.format.replace('|', ' or ')}"

    def _number(self, day: str) -> float:
        return float(self._parts(np.array([day], "datetime64[D]").astype(np.int64))[0])

    def _parts(self, days: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.part == DatePart.YEAR:
            days = days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
        elif self.part == DatePart.MONTH:
            days = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1
        elif self.part == DatePart.WEEKDAY:
            days = (days + 3) % 7 + 1  # the first day of 1970 was a Thursday
        return days.astype(np.float64)

    def measured(self, name: str, column: Column, tokens: Sequence[str]) -> NDArray[np.float64]:
        ends = np.array([self.first, self.last], "datetime64[D]").astype(np.int64)
        days = np.full(len(column), NO_DAY, np.int64)
        for spelling in self.format.split("|"):  # the first that reads a cell counts
            days = np.where(days == NO_DAY, as_days(column, name, spelling, tokens), days)
        # Dates are brought between the two before their part is taken, so that every part is one of a date allowed.
        return np.where(days == NO_DAY, np.nan, self._parts(np.clip(days, *ends)))

    def target_extremes(self) -> tuple[base.RawValue, base.RawValue]:
        return self.last, self.first


_PARTS = 3


class SimpleKinds(base.ColumnKinds):
    """Every kind but products."""

    def __init__(self) -> None:
        super().__init__(base.KINDS)

    def schema(self, definitions: dict[str, shapes.Schema]) -> shapes.Schema:
        return {"type": "object"}


@dataclass(frozen=True, kw_only=True)
class Factor(shapes.Section):
    """A column of a product, its declaration, and the word that counts as 1 where it holds words."""

    column: Annotated[str, TextLine(blank=False)]
    kind: Annotated[base.ColumnKind, SimpleKinds()]
    word: Annotated[str | None, TextLine(), "of a column of words: the one that is 1"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        words = self.kind.values if isinstance(self.kind, Category) else ()
        if isinstance(self.kind, Interaction):
            yield Contradiction("kind", "to be no product itself", self.kind.word)
        elif words and self.word not in words:
            yield Contradiction("word", "to be one of the declared values", self.word)
        elif not words and self.word is not None:
            yield Contradiction("word", "to be absent for a number or a boolean", self.word)

    @property
    def half(self) -> float:
        return (self.kind.high - self.kind.low) / 2.0 if isinstance(self.kind, Measurement) else 1.0

    def factor(self, column: Column, tokens: Sequence[str]) -> NDArray[np.float64]:
        """One number for each record, 0 where the cell is missing."""
        if isinstance(self.kind, Measurement):
            low, high = self.kind.low, self.kind.high
            values = np.clip(self.kind.measured(self.column, column, tokens), low, high) - (low + high) / 2.0
            return np.nan_to_num(np.clip(values, -self.half, self.half), nan=0.0)
        codes = as_codes(column, self.column, self.kind.words, tokens)
        if isinstance(self.kind, Boolean):
            return ((codes >= 0) & (codes < len(self.kind.true_values))).astype(np.float64)
        return (codes == self.kind.words.index(str(self.word))).astype(np.float64)


@base.column_kind("interaction")
class Interaction(Measurement):
    """A product of two or three declared columns, for features only."""

    missing: ClassVar[base.MissingRule] = base.REFUSE  # type: ignore[misc]
    can_refuse: ClassVar[tuple[str, ...]] = ()  # type: ignore[misc]

    of: Annotated[tuple[Factor, ...], shapes.Several(shapes.Nested(Factor), _PARTS), "the columns that are multiplied"]

    def contradictions(self) -> Iterator[Contradiction]:
        names = [part.column for part in self.of]
        if len(names) < 2 or len(set(names)) < len(names):
            yield Contradiction("of", "to name two or three different columns", names)
        elif not 1e-12 < self.high < 1e15:
            yield Contradiction("of", "to have a product of a sensible size", self.high, "change a unit of measurement")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(part.column for part in self.of)

    @property
    def high(self) -> float:  # type: ignore[override]
        return float(math.prod(part.half for part in self.of))

    @property
    def low(self) -> float:  # type: ignore[override]
        return -self.high if any(isinstance(part.kind, Measurement) for part in self.of) else 0.0

    def measured(self, name: str, column: object, tokens: Sequence[str]) -> NDArray[np.float64]:
        if not isinstance(column, Mapping):  # of the columns that are multiplied, by name
            raise InputError(f"The columns of the product {name!r} are encoded together. Encode the table.")
        return np.prod([part.factor(column[part.column], tokens) for part in self.of], axis=0)
