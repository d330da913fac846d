"""Reads a table or a query from DuckDB or PostgreSQL, as Arrow batches.

A DuckDB file holds views and macros, so it is code. It runs with no access to other files, extensions, the network or
variables of this process, in one SELECT, and cannot change any of that. The packages are extras: ``sordino[duckdb]``,
``sordino[postgresql]`` (ADBC).
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from sordino.core.validate import InputError, raise_alone
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.registry import ROWS_AT_ONCE, TablePart, read_without_quoting, register_source
from sordino.data.table import Table


def needed(package: str, extra: str) -> Any:
    """A package of an extra, or a sentence that says how to install it."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"This source or engine needs the package {package!r}. Install sordino[{extra}].") from None


def as_query(text: str) -> str:
    """A query as it stands, or all of a table whose name is given."""
    words = text.strip().rstrip(";")
    if not words:
        raise InputError("There is nothing after '#'. Add the name of a table or a query.")
    if any(letter.isspace() for letter in words):
        return words
    return "SELECT * FROM " + ".".join(quoted_list([word]) for word in words.split("."))


def quoted_list(columns: Sequence[str]) -> str:
    """A list of columns, each of which SQL takes for a name."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in columns)


def connected(database: str) -> Any:
    """A DuckDB connection that reads one database file and reaches nothing else."""
    # Off before the file is opened: DuckDB would fetch an extension for a file of another format, such as SQLite.
    switches = ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access")
    connection = needed("duckdb", "duckdb").connect(database, read_only=True, config=dict.fromkeys(switches, "false"))
    connection.execute("SET enable_progress_bar = false")  # it would go to stdout, among answers
    connection.execute("SET lock_configuration = true")
    return connection


class DatabaseTable(TablePart):
    """A table or query of a database: `query` is a table's name, or SQL that gives the same rows whenever asked."""

    query: str
    shared: ClassVar[bool] = True

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        """Without an ORDER BY a query promises no order."""
        return "order by" in self.query.lower()

    @abstractmethod
    def _reader(self, query: str) -> AbstractContextManager[Any]:
        """The Arrow batches that answer a query, while the connection is open."""

    def _chosen(self, columns: str) -> str:
        return f"SELECT {columns} FROM (\n{as_query(self.query)}\n) AS asked"

    def empty(self) -> Table:
        with self._reader(self._chosen("*") + " LIMIT 0") as reader:
            return from_arrow(reader.schema.empty_table())

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        with self._reader(self._chosen(quoted_list(columns))) as reader:
            for batch in read_without_quoting(self.name, reader):
                yield from_arrow(batch)


@dataclass(frozen=True)
class DuckDBTable(DatabaseTable):
    """A table or query of a DuckDB file at a path."""

    database: str
    query: str

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"the DuckDB file {self.database!r}"

    @contextmanager
    def _reader(self, query: str) -> Iterator[Any]:
        duckdb = needed("duckdb", "duckdb")
        if not Path(self.database).is_file():
            raise InputError(f"Expected a DuckDB file, got {self.database!r}, where none is; check the path.")
        reader, kind = None, "query of another kind"
        with ExitStack() as stack:  # left open, the connection would keep others from the file
            try:
                connection = stack.enter_context(connected(self.database))
                statements = connection.extract_statements(query)
                if [one.type for one in statements] == [duckdb.StatementType.SELECT]:
                    reader = connection.sql(statements[0]).to_arrow_reader(ROWS_AT_ONCE)
            except duckdb.Error as error:  # may quote what the query says
                kind = type(error).__name__
            if reader is None:
                raise_alone(InputError(f"DuckDB cannot answer this from {self.name} alone ({kind}). Write one SELECT."))
            yield reader


@dataclass(frozen=True)
class PostgreSQLTable(DatabaseTable):
    """A table or query of a PostgreSQL database; refusals never show its address, which may hold a password."""

    name: ClassVar[str] = "the PostgreSQL query"  # type: ignore[misc]
    uri: str = field(repr=False)
    query: str

    @contextmanager
    def _reader(self, query: str) -> Iterator[Any]:
        driver = needed("adbc_driver_postgresql.dbapi", "postgresql")
        with ExitStack() as stack:
            try:
                connection = stack.enter_context(closing(driver.connect(self.uri)))
                cursor = stack.enter_context(closing(connection.cursor()))
                cursor.execute(query)
                reader = cursor.fetch_record_batch()
            except Exception as error:  # may quote the address and the query
                kind = type(error).__name__
                words = f"PostgreSQL cannot answer this query ({kind}). Check the address, the rights and the query."
                raise_alone(InputError(words))
            yield reader


def _is_duckdb(source: object) -> bool:
    place, mark, _ = str(source).partition("#") if isinstance(source, str | Path) else ("", "", "")
    return bool(mark) and Path(place).suffix.lower() in (".duckdb", ".ddb")


def _is_postgresql(source: object) -> bool:
    return isinstance(source, str) and source.startswith(("postgresql://", "postgres://"))


def _part(kind: type[DuckDBTable] | type[PostgreSQLTable], source: object) -> list[TablePart]:
    place, _, query = str(source).partition("#")
    return [source if isinstance(source, kind) else kind(place, query)]


register_source("a DuckDBTable, or FILE.duckdb#TABLE", _is_duckdb, partial(_part, DuckDBTable), DuckDBTable)
_POSTGRESQL = "a PostgreSQLTable, or postgresql://HOST/DATABASE#TABLE"
register_source(_POSTGRESQL, _is_postgresql, partial(_part, PostgreSQLTable), PostgreSQLTable)
