"""Rows read from a Parquet file in order, encoded by their schema on the way: nothing is written, little is held."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.io.checkpoint import file_digest
from sordino.algorithm.io.stream import Piece, StreamedRows
from sordino.core.bound import Relation
from sordino.core.validate import InputError, instance_of
from sordino.data.encode import encode
from sordino.data.schema import Schema, schema_to_text
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.registry import existing_file
from sordino.data.table import RowError, arrow

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
