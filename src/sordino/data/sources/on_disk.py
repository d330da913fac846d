"""Typed files in: Parquet, and Arrow (Feather) files.

A Parquet file that would expand more than a thousandfold is taken for a bomb.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any, ClassVar

from sordino.core.validate import InputError
from sordino.data.sources.csv_files import ALWAYS_ALLOWED, LARGEST_EXPANSION
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.parquet_files import parquet_parts
from sordino.data.sources.part import ROWS_AT_ONCE, Part, read_without_quoting
from sordino.data.sources.registry import column_kinds, existing_file, is_path_ending, register_source, unique_names
from sordino.data.table import Table, arrow, native_file

_TEXT, _DECIMAL = "BYTE_ARRAY", "DECIMAL"


def read_parquet(path: str | Path, only: Collection[str] | None = None) -> Table:
    """Read a Parquet file, or some columns of it; column types are those of the file."""
    return _opened(path, lambda file, size: from_arrow(_read(file, str(path), size, only)))


def parquet_schema(path: str | Path) -> Any:
    """Names and types in a Parquet file's footer; no row is read."""
    return _opened(path, lambda file, _: file.schema_arrow)


def _opened(path: str | Path, use: Callable[[Any, int], Any]) -> Any:
    pa, parquet = arrow(), arrow("parquet")
    file = existing_file(path)
    try:
        handle = native_file(file)
        footer = parquet.read_metadata(handle)
        # Text stays a list of words and places until its size is known.
        opened = parquet.ParquetFile(handle, metadata=footer, read_dictionary=_texts(footer.schema))
        return use(opened, file.stat().st_size)
    except InputError:
        raise
    except MemoryError:
        raise _expands(str(path), "more than fits into memory") from None
    except (pa.ArrowException, OSError, ValueError) as error:  # Arrow's own words may quote what the file holds
        kind = type(error).__name__
    raise InputError(f"Expected a Parquet file at {str(path)!r}, got one that cannot be read ({kind}); write it again.")


def _texts(schema: Any) -> list[str]:
    columns = (schema.column(place) for place in range(len(schema)))
    return [
        column.path
        for column in columns
        if column.physical_type == _TEXT and column.logical_type.type != _DECIMAL and "." not in column.path
    ]


def _read(file: Any, path: str, size: int, only: Collection[str] | None) -> Any:
    allowed = max(ALWAYS_ALLOWED, LARGEST_EXPANSION * size)
    _check_size(path, _number_bytes(file.metadata), allowed)
    table = file.read(None if only is None else sorted(set(only).intersection(file.schema_arrow.names)))
    _check_size(path, sum(_text_bytes(column) for column in table.columns), allowed)
    return table


def _number_bytes(footer: Any) -> int:
    """What the values take at least once they are decoded, by what the footer says."""
    # Only its totals are asked: pyarrow ends the process when asked about the columns of a damaged row group.
    columns = (footer.schema.column(place) for place in range(len(footer.schema)))
    return footer.num_rows * sum(max(8, column.length or 0) for column in columns)


def _text_bytes(column: Any) -> int:
    """What a column of words and places takes when every place holds its word."""
    pa, compute = arrow(), arrow("compute")
    if not pa.types.is_dictionary(column.type) or pa.types.is_primitive(column.type.value_type):
        return 0
    lengths = (compute.binary_length(chunk.dictionary).cast(pa.int64()).take(chunk.indices) for chunk in column.chunks)
    return sum(compute.sum(length).as_py() or 0 for length in lengths)


def _check_size(path: str, expanded: int, allowed: int) -> None:
    if expanded > allowed:
        raise _expands(path, f"{expanded} bytes from a file that may expand to {allowed}")


def _expands(path: str, what: str) -> InputError:
    return InputError(f"Expected a table of a sensible size in {path!r}, got {what}; split it, or use ParquetRows.")


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
    parquet_schema,
    lambda path: parquet_parts((existing_file(path),)),
)


def _arrow_file(path: str | Path, use: Callable[[Any], Any]) -> Any:
    """An Arrow file or stream, by its first bytes."""
    pa, ipc = arrow(), arrow("ipc")
    file = existing_file(path)
    with file.open("rb") as raw:
        opener = ipc.open_file if raw.read(6) == b"ARROW1" else ipc.open_stream
    try:
        return use(opener(native_file(file)))
    except (pa.ArrowException, OSError, ValueError) as error:  # Arrow's own words may quote what the file holds
        kind = type(error).__name__
    raise InputError(f"Expected an Arrow file at {str(path)!r}, got one that cannot be read ({kind}); write it again.")


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

    def kinds(self) -> dict[str, str]:
        return column_kinds(arrow_file_schema(self.path))

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        ipc = arrow("ipc")
        reader = _arrow_file(self.path, lambda opened: opened)
        if isinstance(reader, ipc.RecordBatchFileReader):
            batches = (reader.get_batch(place) for place in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in read_without_quoting(self.name, batches):
            for first in range(0, max(1, batch.num_rows), ROWS_AT_ONCE):
                yield from_arrow(batch.select(list(columns)).slice(first, ROWS_AT_ONCE))


def arrow_file_schema(path: str | Path) -> Any:
    """Names and types of an Arrow file; no row is read."""
    return _arrow_file(path, lambda reader: reader.schema)


register_source(
    "a path ending in .arrow or .feather",
    is_path_ending(".arrow", ".feather", ".ipc"),
    lambda path: _arrow_file(path, lambda reader: from_arrow(reader.read_all())),
    lambda path: unique_names(arrow_file_schema(path).names),
    types=arrow_file_schema,
    parts=lambda path: [ArrowPart(str(existing_file(path)))],
)
