"""DuckDB in: a table or a query of a database file, asked of DuckDB where the file lies. Needs ``sordino[duckdb]``."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from sordino.core.validate import InputError
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.part import ROWS_AT_ONCE, Part, joined, read_without_quoting
from sordino.data.sources.registry import column_kinds, register_source, unique_names
from sordino.data.table import Table

_ENDINGS = (".duckdb", ".ddb")


def needed(package: str, extra: str) -> Any:
    """A package of an extra, or a sentence that says how to install it."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(
            f"Expected the package {package!r} for this source or engine, got an installation without it; "
            f"install sordino[{extra}]."
        ) from None


def as_query(text: str) -> str:
    """A query as it stands, or all of a table whose name is given."""
    words = text.strip().rstrip(";")
    if not words:
        raise InputError("Expected the name of a table or a query behind '#', got nothing; add it.")
    if any(letter.isspace() for letter in words):
        return words
    return "SELECT * FROM " + ".".join('"' + word.replace('"', '""') + '"' for word in words.split("."))


def chosen(columns: Sequence[str], query: str) -> str:
    """The same query with these columns only."""
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    return f"SELECT {quoted} FROM ({query}) AS asked"


@dataclass(frozen=True)
class DuckDBTable(Part):
    """A table or query of a DuckDB file.

    Attributes:
        database: path of the file.
        query: a table's name or an SQL query that gives the same rows whenever it is asked.
    """

    database: str
    query: str
    shared: ClassVar[bool] = True

    @property
    def ordered(self) -> bool:
        """Without an ORDER BY a query promises no order."""
        return "order by" in self.query.lower()

    @property
    def name(self) -> str:
        return f"the DuckDB file {self.database!r}"

    def _asked(self, query: str) -> Any:
        duckdb = needed("duckdb", "duckdb")
        if not Path(self.database).is_file():
            raise InputError(f"Expected a DuckDB file, got {self.database!r}, where none is; check the path.")
        try:
            connection = duckdb.connect(self.database, read_only=True)
            return connection, connection.sql(query).to_arrow_reader(ROWS_AT_ONCE)
        except duckdb.Error as error:  # may quote what the query says
            kind = type(error).__name__
        raise InputError(f"Expected a query that DuckDB can answer from {self.name}, got a {kind}; correct it.")

    def _schema(self) -> Any:
        connection, reader = self._asked(f"SELECT * FROM ({as_query(self.query)}) AS asked LIMIT 0")
        with connection:
            return reader.schema

    def names(self) -> tuple[str, ...]:
        return unique_names(self._schema().names)

    def kinds(self) -> dict[str, str]:
        return column_kinds(self._schema())

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        connection, reader = self._asked(chosen(columns, as_query(self.query)))
        with connection:
            for batch in read_without_quoting(self.name, reader):
                yield from_arrow(batch)


def _of_path(source: Any) -> bool:
    place, mark, _ = str(source).partition("#") if isinstance(source, str | Path) else ("", "", "")
    return bool(mark) and Path(place).suffix.lower() in _ENDINGS


def _part(source: Any) -> DuckDBTable:
    if isinstance(source, DuckDBTable):
        return source
    place, _, query = str(source).partition("#")
    return DuckDBTable(place, query)


def read_part(part: Part, only: Collection[str] | None = None) -> Table:
    """All rows of a part in memory."""
    names = part.names()
    kept = names if only is None else tuple(name for name in names if name in set(only)) or names[:1]
    return joined(list(part.tables(kept)), kept)


register_source(
    "a DuckDBTable, or FILE.duckdb#TABLE",
    lambda source: isinstance(source, DuckDBTable) or _of_path(source),
    lambda source: read_part(_part(source)),
    lambda source: _part(source).names(),
    lambda source, only: read_part(_part(source), only),
    lambda source: _part(source)._schema(),
    lambda source: [_part(source)],
)
