"""Arrow tables in; CSV, Parquet and pandas pass through here too."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sordino.core.errors import InputError
from sordino.data.declared_text import clean_name, repeats, shown_names
from sordino.data.lazy_arrow import arrow
from sordino.data.sources.registry import is_instance_named, register_source
from sordino.data.table import Booleans, Column, Numbers, Opaque, Table, Texts

MOST_COLUMNS = 100_000


def from_arrow(table: Any) -> Table:
    """Turn a `pyarrow.Table` or `RecordBatch` into a `Table`."""
    names = unique_names(table.schema.names)
    return Table({name: arrow_column(table.column(index)) for index, name in enumerate(names)})


def unique_names(names: Any) -> tuple[str, ...]:
    """Return column names as a tuple if all are text, none is blank, none repeats and they are not too many."""
    if len(names) > MOST_COLUMNS:
        raise InputError(f"Expected at most {MOST_COLUMNS} columns, got {len(names)}; drop or join some.")
    checked = tuple(clean_name(f"the name of column {index + 1}", name) for index, name in enumerate(names))
    repeated = repeats(checked)
    if repeated:
        raise InputError(f"Expected different column names, got {shown_names(repeated)} more than once; rename them.")
    return checked


def arrow_column(array: Any) -> Column:
    """Turn one Arrow array, chunked or not, into a typed column."""
    pa = arrow()
    # Joined text may exceed the two gigabytes that 32-bit offsets address.
    wide = array.cast(pa.large_string()) if pa.types.is_string(array.type) else array
    whole = wide.combine_chunks() if isinstance(wide, pa.ChunkedArray) else wide
    if pa.types.is_dictionary(whole.type):
        words = whole.dictionary
        wide_words = words.cast(pa.large_string()) if pa.types.is_string(words.type) else words
        whole = wide_words.take(whole.indices)
    for belongs, convert in _converters():
        if belongs(whole.type):
            return convert(whole)
    # The type of a nested value lists names that may come from cells.
    nested = pa.types.is_nested(whole.type) or pa.types.is_union(whole.type)
    return Opaque("nested values" if nested else f"{whole.type} values", len(whole))


def _converters() -> tuple[tuple[Callable[[Any], bool], Callable[[Any], Column]], ...]:
    types = arrow().types
    return (
        (types.is_boolean, _booleans),
        (types.is_integer, _integers),
        (types.is_floating, _floats),
        (types.is_decimal, _floats),
        (types.is_string, _texts),
        (types.is_large_string, _texts),
        (types.is_string_view, _texts),
        (types.is_null, _texts),
    )


def _booleans(array: Any) -> Column:
    return Booleans(array.fill_null(False).to_numpy(zero_copy_only=False), _missing(array))


def _integers(array: Any) -> Column:
    return Numbers(array.fill_null(0).to_numpy(zero_copy_only=False), _missing(array))


def _floats(array: Any) -> Column:
    pa = arrow()
    values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return Numbers(np.asarray(values, dtype=np.float64))


def _texts(array: Any) -> Column:
    pa = arrow()
    return Texts(array.cast(pa.large_string()))


def _missing(array: Any) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


register_source(
    "an Arrow table",
    is_instance_named("pyarrow", "Table", "RecordBatch"),
    from_arrow,
    lambda table: unique_names(table.schema.names),
)
