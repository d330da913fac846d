"""Columns of a table by the type that they are stored in, and how each is read: as numbers, as words, or as days.

Each cell of a list passes the gate (`plain`) alone. Typed columns, whose type is public, are read as the gate reads the
same values one by one: 3 and 3.0 are the word "3" wherever they come from.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError

Indices = NDArray[np.intp]
MISSING = -1
UNSEEN = -2
NO_DAY = -(10**7)  # no date: before the year 1, so that no calendar has it
TEXT, NUMBER, BOOLEAN, DATE = "category", "number", "boolean", "date"
THOUSANDS = {"point": r"\.", "comma": ",", "space": "[ \u00a0\u202f]", "apostrophe": "['\u2019]"}
# Spellings that every parser takes for a number; others are tried one by one.
_PLAIN_NUMBER = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"


class Odd(Enum):
    """A cell that is there and says nothing: bytes, lists, complex numbers and whatever else no kind reads."""

    CELL = "unreadable"


Plain = bool | int | float | Decimal | str | np.datetime64 | Odd | None
EXACT = 2**53  # floats distinguish whole numbers up to here; beyond, a float is no name of a whole number
_LONGEST = 400
PLAIN = frozenset({bool, int, float, str, type(None)})
_MISSING = frozenset({"NAType", "NaTType"})  # of pandas, which need not be installed


# How cells of a type become plain values, the first that fits; a duration is an integer to NumPy, and no number here.
_READ: tuple[tuple[type | UnionType, Callable[[Any], Plain]], ...] = (
    (str, str.__str__),
    (np.datetime64, lambda cell: None if np.isnat(cell) else cell.astype("datetime64[D]")),
    (datetime, lambda cell: np.datetime64((cell if cell.tzinfo is None else cell.astimezone(UTC)).date(), "D")),
    (date, lambda cell: np.datetime64(cell, "D")),
    (np.bool_, bool),
    (np.timedelta64, lambda _: Odd.CELL),
    (int | np.integer, int),
    (float | np.floating, float),
    (Decimal, lambda cell: None if cell.is_nan() else cell if cell.is_finite() else float(cell)),
)


def plain(cell: Any) -> Plain:
    """A cell as a plain Python value; None where it is missing."""
    if type(cell) in PLAIN:
        return cell
    if type(cell).__name__ in _MISSING:
        return None
    try:
        for kind, read in _READ:
            if isinstance(cell, kind):
                return read(cell)
        of_one = not isinstance(cell, np.generic) and getattr(cell, "shape", None) == ()
        return plain(cell.item()) if of_one else Odd.CELL  # a number of JAX, or another array of one cell
    except Exception:  # an object decides by itself what it raises, and may quote itself
        return Odd.CELL


def cell_number(cell: Plain) -> float:
    """A cell as a number; NaN where it is missing or none. Text is parsed with its whole column, cell by cell."""
    if not isinstance(cell, int | float | Decimal):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def cell_word(cell: Plain) -> str | Odd | None:
    """A cell as a word: true or false, whole numbers without a decimal point; None where it is missing."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        whole = abs(cell) <= EXACT and cell == int(cell)
        return None if math.isnan(cell) else str(int(cell)) if whole else repr(cell)
    if isinstance(cell, int):
        return str(cell) if cell.bit_length() < 3 * _LONGEST else Odd.CELL
    if isinstance(cell, Decimal):
        if abs(cell.adjusted()) > _LONGEST:
            return Odd.CELL
        text = f"{cell:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return Odd.CELL if isinstance(cell, np.datetime64) else cell


@cache
def arrow(part: str = "") -> Any:
    """The module `pyarrow` or a part of it, loaded when a table is read: importing Sordino stays quick."""
    return import_module(f"pyarrow.{part}" if part else "pyarrow")


def numpy_values(array: Any) -> np.ndarray:
    """The values of an Arrow array of numbers or booleans without nulls, in an array that may be written to."""
    pa = arrow()  # `to_numpy` would load pandas where it is installed, which takes longer than most fits
    if pa.types.is_boolean(array.type):
        return numpy_values(array.cast(pa.uint8())).astype(np.bool_)
    return np.array(np.from_dlpack(array))


class Unreadable(Exception):
    """No cell of a column can be read as asked; the text says which type it has."""


@dataclass(frozen=True, eq=False)
class StoredColumn:
    """A column with a type, which is harmless until a schema names it: an Arrow array, made by `stored`.

    Every cell is read by itself, as numbers, as words of a list, or as days. Only the type of the column, which is
    public, makes a reading `Unreadable`: `kind` is how a schema declares that type, `holds` says it in words, and
    `tells_keys_apart` whether different keys of units are different cells of it.
    """

    values: Any
    decimal: str = "."

    @property
    def kind(self) -> str | None:
        types = arrow().types
        numbers = dict.fromkeys((types.is_integer, types.is_floating, types.is_decimal), NUMBER)
        tests = {types.is_large_string: TEXT, types.is_boolean: BOOLEAN, **numbers, types.is_date32: DATE}
        return next((kind for test, kind in tests.items() if test(self.values.type)), None)

    @property
    def tells_keys_apart(self) -> bool:
        """Text and whole numbers do; floats join neighbours beyond 2^53."""
        types, stored = arrow().types, self.values.type
        whole = types.is_integer(stored) or (types.is_decimal(stored) and stored.scale == 0)
        return whole or self.kind == TEXT

    @property
    def holds(self) -> str:
        if self.kind == DATE:
            return "dates"
        # The type of a nested value lists names that may come from cells.
        types, stored = arrow().types, self.values.type
        return "nested values" if types.is_nested(stored) or types.is_union(stored) else f"{stored} values"

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices | slice) -> Self:
        """The chosen rows, in the order given; those of a slice without a copy of them."""
        return replace(self, values=self.values[rows] if isinstance(rows, slice) else self.values.take(rows))

    def joined(self, others: Sequence[Any]) -> "Column":
        """The same column with the rows of others behind it."""
        columns = (self, *others)
        if len({column.values.type for column in columns}) == 1:
            return replace(self, values=arrow().concat_arrays([column.values for column in columns]))
        if len({column.kind for column in columns}) > 1:
            raise Unreadable(self.holds)
        # A common type would spell the whole numbers of one part as the floats of another.
        return ObjectColumn.of(cell for column in columns for cell in column.values.to_pylist())

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        """The values as a fresh array, NaN where they are missing, no number, or text that is one of the tokens."""
        if self.kind not in (TEXT, NUMBER, BOOLEAN):
            raise Unreadable(self.holds)
        read = self._parsed(tokens) if self.kind == TEXT else self.values.cast(arrow().float64(), safe=False)
        return numpy_values(read.fill_null(np.nan))

    def without_marks(self, thousands: str | None, symbol: str | None) -> Self:
        """Text without a symbol at either end, and without marks between groups of three digits; others as they are."""
        if self.kind != TEXT or thousands is symbol:
            return self
        compute, values = arrow("compute"), self.values
        if symbol is not None:
            values = compute.replace_substring_regex(values, rf"^\s*{re.escape(symbol)}|{re.escape(symbol)}\s*$", "")
        if thousands is not None:
            if re.fullmatch(THOUSANDS[thousands], self.decimal):
                raise InputError(f"The mark of thousands and the decimal mark are both {self.decimal!r}. Correct one.")
            # Only whole groups of three: 1.23 is no number of thousands, and 123 would be wrong unnoticed.
            mark, decimal = THOUSANDS[thousands], re.escape(self.decimal)
            grouped = rf"^\s*[-+]?[0-9]{{1,3}}({mark}[0-9]{{3}})+({decimal}[0-9]*)?\s*$"
            plain_text = compute.replace_substring_regex(values, mark, "")
            values = compute.if_else(compute.match_substring_regex(values, grouped), plain_text, values)
        return replace(self, values=values)

    def _parsed(self, tokens: Sequence[str]) -> Any:
        pa, compute = arrow(), arrow("compute")
        present = self._present(tokens)
        if self.decimal == ",":
            # A point in such a file parts thousands, and 1.234 read as a little more than 1 would be wrong unnoticed.
            present = compute.replace_substring(compute.replace_substring(present, ".", "x"), ",", ".")
        try:
            return compute.cast(present, pa.float64())
        except pa.ArrowInvalid:  # quotes a cell, and is about the whole column
            pass
        simple = compute.fill_null(compute.match_substring_regex(present, _PLAIN_NUMBER), True)
        odd = present.filter(compute.invert(simple)).unique().to_pylist()
        wrong = pa.array([text for text in odd if parsed_number(text) is None], pa.large_string())
        readable = compute.if_else(compute.is_in(present, wrong), pa.scalar(None, pa.large_string()), present)
        return compute.cast(readable, pa.float64())

    def _present(self, tokens: Sequence[str]) -> Any:
        """Text without blanks around it, null where it is one of the tokens."""
        pa, compute = arrow(), arrow("compute")
        trimmed = compute.utf8_trim_whitespace(self.values)
        absent = compute.is_in(trimmed, pa.array(list(tokens), pa.large_string()))
        return compute.if_else(absent, pa.scalar(None, pa.large_string()), trimmed)

    def codes(self, code_of: Callable[[str], int]) -> NDArray[np.int64]:
        """The code of each value's word; `MISSING` where there is none, `UNSEEN` where a cell says nothing."""
        if self.kind not in (TEXT, NUMBER, BOOLEAN):
            raise Unreadable(self.holds)
        encoded = self.values.dictionary_encode()
        # One entry more than there are levels: nulls get the index -1 and so land on the last entry.
        levels = [coded(level, code_of) for level in encoded.dictionary.to_pylist()]
        return np.array([*levels, MISSING], np.int64)[numpy_values(encoded.indices.fill_null(-1))]

    def days(self, spelling: str, tokens: Sequence[str]) -> NDArray[np.int64]:
        """Days since 1970, `NO_DAY` where there is none; `spelling` is how text writes a date."""
        pa, compute = arrow(), arrow("compute")
        if self.kind == DATE:
            return numpy_values(self.values.cast(pa.int32()).fill_null(NO_DAY)).astype(np.int64)
        if self.kind != TEXT:
            raise Unreadable(self.holds)
        present = self._present(tokens)
        parsed = compute.strptime(present, format=spelling, unit="s", error_is_null=True)
        # What is not spelled so again, but for zeros in front, was no such date: parsers differ in what they let pass.
        zeros = (r"\b0+(\d)", r"\1")
        again = compute.replace_substring_regex(compute.strftime(parsed, format=spelling), *zeros)
        given = compute.replace_substring_regex(present, *zeros)
        same = numpy_values(compute.fill_null(compute.equal(again, given), False))
        days = numpy_values(parsed.cast(pa.date32(), safe=False).cast(pa.int32()).fill_null(NO_DAY)).astype(np.int64)
        return np.where(same, days, NO_DAY)


@dataclass(frozen=True, eq=False)
class ObjectColumn:
    """A column without a type: plain Python values, each of which passed the cell gate by itself."""

    kind: ClassVar[str | None] = None
    tells_keys_apart: ClassVar[bool] = True
    nbytes: ClassVar[int] = 0
    holds: ClassVar[str] = "values of another type"
    values: NDArray[np.object_]

    @classmethod
    def of(cls, cells: Iterable[object]) -> Self:
        """The cells of a list, or of an array of Python objects."""
        listed = list(cells)
        every = listed if set(map(type, listed)) <= PLAIN else map(plain, listed)
        return cls(np.fromiter(every, dtype=object, count=len(listed)))

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Indices | slice) -> Self:
        return replace(self, values=self.values[rows])

    def joined(self, others: Sequence[Any]) -> Self:
        return replace(self, values=np.concatenate([column.values for column in (self, *others)]))

    def numbers(self, tokens: Sequence[str]) -> NDArray[np.float64]:
        values = np.fromiter(map(cell_number, self.values), np.float64, len(self))
        places, texts = self._texts()
        values[places] = texts.numbers(tokens)
        return values

    def without_marks(self, thousands: str | None, symbol: str | None) -> Self:
        values, (places, texts) = self.values.copy(), self._texts()
        values[places] = texts.without_marks(thousands, symbol).values.to_pylist()
        return replace(self, values=values)

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
        stated = (int(cell.astype(np.int64)) if isinstance(cell, np.datetime64) else NO_DAY for cell in self.values)
        days = np.fromiter(stated, np.int64, len(self))
        places, texts = self._texts()
        days[places] = texts.days(spelling, tokens)
        return days

    def _texts(self) -> tuple[Indices, StoredColumn]:
        places = [place for place, cell in enumerate(self.values) if isinstance(cell, str)]
        return np.array(places, np.intp), StoredColumn(text_array(self.values[places].tolist()))


Column = StoredColumn | ObjectColumn


def stored(array: Any, decimal: str = ".") -> StoredColumn:
    """A column of an Arrow array, chunked or not: categories are their words, moments are their days."""
    pa = arrow()
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    plain_chunks = [without_dictionary(chunk) for chunk in chunks] or [without_dictionary(pa.array([], array.type))]
    whole = plain_chunks[0] if len(plain_chunks) == 1 else pa.concat_arrays(plain_chunks)
    types = pa.types
    if types.is_large_string(whole.type):
        whole = valid_text(whole)
    elif types.is_floating(whole.type):
        whole = whole.cast(pa.float64())
    elif types.is_date(whole.type) or types.is_timestamp(whole.type):
        # The unit stays: a cut to seconds goes towards 1970, and past midnight before it.
        unit = whole.type.unit if types.is_timestamp(whole.type) else "ms"
        whole = whole.cast(pa.timestamp(unit), safe=False).cast(pa.date32(), safe=False)
    return StoredColumn(whole, decimal)


def without_dictionary(array: Any) -> Any:
    """An array without a dictionary, its text addressed by 64 bits: joined, it may exceed two gigabytes."""
    pa = arrow()
    types = pa.types
    if types.is_dictionary(array.type):
        return without_dictionary(array.dictionary).take(array.indices)
    # A type of another system that is carried as text, such as PostgreSQL's numeric.
    inner = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return inner.cast(pa.large_string()) if any(test(inner.type) for test in text) else array


def coded(cell: Plain, code_of: Callable[[str], int]) -> int:
    """The code of one cell's word."""
    spelling = cell_word(cell)
    return MISSING if spelling is None else UNSEEN if isinstance(spelling, Odd) else code_of(spelling)


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
