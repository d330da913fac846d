"""Units that lie in several parts are brought together before anything is computed of them.

A unit's rows have masses that see how many there are, so one worker sums all rows of a unit. Every row goes to
one of several buckets by a keyed hash of its unit: the key is drawn for the run, so nobody can choose names that fill a
bucket, and a bucket's number tells nothing of who is in it. Rows keep the order of the table, which decides which of a
unit's rows are used where it has more than may be.

The cost: the columns of the fit are read once more, and kept once, in files without a name that end with this process,
or in the memory of a cluster's workers; the largest bucket has to fit into memory.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, BinaryIO, ClassVar

import numpy as np

from sordino.core.validate import InputError
from sordino.data.cells import Odd, Plain
from sordino.data.raw_columns import (
    MISSING,
    Column,
    DateColumn,
    NumberColumn,
    ObjectColumn,
    OpaqueColumn,
    TextColumn,
    arrow,
    numpy_values,
    text_array,
)
from sordino.data.sources.registry import TablePart, read_without_quoting
from sordino.data.table import Table
from sordino.data.units import keys

_ROWS_OF_A_BUCKET = 2**20
_MOST_BUCKETS = 512
_HEAD, _AT_ONCE = 8, 2**26

Columns = dict[str, Column]


@dataclass(frozen=True)
class Spread:
    """How rows are divided into buckets by their unit.

    Attributes:
        column: that says whose a row is.
        tokens: texts that stand for no value; rows without a value are one unit together.
        columns: that are kept.
        buckets: how many there are.
        key: of the hash, a secret of the run.
    """

    column: str
    tokens: tuple[str, ...]
    columns: tuple[str, ...]
    buckets: int
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    def divided(self, table: Table) -> list[Columns]:
        """The rows of each bucket, in order."""
        places = self.places(table)
        found = []
        for bucket in range(self.buckets):
            rows = np.flatnonzero(places == bucket)
            found.append({name: table.columns[name].take(rows) for name in self.columns})
        return found

    def places(self, table: Table) -> Any:
        """The bucket of each row."""
        codes = keys(self.column, table.columns[self.column], self.tokens, self._code)
        return np.where(codes == MISSING, 0, codes)

    def _code(self, word: str) -> int:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), key=self.key, digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.buckets


def buckets_for(rows: int, least: int = 1) -> int:
    """How many buckets so many rows are divided into."""
    return max(least, min(_MOST_BUCKETS, -(-rows // _ROWS_OF_A_BUCKET)))


@dataclass(frozen=True, eq=False)
class UnitBucket(TablePart):
    """Rows of whole units, wherever they are kept: which bucket it is, and the columns it has."""

    place: int
    columns: tuple[str, ...]
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"bucket {self.place + 1} of the units"

    def names(self) -> tuple[str, ...]:
        return self.columns


@dataclass(frozen=True, eq=False)
class Bucket(UnitBucket):
    """A bucket in a file of this process, which has no name: a child process of it opens it by its number."""

    process: int
    descriptor: int
    shared: ClassVar[bool] = os.path.isdir("/proc/self/fd")

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for pieces in read_without_quoting(self.name, self._pieces()):
            yield Table({name: pieces[name] for name in columns})

    def _pieces(self) -> Iterator[Columns]:
        if os.getpid() == self.process:
            yield from _pieces(self.descriptor)
            return
        descriptor = os.open(f"/proc/{self.process}/fd/{self.descriptor}", os.O_RDONLY)
        try:
            yield from _pieces(descriptor)
        finally:
            os.close(descriptor)


def _pieces(descriptor: int) -> Iterator[Columns]:
    # Each piece stands behind its length; threads read by places, so that none moves another's.
    place = 0
    while head := os.pread(descriptor, _HEAD, place):
        size, place = int.from_bytes(head, "little"), place + _HEAD
        whole = bytearray()
        while len(whole) < size:
            whole += os.pread(descriptor, min(size - len(whole), _AT_ONCE), place + len(whole)) or _cut_short()
        yield _from_bytes(bytes(whole))
        place += size


def _cut_short() -> bytes:
    raise InputError("Expected a whole bucket of rows, got one that was cut short; is the disk full?")


def in_files(spread: Spread, parts: Sequence[TablePart], files: Sequence[BinaryIO]) -> list[TablePart]:
    """Buckets in files that are open already, one for each."""
    for part in parts:
        for table in part.tables(spread.columns):
            for file, piece in zip(files, spread.divided(table), strict=True):
                content = _to_bytes(piece)
                file.write(len(content).to_bytes(_HEAD, "little") + content)
    for file in files:
        file.flush()
    return [Bucket(place, spread.columns, os.getpid(), file.fileno()) for place, file in enumerate(files)]


def _to_bytes(columns: Columns) -> bytes:
    """Columns as an Arrow stream; what Arrow does not know of them stands beside their names."""
    pa, ipc = arrow(), arrow("ipc")
    fields, arrays = [], []
    for name, column in columns.items():
        noted = {"column": type(column).__name__}
        match column:
            case TextColumn():
                array, noted = column.values, noted | {"decimal": column.decimal, "kind": column.kind}
            case NumberColumn():
                array = pa.array(column.values, mask=column.missing)
            case DateColumn():
                array = pa.array(column.values.astype(np.int64))
            case ObjectColumn():
                array = text_array([_spelled(cell) for cell in column.values])
            case OpaqueColumn():
                array, noted = pa.nulls(len(column)), noted | {"stored": column.stored}
            case _:
                raise TypeError(type(column).__name__)
        fields.append(pa.field(name, array.type, metadata=noted))
        arrays.append(array)
    text = io.BytesIO()
    with ipc.new_stream(text, pa.schema(fields)) as writer:
        writer.write(pa.record_batch(arrays, schema=pa.schema(fields)))
    return text.getvalue()


def _from_bytes(content: bytes) -> Columns:
    batch = arrow("ipc").open_stream(content).read_next_batch()
    found: Columns = {}
    for column, array in zip(batch.schema, batch.columns, strict=True):
        name, noted = column.name, {key.decode(): value.decode() for key, value in column.metadata.items()}
        match noted["column"]:
            case "TextColumn":
                found[name] = TextColumn(array, noted["decimal"], noted["kind"])
            case "DateColumn":
                found[name] = DateColumn(numpy_values(array).astype("datetime64[D]"))
            case "ObjectColumn":
                found[name] = ObjectColumn.of(_read(cell) for cell in array.to_pylist())
            case "OpaqueColumn":
                found[name] = OpaqueColumn(noted["stored"], len(array))
            case _:
                values = numpy_values(array.fill_null(False if column.type == arrow().bool_() else 0))
                found[name] = NumberColumn(values, numpy_values(array.is_null()) if array.null_count else None)
    return found


# Cells without a type, as text behind a letter for the type of each.
_TYPES: dict[str, Callable[[str], Plain]] = {
    "b": lambda text: text == "True",
    "i": lambda text: int(text, 16),
    "f": float.fromhex,
    "n": Decimal,
    "s": str,
    "d": lambda text: np.datetime64(text, "D"),
    "o": lambda _: Odd.CELL,
}


def _spelled(cell: Plain) -> str | None:
    match cell:
        case None:
            return None
        case bool():
            return f"b{cell}"
        case int():
            return f"i{cell:x}"
        case float():
            return f"f{cell.hex()}"
        case Decimal():
            return f"n{cell}"
        case str():
            return f"s{cell}"
        case np.datetime64():
            return f"d{cell}"
    return "o"


def _read(text: str | None) -> Plain:
    return None if text is None else _TYPES[text[0]](text[1:])
