"""From a table and its public schema to arrays whose bounds hold by construction; checks of its columns and parts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Relation
from sordino.core.validate import InputError, instance_of, shown_names
from sordino.data.columns.base import ReadCells
from sordino.data.raw_columns import Column
from sordino.data.scaling import clip_rows
from sordino.data.schema import DeclaredColumn, ExtraColumns, Schema
from sordino.data.sources.in_memory import from_matrix
from sordino.data.sources.registry import TablePart, joined, parts_of, read_table
from sordino.data.table import Table, empty_columns
from sordino.data.units import UnitGroups, grouped, key_codes


class EncodedTable(NamedTuple):
    """Encoded records: features, their names, targets, units numbered from 0, and shares of the largest weight."""

    features: NDArray[np.float64]
    names: tuple[str, ...]
    target: np.ndarray
    units: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None


def as_table(schema: Schema, X: object) -> Table:
    """A table from a plain array with the schema's columns in order, or from anything with names."""
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray) and X.dtype.names is None:
        return from_matrix(X, [feature.name for feature in schema.features])
    return read_table(schema.source(X), None if schema.extra_columns == "refuse" else schema.named_columns())


def encode(schema: Schema, table: Table, relation: Relation) -> EncodedTable:
    """Encode a private table for fitting.

    Formal guarantees: a record's row and target depend on that record and the schema only; every row is at most
    `schema.norm_bound` long and every target within its certified bound, exactly, in float64 and after a cast to
    float32. Under replace-one the number of records is public and must be the declared one; under add-remove it is
    private, so a difference never stops. Where the schema declares a unit's column this holds for units:
    their number is public under replace-one and the number of records never is, and of a unit at most `most_records`
    are encoded, chosen by that unit's own records alone.
    """
    instance_of("relation", relation, Relation)
    declared = schema.declared_target()
    groups = unit_groups(schema, table)
    check_number(schema, relation, table.rows if groups is None else groups.number)
    if groups is not None and len(groups.kept) < table.rows:
        table = table.take(groups.kept)
    features = encode_features(schema, table)
    target = declared.kind.encode_target(cells_of(schema, declared, table))
    weights, weight = None, schema.weight
    if weight is not None:
        weights = weight.shares(_column(table, weight.column, "the weights"), schema.missing_tokens)
    return EncodedTable(features, schema.feature_names, target, None if groups is None else groups.units, weights)


def check_number(schema: Schema, relation: Relation, number: int) -> None:
    """Under replace-one the number of records, or units, is public and must be the declared one."""
    if relation is Relation.REPLACE_ONE and number != schema.records:
        public = "under replace-one the number is public, so correct the declaration or the table"
        raise InputError(f"Expected {schema.records} {schema.counted} as the schema declares, got {number}; {public}.")


def unit_groups(schema: Schema, table: Table) -> UnitGroups | None:
    """The records of a table by the unit's column, which it must have; None where no column is declared."""
    unit = schema.unit
    if unit is None or unit.column is None:
        return None
    column = _column(table, unit.column, "the unit's column")
    return grouped(unit.column, column, unit.most_records, schema.missing_tokens)


def encode_features(schema: Schema, table: Table) -> NDArray[np.float64]:
    """Encoded features alone, for prediction: the target may be absent and the number of records is free."""
    # A table without records is answered with noise: under add-remove it is a neighbour of every table with one.
    _refuse_absent([name for feature in schema.features for name in feature.reads], table.names)
    if schema.extra_columns == ExtraColumns.REFUSE:
        refuse_undeclared(schema, table.names)
    features = empty_columns(table.rows, len(schema.feature_names))
    if schema.intercept:
        features[:, 0] = 1.0
    for feature, block in schema.blocks:
        feature.kind.encode_feature(cells_of(schema, feature, table), features[:, block])
    if schema.clip_length is not None:
        clip_rows(features[:, int(schema.intercept) :], schema.clip_length)
    return features


def _refuse_absent(
    wanted: Sequence[str], names: Sequence[str], where: str = "the table", what: str = "the table"
) -> None:
    absent = [name for name in dict.fromkeys(wanted) if name not in set(names)]
    if absent:
        declared = f"Expected the declared columns {shown_names(absent)} in {where}"
        raise InputError(f"{declared}, got {shown_names(names)}; correct the schema or {what}.")


def cells_of(schema: Schema, declared: DeclaredColumn, table: Table) -> ReadCells:
    """A declared column, or the columns of a product together, as its kind reads it."""
    columns = {name: _column(table, name, "the declared column") for name in declared.reads}
    column: Any = columns[declared.name] if declared.kind.reads is None else columns
    return declared.kind.read(declared.name, column, schema.missing_tokens)


def _column(table: Table, name: str, called: str) -> Column:
    if name not in table.columns:
        raise InputError(f"Expected {called} {name!r} in the table, got {shown_names(table.names)}; check its name.")
    return table.columns[name]


def check_types(schema: Schema, table: Table) -> None:
    """Refuse columns by their types, which are public, before anything is debited; the table needs no row."""
    table = table.take(slice(0))
    for declared in schema.declared_columns():
        if all(name in table.columns for name in declared.reads):
            cells_of(schema, declared, table)
    unit = schema.unit_column
    if unit is not None and unit in table.columns:
        key_codes(unit, table.columns[unit], ())
    if schema.weight is not None and schema.weight.column in table.columns:
        schema.weight.shares(table.columns[schema.weight.column], ())


def refuse_undeclared(schema: Schema, names: Sequence[str], about: str = "") -> None:
    """Refuse columns that nobody declared."""
    if extra := undeclared_columns(schema, names):
        remedy = "declare or drop them, or set extra_columns to 'ignore'"
        raise InputError(f"Expected only declared columns, got {shown_names(extra)} as well; {remedy}.{about}")


def undeclared_columns(schema: Schema, names: Sequence[str]) -> tuple[str, ...]:
    """Those of a table's columns that the schema does not name."""
    declared = set(schema.named_columns())
    return tuple(name for name in names if name not in declared)


def counting_column(schema: Schema, names: Sequence[str]) -> str:
    """The column by which the records of a table, or its units, are counted."""
    return schema.unit_column or next((name for name in schema.named_columns() if name in names), names[0])


def number_of(schema: Schema, source: object) -> int:
    """How many records a table has, or units: public under replace-one. One column is read."""
    parts = parts_of(schema.source(source))
    column = counting_column(schema, parts[0].names())
    tables = [table for part in parts for table in part.tables((column,))]
    groups = None if schema.unit_column is None else unit_groups(schema, joined(tables, (column,)))
    return sum(table.rows for table in tables) if groups is None else groups.number


def check_parts(
    schema: Schema, parts: Sequence[TablePart], only: Sequence[str] | None = None, apart: Sequence[str] = ()
) -> tuple[str, ...]:
    """The columns to read, all declared ones but those `apart` or those in `only`; reads no row."""
    if not parts:
        raise InputError("The table has no parts. Check the path.")
    columns = tuple(name for name in schema.named_columns() if name not in apart) if only is None else tuple(only)
    first: dict[str, tuple[str, str]] = {}
    for part in parts:
        names = part.names()
        _refuse_absent(columns, sorted(names), *(() if len(parts) == 1 else (part.name, "that part")))
        if only is None and schema.extra_columns == ExtraColumns.REFUSE:
            refuse_undeclared(schema, names, f" This is about {part.name}." if len(parts) > 1 else "")
        empty = part.empty()
        if empty is None:
            continue
        for name, kind in empty.kinds.items():
            known, where = first.setdefault(name, (kind, part.name))
            if name in columns and known != kind:
                both = f"a {known} in {where} and a {kind} in {part.name}"
                raise InputError(f"Expected one type of column {name!r} in all parts, got {both}; convert one of them.")
        if only is None:
            check_types(schema, empty)
    return columns
