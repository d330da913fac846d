"""Parquet in many files: a folder, a partitioned dataset, a pattern, or a list of paths; and large files in pieces.

Folders such as ``year=2024`` say a column of all rows below them, as Hive and Spark write it. Hidden files and those
that begin with an underscore are notes of whoever wrote the folder. Every file is a part; one of many row groups is
several, so that all cores have work.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from sordino.core.validate import InputError
from sordino.data.raw_columns import Texts, arrow, text_array
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.part import ROWS_AT_ONCE, Part, joined, read_without_quoting
from sordino.data.sources.registry import check_expansion, existing_file, register_source, unique_names
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
class ParquetPart(Part):
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
        return Table({**inside, **{name: Texts(text_array([])) for name, _ in self.keys}})

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        pa, keys = arrow(), dict(self.keys)
        inside = [name for name in columns if name not in keys]
        with opened_parquet(self.path) as file:
            counted = file.iter_batches(ROWS_AT_ONCE, row_groups=list(self.groups), columns=inside, use_threads=False)
            for batch in read_without_quoting(self.name, counted):
                found = dict(from_arrow(batch).columns) if inside else {}
                for name in columns:
                    if name in keys:
                        found[name] = Texts(pa.repeat(pa.scalar(keys[name], pa.large_string()), batch.num_rows))
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
        if not isinstance(self.path, str | Path):
            return parquet_parts([existing_file(path) for path in self.path])
        root = Path(self.path)
        if not root.is_dir():
            return parquet_parts([existing_file(path) for path in sorted(glob(str(self.path), recursive=True))])
        files = [
            path
            for path in sorted(root.rglob("*.parquet"))
            if path.is_file() and not any(word.startswith((".", "_")) for word in path.relative_to(root).parts)
        ]
        return parquet_parts([existing_file(path) for path in files], root)

    def checked(self) -> list[ParquetPart]:
        """The parts, of which there must be some."""
        found = self.parts()
        if not found:
            raise InputError(f"Expected Parquet files at {str(self.path)!r}, got none; check the path.")
        return found

    def read(self, only: Collection[str] | None = None) -> Table:
        """All rows in memory."""
        parts = self.checked()
        names = parts[0].names()
        kept = names if only is None else tuple(name for name in names if name in set(only)) or names[:1]
        tables, text = [], 0
        stored = sum(os.stat(path).st_size for path in {part.path for part in parts if isinstance(part, ParquetPart)})
        for table in (table for part in parts for table in part.tables(kept)):
            tables.append(table)
            text += sum(column.values.nbytes for column in table.columns.values() if isinstance(column, Texts))
            check_expansion(repr(str(self.path)), text, stored)
        return joined(tables, kept)


def is_parquet_family(source: Any) -> bool:
    """Whether something is a folder of Parquet files, or a pattern of them."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    return os.path.isdir(path) or (path.suffix.lower() == ".parquet" and has_magic(str(source)))


register_source(
    "a folder or a pattern of .parquet files",
    is_parquet_family,
    lambda path: ParquetFiles(path).read(),
    lambda path: ParquetFiles(path).checked()[0].names(),
    lambda path, only: ParquetFiles(path).read(only),
    lambda path: ParquetFiles(path).checked()[0].empty(),
    parts=lambda path: ParquetFiles(path).checked(),
)
register_source(
    "a ParquetFiles",
    lambda source: isinstance(source, ParquetFiles),
    ParquetFiles.read,
    lambda files: files.checked()[0].names(),
    lambda files, only: files.read(only),
    lambda files: files.checked()[0].empty(),
    parts=ParquetFiles.checked,
)
