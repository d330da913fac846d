"""Tables in memory and frames: named arrays, Arrow tables, data frames, and those that are not computed yet.

Frames are taken through Arrow's C stream, `__arrow_c_stream__`, which pyarrow, polars, DuckDB, Ibis, Modin, cuDF and
others have. pandas has it too, but guesses the type of a column of objects from its cells and adds its index, so its
frames are taken column by column. None of these packages is imported here: the caller did that. Files pass
through here too.

A column has the type that it is stored in. Lists and columns of Python objects have none, and none is guessed: a guess
would let one cell decide how all others are read.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, raise_alone
from sordino.data.raw_columns import (
    Column,
    DateColumn,
    NumberColumn,
    ObjectColumn,
    OpaqueColumn,
    TextColumn,
    arrow,
    numpy_values,
    numpy_view,
    text_array,
    valid_text,
)
from sordino.data.sources.registry import (
    ROWS_AT_ONCE,
    TablePart,
    check_expansion,
    is_instance_named,
    kept_names,
    read_without_quoting,
    register_source,
    unique_names,
)
from sordino.data.table import Table

is_pandas = is_instance_named("pandas", "DataFrame")
_is_series = is_instance_named("pandas", "Series", "Index")
# Whole numbers of so many digits fit into 64 bits.
_DIGITS = 18
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
    check_expansion("the columns of text", sum(map(_text_bytes, exported.columns)), exported.nbytes)
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
    if types.is_decimal(whole.type) and whole.type.scale == 0:
        if whole.type.precision > _DIGITS:
            return TextColumn(whole.cast(pa.large_string()), kind="number")
        whole = whole.cast(pa.int64())
    if types.is_float64(whole.type) and not whole.null_count:
        return NumberColumn(numpy_view(whole))
    if types.is_large_string(whole.type):
        return TextColumn(valid_text(whole))
    if types.is_boolean(whole.type) or types.is_integer(whole.type):
        return NumberColumn(
            numpy_values(whole.fill_null(False if types.is_boolean(whole.type) else 0)), _missing(whole)
        )
    if types.is_floating(whole.type) or types.is_decimal(whole.type):
        return NumberColumn(numpy_values(whole.cast(pa.float64()).fill_null(np.nan)))
    if types.is_date(whole.type) or types.is_timestamp(whole.type):
        days = whole.cast(pa.timestamp("s"), safe=False).cast(pa.date32(), safe=False).cast(pa.int32())
        dates = numpy_values(days.fill_null(0)).astype("datetime64[D]")
        dates[numpy_values(whole.is_null())] = np.datetime64("NaT")
        return DateColumn(dates)
    # The type of a nested value lists names that may come from cells.
    nested = types.is_nested(whole.type) or types.is_union(whole.type)
    return OpaqueColumn("nested values" if nested else f"{whole.type} values", len(whole))


def _plain(array: Any) -> Any:
    """An array without a dictionary, its text addressed by 64 bits: joined, it may exceed two gigabytes."""
    pa = arrow()
    types = pa.types
    if types.is_dictionary(array.type):
        return _plain(array.dictionary).take(array.indices)
    # A type of another system that is carried as text, such as PostgreSQL's numeric.
    stored = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
    text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return stored.cast(pa.large_string()) if any(test(stored.type) for test in text) else array


def _text_bytes(array: Any) -> int:
    """What words take that are stored once and named often, when every place holds its own."""
    pa, compute = arrow(), arrow("compute")
    if isinstance(array, pa.ChunkedArray):
        return sum(map(_text_bytes, array.chunks))
    if pa.types.is_string_view(array.type) and len(array):  # 16 bytes for each, the first four of which are the length
        lengths = np.frombuffer(array.buffers()[1], np.int32, 4 * len(array), 16 * array.offset)[::4]
        return int(lengths[numpy_values(array.is_valid())].sum(dtype=np.int64))
    words = _plain(array.dictionary) if pa.types.is_dictionary(array.type) else array
    if words is array or words.type not in (pa.large_string(), pa.binary(), pa.large_binary()):
        return 0
    return compute.sum(compute.binary_length(words).take(array.indices)).as_py() or 0


def _missing(array: Any) -> Any:
    return numpy_values(array.is_null()) if array.null_count else None


def from_pandas(frame: Any, only: Collection[str] | None = None) -> Table:
    """Turn a `pandas.DataFrame` into a `Table`; the index is not a column, NaN and None are missing."""
    places = _chosen(unique_names(frame.columns), only)
    return Table({name: _pandas_column(frame.iloc[:, place]) for name, place in places.items()})


def _chosen(names: Sequence[str], only: Collection[str] | None) -> dict[str, int]:
    """The places of the columns that are wanted, of which there is one at least."""
    places = {name: place for place, name in enumerate(names)}
    return {name: places[name] for name in kept_names(tuple(names), only)}


def _pandas_column(series: Any) -> Column:
    """A column by its dtype; pandas' own types say their Arrow type, and categories that of their words."""
    words = getattr(series.dtype, "categories", series)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind != "M":
        return _array_column(np.asarray(series))
    if words.dtype == object:
        return ObjectColumn.of(np.asarray(series, dtype=object))
    try:
        return arrow_column(arrow().array(series, from_pandas=True))
    except Exception:  # a type without an Arrow type, or text that is no UTF-8
        return _array_column(np.asarray(series))


def _array_column(values: NDArray[Any]) -> Column:
    """A column by the dtype of a NumPy array."""
    kind = values.dtype.kind
    if kind in "biuf":
        values = (values.astype(np.float64) if kind == "f" and values.dtype != np.float64 else values).view()
        values.flags.writeable = False
        return NumberColumn(values)
    if kind == "U":
        return TextColumn(text_array(values.tolist()))
    if kind in "OT":
        return ObjectColumn.of(values)
    return (
        DateColumn(values.astype("datetime64[D]"))
        if kind == "M"
        else OpaqueColumn(f"{values.dtype} values", len(values))
    )


def from_arrays(arrays: Mapping[str, Any], only: Collection[str] | None = None) -> Table:
    """Turn named one-dimensional arrays or lists into a `Table`; NaN and None are missing.

    An array has a type. A list has none: each of its cells is read by itself.
    """
    return Table({name: _column(name, arrays[name]) for name in _chosen(unique_names(arrays), only)})


def from_matrix(matrix: Any, names: Sequence[str]) -> Table:
    """Turn a two-dimensional array, or a list of rows, and one name per column into a `Table`."""
    checked = unique_names(names)
    if isinstance(matrix, Sequence):
        rows = [tuple(row) for row in matrix]
        if {len(row) for row in rows} - {len(names)}:
            raise InputError(
                f"Expected rows with a cell for each of the {len(names)} names, got rows of other lengths."
            )
        return Table({name: ObjectColumn.of(row[index] for row in rows) for index, name in enumerate(checked)})
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InputError(
            f"Expected a matrix with one column for each of the {len(names)} names, got shape {values.shape}; "
            "give as many names as columns."
        )
    return Table({name: _array_column(values[:, index]) for index, name in enumerate(checked)})


def _column(name: str, given: Any) -> Column:
    if isinstance(given, Sequence) and not isinstance(given, str | bytes) and not _is_typed(given):
        return ObjectColumn.of(given)
    if _is_series(given):
        return _pandas_column(given)
    values: Any = None
    try:
        if hasattr(given, "__arrow_c_stream__"):
            values = arrow().chunked_array(given)
        elif hasattr(given, "__arrow_c_array__"):
            values = arrow().array(given)
        elif hasattr(given, "__array__"):
            values = np.asarray(given)
    except Exception:  # what a foreign library raises may quote a cell
        pass
    if values is None:
        raise InputError(f"Expected column {name!r} to be a list or an array, got a {type(given).__name__}.")
    if not isinstance(values, np.ndarray):
        return arrow_column(values)
    if values.ndim != 1:
        raise InputError(f"Expected column {name!r} to be one-dimensional, got shape {values.shape}; split it.")
    return _array_column(values)


def no_rows(arrays: Mapping[str, Any]) -> Table:
    """A table of the same types without a row; a list has no type, whatever it holds."""
    return from_arrays({name: values[:0] if _is_typed(values) else [] for name, values in arrays.items()})


def _is_typed(values: Any) -> bool:
    return hasattr(values, "__array__") or hasattr(values, "__arrow_c_array__")


def _is_structured(source: Any) -> bool:
    return isinstance(source, np.ndarray) and source.dtype.names is not None and source.ndim == 1


@dataclass(frozen=True, eq=False)
class LazyPolars(TablePart):
    """A lazy frame of Polars, computed by its streaming engine."""

    frame: Any

    @property
    def name(self) -> str:
        return "the lazy frame"

    def names(self) -> tuple[str, ...]:
        return unique_names(self.frame.collect_schema().names())

    def empty(self) -> Table:
        return from_arrow(self.frame.head(0).collect())

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        # Without a selector Polars takes a name between ^ and $ for a pattern.
        kept = self.frame.select(import_module("polars.selectors").by_name(*columns))
        frames = kept.collect_batches(chunk_size=ROWS_AT_ONCE, maintain_order=True)
        for frame in read_without_quoting(self.name, frames):
            yield from_arrow(frame)


@dataclass(frozen=True, eq=False)
class DaskPart(TablePart):
    """One partition of a Dask data frame; its columns are those of the frame."""

    delayed: Any
    meta: Any
    place: int

    @property
    def name(self) -> str:
        return f"partition {self.place + 1} of the Dask frame"

    def names(self) -> tuple[str, ...]:
        return unique_names(self.meta.columns)

    def empty(self) -> Table:
        return from_pandas(self.meta)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        frame = self.delayed
        if hasattr(frame, "compute"):
            (frame,) = read_without_quoting(self.name, (self.delayed.compute(scheduler="sync") for _ in range(1)))
        for first in range(0, max(1, len(frame)), ROWS_AT_ONCE):
            yield from_pandas(frame.iloc[first : first + ROWS_AT_ONCE][list(columns)])


def quoted(name: str) -> str:
    """A column that Spark takes for a name, whatever signs it has."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, eq=False)
class SparkRows(TablePart):
    """All rows of a Spark frame, whose order is nobody's promise; the Spark engine asks for them where they lie."""

    frame: Any

    @property
    def name(self) -> str:
        return "the Spark frame"

    @property
    def ordered(self) -> bool:
        return False

    def names(self) -> tuple[str, ...]:
        return unique_names(self.frame.columns)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        yield from_arrow(self.frame.select(*map(quoted, columns)).toArrow())


def _is_dask(source: Any) -> bool:
    kind = type(source)
    return kind.__module__.split(".")[0] in ("dask", "dask_expr") and kind.__name__ == "DataFrame"


def _dask_parts(frame: Any) -> list[DaskPart]:
    return [DaskPart(piece, frame._meta, place) for place, piece in enumerate(frame.to_delayed())]


register_source(
    "a lazy Polars frame", is_instance_named("polars", "LazyFrame"), parts=lambda frame: [LazyPolars(frame)]
)
register_source("a Dask data frame", _is_dask, parts=_dask_parts)
register_source("a Spark data frame", is_spark, parts=lambda frame: [SparkRows(frame)])
register_source(
    "an Arrow table or a data frame that exports one",
    is_arrow,
    lambda table, _: from_arrow(table),
    lambda table: unique_names(arrow_schema(table).names),
    lambda table: from_arrow(arrow_schema(table).empty_table()),
)
register_source(
    "a pandas DataFrame",
    is_pandas,
    from_pandas,
    lambda frame: unique_names(frame.columns),
    lambda frame: from_pandas(frame.iloc[:0]),
)
register_source(
    "a mapping of names to arrays or lists",
    lambda source: isinstance(source, Mapping),
    from_arrays,
    unique_names,
    no_rows,
)
register_source(
    "a structured NumPy array",
    _is_structured,
    lambda source, _: from_arrays({name: source[name] for name in source.dtype.names}),
    lambda source: unique_names(source.dtype.names),
    lambda source: from_arrays({name: source[name][:0] for name in source.dtype.names}),
)
register_source(
    "a Table",
    lambda source: isinstance(source, Table),
    lambda source, _: source,
    lambda source: source.names,
    lambda table: table.take(np.zeros(0, np.intp)),
)
