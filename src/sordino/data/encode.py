"""From a table and its public schema to arrays whose bounds hold by construction; and checks of its columns and parts.

What a part looks like is checked for all of them before anything is debited: a column that one file of a thousand
lacks, or has as text where others have numbers, is refused with that file's name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Relation
from sordino.core.validate import InputError, instance_of
from sordino.data.columns.base import ColumnCounts, EncodingReport
from sordino.data.columns.interaction import ProductColumns
from sordino.data.columns.number import Number, OutOfRange
from sordino.data.raw_columns import Column, NumberColumn
from sordino.data.scaling import clip_rows
from sordino.data.schema import DeclaredColumn, ExtraColumns, Schema
from sordino.data.sources.registry import TablePart, column_kinds, joined, parts_of
from sordino.data.table import Table, empty_columns, numbers_among
from sordino.data.units import UnitGroups, grouped, key_codes
from sordino.data.words import shown_names


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """Encoded records without a target, for prediction; the report is NON-PRIVATE."""

    features: NDArray[np.float64]
    names: tuple[str, ...]
    report: EncodingReport


@dataclass(frozen=True, eq=False)
class EncodedTable(EncodedFeatures):
    """Encoded records and targets; the report is NON-PRIVATE and must not be released.

    `units` says for each record which unit it belongs to, numbered from 0; None where the schema has no unit column.
    `weights` are shares of the largest declared weight; None where the schema has no weights.
    """

    target: NDArray[Any]
    units: NDArray[np.intp] | None = None
    weights: NDArray[np.float64] | None = None


def encode(schema: Schema, table: Table, relation: Relation, *, for_sums: bool = False) -> EncodedTable:
    """Encode a private table for fitting.

    Formal guarantees: a record's row and target depend on that record and the schema only; every row is at most
    `schema.norm_bound` long and every target within its certified bound, exactly, in float64 and after a cast to
    float32. Under replace-one the number of records is public and must be the declared one; under add-remove it is
    private, so a difference is counted and never stops. Where the schema declares a unit's column this holds for units:
    their number is public under replace-one and the number of records never is, and of a unit at most `most_records`
    are encoded, chosen by that unit's own records alone. With `for_sums` the same numbers lie in memory
    column by column, and what is clipped is not counted.

    Examples:
        >>> from sordino.data import Boolean, Feature, Number, RowNorm, Schema, Target, from_arrays
        >>> schema = Schema(
        ...     records=2,
        ...     features=(Feature("age", Number(0, 100)),),
        ...     target=Target("ill", Boolean()),
        ...     intercept=True,
        ...     row_norm=RowNorm(1.25, includes_intercept=True),
        ... )
        >>> table = from_arrays({"age": [25, 250], "ill": [True, False]})
        >>> encoded = encode(schema, table, Relation.REPLACE_ONE)
        >>> encoded.features.round(3).tolist()
        [[1.0, -0.5], [1.0, 0.75]]
        >>> encoded.target.tolist()
        [1.0, -1.0]
        >>> encoded.report.columns["age"].clipped, encoded.report.rows_clipped
        (1, 1)
        >>> schema.feature_norm_certificate().value
        1.25
    """
    instance_of("relation", relation, Relation)
    declared = schema.declared_target()
    units = None
    if schema.unit is not None and schema.unit.column is not None:
        groups = grouped_records(schema, schema.unit.column, schema.unit.most_records, table)
        units, count = groups.units, groups.number
        table = table if len(groups.kept) == table.rows else table.take(groups.kept)
    else:
        count = table.rows
    check_number(schema, relation, count)
    encoded = encode_features(schema, table, for_sums=for_sums)
    if declared.name not in table.columns:
        raise InputError(
            f"Expected the target column {declared.name!r} in the table, got {shown_names(table.names)}; check its "
            "name."
        )
    target, counts = declared.kind.encode_target(declared.name, table.columns[declared.name], schema.missing_tokens)
    report = replace(encoded.report, columns={**encoded.report.columns, declared.name: counts})
    weights = None
    if schema.weight is not None:
        if schema.weight.column not in table.columns:
            raise InputError(
                f"Expected the weights {schema.weight.column!r} in the table, got {shown_names(table.names)}; check "
                "the name."
            )
        weights = schema.weight.shares(table.columns[schema.weight.column], schema.missing_tokens)
    return EncodedTable(encoded.features, encoded.names, report, target, units, weights)


def check_number(schema: Schema, relation: Relation, number: int) -> None:
    """Under replace-one the number of records, or units, is public and must be the declared one."""
    if relation is Relation.REPLACE_ONE and number != schema.records:
        raise InputError(
            f"Expected {schema.records} {schema.counted} as the schema declares, got {number}; under replace-one the "
            "number is public, so correct the declaration or the table."
        )


def grouped_records(schema: Schema, column: str, most_records: int, table: Table) -> UnitGroups:
    """The records of a table by the unit's column, which the table must have."""
    if column not in table.columns:
        raise InputError(
            f"Expected the unit's column {column!r} in the table, got {shown_names(table.names)}; check its name."
        )
    return grouped(column, table.columns[column], most_records, schema.missing_tokens)


def encode_features(schema: Schema, table: Table, *, for_sums: bool = False) -> EncodedFeatures:
    """Encode features only, for prediction: the target may be absent and the number of records is free.

    With `for_sums` the same numbers lie in memory column by column, and what is clipped is not counted.
    """
    check_columns(schema, table)
    shape = (table.rows, len(schema.feature_names))
    features = empty_columns(*shape) if for_sums else np.empty(shape)
    if schema.intercept:
        features[:, 0] = 1.0
    counts = _numbers_together(schema, table, features) if for_sums else {}
    for feature, block in schema.blocks():
        name, kind = feature.name, feature.kind
        if name in counts:
            continue
        counts[name] = kind.encode_feature(name, column_of(table, feature), schema.missing_tokens, features[:, block])
    cap = schema.clip_length
    clipped = 0 if cap is None else clip_rows(features[:, int(schema.intercept) :], cap)
    report = EncodingReport(table.rows, schema.records, clipped, counts)
    return EncodedFeatures(features, schema.feature_names, report)


@dataclass(frozen=True, eq=False)
class _NumberColumns:
    """Plain numbers of a schema that lie side by side, and the constants of their encoding."""

    names: tuple[str, ...]
    block: slice
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]


class _Itself:
    """A schema that equals no other object: to compare two by content takes longer than to encode some rows."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.schema is self.schema


@lru_cache(maxsize=32)
def _number_columns(itself: _Itself) -> _NumberColumns | None:
    """The longest run of numbers that are clipped and whose missing values get no column of their own."""
    schema = itself.schema
    runs: list[list[tuple[int, str, Number]]] = [[]]
    for feature, block in schema.blocks():
        kind = feature.kind
        if type(kind) is not Number or kind.missing.adds_indicator or kind.out_of_range != OutOfRange.CLIP:
            runs.append([])
        else:
            runs[-1].append((block.start, feature.name, kind))
    run = max(runs, key=len)
    if not run or numbers_among(schema.missing_tokens):
        return None
    starts, names, kinds = zip(*run, strict=True)
    low, high = (np.array([getattr(kind, end) for kind in kinds]) for end in ("low", "high"))
    centre, scale = np.array([kind.centre_and_scale for kind in kinds]).T
    least, most = np.array([kind.limits for kind in kinds]).T
    # Subtracting and dividing are monotone as computed, so a number that is clipped to its bounds before them becomes
    # what it becomes when it is clipped to the bounds' own images after them: one clip is enough.
    least, most = np.maximum(least, (low - centre) / scale), np.minimum(most, (high - centre) / scale)
    block = slice(starts[0], starts[-1] + 1)
    return _NumberColumns(names, block, *(each[:, None] for each in (centre, scale, least, most)))


def _numbers_together(schema: Schema, table: Table, features: NDArray[np.float64]) -> dict[str, ColumnCounts]:
    """Write numbers of which none is missing all at once, and say which these are; nothing is counted.

    They are the numbers that `Number.encode_feature` gives one column after the other. Where a column needs more than
    that, all are left to it.
    """
    found = _number_columns(_Itself(schema))
    if found is None or not table.rows:
        return {}
    block = features[:, found.block].T
    with np.errstate(over="ignore"):  # what overflows is clipped
        return _numbers_written(found, table, block)


def _numbers_written(found: _NumberColumns, table: Table, block: NDArray[np.float64]) -> dict[str, ColumnCounts]:
    for name, centre, own in zip(found.names, found.centre, block, strict=True):
        column = table.columns[name]
        if not isinstance(column, NumberColumn) or column.missing is not None or column.values.dtype != np.float64:
            return {}
        np.subtract(column.values, centre, out=own)
    np.divide(block, found.scale, out=block)
    np.clip(block, found.least, found.most, out=block)
    if np.isnan(block.max()):  # as it is where any number is
        return {}
    return dict.fromkeys(found.names, ColumnCounts())


def column_of(table: Table, declared: DeclaredColumn) -> Column:
    """The column of a table that is declared, or those of a product together."""
    if declared.kind.reads is None:
        return table.columns[declared.name]
    return ProductColumns({name: table.columns[name] for name in declared.reads})


def check_types(schema: Schema, table: Table) -> None:
    """Refuse columns by their types, which are public, before anything is debited; the table needs no row."""
    table = table.take(np.zeros(0, np.intp))
    for declared in schema.declared_columns():
        if all(name in table.columns for name in declared.reads):
            declared.kind.read(declared.name, column_of(table, declared), schema.missing_tokens)
    unit = schema.unit_column
    if unit is not None and unit in table.columns:
        key_codes(unit, table.columns[unit], ())
    if schema.weight is not None and schema.weight.column in table.columns:
        schema.weight.shares(table.columns[schema.weight.column], ())


def check_columns(schema: Schema, table: Table) -> None:
    """Refuse a table without a declared feature, or with columns nobody declared."""
    # A table without records is none of that: under add-remove it is a neighbour of every table with one, so it has to
    # be answered with noise like any other.
    wanted = dict.fromkeys(name for feature in schema.features for name in feature.reads)
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        raise InputError(
            f"Expected the declared columns {shown_names(absent)} in the table, got {shown_names(table.names)}; "
            "correct the schema or the table."
        )
    if schema.extra_columns == ExtraColumns.REFUSE:
        refuse_undeclared(undeclared_columns(schema, table))


def refuse_undeclared(extra: Sequence[str]) -> None:
    """Refuse columns that nobody declared."""
    if extra:
        raise InputError(
            f"Expected only declared columns, got {shown_names(extra)} as well; declare or drop them, or set "
            "extra_columns to 'ignore'."
        )


def undeclared_columns(schema: Schema, table: Table) -> tuple[str, ...]:
    """Columns of the table that the schema does not name."""
    declared = set(schema.named_columns())
    return tuple(name for name in table.names if name not in declared)


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


def check_parts(schema: Schema, parts: Sequence[TablePart], only: Sequence[str] | None = None) -> tuple[str, ...]:
    """Refuse parts that lack a declared column, have one that nobody declared, or disagree about a column's kind.

    Returns the columns to read: all declared ones, or those in `only`, where the others do not matter. Looks at names
    and types only, so that nothing has to be debited for it.
    """
    if not parts:
        raise InputError("Expected a table with at least one part, got none; check the path.")
    columns = schema.named_columns() if only is None else tuple(only)
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
