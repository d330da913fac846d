"""Sums over all parts of a table, each part counted exactly once, whatever happens to workers on the way.

An engine brings work to the parts of a table: rows are read, encoded and summed in whole numbers. An answer names its
part, so that it counts once however often it arrives. An engine may answer for a part twice (a retried task, a
speculative twin): the second answer has to be the same. It may lose a part: then there is no sum. Rows may change
between two rounds: then the fit is refused, because its rounds would be about different tables.

An answer carries two marks that never leave the run. `rows_mark` is the same as long as the part's encoded rows are: a
sum, over rows, of a number that mixes all bits of a row, so that the order of rows and how they were divided do not
matter. It finds changes, not forgeries. `arithmetic` is the same on machines whose elementwise functions agree to the
last bit on public numbers, without which contributions of one record could differ by where it was computed.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from tempfile import TemporaryFile
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.validate import InputError, one_of, raise_alone
from sordino.data.sources.registry import TablePart, joined
from sordino.data.table import RowError, Table
from sordino.engines.unit_buckets import UnitSpread, in_files
from sordino.noise.port import Summed, from_bytes, to_bytes, wide


class MarkedRows(Protocol):
    """Encoded rows: how many units they belong to, and their numbers, eight bytes each, some columns in each array."""

    @property
    def units(self) -> int: ...

    def marked(self) -> list[NDArray[Any]]: ...


class SumQuestion(Protocol):
    """Sums that are asked for: their name, how many numbers, the exponent of their unit, and what rows add to them."""

    @property
    def name(self) -> str: ...

    @property
    def numbers(self) -> int: ...

    @property
    def exponent(self) -> int: ...

    def of(self, rows: Any) -> NDArray[np.int64]: ...


Encode = Callable[[Table], Iterator[MarkedRows]]
# Rows that are encoded and summed at once: enough that calls cost little beside what they do, few enough for a cache.
ROWS_OF_A_PIECE = 2**16
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ODD = 0x9E3779B1


class PartAnswer(NamedTuple):
    """The sums of a part as bytes, how many units it has, and the marks of rows and arithmetic."""

    part: str
    sums: bytes
    units: int
    rows_mark: int
    arithmetic: str


@dataclass(frozen=True, eq=False)
class Work:
    """A question, and how rows of a table become what it is asked of; travels to where rows are."""

    adds: ClassVar[bool] = True  # answers of some rows add up to that of all

    asked: SumQuestion
    encode: Encode
    columns: tuple[str, ...]
    together: bool  # a part is encoded whole, because rows of a unit may lie anywhere in it

    def answer(self, part: TablePart, key: str) -> "PartAnswer":
        """The answer of one part; errors name the part and never quote a cell."""
        return summed(self, self.tables(part), part.name).answer(key)

    def tables(self, part: TablePart) -> Iterator[Table]:
        """What is encoded at once."""
        if self.together:
            yield joined(list(part.tables(self.columns)), self.columns)
        else:
            yield from part.tables(self.columns)


class Sum:
    """The answer of one part while it is being added up."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.sums, self.units, self.rows_mark = wide(work.asked.numbers), 0, 0

    def add(self, table: Table) -> None:
        """Add what the rows of a table contribute."""
        for rows in self._work.encode(table):
            self.sums += self._work.asked.of(rows)
            self.units += rows.units
            self.rows_mark = (self.rows_mark + rows_mark(rows)) % 2**64

    def add_sum(self, other: "Sum | PartAnswer") -> None:
        """Add the sum of other rows of the same part."""
        self.sums += other.sums if isinstance(other, Sum) else from_bytes(other.sums, len(self.sums))
        self.units += other.units
        self.rows_mark = (self.rows_mark + other.rows_mark) % 2**64

    def answer(self, part: str) -> PartAnswer:
        """What is reported about the part."""
        return PartAnswer(part, to_bytes(self.sums), self.units, self.rows_mark, arithmetic())


def summed(work: Work, tables: Iterable[Table], name: str) -> Sum:
    """The sum over some tables of a part."""
    total = Sum(work)
    pieces = tables if work.together else (piece for table in tables for piece in table.pieces(ROWS_OF_A_PIECE))
    for_each(pieces, total.add, name)
    return total


def for_each(tables: Iterable[Table], act: Callable[[Table], None], name: str) -> None:
    """Do something with some tables of a part; errors name the part and never quote a cell."""
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
        text = str(error)
        raise_alone(InputError(text if name in text else f"{text} This is about {name}."))
    except Exception as error:  # what a library raises may quote a cell, and workers keep logs
        raise_alone(InputError(f"The rows of {name} cannot be summed ({type(error).__name__})."))


def rows_mark(rows: MarkedRows) -> int:
    """A number that changes when rows do, whatever their order."""
    # Halves of numbers times odd ones, added up over a row's columns: another number in one cell is another sum. Both
    # halves of a row are then mixed and added up over rows. Products of 32 bits are what processors have many of.
    total, odd = np.uint32(0), _ODD
    with np.errstate(over="ignore"):
        for columns in rows.marked():
            odds = np.empty(len(columns), np.uint32)
            for place in range(len(odds)):
                odds[place], odd = odd, (odd * _ODD + 2) % 2**32
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
        found = [np.exp(points), *(function(sizes) for function in (np.log, np.log1p, np.sqrt))]
        found += [special.expit(points), special.gammaln(sizes), special.pdtr(np.floor(sizes), sizes)]
        found.append(special.betainc(2.5, np.floor(sizes) + 1.0, 0.3))
    return hashlib.sha256(b"".join(np.ascontiguousarray(one, "<f8").tobytes() for one in found)).hexdigest()


# Gets the name of a question, how many parts have answered, and of how many.
Progress = Callable[[str, int, int], None]


def ignore_progress(_name: str, _done: int, _parts: int) -> None:
    """Ignores progress updates."""


class Engine(ABC):
    """Brings a question to every part and its answers back."""

    # Whether parts are read by other processes, so that they have to be such that these can read them.
    elsewhere: ClassVar[bool] = False
    # Frames that lie with those processes already; frames of another cluster have to be saved first.
    own_frames: ClassVar[tuple[type[TablePart], ...]] = ()
    _files: Sequence[BinaryIO] = ()

    def check(self, parts: Sequence[TablePart]) -> None:
        """Refuse parts that this engine cannot read; before anything is debited."""
        own = next((part.name for part in parts if not (part.shared or isinstance(part, self.own_frames))), None)
        if self.elsewhere and own is not None:
            raise InputError(
                f"Expected a table that other processes can read, such as files, for this engine, got {own}; save it "
                "as Parquet, or use the engine 'streamed'."
            )

    @abstractmethod
    def answers(self, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
        """The answers of parts, by their keys, in any order; a part may answer more than once."""

    def arranged(self, parts: Sequence[TablePart], spread: UnitSpread | None) -> list[TablePart]:
        """The parts as this engine reads them, after the debit; with `spread`, such that none divides a unit."""
        if spread is None:
            return list(parts)
        Engine.close(self)
        # Without a name from the moment they are opened: however this process ends, no row stays behind.
        self._files = [TemporaryFile() for _ in range(spread.buckets)]  # noqa: SIM115  closed in `close`
        return in_files(spread, parts, self._files)

    def close(self) -> None:
        """Give back what the engine holds: rows that were brought together are deleted."""
        for file in self._files:
            file.close()
        self._files = []


_ENGINES: dict[str, Callable[[str], Engine]] = {}


def register_engine(word: str, make: Callable[[str], Engine]) -> None:
    """Add an engine: a word, or the scheme of an address such as ``dask://``; `make` is given the whole address."""
    _ENGINES[word] = make


def engine_of(given: Any) -> Engine:
    """The engine of that word or address."""
    if isinstance(given, Engine):
        return given
    scheme = given.split("://", 1)[0] if isinstance(given, str) else given
    return _ENGINES[one_of("engine", scheme, tuple(sorted(_ENGINES)))](given)


def each_once(engine: Engine, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
    """The answer of every part, once each; two different ones of a part, or none, are refused."""
    found: dict[str, PartAnswer] = {}
    for answer in engine.answers(work, dict(parts)):
        if answer.part not in parts:
            raise InputError("An answer came from a part that Sordino had not queried.")
        if answer.part not in found:
            found[answer.part] = answer
            yield answer
        elif answer != found[answer.part]:
            raise InputError(
                f"{parts[answer.part].name} gave two different answers in one round. Its rows change, or machines "
                "compute differently."
            )
    lost = [part.name for key, part in parts.items() if key not in found]
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise InputError(f"{lost[0]}{more} gave no answer. Nothing of this round was used.")


class Totals:
    """The sums that each question asks of a table in parts."""

    def __init__(
        self,
        engine: Engine,
        parts: Sequence[TablePart],
        encode: Encode,
        columns: tuple[str, ...],
        *,
        together: bool,
        told: Progress = ignore_progress,
        marks: dict[str, PartAnswer] | None = None,
    ) -> None:
        # `marks` are those of earlier rounds, by which rows that changed since are found; new ones are added to them.
        self._engine, self._encode, self._columns, self._together = engine, encode, columns, together
        self._parts = {f"{place}": part for place, part in enumerate(parts)}
        self._marks: dict[str, PartAnswer] = {} if marks is None else marks
        self._told = told

    def __call__(self, asked: SumQuestion) -> Summed:
        work = Work(asked, self._encode, self._columns, self._together)
        total, units, done = wide(asked.numbers), 0, 0
        self._told(asked.name, 0, len(self._parts))
        for answer in each_once(self._engine, work, self._parts):
            self._check(answer)
            total += from_bytes(answer.sums, asked.numbers)
            units, done = units + answer.units, done + 1
            self._told(asked.name, done, len(self._parts))
        return Summed(total, asked.exponent, units)

    def _check(self, answer: PartAnswer) -> None:
        part = self._parts[answer.part]
        # All machines are compared with the first that answered, and every part with its own first answer.
        reference = next(iter(self._marks.values()), answer)
        if answer.arithmetic != reference.arithmetic:
            raise InputError(
                f"The machine of {part.name} computes different last bits from the others. Use machines of one kind "
                "with the same versions of NumPy and SciPy."
            )
        known = self._marks.setdefault(answer.part, answer)
        if (known.rows_mark, known.units) != (answer.rows_mark, answer.units):
            raise InputError(
                f"The rows of {part.name} changed between two rounds; fit again when nothing writes to it."
            )
