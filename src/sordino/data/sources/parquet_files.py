"""Reads Parquet and Arrow (Feather) files: one file, a folder, a partitioned dataset, or a pattern.

Folders such as ``year=2024`` say a column of all rows below them. Hidden files and those that begin with an underscore
are skipped. Every file is a part; one of many row groups is several, so that all cores have work.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sordino.core.validate import InputError, raise_alone
from sordino.data.raw_columns import StoredColumn, arrow, text_array
from sordino.data.sources import registry
from sordino.data.sources.in_memory import from_arrow
from sordino.data.table import Table, native_file

# A part has at least so many rows where a file has more: few parts cost little, and many of them spread well.
_ROWS_OF_A_PART = 2**20


def opened_parquet(path: str | Path) -> Any:
    """A Parquet file whose footer promises a table of a sensible size; text stays words and places."""
    pa, parquet, file = arrow(), arrow("parquet"), registry.existing_file(path)
    try:
        handle = native_file(file)
        footer = parquet.read_metadata(handle)
        columns = [footer.schema.column(place) for place in range(len(footer.schema))]
        registry.check_expansion(repr(str(path)), _promised(footer), file.stat().st_size)
        flat = [column for column in columns if column.physical_type == "BYTE_ARRAY" and column.path == column.name]
        texts = [column.name for column in flat if column.logical_type.type != "DECIMAL"]
        return parquet.ParquetFile(handle, metadata=footer, read_dictionary=texts, pre_buffer=False)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise_alone(_unreadable("Parquet", path, error))


def _unreadable(kind: str, path: str | Path, error: Exception) -> InputError:
    """Without Arrow's own words, which may quote what the file holds."""
    return InputError(f"The {kind} file {str(path)!r} cannot be read ({type(error).__name__}). Write it again.")


def _promised(footer: Any) -> int:
    """What the values take at least once they are decoded, by what the footer says."""
    # Only totals are asked: pyarrow ends the process when asked about the columns of a damaged row group.
    columns = (footer.schema.column(place) for place in range(len(footer.schema)))
    rows = sum(footer.row_group(place).num_rows for place in range(footer.num_row_groups))
    return max(rows, footer.num_rows) * sum(max(8, column.length or 0) for column in columns)


@dataclass(frozen=True)
class ParquetPart(registry.FilePart):
    """Some row groups of a Parquet file, and the columns that its folders say."""

    groups: tuple[int, ...] = ()
    keys: tuple[tuple[str, str | None], ...] = ()

    def names(self) -> tuple[str, ...]:
        with opened_parquet(self.path) as file:
            return registry.unique_names([*file.schema_arrow.names, *(name for name, _ in self.keys)])

    def empty(self) -> Table:
        with opened_parquet(self.path) as file:
            inside = from_arrow(file.schema_arrow.empty_table()).columns
        return Table({**inside, **{name: StoredColumn(text_array([])) for name, _ in self.keys}})

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        pa, keys = arrow(), dict(self.keys)
        inside = [name for name in columns if name not in keys]
        with opened_parquet(self.path) as file:
            how = {"row_groups": list(self.groups), "columns": inside, "use_threads": False}
            counted = file.iter_batches(registry.ROWS_AT_ONCE, **how)
            for batch in registry.read_without_quoting(self.name, counted):
                stored = dict(from_arrow(batch).columns) if inside else {}
                for name in keys.keys() & set(columns):
                    word = pa.scalar(keys[name], pa.large_string())
                    stored[name] = StoredColumn(pa.repeat(word, batch.num_rows))
                yield Table({name: stored[name] for name in columns})


def parquet_parts(path: str | Path) -> list[registry.TablePart]:
    """The parts of a file, a folder or a pattern, in the order of names; footers are read, and no row."""
    root = Path(path)
    if root.is_dir():
        below = [file.relative_to(root) for file in sorted(root.rglob("*.parquet")) if file.is_file()]
        files = [(root / file, _keys(file)) for file in below if not any(w.startswith((".", "_")) for w in file.parts)]
    else:
        pattern = has_magic(str(path)) and not root.exists()
        files = [(file, ()) for file in (sorted(glob(str(path), recursive=True)) if pattern else [path])]
    if not files:
        raise InputError(f"There are no Parquet files at {str(path)!r}. Check the path.")
    parts: list[registry.TablePart] = []
    promised, stored = 0, sum(registry.existing_file(file).stat().st_size for file, _ in files)
    for file, keys in files:
        with opened_parquet(file) as opened:
            promised += _promised(opened.metadata)
            sizes = [opened.metadata.row_group(place).num_rows for place in range(opened.num_row_groups)]
        registry.check_expansion("the files", promised, stored)
        parts += [ParquetPart(str(file), groups, keys) for groups in _groups(sizes)]
    return parts


def _groups(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Row groups, by their sizes, in runs of so many rows; one empty run where there are none."""
    run: list[int] = []
    rows = 0
    for place, size in enumerate(sizes):
        run.append(place)
        rows += size
        if rows >= _ROWS_OF_A_PART:
            yield tuple(run)
            run, rows = [], 0
    if run or not sizes:
        yield tuple(run)


def _keys(file: Path) -> tuple[tuple[str, str | None], ...]:
    pairs = (map(unquote, folder.split("=", 1)) for folder in file.parts[:-1] if "=" in folder)
    return tuple((name, None if value == "__HIVE_DEFAULT_PARTITION__" else value) for name, value in pairs)


@dataclass(frozen=True)
class ArrowPart(registry.FilePart):
    """An Arrow file or stream, batch by batch."""

    def empty(self) -> Table:
        return from_arrow(_opened_arrow(self.path).schema.empty_table())

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for batch in registry.read_without_quoting(self.name, self._batches(columns)):
            for first in range(0, max(1, batch.num_rows), registry.ROWS_AT_ONCE):
                yield from_arrow(batch.slice(first, registry.ROWS_AT_ONCE))

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """The record batches, checked in full: what damaged ones say ends the process."""
        reader, expanded = _opened_arrow(self.path), 0
        of_file = isinstance(reader, arrow("ipc").RecordBatchFileReader)
        for whole in map(reader.get_batch, range(reader.num_record_batches)) if of_file else reader:
            batch = whole.select(list(columns))
            for column in batch.columns:
                _as_bytes(column).validate(full=True)
            # Nulls and runs take no room in a batch, and eight bytes a row once they are read.
            expanded += max(batch.nbytes, 8 * batch.num_rows * batch.num_columns)
            registry.check_expansion(self.name, expanded, self.stored_bytes)
            yield batch


def _opened_arrow(path: str) -> Any:
    """An Arrow file or stream, by its first bytes; names that are no text are refused here."""
    pa, ipc, file = arrow(), arrow("ipc"), registry.existing_file(path)
    with file.open("rb") as raw:
        opener = ipc.open_file if raw.read(6) == b"ARROW1" else ipc.open_stream
    try:
        reader = opener(native_file(file))
        list(reader.schema.names)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise_alone(_unreadable("Arrow", path, error))
    return reader


def _as_bytes(column: Any) -> Any:
    """The same column with text as bytes: text that is no UTF-8 is a word that nobody declared, and no damage."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
    stored = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    return column.view(stored[column.type]) if column.type in stored else column


def _is_parquet(source: object) -> bool:
    return registry.is_path_ending(".parquet")(source) or (isinstance(source, str | Path) and os.path.isdir(source))


registry.register_source("a path, a folder or a pattern of .parquet files", _is_parquet, parquet_parts)
_is_arrow = registry.is_path_ending(".arrow", ".feather", ".ipc")
registry.register_source("a path ending in .arrow or .feather", _is_arrow, lambda path: [ArrowPart(str(path))])
