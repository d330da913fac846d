"""Reads tables in memory: data frames, Arrow tables, named arrays, matrices, frames of Dask and Spark.

Nothing is read for a type but what the type says. A list has none, and none is guessed: a guess would let one cell
decide how all others are read.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sordino.core.validate import InputError, raise_alone
from sordino.data import raw_columns
from sordino.data.sources import registry
from sordino.data.table import Table

is_pandas = registry.is_instance_named("pandas", "DataFrame")
_is_series = registry.is_instance_named("pandas", "Series", "Index")
# Spark's frames export themselves too, but they lie on a cluster.
is_spark = registry.is_instance_named("pyspark", "DataFrame")


def is_arrow(source: object) -> bool:
    """Whether something exports a table, not a single column, through Arrow's C interface."""
    exports = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    table = hasattr(source, "columns") or hasattr(source, "schema")
    return exports and table and not is_pandas(source) and not is_spark(source)


def from_arrow(table: Any, only: Collection[str] | None = None) -> Table:
    """Turn a `pyarrow.Table` or `RecordBatch`, or any frame with an Arrow C stream, into a `Table`."""
    pa = raw_columns.arrow()
    exported = table if isinstance(table, pa.Table | pa.RecordBatch) else _exported(pa.table, table)
    names = registry.unique_names(exported.schema.names)
    columns = {name: exported.column(place) for place, name in enumerate(names) if only is None or name in only}
    registry.check_expansion("the columns of text", sum(map(_text_bytes, columns.values())), exported.nbytes)
    return Table({name: raw_columns.stored(column) for name, column in columns.items()})


def arrow_schema(table: Any) -> Any:
    """The `pyarrow.Schema` of such a table: names and types, without a row."""
    pa = raw_columns.arrow()
    held = isinstance(table, pa.Table | pa.RecordBatch)
    return (table if held else _exported(pa.RecordBatchReader.from_stream, table)).schema


def _exported(take: Callable[[Any], Any], table: object) -> Any:
    try:
        return take(table)
    except Exception:  # what a foreign library raises may quote a cell
        raise_alone(InputError(f"Arrow cannot take this {type(table).__name__}. Convert it first."))


def _text_bytes(array: Any) -> int:
    """What words take that are stored once and named often, when every place holds its own."""
    pa, compute = raw_columns.arrow(), raw_columns.arrow("compute")
    if isinstance(array, pa.ChunkedArray):
        return sum(map(_text_bytes, array.chunks))
    if pa.types.is_string_view(array.type) and len(array):  # 16 bytes for each, the first four of which are the length
        lengths = np.frombuffer(array.buffers()[1], np.int32, 4 * len(array), 16 * array.offset)[::4]
        return int(lengths[raw_columns.numpy_values(array.is_valid())].sum(dtype=np.int64))
    words = raw_columns.without_dictionary(array.dictionary) if pa.types.is_dictionary(array.type) else None
    if words is None or words.type not in (pa.large_string(), pa.binary(), pa.large_binary()):
        return 0
    return compute.sum(compute.binary_length(words).take(array.indices)).as_py() or 0


def from_pandas(frame: Any, only: Collection[str] | None = None) -> Table:
    """Turn a `pandas.DataFrame` into a `Table`; the index is not a column, NaN and None are missing."""
    places = enumerate(registry.unique_names(frame.columns))
    return Table({name: _pandas_column(frame.iloc[:, at]) for at, name in places if only is None or name in only})


def _pandas_column(series: Any) -> raw_columns.Column:
    """A column by its dtype; pandas' own types say their Arrow type, and categories that of their words."""
    words = getattr(series.dtype, "categories", series)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind != "M":
        return _array_column(np.asarray(series))
    if words.dtype == object:
        return raw_columns.ObjectColumn.of(np.asarray(series, dtype=object))
    try:
        return raw_columns.stored(raw_columns.arrow().array(series, from_pandas=True))
    except Exception:  # a type without an Arrow type, or text that is no UTF-8
        return _array_column(np.asarray(series))


def _array_column(values: np.ndarray) -> raw_columns.Column:
    kind = values.dtype.kind
    if kind in "OT":
        return raw_columns.ObjectColumn.of(values)
    if kind == "U":
        return raw_columns.StoredColumn(raw_columns.text_array(values.tolist()))
    if kind in "fM":
        values = values.astype(np.float64 if kind == "f" else "datetime64[D]", copy=False)
    try:
        return raw_columns.stored(raw_columns.arrow().array(values.astype(values.dtype.newbyteorder("="), copy=False)))
    except raw_columns.arrow().ArrowException:
        raise_alone(InputError(f"No column can hold {values.dtype} values. Convert them."))


def from_arrays(arrays: Mapping[str, Any], only: Collection[str] | None = None) -> Table:
    """Turn named one-dimensional arrays or lists into a `Table`; NaN and None are missing."""
    names = registry.unique_names(arrays)
    return Table({name: _column(name, arrays[name]) for name in names if only is None or name in only})


def from_matrix(matrix: object, names: Sequence[str]) -> Table:
    """Turn a two-dimensional array, or a list of rows, and one name per column into a `Table`."""
    checked = registry.unique_names(names)
    rows = [tuple(row) for row in matrix] if isinstance(matrix, Sequence) else np.asarray(matrix)
    widths = {rows.shape[1:]} if isinstance(rows, np.ndarray) else {(len(row),) for row in rows}
    if widths - {(len(names),)}:
        raise InputError(f"Every row needs a cell for each of the {len(names)} names.")
    if isinstance(rows, np.ndarray):
        return Table({name: _array_column(rows[:, index]) for index, name in enumerate(checked)})
    return Table({name: raw_columns.ObjectColumn.of(row[index] for row in rows) for index, name in enumerate(checked)})


def _column(name: str, given: object) -> raw_columns.Column:
    if isinstance(given, Sequence) and not isinstance(given, str | bytes) and not _is_typed(given):
        return raw_columns.ObjectColumn.of(given)
    if _is_series(given):
        return _pandas_column(given)
    values: Any = None
    try:
        if hasattr(given, "__arrow_c_stream__"):
            values = raw_columns.arrow().chunked_array(given)
        elif hasattr(given, "__arrow_c_array__"):
            values = raw_columns.arrow().array(given)
        elif hasattr(given, "__array__"):
            values = np.asarray(given)
    except Exception:  # what a foreign library raises may quote a cell
        pass
    if values is None:
        raise InputError(f"Expected column {name!r} to be a list or an array, got a {type(given).__name__}.")
    if not isinstance(values, np.ndarray):
        return raw_columns.stored(values)
    if values.ndim != 1:
        raise InputError(f"Expected column {name!r} to be one-dimensional, got shape {values.shape}; split it.")
    return _array_column(values)


def no_rows(arrays: Mapping[str, Any]) -> dict[str, object]:
    """Arrays of the same types without a row; a list has no type, whatever it holds."""
    return {name: values[:0] if _is_typed(values) else [] for name, values in arrays.items()}


def _is_typed(values: object) -> bool:
    return hasattr(values, "__array__") or hasattr(values, "__arrow_c_array__")


@dataclass(frozen=True, eq=False)
class DaskPart(registry.TablePart):
    """One partition of a Dask data frame; its columns are those of the frame."""

    delayed: Any
    meta: Any
    place: int

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"partition {self.place + 1} of the Dask frame"

    def empty(self) -> Table:
        return from_pandas(self.meta)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        frame = self.delayed
        if hasattr(frame, "compute"):
            computed = (self.delayed.compute(scheduler="sync") for _ in range(1))
            (frame,) = registry.read_without_quoting(self.name, computed)
        for first in range(0, max(1, len(frame)), registry.ROWS_AT_ONCE):
            yield from_pandas(frame.iloc[first : first + registry.ROWS_AT_ONCE][list(columns)])


def quoted(name: str) -> str:
    """A column that Spark takes for a name, whatever signs it has."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, eq=False)
class SparkRows(registry.TablePart):
    """All rows of a Spark frame, whose order is nobody's promise; the Spark engine asks for them where they lie."""

    frame: Any
    name: ClassVar[str] = "the Spark frame"  # type: ignore[misc]
    ordered: ClassVar[bool] = False  # type: ignore[misc]

    def names(self) -> tuple[str, ...]:
        return registry.unique_names(self.frame.columns)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        yield from_arrow(self.frame.select(*map(quoted, columns)).toArrow())


def _register_held(word: str, accepts: Callable[[Any], bool], read: Any, without_rows: Callable[[Any], Any]) -> None:
    registry.register_source(word, accepts, lambda source: [registry.HeldPart(word, source, read, without_rows)])


registry.register_source(
    "a Dask data frame",
    lambda source: (
        type(source).__module__.split(".")[0] in ("dask", "dask_expr") and type(source).__name__ == "DataFrame"
    ),
    lambda frame: [DaskPart(piece, frame._meta, place) for place, piece in enumerate(frame.to_delayed())],
)
registry.register_source("a Spark data frame", is_spark, lambda frame: [SparkRows(frame)])
_EXPORTS = "an Arrow table or a data frame that exports one"
_register_held(_EXPORTS, is_arrow, from_arrow, lambda table: arrow_schema(table).empty_table())
_register_held("a pandas DataFrame", is_pandas, from_pandas, lambda frame: frame.iloc[:0])
_register_held("a mapping of names to arrays or lists", lambda given: isinstance(given, Mapping), from_arrays, no_rows)
_register_held(
    "a Table", lambda given: isinstance(given, Table), lambda given, _: given, lambda given: given.take(slice(0))
)
