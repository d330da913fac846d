"""Where tables come from: each source registers what it accepts and reads it in parts, a few rows at a time.

A part has a name that refusals may tell, says its columns without reading a row, and is read again for every round of
a fit.
"""

import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from sordino.core.validate import InputError, raise_alone, without_password
from sordino.data.raw_columns import Column, TextColumn, Unreadable, text_array
from sordino.data.table import Table
from sordino.data.words import clean_name, repeats, shown_names

# Rows that are read at once: enough to keep a kernel busy, few enough for twenty such parts to fit into memory.
ROWS_AT_ONCE = 2**17
MOST_COLUMNS = 100_000
# A few bytes can say "this text, a billion times". Tables of people do not repeat themselves a thousandfold.
LARGEST_EXPANSION = 1000
ALWAYS_ALLOWED = 2**30


class TablePart(ABC):
    """Some rows of a table, which can be read again and again.

    Attributes:
        shared: whether another process, given this object, can read the rows where they lie.
    """

    shared: ClassVar[bool] = False

    @property
    def ordered(self) -> bool:
        """Whether rows come in the same order whenever they are read."""
        return True

    @property
    @abstractmethod
    def name(self) -> str:
        """What refusals call it."""

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the columns; no row is read."""

    def empty(self) -> Table | None:
        """The columns by their types, without a row; None where they have no types."""
        return None

    @abstractmethod
    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        """The rows in order, a few at a time, with these columns."""

    def check_rows(self) -> None:  # noqa: B027
        """Refuse what is no table, before anything is debited; only text formats can fail to be one."""


Read = Callable[[Any, Collection[str] | None], Table]
Names = Callable[[Any], tuple[str, ...]]


@dataclass(frozen=True)
class Source:
    """One way in: a test that needs no import of the foreign library, and readers that may import it."""

    word: str
    accepts: Callable[[Any], bool]
    parts: Callable[[Any], Sequence[TablePart]]
    read: Read


class WholeSource(TablePart):
    """A source without parts of its own: the columns that were read last are kept."""

    def __init__(self, word: str, source: Any, read: Read, names: Names | None, empty: Any) -> None:
        self._word, self._source, self._read, self._names, self._empty = word, source, read, names, empty
        self._table: Table | None = None

    @property
    def name(self) -> str:
        return self._word

    def names(self) -> tuple[str, ...]:
        return self._read(self._source, None).names if self._names is None else self._names(self._source)

    def empty(self) -> Table | None:
        return None if self._empty is None else self._empty(self._source)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        if self._table is None or not set(columns) <= set(self._table.names):
            self._table = self._read(self._source, columns)
        yield Table({name: self._table.columns[name] for name in columns})


_SOURCES: dict[str, Source] = {}


def register_source(
    word: str,
    accepts: Callable[[Any], bool],
    read: Read | None = None,
    names: Names | None = None,
    empty: Callable[[Any], Table] | None = None,
    parts: Callable[[Any], Sequence[TablePart]] | None = None,
) -> None:
    """Add a source, which is read whole by `read` or in `parts`; no two accept the same.

    `read` takes the source and the names of the columns that are wanted, or None for all. For a source without parts,
    `names` reads the column names without reading a row, and `empty` gives a table of the same types without a row.
    """
    if word in _SOURCES:
        raise InputError(f"Expected a new source name, got {word!r}, which is already registered; choose another.")
    if parts is not None:
        read = read or partial(_read_parts, parts)
    elif read is None:
        raise InputError(f"Expected a reader or parts of the source {word!r}, got neither.")
    else:
        parts = partial(_whole, word, read, names, empty)
    _SOURCES[word] = Source(word, accepts, parts, read)


def _whole(word: str, read: Read, names: Names | None, empty: Any, source: Any) -> list[TablePart]:
    return [WholeSource(word, source, read, names, empty)]


def read_table(source: Any, only: Collection[str] | None = None) -> Table:
    """Read a table from a CSV or Parquet path, any data frame or Arrow table, or named arrays.

    `only` names the columns that are wanted: of a file with very many, no other is kept in memory. Names that the table
    lacks are left out, and sources that are in memory already may give more columns than were asked for.
    """
    return source_of(source).read(source, only)


def _read_parts(parts_of: Callable[[Any], Sequence[TablePart]], source: Any, only: Collection[str] | None) -> Table:
    """All rows in memory; with `only`, the other columns are dropped."""
    parts = parts_of(source)
    kept = kept_names(parts[0].names(), only)
    return joined([table for part in parts for table in part.tables(kept)], kept)


def kept_names(names: tuple[str, ...], only: Collection[str] | None) -> tuple[str, ...]:
    """The names that are wanted, of which there is one at least."""
    return names if only is None else tuple(name for name in names if name in set(only)) or names[:1]


def joined(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Tables with the same columns, one after the other; none of them makes a table without rows."""
    if not tables:
        return Table({name: TextColumn(text_array([])) for name in names})
    if len(tables) == 1:
        return tables[0]
    return Table({name: _joined(name, [table.columns[name] for table in tables]) for name in names})


def _joined(name: str, columns: Sequence[Column]) -> Column:
    first, *others = columns
    try:
        if all(type(column) is type(first) for column in others):
            return first.joined(others)
    except Unreadable:
        pass
    raise InputError(f"Expected one type of column {name!r} in all parts, got several; convert some of them.")


def read_without_quoting(name: str, batches: Iterable[Any]) -> Iterator[Any]:
    """What a foreign reader gives; what it raises may quote a cell, so only the kind of its complaint is told."""
    source = iter(batches)
    while True:
        try:
            batch = next(source)
        except StopIteration:
            return
        except (InputError, MemoryError):
            raise
        except Exception as error:
            raise_alone(InputError(f"Expected rows that can be read in {name}, got a {type(error).__name__}."))
        yield batch


def parts_of(source: Any) -> list[TablePart]:
    """The parts of a table, in order; no row is read."""
    return list(source_of(source).parts(source))


def check_rows(source: Any) -> None:
    """Refuse a source whose rows do not make a table; called before a debit, so that none is made for it."""
    for part in parts_of(source):
        part.check_rows()


def column_names(source: Any) -> tuple[str, ...]:
    """The column names of a table, read without its rows where the format allows it."""
    return parts_of(source)[0].names()


def declared_types(source: Any) -> dict[str, str]:
    """The kind of column that a file's or a frame's own types say, read without its rows; CSV files say nothing."""
    empty = empty_table(source)
    return {} if empty is None else column_kinds(empty)


def empty_table(source: Any) -> Table | None:
    """The columns of a table by their types, without a row; None where it has no types, as a CSV file."""
    return parts_of(source)[0].empty()


def column_kinds(table: Table) -> dict[str, str]:
    """The kinds of column that types say."""
    return {name: column.kind for name, column in table.columns.items() if column.kind is not None}


def source_of(source: Any) -> Source:
    """The first registered way in that accepts something."""
    for candidate in _SOURCES.values():
        if candidate.accepts(source):
            return candidate
    given = f"the path {str(source)!r}" if isinstance(source, str | Path) else f"a {type(source).__name__}"
    raise InputError(f"Expected a table as one of: {', '.join(_SOURCES)}; got {given}; convert it first.")


def is_path_ending(*suffixes: str) -> Callable[[Any], bool]:
    """A test for paths with one of the suffixes, in any case."""
    return lambda source: isinstance(source, str | Path) and Path(source).suffix.lower() in suffixes


def is_instance_named(package: str, *names: str) -> Callable[[Any], bool]:
    """A test for instances of a foreign class (or a subclass) that does not import the foreign package."""

    def accepts(source: Any) -> bool:
        ancestry = type(source).__mro__
        return any(kind.__module__.split(".")[0] == package and kind.__name__ in names for kind in ancestry)

    return accepts


def unique_names(names: Any) -> tuple[str, ...]:
    """Return column names as a tuple if all are text, none is blank, none repeats and they are not too many."""
    if len(names) > MOST_COLUMNS:
        raise InputError(f"Expected at most {MOST_COLUMNS} columns, got {len(names)}; drop or join some.")
    checked = tuple(clean_name(f"the name of column {index + 1}", name) for index, name in enumerate(names))
    repeated = repeats(checked)
    if repeated:
        raise InputError(f"Expected different column names, got {shown_names(repeated)} more than once; rename them.")
    return checked


def existing_file(path: str | Path) -> Path:
    """Return the path if a regular, non-empty file is there."""
    file = Path(path)
    try:
        status = file.stat()
    except (OSError, ValueError):
        raise InputError(
            f"Expected an existing file, got {without_password(str(path))[:200]!r}; check the path."
        ) from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"Expected a file, got the directory {str(path)!r}; name a file inside it.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"Expected a regular file, got {str(path)!r}; save its content to a file first.")
    if status.st_size == 0:
        raise InputError(f"Expected content in {str(path)!r}, got an empty file; check that it was written.")
    return file


def check_expansion(name: str, expanded: int, stored: int) -> None:
    """Refuse so many bytes out of so few that are stored."""
    if expanded > max(ALWAYS_ALLOWED, LARGEST_EXPANSION * stored):
        raise InputError(
            f"Expected a table of a sensible size in {name}, got one that expands from {stored} to {expanded} bytes or "
            "more; split it."
        )
