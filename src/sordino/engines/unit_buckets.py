"""Groups the rows of units that are spread over several parts, before anything is computed from them.

Every row goes to one of several buckets by a keyed hash of its unit: the key is drawn for the run, so nobody can choose
names that fill a bucket, and a bucket's number does not show who is in it. Rows keep the order of the table, which
decides which of a unit's rows are used where it has more than may be. The largest bucket has to fit into memory.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, BinaryIO, ClassVar

import numpy as np

from sordino.core.validate import InputError
from sordino.data.raw_columns import MISSING, Column, ObjectColumn, Odd, StoredColumn, arrow
from sordino.data.sources.registry import TablePart, read_without_quoting
from sordino.data.table import Table
from sordino.data.units import keys

_ROWS_OF_A_BUCKET = 2**20
_MOST_BUCKETS = 512
_HEAD, _AT_ONCE = 8, 2**26


@dataclass(frozen=True)
class UnitSpread:
    """How rows are divided into so many buckets by the column of their unit, and which columns are kept."""

    column: str
    tokens: tuple[str, ...]  # that stand for no value; rows without a value are one unit together
    columns: tuple[str, ...]
    buckets: int
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    def divided(self, table: Table) -> list[Table]:
        """The rows of each bucket, in order."""
        kept, places = Table({name: table.columns[name] for name in self.columns}), self.places(table)
        return [kept.take(np.flatnonzero(places == bucket)) for bucket in range(self.buckets)]

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
    def name(self) -> str:  # type: ignore[override]
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
        for whole in read_without_quoting(self.name, self._tables()):
            yield Table({name: whole.columns[name] for name in columns})

    def _tables(self) -> Iterator[Table]:
        if os.getpid() == self.process:
            yield from _tables(self.descriptor)
            return
        descriptor = os.open(f"/proc/{self.process}/fd/{self.descriptor}", os.O_RDONLY)
        try:
            yield from _tables(descriptor)
        finally:
            os.close(descriptor)


def _tables(descriptor: int) -> Iterator[Table]:
    # Each table stands behind its length; threads read by places, so that none moves another's.
    place = 0
    while head := os.pread(descriptor, _HEAD, place):
        size, place = int.from_bytes(head, "little"), place + _HEAD
        whole = bytearray()
        while len(whole) < size:
            piece = os.pread(descriptor, min(size - len(whole), _AT_ONCE), place + len(whole))
            if not piece:
                raise InputError("A temporary file was cut short. Check that the disk is not full.")
            whole += piece
        yield from_bytes(bytes(whole))
        place += size


def in_files(spread: UnitSpread, parts: Sequence[TablePart], files: Sequence[BinaryIO]) -> list[TablePart]:
    """Buckets in files that are open already, one for each."""
    for part in parts:
        for table in part.tables(spread.columns):
            for file, piece in zip(files, spread.divided(table), strict=True):
                content = to_bytes(piece)
                file.write(len(content).to_bytes(_HEAD, "little") + content)
    for file in files:
        file.flush()
    return [Bucket(place, spread.columns, os.getpid(), file.fileno()) for place, file in enumerate(files)]


def to_bytes(table: Table) -> bytes:
    """A table as an Arrow stream; cells without a type are written as JSON, and decimal marks beside the names."""
    pa, ipc = arrow(), arrow("ipc")
    fields, arrays = [], []
    for name, column in table.columns.items():
        if isinstance(column, StoredColumn):
            array, decimal = column.values, column.decimal
        elif isinstance(column, ObjectColumn):
            array, decimal = pa.array([json.dumps(_tagged(cell)) for cell in column.values.tolist()], pa.string()), ""
        else:
            raise TypeError(type(column).__name__)
        fields.append(pa.field(name, array.type, metadata={"decimal": decimal}))
        arrays.append(array)
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, pa.schema(fields)) as writer:
        writer.write(pa.record_batch(arrays, schema=pa.schema(fields)))
    return sink.getvalue().to_pybytes()


def from_bytes(content: bytes) -> Table:
    """The table that was written so."""
    batch = arrow("ipc").open_stream(content).read_next_batch()
    columns: dict[str, Column] = {}
    for column, array in zip(batch.schema, batch.columns, strict=True):
        decimal = column.metadata[b"decimal"].decode()
        cells = (json.loads(text, object_hook=_untagged) for text in ([] if decimal else array.to_pylist()))
        columns[column.name] = StoredColumn(array, decimal) if decimal else ObjectColumn.of(cells)
    return Table(columns)


def _tagged(cell: Any) -> Any:
    """A cell, in an object where JSON has no form for it or does not read it back."""
    match cell:
        case Decimal():
            return {"decimal": str(cell)}
        case np.datetime64():
            return {"day": str(cell)}
        case Odd():
            return {}
        case int() if abs(cell) > 2**63:
            return {"whole": hex(cell)}
    return cell


def _untagged(tags: dict[str, str]) -> Any:
    if "whole" in tags:
        return int(tags["whole"], 16)
    if "decimal" in tags:
        return Decimal(tags["decimal"])
    return np.datetime64(tags["day"], "D") if "day" in tags else Odd.CELL
