"""PostgreSQL in, by ADBC: a table or a query, as Arrow batches. Needs ``sordino[postgresql]``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sordino.core.validate import InputError, raise_alone
from sordino.data.sources.duckdb_tables import as_query, chosen, needed, read_part
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.part import Part, read_without_quoting
from sordino.data.sources.registry import register_source, unique_names
from sordino.data.table import Table

_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class PostgreSQLTable(Part):
    """A table or query of a PostgreSQL database.

    Attributes:
        uri: such as ``postgresql://host/database``; refusals never show it, for it may hold a password.
        query: a table's name or an SQL query that gives the same rows whenever it is asked.
    """

    uri: str = field(repr=False)
    query: str
    shared: ClassVar[bool] = True

    @property
    def ordered(self) -> bool:
        """Without an ORDER BY a query promises no order."""
        return "order by" in self.query.lower()

    @property
    def name(self) -> str:
        return "the PostgreSQL query"

    @contextmanager
    def _asked(self, query: str) -> Iterator[Any]:
        driver = needed("adbc_driver_postgresql.dbapi", "postgresql")
        connection = None
        try:
            connection = driver.connect(self.uri)
            cursor = connection.cursor()
            cursor.execute(query)
            reader = cursor.fetch_record_batch()
        except Exception as error:  # may quote the address and the query
            if connection is not None:
                connection.close()
            raise_alone(
                InputError(
                    f"Expected a query that PostgreSQL can answer, got a {type(error).__name__}; check the address, "
                    "the rights and the query."
                )
            )
        try:
            yield reader
        finally:
            cursor.close()
            connection.close()

    def _schema(self) -> Any:
        with self._asked(f"SELECT * FROM (\n{as_query(self.query)}\n) AS asked LIMIT 0") as reader:
            return reader.schema

    def names(self) -> tuple[str, ...]:
        return unique_names(self._schema().names)

    def empty(self) -> Table:
        return from_arrow(self._schema().empty_table())

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        with self._asked(chosen(columns, as_query(self.query))) as reader:
            for batch in read_without_quoting(self.name, reader):
                yield from_arrow(batch)


def _part(source: Any) -> PostgreSQLTable:
    if isinstance(source, PostgreSQLTable):
        return source
    uri, _, query = str(source).partition("#")
    return PostgreSQLTable(uri, query)


register_source(
    "a PostgreSQLTable, or postgresql://HOST/DATABASE#TABLE",
    lambda source: isinstance(source, PostgreSQLTable) or (isinstance(source, str) and source.startswith(_SCHEMES)),
    lambda source: read_part(_part(source)),
    lambda source: _part(source).names(),
    lambda source, only: read_part(_part(source), only),
    lambda source: _part(source).empty(),
    lambda source: [_part(source)],
)
