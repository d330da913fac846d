"""Columns of a table by the type that they are stored in, and how each is read: as numbers, as words, or as days.

The type of an array or a stored column is public. A list has none: its cells pass the gate one by one (`data.cells`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sordino.data.cells import EXACT, PLAIN, Odd, Plain, number, plain, word

Indices = NDArray[np.intp]
MISSING = -1
UNSEEN = -2
# No date: before the year 1, so that no calendar has it.
NO_DAY = -(10**7)
_SHORT_RANGE = 256
_FLOATS = {float, bool, type(None)}
# Spellings that every parser takes for a number; others are tried one by one.
_PLAIN_NUMBER = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"


@cache
def arrow(part: str = "") -> Any:
    """The module `pyarrow` or a part of it, loaded when a table is read: importing Sordino stays quick."""
    return import_module(f"pyarrow.{part}" if part else "pyarrow")


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


class Unreadable(Exception):
    """No cell of a column can be read as asked; the text says which type it has."""


class Column(ABC):
    """A column of raw values, which the schema says how to read: as numbers, as words of a list, or as days.

    Every cell is read by itself. One that cannot be read as asked is no number, no day, or a word that nobody declared.
    Only the type of a stored column, which is public, makes a reading `Unreadable`.
    """

    @property
    def kind(self) -> str | None:
        """How a schema declares such a type, where it says so."""
        return None

    @property
    def holds(self) -> str:
        """The type, in words for a refusal."""
        return "values of another type"

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Indices | slice) -> Self:
        """The chosen rows, in the order given; those of a slice without a copy of them."""

    def joined(self, others: Sequence[Any]) -> Self:
        """The same column with the rows of others of its type behind it."""
        raise Unreadable(self.holds)

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        """The values as a fresh array, NaN where they are missing, no number, or text that is one of the tokens."""
        raise Unreadable(self.holds)

    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        """The code of each value's word; `MISSING` where there is none, `UNSEEN` where a cell says nothing."""
        raise Unreadable(self.holds)

    def days(self, spelling: str, tokens: Sequence[str]) -> NDArray[np.int64]:
        """Days since 1970, `NO_DAY` where there is none; `spelling` is how text writes a date."""
        raise Unreadable(self.holds)


@dataclass(frozen=True)
class Opaque(Column):
    """A column of a type that no kind reads (times, bytes, lists); harmless until a schema names it."""

    stored: str
    rows: int

    @property
    def holds(self) -> str:
        return self.stored

    def __len__(self) -> int:
        return self.rows

    def take(self, rows: Indices | slice) -> Self:
        return replace(self, rows=len(range(*rows.indices(self.rows)) if isinstance(rows, slice) else rows))

    def joined(self, others: Sequence[Any]) -> Self:
        return replace(self, rows=sum(map(len, (self, *others))))


@dataclass(frozen=True, eq=False)
class Numbers(Column):
    """A column of numbers or of true and false, by its type; integers keep every digit. NaN is missing too."""

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    @property
    def kind(self) -> str:
        return "boolean" if self.values.dtype.kind == "b" else "number"

    @property
    def holds(self) -> str:
        return f"{self.values.dtype} values"

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices | slice) -> Self:
        return replace(self, values=self.values[rows], missing=None if self.missing is None else self.missing[rows])

    def joined(self, others: Sequence[Any]) -> Self:
        every = (self, *others)
        values = np.concatenate([one.values for one in every])
        if values.dtype.kind not in {one.values.dtype.kind for one in every}:  # of two kinds of integers floats
            raise Unreadable(self.holds)
        absent = [np.zeros(len(one), bool) if one.missing is None else one.missing for one in every]
        return type(self)(values, None if all(one.missing is None for one in every) else np.concatenate(absent))

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
                codes[place] = coded(low + place, code_of)
            return codes[places]
        levels, inverse = np.unique(self.values, return_inverse=True)
        codes = np.array([coded(level, code_of) for level in levels.tolist()], dtype=np.int64)[inverse]
        if self.missing is not None:
            codes[self.missing] = MISSING
        return codes

    def _few_whole(self) -> tuple[int, int, NDArray[np.int64]] | None:
        """Whole numbers of a short range, from where to where, and each one's place there: needs no sorting."""
        if self.missing is not None or not self.values.size or self.values.dtype.kind not in "fiu":
            return None
        low, high = self.values.min().item(), self.values.max().item()  # whose difference fits into no small type
        if not (-EXACT < low <= high < EXACT and high - low < _SHORT_RANGE):  # nor where one is NaN
            return None
        whole = self.values.astype(np.int64)
        if not np.array_equal(whole, self.values):
            return None
        return int(low), int(high), whole - int(low)


@dataclass(frozen=True, eq=False)
class Dates(Column):
    """A column of dates, by its type; NaT is missing."""

    values: NDArray[np.datetime64]

    @property
    def kind(self) -> str:
        return "date"

    @property
    def holds(self) -> str:
        return "dates"

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices | slice) -> Self:
        return replace(self, values=self.values[rows])

    def joined(self, others: Sequence[Any]) -> Self:
        return type(self)(np.concatenate([one.values for one in (self, *others)]))

    def days(self, spelling: str, tokens: Sequence[str]) -> NDArray[np.int64]:
        return np.where(np.isnat(self.values), NO_DAY, self.values.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Texts(Column):
    """A column of text, held as one Arrow string array; a null is missing."""

    # Every cell of a CSV file arrives as text: what it means is declared by the schema, not guessed from the rows.
    values: Any
    decimal: str = "."
    kind: str = "category"  # type: ignore[reportIncompatibleVariableOverride]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices | slice) -> Self:
        return replace(self, values=self.values[rows] if isinstance(rows, slice) else self.values.take(rows))

    def joined(self, others: Sequence[Any]) -> Self:
        return replace(self, values=arrow().concat_arrays([one.values for one in (self, *others)]))

    def _present(self, tokens: Sequence[str]) -> Any:
        """The cells without blanks around them, null where they are one of the tokens."""
        pa, compute = arrow(), arrow("compute")
        nothing = pa.scalar(None, pa.large_string())
        present = trimmed = compute.utf8_trim_whitespace(self.values)
        for token in tokens:
            absent = compute.equal(trimmed, pa.scalar(token, pa.large_string()))
            present = compute.if_else(absent, nothing, present)
        return present

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        pa, compute = arrow(), arrow("compute")
        present = self._present(tokens)
        if self.decimal == ",":
            # A point in such a file parts thousands, and 1.234 read as a little more than 1 would be wrong unnoticed.
            present = compute.replace_substring(compute.replace_substring(present, ".", "x"), ",", ".")
        try:
            parsed = compute.cast(present, pa.float64())
        except pa.ArrowInvalid:  # quotes a cell, and is about the whole column
            parsed = None
        if parsed is None:
            plain = compute.fill_null(compute.match_substring_regex(present, _PLAIN_NUMBER), True)
            odd = present.filter(compute.invert(plain)).unique().to_pylist()
            wrong = pa.array([text for text in odd if parsed_number(text) is None], pa.large_string())
            readable = compute.if_else(compute.is_in(present, wrong), pa.scalar(None, pa.large_string()), present)
            parsed = compute.cast(readable, pa.float64())
        return numpy_values(parsed.fill_null(np.nan))

    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        encoded = self.values.dictionary_encode()
        # One entry more than there are levels: nulls get the index -1 and so land on the last entry.
        codes = np.array([code_of(level) for level in encoded.dictionary.to_pylist()] + [MISSING], dtype=np.int64)
        return codes[numpy_values(encoded.indices.fill_null(-1))]

    def days(self, spelling: str, tokens: Sequence[str]) -> NDArray[np.int64]:
        pa, compute = arrow(), arrow("compute")
        present = self._present(tokens)
        parsed = compute.strptime(present, format=spelling, unit="s", error_is_null=True)
        # What is not spelled so again, but for zeros in front, was no such date: parsers differ in what they let pass.
        again, given = (
            compute.replace_substring_regex(text, r"\b0+(\d)", r"\1")
            for text in (compute.strftime(parsed, format=spelling), present)
        )
        same = numpy_values(compute.fill_null(compute.equal(again, given), False))
        days = numpy_values(parsed.cast(pa.date32(), safe=False).cast(pa.int32()).fill_null(NO_DAY)).astype(np.int64)
        return np.where(same, days, NO_DAY)


@dataclass(frozen=True, eq=False)
class Objects(Column):
    """A column without a type: plain Python values, each of which passed the cell gate by itself."""

    values: NDArray[np.object_]

    @classmethod
    def of(cls, cells: Iterable[Any]) -> Self:
        """The cells of a list, or of an array of Python objects."""
        listed = list(cells)
        every = listed if set(map(type, listed)) <= PLAIN else map(plain, listed)
        return cls(np.fromiter(every, dtype=object, count=len(listed)))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices | slice) -> Self:
        return replace(self, values=self.values[rows])

    def joined(self, others: Sequence[Any]) -> Self:
        return type(self)(np.concatenate([one.values for one in (self, *others)]))

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        cells = self.values.tolist()
        if set(map(type, cells)) <= _FLOATS:
            return np.array(cells, np.float64)
        values = np.fromiter(map(number, cells), np.float64, len(cells))
        places, texts = self._texts()
        values[places] = texts.numbers(tokens)
        return values

    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        known: dict[Any, int] = {}
        codes = np.empty(len(self), np.int64)
        for place, cell in enumerate(self.values):
            key = type(cell), cell  # 1, 1.0 and True are equal
            if key not in known:
                known[key] = coded(cell, code_of)
            codes[place] = known[key]
        return codes

    def days(self, spelling: str, tokens: Sequence[str]) -> NDArray[np.int64]:
        days = [int(cell.astype(np.int64)) if isinstance(cell, np.datetime64) else NO_DAY for cell in self.values]
        found = np.array(days, np.int64)
        places, texts = self._texts()
        found[places] = texts.days(spelling, tokens)
        return found

    def _texts(self) -> tuple[Indices, Texts]:
        places = [place for place, cell in enumerate(self.values) if isinstance(cell, str)]
        return np.array(places, np.intp), Texts(text_array(self.values[places].tolist()))


def coded(cell: Plain, code_of: Callable[[str], int]) -> int:
    """The code of one cell's word."""
    found = word(cell)
    return MISSING if found is None else UNSEEN if isinstance(found, Odd) else code_of(found)


def text_array(texts: Sequence[str | None]) -> Any:
    """An Arrow array of text; what cannot be written in UTF-8 is spelled out, and no other text changes."""
    pa = arrow()
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        pass
    spelled = (None if text is None else text.encode("utf-8", "backslashreplace").decode() for text in texts)
    return pa.array(spelled, pa.large_string())


def valid_text(array: Any) -> Any:
    """An Arrow array of text in which bytes that are no UTF-8 are spelled out; no other cell changes."""
    pa = arrow()
    raw = array.cast(pa.large_binary())
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        pass
    encoded = raw.dictionary_encode()
    words = [level.decode("utf-8", "backslashreplace") for level in encoded.dictionary.to_pylist()]
    return pa.array(words, pa.large_string()).take(encoded.indices)


def parsed_number(text: str) -> float | None:
    """The number that a text spells, as every column of text is read; None where it spells none."""
    pa = arrow()
    try:
        return arrow("compute").cast(pa.scalar(text, pa.string()), pa.float64()).as_py()
    except pa.ArrowInvalid:
        return None
