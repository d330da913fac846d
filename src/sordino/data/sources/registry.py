"""Where tables come from: each source registers what it accepts and how it reads it."""

import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core.errors import InputError
from sordino.data.table import Table


@dataclass(frozen=True)
class Source:
    """One way in: a test that needs no import of the foreign library, and a reader that may import it.

    `read_some` reads a part of the columns, where the format allows it.
    """

    word: str
    accepts: Callable[[Any], bool]
    read: Callable[[Any], Table]
    names: Callable[[Any], tuple[str, ...]]
    read_some: Callable[[Any, Collection[str]], Table] | None = None


_SOURCES: dict[str, Source] = {}


def register_source(
    word: str,
    accepts: Callable[[Any], bool],
    read: Callable[[Any], Table],
    names: Callable[[Any], tuple[str, ...]] | None = None,
    read_some: Callable[[Any, Collection[str]], Table] | None = None,
) -> None:
    """Add a source; `read_table` tries sources in order of registration.

    `names` reads the column names without reading a row, and `read_some` only the columns asked for, where the format
    allows it.
    """
    if word in _SOURCES:
        raise InputError(f"Expected a new source name, got {word!r}, which is already registered; choose another.")
    _SOURCES[word] = Source(word, accepts, read, names or (lambda source: read(source).names), read_some)


def registered_sources() -> tuple[Source, ...]:
    """Every source, in order of registration."""
    return tuple(_SOURCES.values())


def read_table(source: Any, only: Collection[str] | None = None) -> Table:
    """Read a table from a CSV or Parquet path, an Arrow table, a pandas or polars DataFrame, or named arrays.

    `only` names the columns that are wanted: of a file with very many, no other is kept in memory. Names that the table
    lacks are left out, and sources that are in memory already may give more columns than were asked for.
    """
    found = _source_of(source)
    return found.read(source) if only is None or found.read_some is None else found.read_some(source, only)


def column_names(source: Any) -> tuple[str, ...]:
    """The column names of a table, read without its rows where the format allows it."""
    return _source_of(source).names(source)


def _source_of(source: Any) -> Source:
    for candidate in registered_sources():
        if candidate.accepts(source):
            return candidate
    given = f"the path {str(source)!r}" if isinstance(source, str | Path) else f"a {type(source).__name__}"
    words = ", ".join(candidate.word for candidate in registered_sources())
    raise InputError(f"Expected a table as one of: {words}; got {given}; convert it first.")


def is_path_ending(*suffixes: str) -> Callable[[Any], bool]:
    """A test for paths with one of the suffixes, in any case."""
    return lambda source: isinstance(source, str | Path) and Path(source).suffix.lower() in suffixes


def is_instance_named(package: str, *names: str) -> Callable[[Any], bool]:
    """A test for instances of a foreign class (or a subclass) that does not import the foreign package."""

    def accepts(source: Any) -> bool:
        ancestry = type(source).__mro__
        return any(kind.__module__.split(".")[0] == package and kind.__name__ in names for kind in ancestry)

    return accepts


def existing_file(path: str | Path) -> Path:
    """Return the path if a regular, non-empty file is there."""
    file = Path(path)
    try:
        status = file.stat()
    except (OSError, ValueError):
        raise InputError(f"Expected an existing file, got {str(path)[:200]!r}; check the path.") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"Expected a file, got the directory {str(path)!r}; name a file inside it.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"Expected a regular file, got {str(path)!r}; save its content to a file first.")
    if status.st_size == 0:
        raise InputError(f"Expected content in {str(path)!r}, got an empty file; check that it was written.")
    return file
