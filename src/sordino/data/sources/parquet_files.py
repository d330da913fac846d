"""Parquet and Arrow (Feather) files in: one file, a folder, a partitioned dataset, a pattern, or a list of paths.

Folders such as ``year=2024`` say a column of all rows below them, as Hive and Spark write it. Hidden files and those
that begin with an underscore are notes of the writer. Every file is a part; one of many row groups is
several, so that all cores have work. A file that would expand more than a thousandfold is taken for a bomb.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from sordino.core.validate import InputError, raise_alone
from sordino.data.raw_columns import TextColumn, arrow, text_array
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.registry import (
    ROWS_AT_ONCE,
    TablePart,
    check_expansion,
    existing_file,
    is_path_ending,
    joined,
    kept_names,
    read_without_quoting,
    register_source,
    unique_names,
)
from sordino.data.table import Table, native_file

# A part has at least so many rows where a file has more: few parts cost little, and many of them spread well.
_ROWS_OF_A_PART = 2**20
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def opened_parquet(path: str | Path, buffer_size: int = 0) -> Any:
    """A Parquet file whose footer promises a table of a sensible size; text stays words and places."""
    pa, parquet, file = arrow(), arrow("parquet"), existing_file(path)
    try:
        handle = native_file(file)
        footer = parquet.read_metadata(handle)
        columns = [footer.schema.column(place) for place in range(len(footer.schema))]
        check_expansion(repr(str(path)), _promised(footer), file.stat().st_size)
        texts = [
            column.name
            for column in columns
            if column.physical_type == "BYTE_ARRAY"
            and column.logical_type.type != "DECIMAL"
            and column.path == column.name
        ]
        return parquet.ParquetFile(
            handle, metadata=footer, read_dictionary=texts, pre_buffer=False, buffer_size=buffer_size
        )
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # Arrow's own words may quote what the file holds
        kind = type(error).__name__
    raise InputError(f"Expected a Parquet file at {str(path)!r}, got one that cannot be read ({kind}); write it again.")


def _promised(footer: Any) -> int:
    """What the values take at least once they are decoded, by what the footer says."""
    # Only totals are asked: pyarrow ends the process when asked about the columns of a damaged row group.
    columns = (footer.schema.column(place) for place in range(len(footer.schema)))
    rows = sum(footer.row_group(place).num_rows for place in range(footer.num_row_groups))
    return max(rows, footer.num_rows) * sum(max(8, column.length or 0) for column in columns)


@dataclass(frozen=True)
class ParquetPart(TablePart):
    """Some row groups of a Parquet file, and the columns that its folders say."""

    path: str
    groups: tuple[int, ...]
    keys: tuple[tuple[str, str | None], ...] = ()
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return repr(self.path)

    def names(self) -> tuple[str, ...]:
        with opened_parquet(self.path) as file:
            return unique_names([*file.schema_arrow.names, *(name for name, _ in self.keys)])

    def empty(self) -> Table:
        with opened_parquet(self.path) as file:
            inside = from_arrow(file.schema_arrow.empty_table()).columns
        return Table({**inside, **{name: TextColumn(text_array([])) for name, _ in self.keys}})

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        pa, keys = arrow(), dict(self.keys)
        inside = [name for name in columns if name not in keys]
        with opened_parquet(self.path) as file:
            counted = file.iter_batches(ROWS_AT_ONCE, row_groups=list(self.groups), columns=inside, use_threads=False)
            for batch in read_without_quoting(self.name, counted):
                found = dict(from_arrow(batch).columns) if inside else {}
                for name in columns:
                    if name in keys:
                        found[name] = TextColumn(pa.repeat(pa.scalar(keys[name], pa.large_string()), batch.num_rows))
                yield Table({name: found[name] for name in columns})


def parquet_parts(files: Sequence[Path], root: Path | None = None) -> list[ParquetPart]:
    """The parts of some files; what is below `root` may be in folders that say columns."""
    found: list[ParquetPart] = []
    promised, stored = 0, sum(file.stat().st_size for file in files)
    for file in files:
        keys = () if root is None else _keys(file.relative_to(root).parts[:-1])
        with opened_parquet(file) as opened:
            promised += _promised(opened.metadata)
            check_expansion("the files", promised, stored)
            sizes = [opened.metadata.row_group(place).num_rows for place in range(opened.num_row_groups)]
        groups: list[int] = []
        rows = 0
        for place, size in enumerate(sizes):
            groups.append(place)
            rows += size
            if rows >= _ROWS_OF_A_PART:
                found.append(ParquetPart(str(file), tuple(groups), keys))
                groups, rows = [], 0
        if groups or not sizes:
            found.append(ParquetPart(str(file), tuple(groups), keys))
    return found


def _keys(folders: Sequence[str]) -> tuple[tuple[str, str | None], ...]:
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return tuple((unquote(name), None if value == _NO_VALUE else unquote(value)) for name, value in pairs)


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files that are one table.

    Attributes:
        path: a folder, a pattern such as ``visits/*.parquet``, or several paths.
    """

    path: str | Path | Sequence[str | Path]

    def parts(self) -> list[ParquetPart]:
        """All parts, in the order of the files' names; footers are read, and no row."""
        files, root = self._files()
        parts = parquet_parts([existing_file(path) for path in files], root)
        if not parts:
            raise InputError(f"Expected Parquet files at {str(self.path)!r}, got none; check the path.")
        return parts

    def _files(self) -> tuple[Iterable[str | Path], Path | None]:
        if not isinstance(self.path, str | Path):
            return self.path, None
        root = Path(self.path)
        if not root.is_dir():
            return sorted(glob(str(self.path), recursive=True)), None
        below = (path for path in sorted(root.rglob("*.parquet")) if path.is_file())
        hidden = (".", "_")
        return [path for path in below if not any(w.startswith(hidden) for w in path.relative_to(root).parts)], root

    def read(self, only: Collection[str] | None = None) -> Table:
        parts = self.parts()
        kept = kept_names(parts[0].names(), only)
        tables, text = [], 0
        stored = sum(os.stat(path).st_size for path in {part.path for part in parts})
        for table in (table for part in parts for table in part.tables(kept)):
            tables.append(table)
            text += sum(column.values.nbytes for column in table.columns.values() if isinstance(column, TextColumn))
            check_expansion(repr(str(self.path)), text, stored)
        return joined(tables, kept)


def read_parquet(path: str | Path, only: Collection[str] | None = None) -> Table:
    """Read a Parquet file, or some columns of it; column types are those of the file."""
    with opened_parquet(path) as file:
        columns = None if only is None else sorted(set(only).intersection(file.schema_arrow.names))
        return next(_read_or_refused(path, (from_arrow(file.read(columns)) for _ in range(1))))


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
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
    stored = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    return column.view(stored[column.type]) if column.type in stored else column


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


def _read_arrow(path: str | Path, _only: Collection[str] | None) -> Table:
    batches = _read_or_refused(path, _arrow_batches(path))
    return from_arrow(arrow().Table.from_batches(batches, _arrow_file(path).schema))


@dataclass(frozen=True)
class ArrowPart(TablePart):
    """An Arrow file or stream, batch by batch."""

    path: str
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return repr(self.path)

    def names(self) -> tuple[str, ...]:
        return unique_names(_arrow_file(self.path).schema.names)

    def empty(self) -> Table:
        return from_arrow(_arrow_file(self.path).schema.empty_table())

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for batch in _read_or_refused(self.path, _arrow_batches(self.path, columns)):
            for first in range(0, max(1, batch.num_rows), ROWS_AT_ONCE):
                yield from_arrow(batch.slice(first, ROWS_AT_ONCE))


def _is_one_file(source: Any) -> bool:
    """A path of one Parquet file; patterns and folders are families of files."""
    named = is_path_ending(".parquet")(source)
    return named and not os.path.isdir(source) and (os.path.exists(source) or not has_magic(str(source)))


def _is_family(source: Any) -> bool:
    """Whether something is a folder of Parquet files, a pattern of them, or a `ParquetFiles`."""
    if not isinstance(source, str | Path):
        return isinstance(source, ParquetFiles)
    return os.path.isdir(source) or (is_path_ending(".parquet")(source) and has_magic(str(source)))


def _family(source: Any) -> ParquetFiles:
    return source if isinstance(source, ParquetFiles) else ParquetFiles(source)


register_source(
    "a path ending in .parquet", _is_one_file, read_parquet, parts=lambda path: parquet_parts((existing_file(path),))
)
register_source(
    "a path ending in .arrow or .feather",
    is_path_ending(".arrow", ".feather", ".ipc"),
    _read_arrow,
    parts=lambda path: [ArrowPart(str(existing_file(path)))],
)
register_source(
    "a folder or a pattern of .parquet files, or a ParquetFiles",
    _is_family,
    lambda source, only: _family(source).read(only),
    parts=lambda source: _family(source).parts(),
)
