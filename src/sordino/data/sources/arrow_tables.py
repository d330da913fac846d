"""Arrow tables and every data frame that exports itself as one; CSV and Parquet files pass through here too.

Frames are taken through Arrow's C stream, `__arrow_c_stream__`, which pyarrow, polars, DuckDB, Ibis, Modin, cuDF and
others have. pandas has it too, but stops at a column of mixed objects and adds its index, so its frames are taken
column by column. None of these packages is imported here: whoever made the frame did that.
"""

from typing import Any

import numpy as np

from sordino.core.validate import InputError, raise_alone
from sordino.data.sources.registry import is_instance_named, register_source, unique_names
from sordino.data.table import Booleans, Column, Numbers, Opaque, Table, Texts, arrow, numpy_values

is_pandas = is_instance_named("pandas", "DataFrame")


def is_arrow(source: Any) -> bool:
    """Whether something exports a table, not a single column, through Arrow's C interface."""
    exports = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    return exports and not is_pandas(source) and (hasattr(source, "columns") or hasattr(source, "schema"))


def from_arrow(table: Any) -> Table:
    """Turn a `pyarrow.Table` or `RecordBatch`, or any frame with an Arrow C stream, into a `Table`.

    Null and NaN are missing; categories are their words.
    """
    pa = arrow()
    exported = table if isinstance(table, pa.Table | pa.RecordBatch) else _exported(pa.table, table)
    names = unique_names(exported.schema.names)
    return Table({name: arrow_column(exported.column(place)) for place, name in enumerate(names)})


def arrow_schema(table: Any) -> Any:
    """The `pyarrow.Schema` of such a table: names and types, without a row of a table in memory."""
    pa = arrow()
    if isinstance(table, pa.Table | pa.RecordBatch):
        return table.schema
    return _exported(pa.RecordBatchReader.from_stream, table).schema


def _exported(take: Any, table: Any) -> Any:
    try:
        return take(table)
    except Exception:  # what a foreign library raises may quote a cell
        raise_alone(
            InputError(
                f"Expected a frame that Arrow can take, got a {type(table).__name__} that it cannot; convert it first."
            )
        )


def arrow_column(array: Any) -> Column:
    """Turn one Arrow array, chunked or not, into a typed column."""
    pa = arrow()
    types = pa.types
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    plain = [_plain(chunk) for chunk in chunks] or [_plain(pa.array([], array.type))]
    whole = pa.concat_arrays(plain)
    if types.is_large_string(whole.type):
        return Texts(whole)
    if types.is_boolean(whole.type):
        return Booleans(numpy_values(whole.fill_null(False)), _missing(whole))
    if types.is_integer(whole.type):
        return Numbers(numpy_values(whole.fill_null(0)), _missing(whole))
    if types.is_floating(whole.type) or types.is_decimal(whole.type):
        return Numbers(numpy_values(whole.cast(pa.float64()).fill_null(np.nan)))
    # The type of a nested value lists names that may come from cells.
    nested = types.is_nested(whole.type) or types.is_union(whole.type)
    return Opaque("nested values" if nested else f"{whole.type} values", len(whole))


def _plain(array: Any) -> Any:
    """An array without a dictionary, its text addressed by 64 bits: joined, it may exceed two gigabytes."""
    pa = arrow()
    types = pa.types
    if types.is_dictionary(array.type):
        return _plain(array.dictionary).take(array.indices)
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return array.cast(pa.large_string()) if any(test(array.type) for test in text) else array


def _missing(array: Any) -> Any:
    return numpy_values(array.is_null()) if array.null_count else None


def from_pandas(frame: Any) -> Table:
    """Turn a `pandas.DataFrame` into a `Table`; the index is not a column, NaN and None are missing."""
    names = unique_names(frame.columns)
    return Table({name: _pandas_column(frame.iloc[:, place]) for place, name in enumerate(names)})


def _pandas_column(series: Any) -> Column:
    pa = arrow()
    try:
        return arrow_column(pa.Array.from_pandas(series))
    except Exception:  # an object in a cell may raise anything
        return Opaque("mixed Python objects", len(series))


register_source(
    "an Arrow table or a data frame that exports one",
    is_arrow,
    from_arrow,
    lambda table: unique_names(arrow_schema(table).names),
)
register_source("a pandas DataFrame", is_pandas, from_pandas, lambda frame: unique_names(frame.columns))
