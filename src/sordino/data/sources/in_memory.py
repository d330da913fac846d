"""Tables in memory: named arrays, Arrow tables and every data frame that exports itself as one.

Frames are taken through Arrow's C stream, `__arrow_c_stream__`, which pyarrow, polars, DuckDB, Ibis, Modin, cuDF and
others have. pandas has it too, but stops at a column of mixed objects and adds its index, so its frames are taken
column by column. None of these packages is imported here: whoever made the frame did that. Files pass through here too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sordino.core.validate import InputError, raise_alone
from sordino.data.sources.registry import is_instance_named, register_source, unique_names
from sordino.data.table import (
    NO_DAY,
    Booleans,
    Column,
    Dates,
    Numbers,
    Opaque,
    Table,
    Texts,
    arrow,
    numpy_values,
    numpy_view,
)

is_pandas = is_instance_named("pandas", "DataFrame")
# Spark's frames export themselves too, but they lie on a cluster.
is_spark = is_instance_named("pyspark", "DataFrame")


def is_arrow(source: Any) -> bool:
    """Whether something exports a table, not a single column, through Arrow's C interface."""
    exports = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    return (
        exports
        and not is_pandas(source)
        and not is_spark(source)
        and (hasattr(source, "columns") or hasattr(source, "schema"))
    )


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
    whole = plain[0] if len(plain) == 1 else pa.concat_arrays(plain)
    if types.is_float64(whole.type) and not whole.null_count:
        return Numbers(numpy_view(whole))
    if types.is_large_string(whole.type):
        return Texts(whole)
    if types.is_boolean(whole.type):
        return Booleans(numpy_values(whole.fill_null(False)), _missing(whole))
    if types.is_integer(whole.type):
        return Numbers(numpy_values(whole.fill_null(0)), _missing(whole))
    if types.is_floating(whole.type) or types.is_decimal(whole.type):
        return Numbers(numpy_values(whole.cast(pa.float64()).fill_null(np.nan)))
    if types.is_date(whole.type) or types.is_timestamp(whole.type):
        days = whole.cast(pa.timestamp("s"), safe=False).cast(pa.date32(), safe=False).cast(pa.int32())
        return Dates(f"{whole.type} values", len(whole), numpy_values(days.fill_null(NO_DAY)).astype(np.int64))
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
    return _tried(lambda: arrow().Array.from_pandas(series), len(series))


def _tried(array: Callable[[], Any], rows: int) -> Column:
    try:
        return arrow_column(array())
    except Exception:  # an object in a cell may raise anything
        return Opaque("mixed Python objects", rows)


def from_arrays(arrays: Mapping[str, Any]) -> Table:
    """Turn named one-dimensional arrays (or lists) into a `Table`; NaN and None are missing."""
    names = unique_names(arrays)
    return Table({name: _column(name, arrays[name]) for name in names})


def from_matrix(matrix: Any, names: Sequence[str]) -> Table:
    """Turn a two-dimensional array and one name per column into a `Table`."""
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InputError(
            f"Expected a matrix with one column for each of the {len(names)} names, got shape {values.shape}; "
            "give as many names as columns."
        )
    checked = unique_names(names)
    return Table({name: _column(name, values[:, index]) for index, name in enumerate(checked)})


def from_structured(array: Any) -> Table:
    """Turn a one-dimensional structured array into a `Table`."""
    return from_arrays({name: array[name] for name in array.dtype.names})


def _column(name: str, given: Any) -> Column:
    try:
        values = np.asarray(given).view()
    except Exception:  # what an object in a cell raises may quote the cell
        raise_alone(InputError(f"Expected column {name!r} to be one list of values, got lists of unequal length."))
    if values.ndim != 1:
        raise InputError(f"Expected column {name!r} to be one-dimensional, got shape {values.shape}; split it.")
    values.flags.writeable = False
    kind = values.dtype.kind
    if kind == "b":
        return Booleans(values)
    if kind in "iuf":
        return Numbers(values.astype(np.float64) if kind == "f" and values.dtype != np.float64 else values)
    if kind not in "UO":
        return Opaque(f"{values.dtype} values", len(values))
    return _tried(lambda: arrow().array(values.tolist(), from_pandas=True), len(values))


def _is_structured(source: Any) -> bool:
    return isinstance(source, np.ndarray) and source.dtype.names is not None and source.ndim == 1


register_source(
    "an Arrow table or a data frame that exports one",
    is_arrow,
    from_arrow,
    lambda table: unique_names(arrow_schema(table).names),
    types=arrow_schema,
)
register_source("a pandas DataFrame", is_pandas, from_pandas, lambda frame: unique_names(frame.columns))
register_source(
    "a mapping of names to NumPy arrays", lambda source: isinstance(source, Mapping), from_arrays, unique_names
)
register_source(
    "a structured NumPy array", _is_structured, from_structured, lambda source: unique_names(source.dtype.names)
)
register_source("a Table", lambda source: isinstance(source, Table), lambda source: source, lambda source: source.names)
