"""Typed files in: Parquet, and Arrow (Feather) files.

A file that would expand more than a thousandfold is taken for a bomb.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any, ClassVar

from sordino.core.validate import InputError, raise_alone
from sordino.data.raw_columns import arrow
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.parquet_files import opened_parquet, parquet_parts
from sordino.data.sources.part import ROWS_AT_ONCE, Part, read_without_quoting
from sordino.data.sources.registry import check_expansion, existing_file, is_path_ending, register_source, unique_names
from sordino.data.table import Table, native_file


def read_parquet(path: str | Path, only: Collection[str] | None = None) -> Table:
    """Read a Parquet file, or some columns of it; column types are those of the file."""
    with opened_parquet(path) as file:
        columns = None if only is None else sorted(set(only).intersection(file.schema_arrow.names))
        return next(_read_or_refused(path, (from_arrow(file.read(columns)) for _ in range(1))))


def parquet_schema(path: str | Path) -> Any:
    """Names and types in a Parquet file's footer; no row is read."""
    with opened_parquet(path) as file:
        return file.schema_arrow


def _read_or_refused(path: str | Path, tables: Iterable[Any]) -> Iterator[Any]:
    """What Arrow reads; what the file asks for and memory does not hold is refused too."""
    try:
        yield from read_without_quoting(repr(str(path)), tables)
    except MemoryError:
        raise_alone(
            InputError(
                f"Expected a table that fits into memory in {str(path)!r}, got more; split it, or look who made it."
            )
        )


def _is_parquet(source: Any) -> bool:
    """A path of one file; patterns and folders are families of files."""
    named = is_path_ending(".parquet")(source)
    return named and not os.path.isdir(source) and (os.path.exists(source) or not has_magic(str(source)))


register_source(
    "a path ending in .parquet",
    _is_parquet,
    read_parquet,
    lambda path: tuple(parquet_schema(path).names),
    read_parquet,
    lambda path: from_arrow(parquet_schema(path).empty_table()),
    lambda path: parquet_parts((existing_file(path),)),
)


def _arrow_file(path: str | Path) -> Any:
    """An Arrow file or stream, by its first bytes; names that are no text are refused here."""
    pa, ipc = arrow(), arrow("ipc")
    file = existing_file(path)
    with file.open("rb") as raw:
        opener = ipc.open_file if raw.read(6) == b"ARROW1" else ipc.open_stream
    try:
        reader = opener(native_file(file))
        list(reader.schema.names)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:  # Arrow's own words may quote a cell
        kind = type(error).__name__
        raise_alone(
            InputError(
                f"Expected an Arrow file at {str(path)!r}, got one that cannot be read ({kind}); write it again."
            )
        )
    return reader


def _as_bytes(column: Any) -> Any:
    """The same column with text as bytes: text that is no UTF-8 is a word that nobody declared, and no damage."""
    pa = arrow()
    types = pa.types
    if types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
    raw = ((types.is_string, pa.binary()), (types.is_large_string, pa.large_binary()))
    views = ((types.is_string_view, pa.binary_view()),)
    return next((column.view(kind) for test, kind in (*raw, *views) if test(column.type)), column)


def _arrow_batches(path: str | Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The record batches of an Arrow file or stream, checked in full: what damaged ones say ends the process."""
    reader, stored = _arrow_file(path), existing_file(path).stat().st_size
    of_file = isinstance(reader, arrow("ipc").RecordBatchFileReader)
    expanded = 0
    for whole in map(reader.get_batch, range(reader.num_record_batches)) if of_file else reader:
        batch = whole if columns is None else whole.select(list(columns))
        for column in batch.columns:
            _as_bytes(column).validate(full=True)
        expanded += batch.nbytes
        check_expansion(repr(str(path)), expanded, stored)
        yield batch


def _read_arrow(path: str | Path) -> Table:
    schema, batches = arrow_file_schema(path), _read_or_refused(path, _arrow_batches(path))
    return from_arrow(arrow().Table.from_batches(batches, schema))


@dataclass(frozen=True)
class ArrowPart(Part):
    """An Arrow file or stream, batch by batch."""

    path: str
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return repr(self.path)

    def names(self) -> tuple[str, ...]:
        return unique_names(arrow_file_schema(self.path).names)

    def empty(self) -> Table:
        return _empty_file(self.path)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for batch in _read_or_refused(self.path, _arrow_batches(self.path, columns)):
            for first in range(0, max(1, batch.num_rows), ROWS_AT_ONCE):
                yield from_arrow(batch.slice(first, ROWS_AT_ONCE))


def arrow_file_schema(path: str | Path) -> Any:
    """Names and types of an Arrow file; no row is read."""
    return _arrow_file(path).schema


def _empty_file(path: str | Path) -> Table:
    return from_arrow(arrow_file_schema(path).empty_table())


register_source(
    "a path ending in .arrow or .feather",
    is_path_ending(".arrow", ".feather", ".ipc"),
    _read_arrow,
    lambda path: unique_names(arrow_file_schema(path).names),
    empty=_empty_file,
    parts=lambda path: [ArrowPart(str(existing_file(path)))],
)
