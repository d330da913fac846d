"""A table as it came: named columns of raw values, read without quoting a cell."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, raise_alone, shown_names
from sordino.data.raw_columns import EXACT, MISSING, UNSEEN, Column, Indices, Unreadable, arrow, parsed_number


def native_file(path: Path) -> Any:
    """A file for Arrow's readers that its threads can read without Python."""
    # Arrow reads ahead on threads that may still run when the interpreter ends. One that then calls into Python, as for
    # Python's own file objects, aborts the process. It is not closed here: the last thread that reads it does.
    return arrow().OSFile(os.fsencode(path), "r")


def empty_columns(rows: int, columns: int) -> NDArray[np.float64]:
    """Room for numbers that lie column by column, from Arrow's pool, which keeps pages that were given back."""
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


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length, in the order of the source, whatever the rows came in as."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        if not self.columns:
            raise InputError("The table has no columns. Check the file.")
        uneven = [name for name, column in self.columns.items() if len(column) != self.rows]
        if uneven:
            raise InputError(f"Columns must have {self.rows} rows, got a different length in {shown_names(uneven)}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (dict(self.columns),)

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column whose type says it."""
        return {name: column.kind for name, column in self.columns.items() if column.kind is not None}

    @property
    def nbytes(self) -> int:
        """What its columns take in memory, where they are stored."""
        return sum(column.nbytes for column in self.columns.values())

    def take(self, rows: Indices | slice) -> "Table":
        """The chosen records, for instance one side of a train and test split."""
        return Table({name: column.take(rows) for name, column in self.columns.items()})

    def pieces(self, most: int) -> Iterator["Table"]:
        """The same rows, at most so many at a time and at least once, without a copy of them."""
        return (self.take(slice(first, first + most)) for first in range(0, max(1, self.rows), most))


def as_numbers(column: Column, name: str, tokens: Sequence[str]) -> NDArray[np.float64]:
    """The column as a fresh float64 array, NaN where a cell is missing, no number, or one of the declared tokens."""
    values = _by_type(name, "numbers", lambda: column.numbers(tokens))
    for number in map(parsed_number, tokens):  # tokens that spell a number mean "missing" in numeric columns too
        if number is not None:
            values[values == number] = np.nan
    return values


def as_days(column: Column, name: str, spelling: str, tokens: Sequence[str]) -> NDArray[np.int64]:
    """The column as days since 1970, `NO_DAY` where a cell is missing or no date."""
    return _by_type(name, "dates", lambda: column.days(spelling, tokens))


def as_codes(column: Column, name: str, words: Sequence[str], tokens: Sequence[str]) -> NDArray[np.int64]:
    """The position of each value in `words`, as `cell_word` spells it; `MISSING` and `UNSEEN` for the rest."""
    digits = ((word, word.lstrip("-")) for word in words)
    large = next((word for word, text in digits if text.isdecimal() and float(text) >= EXACT), None)
    if large is not None and not column.tells_keys_apart:
        # One missing cell makes a frame's integers floats, and then none of them is a declared word.
        wanted = f"text or integers, which distinguish {large!r} from its neighbours"
        raise InputError(f"Expected column {name!r} to hold {wanted}, got {column.holds}; convert it first.")
    codes = {word: position for position, word in enumerate(words)} | dict.fromkeys(tokens, MISSING)
    return _by_type(name, "text, whole numbers or booleans", lambda: column.codes(lambda word: codes.get(word, UNSEEN)))


def _by_type(name: str, wanted: str, read: Callable[[], np.ndarray]) -> np.ndarray:
    try:
        return read()
    except Unreadable as unreadable:
        raise_alone(InputError(f"Expected column {name!r} to hold {wanted}, got {unreadable}; convert it first."))
