"""Rows that are read piece by piece, a few in memory out of many that are not: memory-mapped or in a Parquet file."""

import json
import mmap
import os
import shutil
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.chain.batch_stream import BatchBlock, Batches
from sordino.algorithm.chain.feed import Fed
from sordino.algorithm.chain.kernel import (
    Constants,
    EveryRow,
    Program,
    Records,
    advance,
    kept_buffer,
    moved,
    on_device,
    row_sum,
)
from sordino.algorithm.chain.rows import Reader, Reading, Rows, Workload
from sordino.algorithm.io.checkpoint import file_digest
from sordino.algorithm.noise.exact_sums import Total, no_total
from sordino.algorithm.noise.sums import checked_rows
from sordino.core.bound import Relation
from sordino.core.spec.document import parse, read_text
from sordino.core.validate import InputError, instance_of, refuse
from sordino.data.encode import encode
from sordino.data.schema import Schema, schema_to_text
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.registry import existing_file
from sordino.data.table import RowError, arrow

# How many bytes of rows are brought into memory at once; a run holds about four pieces.
PIECE_BYTES = 32 * 2**20


class Piece(NamedTuple):
    """Features and targets of a few rows."""

    features: NDArray[Any]
    target: NDArray[Any]


def _in_batches(
    source: "StreamedRows", reading: Reading, program: Program, constants: Constants, theta: Array, fed: Fed
) -> tuple[Array, Array]:
    """Put the rows of a block's batches side by side, in the order in which the block names them, and no others."""
    if fed.batches is None:
        raise InputError("Expected batches for streamed rows, got a block without any.")
    places = _used_places(fed.batches, int(fed.block.steps))
    fetched, listed = source.at(fed.batches.records[places]), len(fed.batches.records)
    features = np.zeros((listed, source.width), fetched.features.dtype)
    target = np.zeros(listed, fetched.target.dtype)
    features[places], target[places] = fetched
    records = on_device(features, target, listed, *reading)
    return advance(program, records, constants, theta, fed.block._replace(records=jnp.arange(listed, dtype=jnp.int32)))


def _used_places(batches: BatchBlock, steps: int) -> NDArray[np.int64]:
    """The places of the flat list that belong to a batch of the first `steps` steps; the rest of it is padding."""
    starts, counts = batches.starts[:steps].ravel().astype(np.int64), batches.counts[:steps].ravel()
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


# How many pieces may be on their way to the device; the next is read while the last is worked on.
_AHEAD = 2


@dataclass(frozen=True, eq=False)
class _EveryPiece:
    """Adds the gradients of one piece after the other, in the blocks in which a run in memory adds them."""

    source: "StreamedRows"
    length: int
    reading: Reading

    def __call__(self, program: Program, constants: Constants, theta: Array, fed: Fed) -> tuple[Array, Array]:
        kept = kept_buffer(program, theta)
        for k in range(int(fed.block.steps)):
            total = self._total(program, constants, theta)
            theta, kept = _moved(program, constants, theta, total, fed.block, jnp.asarray(k, jnp.int32), kept)
        return theta, kept[: program.slots]

    def _total(self, program: Program, constants: Constants, theta: Array) -> Total:
        total, under_way = no_total(theta.shape), deque[Array]()
        for first in range(0, self.source.count, self.length):
            piece = self.source.between(first, min(first + self.length, self.source.count))
            total = _added(program, constants, theta, on_device(*piece, self.length, *self.reading), total)
            under_way.append(total.high)
            if len(under_way) == _AHEAD:  # otherwise the host would read the whole file into a queue
                under_way.popleft().block_until_ready()
        return total


@partial(jax.jit, static_argnums=0)
def _added(program: Program, constants: Constants, theta: Array, records: Records, total: Total) -> Total:
    every_row = instance_of("the gradient sum", program.gradient_sum, EveryRow)
    return every_row.added(row_sum(program, constants), records, theta, total)


_moved = jax.jit(moved, static_argnums=0)


class StreamedRows(Rows):
    """Rows that are read piece by piece; `anywhere` says whether single rows can be reached."""

    # Where gradients are bounded their sums are whole numbers, the same as in memory (`exact_sums`).
    anywhere: ClassVar[bool]
    placement = "streamed"

    @abstractmethod
    def between(self, first: int, stop: int) -> Piece:
        """The rows `first`, ..., `stop - 1`."""

    @abstractmethod
    def at(self, positions: NDArray[np.integer]) -> Piece:
        """The rows at these positions, in this order."""

    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        if batches is None:
            block = workload.rows_per_block
            length = block * max(1, PIECE_BYTES // (block * self.width * reading.dtype.itemsize))
            return _EveryPiece(self, length, reading)
        if not (self.anywhere or batches.shared):
            raise refuse(
                "algorithm.batch.scheme",
                "to be full or cyclic for rows read from Parquet",
                "random batches",
                "write the rows to a memory map first, with MappedRows.write",
            )
        return partial(_in_batches, self, reading)

    def steps_per_block(self, workload: Workload, steps: int, batches: Batches | None) -> int:
        planned = workload.steps_per_block(steps, batches)
        if batches is None:
            return planned
        step_bytes = batches.groups * batches.capacity * self.width * workload.itemsize
        return max(1, min(planned, PIECE_BYTES // step_bytes))


_FEATURES, _TARGET, _LAYOUT = "features", "target", "layout.json"
# Mapped pages count as memory of the process until they are let go; whoever touches a row gets its neighbourhood too.
_HELD_BYTES = 64 * 2**20
_NEIGHBOURHOOD_BYTES = 2**16


class MappedRows(StreamedRows):
    """Encoded rows in a folder that only its owner may open; every batch scheme runs on them.

    The folder holds private rows: call `delete`, or use the object in a `with` statement, when the run is done.
    """

    anywhere = True

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        try:
            layout = parse(read_text(self._folder / _LAYOUT))
            self._target_type = np.dtype(layout["target"])
            super().__init__(int(layout["rows"]), int(layout["width"]))
            self._map = _mapped(self._folder / _FEATURES, self.count * self.width * 4)
            self._target = np.fromfile(self._folder / _TARGET, self._target_type)
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            raise _not_rows(self._folder) from None
        if len(self._target) != self.count:
            raise _not_rows(self._folder)
        self._features = np.frombuffer(self._map, np.float32, self.count * self.width).reshape(self.count, self.width)
        self._touched = 0

    @classmethod
    def write(cls, folder: str | Path, pieces: Iterable[tuple[Any, Any]]) -> "MappedRows":
        """Write rows, given in pieces of features and targets, to a new folder."""
        path = Path(folder)
        try:
            path.mkdir(mode=0o700, parents=True)
            layout = _written(path, pieces)
            (path / _LAYOUT).write_text(json.dumps(layout), encoding="utf-8")
        except FileExistsError:
            raise InputError(f"Expected a new folder for mapped rows, got {str(path)!r}, which exists.") from None
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise InputError(
                f"Expected to be able to write mapped rows to {str(path)!r}, got: {error.strerror or error}; "
                "make room there, or choose another folder."
            ) from None
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return cls(path)

    def between(self, first: int, stop: int) -> Piece:
        # Read, not mapped: rows in order are needed once, and would only fill the memory of the process.
        features = np.fromfile(
            self._folder / _FEATURES, np.float32, (stop - first) * self.width, offset=4 * first * self.width
        )
        return Piece(features.reshape(-1, self.width), self._target[first:stop])

    def at(self, positions: NDArray[np.integer]) -> Piece:
        features = np.empty((len(positions), self.width), np.float32)
        at_once = max(1, _HELD_BYTES // max(_NEIGHBOURHOOD_BYTES, 4 * self.width))
        for first in range(0, len(positions), at_once):
            chosen = positions[first : first + at_once]
            np.take(self._features, chosen, axis=0, out=features[first : first + at_once])
            self._let_go(len(chosen), at_once)
        return Piece(features, self._target[positions])

    def _let_go(self, touched: int, limit: int) -> None:
        self._touched += touched
        if self._touched >= limit and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0

    def delete(self) -> None:
        """Delete the folder; the rows cannot be read any more."""
        self._features = np.zeros((0, self.width), np.float32)
        with suppress(BufferError):
            self._map.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "MappedRows":
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def content(self, salt: bytes) -> str:
        return file_digest(salt, [self._folder / name for name in (_LAYOUT, _FEATURES, _TARGET)])


def _written(folder: Path, pieces: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    rows, width, target_type = 0, None, None
    with _private(folder / _FEATURES) as features, _private(folder / _TARGET) as target:
        for piece in pieces:
            X, y = checked_rows(*piece, np.float32)
            if width not in (None, X.shape[1]) or target_type not in (None, y.dtype):
                raise InputError("Expected pieces of one width and one kind of target, got different ones.")
            rows, width, target_type = rows + len(X), X.shape[1], y.dtype
            features.write(np.ascontiguousarray(X, np.float32).tobytes())
            target.write(np.ascontiguousarray(y).tobytes())
    if target_type is None:
        raise InputError("Expected at least one piece of rows to write, which may be empty, got none.")
    return {"rows": rows, "width": width, "target": target_type.str}


def _private(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _mapped(path: Path, size: int) -> mmap.mmap:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != size:
            raise ValueError(path)
        # Nothing cannot be mapped; a page without a file is as empty.
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else mmap.mmap(-1, mmap.PAGESIZE)


def _not_rows(folder: Path) -> InputError:
    return InputError(
        f"Expected a folder of mapped rows at {str(folder)!r}, got one that is absent or incomplete; "
        "write it with MappedRows.write."
    )


_ROWS_AT_ONCE = 2**15
_BUFFER_BYTES = 2**20


class ParquetRows(StreamedRows):
    """Full and cyclic batches straight from a Parquet file.

    Formal guarantees: a row is encoded by itself and the schema, so it has the bits it has when the whole table is
    encoded at once. Under replace-one the file must have the number of records the schema declares.
    """

    anywhere = False

    def __init__(self, path: str | Path, schema: Schema, relation: Relation) -> None:
        instance_of("schema", schema, Schema)
        self._path, self._schema, self._relation = Path(path), schema, instance_of("relation", relation, Relation)
        groups = _opened(existing_file(path)).metadata
        self._starts = np.cumsum([0] + [groups.row_group(i).num_rows for i in range(groups.num_row_groups)])
        count = int(self._starts[-1])
        if relation is Relation.REPLACE_ONE and count != schema.records:
            raise InputError(
                f"Expected {schema.records} records as the schema declares, got {count}; under replace-one the number "
                "is public, so correct the declaration or the table."
            )
        super().__init__(count, len(schema.feature_names))
        self._next, self._pieces, self._left, self._read_rows = -1, iter(()), None, 0

    def between(self, first: int, stop: int) -> Piece:
        if first != self._next:
            self._seek(first)
        parts: list[Piece] = []
        missing = stop - first
        while missing > 0:
            piece = self._left if self._left is not None else self._encoded(self._read())
            parts.append(Piece(*(column[:missing] for column in piece)))
            rest = len(piece.target) - missing
            self._left = Piece(*(column[missing:] for column in piece)) if rest > 0 else None
            missing = max(0, -rest)
        self._next = stop
        return _joined(parts)

    def at(self, positions: NDArray[np.integer]) -> Piece:
        runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
        return _joined([self.between(int(run[0]), int(run[-1]) + 1) for run in runs if run.size])

    def pieces(self) -> Iterator[Piece]:
        """All rows in order, a few at a time."""
        for first in range(0, self.count, _ROWS_AT_ONCE):
            yield self.between(first, min(first + _ROWS_AT_ONCE, self.count))

    def _seek(self, first: int) -> None:
        group = int(np.searchsorted(self._starts, first, side="right")) - 1
        self._pieces = _batches(_opened(self._path), range(group, len(self._starts) - 1))
        self._left, self._next = None, int(self._starts[group])
        self._read_rows = self._next
        if first > self._next:
            self.between(self._next, first)

    def _read(self) -> Any:
        """The next rows as they are stored; a file that was cut short or damaged since is refused."""
        try:
            return next(self._pieces)
        except (arrow().ArrowException, OSError, ValueError, StopIteration) as error:
            raise _unreadable(self._path, error) from None

    def _encoded(self, batch: Any) -> Piece:
        before, self._read_rows = self._read_rows, self._read_rows + batch.num_rows
        try:
            # The declared number is that of the whole file, and was checked for it.
            encoded = encode(replace(self._schema, records=batch.num_rows), from_arrow(batch), self._relation)
        except RowError as error:
            raise error.behind(before) from None
        return Piece(encoded.features.astype(np.float32), encoded.target)

    def content(self, salt: bytes) -> str:
        # The file's bytes and the schema that encodes them: together they are the rows.
        return file_digest(salt, [self._path], schema_to_text(self._schema))


def _joined(parts: list[Piece]) -> Piece:
    return parts[0] if len(parts) == 1 else Piece(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _batches(file: Any, groups: Iterable[int]) -> Iterator[Any]:
    for group in groups:  # asked for all groups at once, Arrow would hold many of them
        yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, row_groups=[group])


def _opened(path: Path) -> Any:
    try:
        return arrow("parquet").ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (arrow().ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    # Arrow's own words may quote what the file holds, which is private.
    return InputError(f"Expected a readable Parquet file at {str(path)!r}, got {type(error).__name__}; write it again.")
