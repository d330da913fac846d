"""DuckDB in: a table or a query of a database file, asked of DuckDB where the file lies. Needs ``sordino[duckdb]``.

A database file holds views and macros, so it is code. It runs with no access to other files, extensions, the network or
variables of this process, in one SELECT, and cannot change any of that.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from sordino.core.validate import InputError
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.part import ROWS_AT_ONCE, Part, joined, read_without_quoting
from sordino.data.sources.registry import register_source, unique_names
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


def quoted(columns: Sequence[str]) -> str:
    """A list of columns, each of which SQL takes for a name."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in columns)


def chosen(columns: Sequence[str], query: str) -> str:
    """The same query with these columns only."""
    return f"SELECT {quoted(columns)} FROM (\n{query}\n) AS asked"


def connected(database: str = ":memory:", files: Sequence[str] = ()) -> Any:
    """A connection that reads one database, or these files, and reaches nothing else."""
    connection = needed("duckdb", "duckdb").connect(database, read_only=database != ":memory:")
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_progress_bar = false")  # it would go to stdout, among answers
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


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
            connection = connected(self.database)
            statements = connection.extract_statements(query)
            if [one.type for one in statements] == [duckdb.StatementType.SELECT]:
                return connection, connection.sql(statements[0]).to_arrow_reader(ROWS_AT_ONCE)
            kind = "query of another kind"
        except duckdb.Error as error:  # may quote what the query says
            kind = type(error).__name__
        raise InputError(
            f"Expected one SELECT that DuckDB can answer from {self.name} alone, got a {kind}; correct it."
        )

    def _schema(self) -> Any:
        connection, reader = self._asked(f"SELECT * FROM (\n{as_query(self.query)}\n) AS asked LIMIT 0")
        with connection:
            return reader.schema

    def names(self) -> tuple[str, ...]:
        return unique_names(self._schema().names)

    def empty(self) -> Table:
        return from_arrow(self._schema().empty_table())

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
    lambda source: _part(source).empty(),
    lambda source: [_part(source)],
)
