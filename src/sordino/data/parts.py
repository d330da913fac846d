"""Tables that are read in parts: files of a folder, pieces of a frame, a query's answer, a few rows at a time.

A part has a name that refusals may tell, says its columns without reading a row, and is read again for every round of
a fit. What a part looks like is checked for all of them before anything is debited: a column that one file of a
thousand lacks, or has as text where others have numbers, is refused with that file's name.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sordino.core.validate import InputError
from sordino.data.encode import check_types, grouped_records, refuse_undeclared
from sordino.data.schema import ExtraColumns, Schema
from sordino.data.sources.part import Part, joined
from sordino.data.sources.registry import Source, column_kinds, read_table, source_of
from sordino.data.table import Table
from sordino.data.words import shown_names


class WholeSource(Part):
    """A source without parts of its own: read whole, once, and kept."""

    def __init__(self, source: Any, reader: Source) -> None:
        self._source, self._reader = source, reader
        self._table: Table | None = None

    @property
    def name(self) -> str:
        return self._reader.word

    def names(self) -> tuple[str, ...]:
        return self._reader.names(self._source)

    def empty(self) -> Table | None:
        return None if self._reader.empty is None else self._reader.empty(self._source)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        if self._table is None:
            self._table = read_table(self._source, columns)
        yield Table({name: self._table.columns[name] for name in columns})


def parts_of(source: Any) -> list[Part]:
    """The parts of a table, in order; no row is read."""
    reader = source_of(source)
    return [WholeSource(source, reader)] if reader.parts is None else list(reader.parts(source))


def counting_column(schema: Schema, names: Sequence[str]) -> str:
    """The column by which the records of a table, or its units, are counted."""
    return schema.unit_column or next((name for name in schema.named_columns() if name in names), names[0])


def number_of(schema: Schema, source: Any) -> int:
    """How many records a table has, or units: public under replace-one. One column is read."""
    parts = parts_of(schema.source(source))
    column = counting_column(schema, parts[0].names())
    tables = [table for part in parts for table in part.tables((column,))]
    if schema.unit is None or schema.unit_column is None:
        return sum(table.rows for table in tables)
    return grouped_records(schema, column, schema.unit.most_records, joined(tables, (column,))).number


def wanted_columns(schema: Schema, *more: str) -> tuple[str, ...]:
    """The columns that a schema reads, and the others that are given."""
    return tuple(dict.fromkeys((*schema.named_columns(), *more)))


def check_parts(schema: Schema, parts: Sequence[Part], only: Sequence[str] | None = None) -> tuple[str, ...]:
    """Refuse parts that lack a declared column, have one that nobody declared, or disagree about a column's kind.

    Returns the columns to read: all declared ones, or those in `only`, where the others do not matter. Looks at names
    and types only, so that nothing has to be debited for it.
    """
    if not parts:
        raise InputError("Expected a table with at least one part, got none; check the path.")
    columns = wanted_columns(schema) if only is None else tuple(only)
    first: dict[str, tuple[str, str]] = {}
    for part in parts:
        names = part.names()
        absent = [name for name in columns if name not in set(names)]
        if absent:
            raise InputError(
                f"Expected the declared columns {shown_names(absent)} in {part.name}, got "
                f"{shown_names(sorted(names))}; correct the schema or that part."
            )
        if only is None and schema.extra_columns == ExtraColumns.REFUSE:
            try:
                refuse_undeclared([name for name in names if name not in set(columns)])
            except InputError as error:
                raise InputError(f"{error} This is about {part.name}.") from None
        empty = part.empty()
        if empty is None:
            continue
        for name, kind in column_kinds(empty).items():
            known, where = first.setdefault(name, (kind, part.name))
            if name in columns and known != kind:
                raise InputError(
                    f"Expected one type of column {name!r} in all parts, got a {known} in {where} and a {kind} in "
                    f"{part.name}; convert one of them."
                )
        if only is None:
            check_types(schema, empty)
    return columns
