"""A table as it came: named columns of raw values, read without quoting a cell."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, raise_alone
from sordino.data.words import shown_names

Indices = NDArray[np.intp]
MISSING = -1
_SHORT_RANGE = 256
UNSEEN = -2


@cache
def arrow(part: str = "") -> Any:
    """The module `pyarrow` or a part of it, loaded when a table is read: importing Sordino stays quick."""
    return import_module(f"pyarrow.{part}" if part else "pyarrow")


def native_file(path: Path) -> Any:
    """A file for Arrow's readers that its threads can read without Python."""
    # Arrow reads ahead on threads of its own, which may still run when a file was refused and the interpreter ends. A
    # thread that then calls into Python, as it does for the file objects of Python, aborts the process. It is not
    # closed here: the last thread that reads it does.
    return arrow().OSFile(os.fsencode(path), "r")


def numpy_values(array: Any) -> NDArray[Any]:
    """The values of an Arrow array of numbers or booleans without nulls, in an array that may be written to."""
    # `to_numpy` would load pandas where it is installed, which takes longer than most fits.
    pa = arrow()
    if pa.types.is_boolean(array.type):
        return numpy_values(array.cast(pa.uint8())).astype(np.bool_)
    return np.array(np.from_dlpack(array))


def numpy_view(array: Any) -> NDArray[Any]:
    """The values of an Arrow array of numbers without nulls where they lie, to be read only."""
    return np.from_dlpack(array)


def empty_columns(rows: int, columns: int) -> NDArray[np.float64]:
    """Room for numbers that lie column by column, from Arrow's pool.

    What is computed of such rows is computed of whole columns, which is several times faster than row by row. The pool
    keeps pages that were given back; a fresh array of this size costs the kernel more than what is written into it.
    """
    room = arrow().allocate_buffer(8 * max(1, rows * columns))
    return np.frombuffer(room, np.float64, rows * columns).reshape(columns, rows).T


class RowError(InputError):
    """A complaint about one row, whose number is counted from the first piece where rows are read in pieces."""

    # `before`, the number of the row as a person counts it, and `after` make the sentence.
    def __init__(self, before: str, row: int, after: str) -> None:
        super().__init__(f"{before}{row}{after}")
        self.before, self.row, self.after = before, row, after

    def behind(self, rows: int) -> "RowError":
        """The same complaint where so many rows come before those that were looked at."""
        return RowError(self.before, self.row + rows, self.after)


class Unreadable(Exception):
    """A column cannot be read as asked; the text says what it holds, and `row` where, if in one row."""

    def __init__(self, holds: str, row: int | None = None, decimal: str | None = None) -> None:
        super().__init__(holds)
        self.row, self.decimal = row, decimal


class Column(ABC):
    """A column of raw values, which the schema says how to read: as numbers, or as words of a list."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Indices) -> Self:
        """The chosen rows, in the order given."""

    @abstractmethod
    def part(self, rows: slice) -> Self:
        """Neighbouring rows, without a copy of them."""

    @abstractmethod
    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        """The values as a fresh array, NaN where they are missing or where text is one of the tokens."""

    @abstractmethod
    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        """The code of each value's word; `MISSING` where there is none."""


@dataclass(frozen=True, eq=False)
class _Values(Column):
    """Values in a NumPy array, and where they are missing."""

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices) -> Self:
        return type(self)(self.values[rows], None if self.missing is None else self.missing[rows])

    def part(self, rows: slice) -> Self:
        return type(self)(self.values[rows], None if self.missing is None else self.missing[rows])

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        values = self.values.astype(np.float64)
        if self.missing is not None:
            values[self.missing] = np.nan
        return values

    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        few = self._few_whole()
        if few is not None:
            low, high, places = few
            codes = np.full(high - low + 1, MISSING, np.int64)
            # Those that are there, in their order: the least and the greatest are.
            for place in np.flatnonzero(np.bincount(places)).tolist() if high - low > 1 else range(high - low + 1):
                codes[place] = code_of(value_word(low + place))
            return codes[places]
        levels, inverse = np.unique(self.values, return_inverse=True)
        codes = np.array([code_of(value_word(level)) for level in levels.tolist()], dtype=np.int64)[inverse]
        if self.values.dtype.kind == "f":
            codes[np.isnan(self.values)] = MISSING
        if self.missing is not None:
            codes[self.missing] = MISSING
        return codes

    def _few_whole(self) -> tuple[int, int, NDArray[np.int64]] | None:
        """Whole numbers of a short range, from where to where, and each one's place there: needs no sorting."""
        if self.missing is not None or not self.values.size or self.values.dtype.kind not in "fiu":
            return None
        low, high = self.values.min(), self.values.max()
        if not (-(2**53) < low <= high < 2**53 and high - low < _SHORT_RANGE):  # nor where one is NaN
            return None
        whole = self.values.astype(np.int64)
        if not np.array_equal(whole, self.values):
            return None
        return int(low), int(high), whole - int(low)


class Numbers(_Values):
    """A column of measurements; integers stay integers so that large codes keep every digit. NaN is missing too."""


class Booleans(_Values):
    """A column of true and false."""


@dataclass(frozen=True, eq=False)
class Texts(Column):
    """A column of text, held as one Arrow string array; a null is missing."""

    # Every cell of a CSV file arrives as text: what it means is declared by the schema, not guessed from the rows.
    values: Any
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices) -> Self:
        return type(self)(self.values.take(rows), self.decimal)

    def part(self, rows: slice) -> Self:
        return type(self)(self.values[rows], self.decimal)

    def present(self, tokens: Sequence[str]) -> Any:
        """The cells without blanks around them, null where they are one of the tokens."""
        pa, compute = arrow(), arrow("compute")
        nothing = pa.scalar(None, pa.large_string())
        present = trimmed = compute.utf8_trim_whitespace(self.values)
        for token in tokens:
            absent = compute.equal(trimmed, pa.scalar(token, pa.large_string()))
            present = compute.if_else(absent, nothing, present)
        return present

    def with_points(self, present: Any) -> Any:
        """The cells with a decimal point; where a comma is declared a point is none, and no number has one."""
        if self.decimal == ".":
            return present
        # A point in such a file parts thousands, and 1.234 read as a little more than 1 would be wrong unnoticed.
        compute = arrow("compute")
        return compute.replace_substring(compute.replace_substring(present, ".", "x"), ",", ".")

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        pa, compute = arrow(), arrow("compute")
        present = self.with_points(self.present(tokens))
        try:
            parsed = compute.cast(present, pa.float64())
        except pa.ArrowInvalid:
            parsed = None
        if parsed is None:
            texts = enumerate(present.to_pylist(), 1)
            row = next(row for row, text in texts if text is not None and _parsed(text) is None)
            raise Unreadable(
                "other text", row, self.decimal
            )  # the text itself is private, and so is Arrow's error, which quotes it
        return numpy_values(parsed.fill_null(np.nan))

    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        encoded = self.values.dictionary_encode()
        # One entry more than there are levels: nulls get the index -1 and so land on the last entry.
        codes = np.array([code_of(level) for level in encoded.dictionary.to_pylist()] + [MISSING], dtype=np.int64)
        return codes[numpy_values(encoded.indices.fill_null(-1))]


@dataclass(frozen=True)
class Opaque(Column):
    """A column of a type Sordino does not encode (dates, lists, mixed objects); harmless until a schema names it."""

    holds: str
    rows: int

    def __len__(self) -> int:
        return self.rows

    def take(self, rows: Indices) -> Self:
        return type(self)(self.holds, len(rows))

    def part(self, rows: slice) -> Self:
        return type(self)(self.holds, len(range(*rows.indices(self.rows))))

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        raise Unreadable(self.holds)

    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        raise Unreadable(self.holds)


# No date: before the year 1, so that no calendar has it.
NO_DAY = -(10**7)


@dataclass(frozen=True)
class Dates(Opaque):
    """A column of dates, as days since 1970, `NO_DAY` where there is none; harmless until a schema names it too."""

    days: NDArray[np.int64]

    def take(self, rows: Indices) -> Self:
        return type(self)(self.holds, len(rows), self.days[rows])

    def part(self, rows: slice) -> Self:
        days = self.days[rows]
        return type(self)(self.holds, len(days), days)


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length, in the order of the source, whatever the rows came in as."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        if not self.columns:
            raise InputError("Expected a table with at least one column, got none; check the file.")
        rows = self.rows
        uneven = [name for name, column in self.columns.items() if len(column) != rows]
        if uneven:
            raise InputError(
                f"Expected every column to have {self.rows} rows like the first one, "
                f"got another length in {shown_names(uneven)}; make the columns equally long."
            )

    @property
    def rows(self) -> int:
        """Number of records."""
        return len(next(iter(self.columns.values())))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self.columns)

    def take(self, rows: Indices) -> "Table":
        """The chosen records, for instance one side of a train and test split."""
        return Table({name: column.take(rows) for name, column in self.columns.items()})

    def pieces(self, most: int) -> Iterator["Table"]:
        """The same rows, at most so many at a time and at least once, without a copy of them."""
        if self.rows <= most:
            yield self
            return
        for first in range(0, self.rows, most):
            rows = slice(first, first + most)
            yield Table({name: column.part(rows) for name, column in self.columns.items()})


_OR_MISSING = "declare the text as a word for missing cells (missing_tokens, as a line: missing_tokens = NA)"


def as_numbers(column: Column, name: str, tokens: Sequence[str]) -> NDArray[np.float64]:
    """The column as a fresh float64 array, NaN where a value is missing or is one of the declared missing tokens."""
    try:
        values = column.numbers(tokens)
    except Unreadable as unreadable:
        before, row = f"Expected column {name!r} to hold numbers, got {unreadable}", unreadable.row
        mark = {".": " If its decimal mark is a comma, declare that.", ",": " Its decimal mark is declared a comma."}
        after = f"; correct it, {_OR_MISSING}, or declare the column as a category."
        after += mark.get(unreadable.decimal or "", "")
        raise_alone(InputError(before + after) if row is None else RowError(f"{before} in row ", row, after))
    for number in numbers_among(tokens):
        values[values == number] = np.nan
    return values


# Spellings that every parser takes for a number; others are tried one by one.
_PLAIN = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"


def readable(column: Texts, tokens: Sequence[str]) -> Texts:
    """A column of text without the cells that are no number: as if they were missing, whatever the others hold."""
    pa, compute = arrow(), arrow("compute")
    present = column.with_points(column.present(tokens))
    plain = compute.fill_null(compute.match_substring_regex(present, _PLAIN), True)
    odd = present.filter(compute.invert(plain)).unique().to_pylist()
    wrong = pa.array([text for text in odd if _parsed(text) is None], pa.large_string())
    return Texts(compute.if_else(compute.is_in(present, wrong), pa.scalar(None, pa.large_string()), present))


def as_days(column: Column, name: str, spelling: str, tokens: Sequence[str], strict: bool = True) -> NDArray[np.int64]:
    """The column as days since 1970, `NO_DAY` where a date is missing; `spelling` is how text writes a date.

    Text that is no date is refused, or counts as missing where the reading is not `strict`.
    """
    if isinstance(column, Dates):
        return column.days
    if not isinstance(column, Texts):
        raise InputError(f"Expected column {name!r} to hold dates, got numbers or another type; convert it first.")
    pa, compute = arrow(), arrow("compute")
    present = column.present(tokens)
    parsed = compute.strptime(present, format=spelling, unit="s", error_is_null=True)
    # What is not spelled so again, but for zeros in front, was no such date: parsers differ in what they let pass.
    again, given = (
        compute.replace_substring_regex(text, r"\b0+(\d)", r"\1")
        for text in (compute.strftime(parsed, format=spelling), present)
    )
    same = compute.fill_null(compute.equal(again, given), False)
    wrong = numpy_values(compute.and_(compute.is_valid(present), compute.invert(same)))
    if strict and wrong.any():
        raise RowError(
            f"Expected dates as {spelling} in column {name!r}, got other text in row ",
            first_row(wrong),
            f"; correct it, declare its format, or {_OR_MISSING}.",
        )
    days = numpy_values(parsed.cast(pa.date32(), safe=False).cast(pa.int32()).fill_null(NO_DAY)).astype(np.int64)
    return np.where(wrong, NO_DAY, days)


def as_codes(column: Column, name: str, words: Sequence[str], tokens: Sequence[str]) -> NDArray[np.int64]:
    """The position of each value in `words`; `MISSING` and `UNSEEN` for the rest.

    Numbers are compared in their shortest spelling (3 and 3.0 are "3"), booleans as "true" and "false".
    """
    codes = {word: position for position, word in enumerate(words)} | dict.fromkeys(tokens, MISSING)
    try:
        return column.codes(lambda word: codes.get(word, UNSEEN))
    except Unreadable as unreadable:
        raise_alone(
            InputError(
                f"Expected column {name!r} to hold text, whole numbers or booleans, got {unreadable}; convert it first."
            )
        )


def first_row(flags: NDArray[np.bool_]) -> int:
    """The first flagged row, counted from 1 as a person would."""
    return int(np.argmax(flags)) + 1


def value_word(value: float) -> str:
    """The shortest spelling of a value: true or false, whole numbers without a decimal point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (np.isfinite(value) and value == int(value)):
        return str(int(value))
    return repr(float(value))


def numbers_among(tokens: Sequence[str]) -> tuple[float, ...]:
    """The tokens that spell a number: they mean "missing" in numeric columns too. NaN means that anyway."""
    return _numbers_among(tuple(tokens))


@lru_cache(maxsize=64)
def _numbers_among(tokens: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(number for number in map(_parsed, tokens) if number is not None and not math.isnan(number))


def _parsed(text: str) -> float | None:
    pa = arrow()
    try:
        return arrow("compute").cast(pa.scalar(text, pa.string()), pa.float64()).as_py()
    except pa.ArrowInvalid:
        return None
