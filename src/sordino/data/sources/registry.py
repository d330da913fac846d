"""Where tables come from: each source registers what it accepts and how it reads it."""

import stat
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core.validate import InputError, without_password
from sordino.data.table import Table
from sordino.data.words import clean_name, repeats, shown_names

MOST_COLUMNS = 100_000
# A few bytes can say "this text, a billion times". Tables of people do not repeat themselves a thousandfold.
LARGEST_EXPANSION = 1000
ALWAYS_ALLOWED = 2**30


def check_expansion(name: str, expanded: int, stored: int) -> None:
    """Refuse so many bytes out of so few that are stored."""
    if expanded > max(ALWAYS_ALLOWED, LARGEST_EXPANSION * stored):
        raise InputError(
            f"Expected a table of a sensible size in {name}, got one that expands from {stored} to {expanded} bytes or "
            "more; split it."
        )


@dataclass(frozen=True)
class Source:
    """One way in: a test that needs no import of the foreign library, and a reader that may import it."""

    word: str
    accepts: Callable[[Any], bool]
    read: Callable[[Any], Table]
    names: Callable[[Any], tuple[str, ...]]
    read_some: Callable[[Any, Collection[str]], Table] | None = None
    empty: Callable[[Any], Table] | None = None
    parts: Callable[[Any], Iterable[Any]] | None = None


_SOURCES: dict[str, Source] = {}


def register_source(
    word: str,
    accepts: Callable[[Any], bool],
    read: Callable[[Any], Table],
    names: Callable[[Any], tuple[str, ...]] | None = None,
    read_some: Callable[[Any, Collection[str]], Table] | None = None,
    empty: Callable[[Any], Table] | None = None,
    parts: Callable[[Any], Iterable[Any]] | None = None,
) -> None:
    """Add a source; no two accept the same."""
    # `names` reads the column names without reading a row, and `read_some` only the columns asked for, where the format
    # allows it. `empty` gives a table of the same types without a row, where the format has types. `parts` are those
    # that engines read (`data.parts`), where a table need not be read whole.
    if word in _SOURCES:
        raise InputError(f"Expected a new source name, got {word!r}, which is already registered; choose another.")
    _SOURCES[word] = Source(word, accepts, read, names or (lambda source: read(source).names), read_some, empty, parts)


def read_table(source: Any, only: Collection[str] | None = None) -> Table:
    """Read a table from a CSV or Parquet path, any data frame or Arrow table, or named arrays.

    `only` names the columns that are wanted: of a file with very many, no other is kept in memory. Names that the table
    lacks are left out, and sources that are in memory already may give more columns than were asked for.
    """
    reader = source_of(source)
    return reader.read(source) if only is None or reader.read_some is None else reader.read_some(source, only)


def column_names(source: Any) -> tuple[str, ...]:
    """The column names of a table, read without its rows where the format allows it."""
    return source_of(source).names(source)


def declared_types(source: Any) -> dict[str, str]:
    """The kind of column that a file's or a frame's own types say, read without its rows; CSV files say nothing."""
    empty = empty_table(source)
    return {} if empty is None else column_kinds(empty)


def empty_table(source: Any) -> Table | None:
    """The columns of a table by their types, without a row; None where it has no types, as a CSV file."""
    empty = source_of(source).empty
    return None if empty is None else empty(source)


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
