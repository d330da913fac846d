"""The rows of a custom model: arrays by name, their public layout, and the first reading of their numbers.

Names, shapes and stored types are public. A number that no model can compute with counts as a public constant, because
a refusal after the debit would tell that one record holds it.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Relation
from sordino.core.validate import InputError, refuse, whole_number
from sordino.data import StoredColumn, column_names, from_arrays, read_table
from sordino.data.raw_columns import BOOLEAN, MISSING, NUMBER, Column, arrow, numpy_values
from sordino.data.sources.in_memory import no_rows
from sordino.data.units import key_codes, keys
from sordino.fitting.array_schema import NonPrivateWarning
from sordino.mechanisms.variational.natural import Sizes
from sordino.models.custom.base import FrontEnd, RecordLayout, finite, pack, read_layout


def names_in(data: Any) -> tuple[str, ...] | None:
    """The names of the arrays, where the data have any."""
    if hasattr(data, "columns"):
        return column_names(data)
    return tuple(map(str, data)) if isinstance(data, Mapping) else None


def named_arrays(data: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The arrays of the data by name; no number decides anything."""
    if isinstance(data, tuple | list):
        if len(data) > len(names):
            raise refuse("data", f"to have at most {len(names)} arrays, {', '.join(names)}", len(data))
        return {name: _typed(name, values) for name, values in zip(names, data, strict=False)}
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return {name: _array(column) for name, column in read_table(data).columns.items()}
    if isinstance(data, Mapping) and all(isinstance(name, str) for name in data):
        return {name: _typed(name, values) for name, values in data.items()}
    raise refuse("data", "to be named arrays, a data frame or a tuple of arrays", type(data).__name__)


def _typed(name: str, values: Any) -> Any:
    """An array as it is; a series of pandas or Polars by its stored type, which no missing cell changes."""
    kind = getattr(values, "dtype", None)
    return values if kind is None or isinstance(kind, np.dtype) else _array(from_arrays({name: values}).columns[name])


def _array(column: Column) -> Any:
    """A column of numbers as an array, 0 where a cell is missing; another column as it is."""
    if not isinstance(column, StoredColumn) or column.kind not in (NUMBER, BOOLEAN):
        return column
    values = column.values
    if arrow().types.is_decimal(values.type):
        values = values.cast(arrow().float64())
    return numpy_values(values.fill_null(False if column.kind == BOOLEAN else 0))


def check_typed(name: str, values: Any) -> None:
    """Refuse what has no type of its own: that of a list would follow from its numbers."""
    if not (hasattr(values, "dtype") and hasattr(values, "shape")):
        raise InputError(
            f"Expected {name} to be an array, whose type is public, got a {type(values).__name__}, whose type would "
            "follow from private numbers; make it an array of a declared type."
        )


def layout_of(
    front: FrontEnd,
    model: Any,
    public: Mapping[str, Any],
    named: Mapping[str, Any],
    unit: str | None,
    most_records: int | None,
) -> tuple[RecordLayout, tuple[str, ...]]:
    """The layout of the arrays that the model reads, and their names."""
    if (unit is None) != (most_records is None):
        raise InputError("Declare unit and most_records together.")
    if unit is not None and unit not in named:
        raise refuse("unit", f"to name one of the arrays {', '.join(named)}", unit)
    rows = 1 if most_records is None else whole_number("most_records", most_records)
    read = front.names(model, public)
    unknown = [name for name in named if name not in read and name != unit]
    if unknown:
        raise InputError(
            f"Expected arrays that the model reads, {', '.join(read)}, got {', '.join(unknown)} besides; leave it out."
        )
    used = {name: named[name] for name in read if name in named}
    for name, values in used.items():
        if name != unit:
            check_typed(f"data[{name!r}]", values)
    if unit is not None:
        given = named[unit]
        if len(given) != len(next(iter(used.values()))):
            raise refuse(f"data[{unit!r}]", "to hold one unit for each record", "another shape")
        # A type that is no key is refused before the debit.
        empty = given.take(slice(0)) if isinstance(given, Column) else from_arrays(no_rows({unit: given})).columns[unit]
        key_codes(unit, empty, ())
        if unit in used:  # the model of one unit sees no other: its own is number 0
            used[unit] = np.zeros(len(given), np.int32)
    return read_layout(used, rows), tuple(used)


def number_of(records: int | None, relation: Relation, named: Mapping[str, Any], unit: str | None) -> int:
    """The public number of records, or of units; that of the rows where the relation makes it public."""
    if records is not None:
        stated = whole_number("records", records)
        rows = len(next(iter(named.values())))
        if unit is None and relation is Relation.REPLACE_ONE and rows != stated:
            raise refuse("records", f"to be {rows}, the number of rows, under replace-one", stated)
        return stated
    if unit is not None:
        raise InputError("With unit, declare records: the public number of units.")
    if relation is Relation.ADD_REMOVE:
        raise InputError("Under add-remove the number of rows is private. Declare records, a public number.")
    return len(next(iter(named.values())))


def check_units(named: Mapping[str, Any], unit: str | None, sizes: Sizes) -> None:
    """Under replace-one the number of units is public, and another one is refused before the debit."""
    if sizes.relation is Relation.REPLACE_ONE and unit is not None:
        there = int(_unit_codes(unit, named[unit]).max(initial=-1)) + 1
        if there != sizes.records:
            raise refuse("the number of units", f"to be records = {sizes.records} under replace-one", there)


def packed_rows(
    layout: RecordLayout, used: tuple[str, ...], named: Mapping[str, Any], unit: str | None
) -> NDArray[Any]:
    """The packed rows; the first reading of private numbers."""
    codes = None
    values = {name: finite_numbers(f"data[{name!r}]", named[name]) for name in used if name != unit}
    if unit is not None:
        codes = _unit_codes(unit, named[unit])
        if unit in used:
            values[unit] = np.zeros(len(codes), np.int32)
    return pack(layout, values, codes)


def _unit_codes(unit: str, given: Any) -> NDArray[np.intp]:
    """The units numbered from 0 in the order of their keys, records without a key first."""
    column = given if isinstance(given, Column) else from_arrays({unit: given}).columns[unit]
    known: dict[str, int] = {}
    codes = keys(unit, column, (), lambda word: known.setdefault(word, len(known)))
    order = sorted(known, key=int if column.kind == NUMBER else None)
    places = {word: place for place, word in enumerate(order)}
    codes = np.array([*(places[word] for word in known), MISSING])[codes]
    return np.unique(codes, return_inverse=True)[1].ravel()


def finite_numbers(name: str, values: Any) -> NDArray[Any]:
    """The numbers as models get them; that some were changed is said in a warning marked NON-PRIVATE."""
    given, found = np.asarray(values), finite(values)
    if not np.array_equal(given, found):
        warnings.warn(
            f"NON-PRIVATE: some numbers of {name} are NaN, infinite or too large. NaN counts as 0, others as "
            "the largest number that models get. This was seen in private rows: keep it with them.",
            NonPrivateWarning,
            stacklevel=2,
        )
    return found


def plain_arrays(layout: RecordLayout, named: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays by name, as they are; the first reading of private numbers."""
    return {leaf.name: finite_numbers(f"data[{leaf.name!r}]", named[leaf.name]) for leaf in layout.leaves}
