"""The work of one part: rows are read, encoded and asked, and whole numbers are what comes of it.

An answer names its part, so that it is counted once however often it arrives. It carries two marks that never leave
the run. `rows_mark` is the same as long as the part's encoded rows are: a sum, over rows, of a number that mixes all
bits of a row, so that the order of rows and how they were divided do not matter. It finds changes, not forgeries.
`arithmetic` is the same on machines whose elementwise functions agree to the last bit on public numbers, without which
contributions of one record could differ by where it was computed.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.validate import InputError, raise_alone
from sordino.data.sources.part import Part, joined
from sordino.data.table import RowError, Table
from sordino.noise.wide_sums import WideSums


class Counted(Protocol):
    """Encoded rows: how many units they belong to, and their numbers, eight bytes each, some columns in each array."""

    @property
    def units(self) -> int: ...

    def marked(self) -> list[NDArray[Any]]: ...


class Question(Protocol):
    """Sums that are asked for: their name, how many numbers, the exponent of their unit, and what rows add to them."""

    @property
    def name(self) -> str: ...

    @property
    def numbers(self) -> int: ...

    @property
    def exponent(self) -> int: ...

    def of(self, rows: Any) -> tuple[NDArray[np.int64], int]: ...


Encode = Callable[[Table], Iterator[Counted]]
# Rows that are encoded and summed at once: enough that calls cost little beside what they do, few enough for a cache.
ROWS_OF_A_PIECE = 2**16
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ODD = 0x9E3779B1


class PartAnswer(NamedTuple):
    """What a part answers: its sums as bytes, how many units it has, and the marks of rows and arithmetic."""

    part: str
    sums: bytes
    units: int
    rows_mark: int
    arithmetic: str


@dataclass(frozen=True, eq=False)
class Work:
    """A question, and how rows of a table become what it is asked of; travels to where rows are.

    Attributes:
        adds: whether answers of some rows add up to that of all.
        asked: the question.
        encode: makes a table ready to be summed.
        columns: that are read.
        together: whether a part has to be encoded whole, because rows of a unit may lie anywhere in it.
    """

    adds: ClassVar[bool] = True

    asked: Question
    encode: Encode
    columns: tuple[str, ...]
    together: bool

    def answer(self, part: Part, key: str) -> "PartAnswer":
        """The answer of one part; what goes wrong is told with the part's name and without a cell."""
        return summed(self, self.tables(part), part.name).answer(key)

    def tables(self, part: Part) -> Iterator[Table]:
        """What is encoded at once."""
        if self.together:
            yield joined(list(part.tables(self.columns)), self.columns)
        else:
            yield from part.tables(self.columns)


class Sum:
    """The answer of one part while it is being added up."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.sums, self.units, self.rows_mark = WideSums.zeros(work.asked.numbers), 0, 0

    def add(self, table: Table) -> None:
        """Add what the rows of a table contribute."""
        for rows in self._work.encode(table):
            self.sums.add(self._work.asked.of(rows)[0])
            self.units += rows.units
            self.rows_mark = (self.rows_mark + rows_mark(rows)) % 2**64

    def add_sum(self, other: "Sum") -> None:
        """Add another sum of the same question."""
        self.sums.add_wide(other.sums)
        self.units += other.units
        self.rows_mark = (self.rows_mark + other.rows_mark) % 2**64

    def add_answer(self, other: PartAnswer) -> None:
        """Add what other rows of the same part answered."""
        self.sums.add_wide(WideSums.from_bytes(other.sums))
        self.units += other.units
        self.rows_mark = (self.rows_mark + other.rows_mark) % 2**64

    def answer(self, part: str) -> PartAnswer:
        """What is told of the part."""
        return PartAnswer(part, self.sums.to_bytes(), self.units, self.rows_mark, arithmetic())


def summed(work: Work, tables: Iterable[Table], name: str) -> Sum:
    """The sum over some tables of a part."""
    total = Sum(work)
    pieces = tables if work.together else (piece for table in tables for piece in table.pieces(ROWS_OF_A_PIECE))
    for_each(pieces, total.add, name)
    return total


def for_each(tables: Iterable[Table], act: Callable[[Table], None], name: str) -> None:
    """Do something with some tables of a part; what goes wrong is told with its name and without a cell."""
    before = 0
    try:
        for table in tables:
            act(table)
            before += table.rows
    except MemoryError:
        raise
    except RowError as error:
        raise_alone(InputError(f"{error.behind(before)} This is about {name}."))
    except InputError as error:
        told = str(error)
        raise_alone(InputError(told if name in told else f"{told} This is about {name}."))
    except Exception as error:  # what a library raises may quote a cell, and workers keep logs
        raise_alone(InputError(f"Expected rows that can be summed in {name}, got a {type(error).__name__}."))


def rows_mark(rows: Counted) -> int:
    """A number that changes when rows do, whatever their order."""
    # Halves of numbers times odd ones, added up over a row's columns: another number in one cell is another sum. Both
    # halves of a row are then mixed and added up over rows. Products of 32 bits are what processors have many of.
    total, odd = np.uint32(0), _ODD
    with np.errstate(over="ignore"):
        for columns in rows.marked():
            odds = np.empty(len(columns), np.uint32)
            for place in range(len(odds)):
                odds[place] = odd
                odd = (odd * _ODD + 2) % 2**32
            # In one pass; whole numbers are the same in whatever order they are added.
            total = total + np.einsum("c,cr->r", odds, np.ascontiguousarray(columns).view(np.uint32))
        mixed = total.view(np.uint64)
        mixed *= _MIX
        mixed ^= mixed >> np.uint64(32)
        mixed *= _MIX
        mixed ^= mixed >> np.uint64(29)
        return int(mixed.sum(dtype=np.uint64)) if mixed.size else 0


@cache
def arithmetic() -> str:
    """A digest of what the elementwise functions of families give for public numbers."""
    points = np.linspace(-30.0, 30.0, 4001) + 2.0**-9
    sizes = np.abs(points) + 0.125
    with np.errstate(all="ignore"):
        found = [
            np.exp(points),
            np.log(sizes),
            np.log1p(sizes),
            np.sqrt(sizes),
            special.expit(points),
            special.gammaln(sizes),
            special.pdtr(np.floor(sizes), sizes),
            special.betainc(2.5, np.floor(sizes) + 1.0, 0.3),
        ]
    return hashlib.sha256(b"".join(np.ascontiguousarray(one, "<f8").tobytes() for one in found)).hexdigest()
