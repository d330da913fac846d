"""Where tables come from: each source registers what it accepts, and the parts in which it is read."""

import math
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sordino.core.validate import InputError, raise_alone, shown_names, without_password
from sordino.data.columns.base import clean_text, repeats
from sordino.data.raw_columns import Column, StoredColumn, Unreadable, text_array
from sordino.data.table import Table

# Rows that are read at once: enough to keep a kernel busy, few enough for twenty such parts to fit into memory.
ROWS_AT_ONCE = 2**17
MOST_COLUMNS = 100_000
# A few bytes can say "this text, a billion times". Tables of people do not repeat themselves a thousandfold.
LARGEST_EXPANSION = 1000
ALWAYS_ALLOWED = 2**30


class TablePart(ABC):
    """Some rows of a table, which are read again for every round of a fit."""

    shared: ClassVar[bool] = False  # whether another process, given this object, can read the rows where they lie
    name: str  # what refusals call it
    ordered: bool = True  # whether rows come in the same order whenever they are read
    stored_bytes: int | None = None  # of files; None for what is in memory or comes from elsewhere

    def names(self) -> tuple[str, ...]:
        """Names of the columns; no row is read."""
        empty = self.empty()
        return () if empty is None else empty.names

    def empty(self) -> Table | None:
        """The columns by their types, without a row; None where they have no types."""
        return None

    @abstractmethod
    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        """The rows in order, a few at a time, with these columns."""

    def check_rows(self) -> None:  # noqa: B027
        """Refuse what is no table, before anything is debited; only text formats can fail to be one."""


@dataclass(eq=False)
class HeldPart(TablePart):
    """A table that is in memory already: `read` makes columns of it, and `without_rows` the same without a row."""

    name: str
    source: Any
    read: Callable[[Any, Collection[str] | None], Table]
    without_rows: Callable[[Any], Any]
    _columns: Table | None = field(default=None, repr=False)

    def empty(self) -> Table:
        return self.read(self.without_rows(self.source), None)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        # The columns that were read last are kept for the next round.
        if self._columns is None or not set(columns) <= set(self._columns.names):
            self._columns = self.read(self.source, columns)
        yield Table({name: self._columns.columns[name] for name in columns})


@dataclass(frozen=True)
class FilePart(TablePart):
    """A file of columns, or some of its rows, which any process can read."""

    path: str
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return repr(self.path)

    @property
    def stored_bytes(self) -> int:  # type: ignore[override]
        return existing_file(self.path).stat().st_size


# Ways in: a test that imports no foreign library, the parts, of which no row is read, and own classes that pass.
Accepts = Callable[[Any], bool]
_SOURCES: dict[str, tuple[Accepts, Callable[[Any], Sequence[TablePart]], tuple[type, ...]]] = {}


def register_source(word: str, accepts: Accepts, parts: Callable[[Any], Sequence[TablePart]], *own: type) -> None:
    """Add a source under the word that refusals call it; no two accept the same."""
    if word in _SOURCES:
        raise InputError(f"The source {word!r} is already registered; choose another name.")
    _SOURCES[word] = accepts, parts, own


def parts_of(source: object) -> list[TablePart]:
    """The parts of a table, in order; no row is read."""
    for accepts, parts, own in _SOURCES.values():
        if isinstance(source, own) or accepts(source):
            return list(parts(source))
    given = f"the path {str(source)!r}" if isinstance(source, str | Path) else f"a {type(source).__name__}"
    raise InputError(f"Expected a table as one of: {', '.join(_SOURCES)}; got {given}; convert it first.")


def read_table(source: object, only: Collection[str] | None = None) -> Table:
    """Read a table from a file, a folder, a database, a frame or named arrays; of its columns only those in `only`."""
    parts = parts_of(source)
    names = parts[0].names()
    kept = names if only is None else tuple(name for name in names if name in set(only)) or names[:1]
    for part in parts[1:]:
        lacking = set(kept).difference(part.names())
        if lacking:
            raise InputError(f"{part.name} lacks the columns {shown_names(sorted(lacking))}, which other parts have.")
    sizes = [part.stored_bytes for part in parts]
    stored = math.inf if None in sizes else sum(size or 0 for size in sizes)
    tables, size = [], 0
    for part in parts:
        for table in part.tables(kept):
            tables.append(table)
            size += table.nbytes
            check_expansion(part.name if len(parts) == 1 else "the files", size, stored)
    return joined(tables, kept)


def joined(tables: Sequence[Table], names: Sequence[str]) -> Table:
    """Tables with the same columns, one after the other; none of them makes a table without rows."""
    if not tables:
        return Table({name: StoredColumn(text_array([])) for name in names})
    if len(tables) == 1:
        return tables[0]
    whole: dict[str, Column] = {}
    for name in names:
        first, *others = (table.columns[name] for table in tables)
        with suppress(Unreadable):
            if all(type(column) is type(first) for column in others):
                whole[name] = first.joined(others)
        if name not in whole:
            raise InputError(f"Column {name!r} has different types in different parts. Convert some of them.")
    return Table(whole)


def read_without_quoting(name: str, batches: Iterable[object]) -> Iterator[Any]:
    """What an outside reader returns; its exceptions may quote a cell, so only their type is reported."""
    source = iter(batches)
    while True:
        try:
            batch = next(source)
        except StopIteration:
            return
        except InputError:
            raise
        except MemoryError:
            raise_alone(InputError(f"The rows of {name} do not fit into memory. Split the table, or check its origin."))
        except Exception as error:
            raise_alone(InputError(f"The rows of {name} cannot be read ({type(error).__name__})."))
        yield batch


def check_rows(source: object) -> None:
    """Refuse a source whose rows do not make a table; called before a debit, so that none is made for it."""
    for part in parts_of(source):
        part.check_rows()


def column_names(source: object) -> tuple[str, ...]:
    """The column names of a table, read without its rows where the format allows it."""
    return parts_of(source)[0].names()


def declared_types(source: object) -> dict[str, str]:
    """The kind of column that a file's or a frame's own types say, read without its rows; CSV files say nothing."""
    empty = parts_of(source)[0].empty()
    return {} if empty is None else empty.kinds


def is_path_ending(*suffixes: str, packed: tuple[str, ...] = ()) -> Accepts:
    """A test for paths with one of the suffixes, in any case, before one of `packed` where there is one."""

    def accepts(source: Any) -> bool:
        if not isinstance(source, str | Path):
            return False
        path = Path(source)
        return (path.with_suffix("") if path.suffix.lower() in packed else path).suffix.lower() in suffixes

    return accepts


def is_instance_named(package: str, *names: str) -> Accepts:
    """A test for instances of a foreign class (or a subclass) that does not import the foreign package."""

    def accepts(source: object) -> bool:
        ancestry = type(source).__mro__
        return any(kind.__module__.split(".")[0] == package and kind.__name__ in names for kind in ancestry)

    return accepts


def unique_names(names: Any) -> tuple[str, ...]:
    """Return column names as a tuple if all are text, none is blank, none repeats and they are not too many."""
    if len(names) > MOST_COLUMNS:
        raise InputError(f"Expected at most {MOST_COLUMNS} columns, got {len(names)}; drop or join some.")
    checked = tuple(clean_text(f"the name of column {index + 1}", name, False) for index, name in enumerate(names))
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
        raise InputError(f"There is no file {without_password(str(path))[:200]!r}. Check the path.") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{str(path)!r} is a directory. Name a file inside it.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{str(path)!r} is not a regular file. Save its content to a file first.")
    if status.st_size == 0:
        raise InputError(f"{str(path)!r} is empty. Check that it was written.")
    return file


def check_expansion(name: str, expanded: int, stored: float) -> None:
    """Refuse so many bytes out of so few that are stored."""
    if expanded > max(ALWAYS_ALLOWED, LARGEST_EXPANSION * stored):
        raise InputError(f"{name} would expand from {stored} to {expanded} bytes or more. Split it.")
