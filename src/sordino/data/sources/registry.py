"""Tables in memory: Arrow, NumPy arrays and data frames."""

import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core.validate import InputError, raise_alone
from sordino.data.scaling import clean_name, repeats, shown_names
from sordino.data.table import Booleans, Column, Numbers, Opaque, Table, Texts, arrow

# Where tables come from: each source registers what it accepts and how it reads it.


@dataclass(frozen=True)
class Source:
    """One way in: a test that needs no import of the foreign library, and a reader that may import it.

    `read_some` reads a part of the columns, where the format allows it.
    """

    word: str
    accepts: Callable[[Any], bool]
    read: Callable[[Any], Table]
    names: Callable[[Any], tuple[str, ...]]
    read_some: Callable[[Any, Collection[str]], Table] | None = None


_SOURCES: dict[str, Source] = {}


def register_source(
    word: str,
    accepts: Callable[[Any], bool],
    read: Callable[[Any], Table],
    names: Callable[[Any], tuple[str, ...]] | None = None,
    read_some: Callable[[Any, Collection[str]], Table] | None = None,
) -> None:
    """Add a source; `read_table` tries sources in order of registration.

    `names` reads the column names without reading a row, and `read_some` only the columns asked for, where the format
    allows it.
    """
    if word in _SOURCES:
        raise InputError(f"Expected a new source name, got {word!r}, which is already registered; choose another.")
    _SOURCES[word] = Source(word, accepts, read, names or (lambda source: read(source).names), read_some)


def registered_sources() -> tuple[Source, ...]:
    """Every source, in order of registration."""
    return tuple(_SOURCES.values())


def read_table(source: Any, only: Collection[str] | None = None) -> Table:
    """Read a table from a CSV or Parquet path, an Arrow table, a pandas or polars DataFrame, or named arrays.

    `only` names the columns that are wanted: of a file with very many, no other is kept in memory. Names that the table
    lacks are left out, and sources that are in memory already may give more columns than were asked for.
    """
    found = _source_of(source)
    return found.read(source) if only is None or found.read_some is None else found.read_some(source, only)


def column_names(source: Any) -> tuple[str, ...]:
    """The column names of a table, read without its rows where the format allows it."""
    return _source_of(source).names(source)


def _source_of(source: Any) -> Source:
    for candidate in registered_sources():
        if candidate.accepts(source):
            return candidate
    given = f"the path {str(source)!r}" if isinstance(source, str | Path) else f"a {type(source).__name__}"
    words = ", ".join(candidate.word for candidate in registered_sources())
    raise InputError(f"Expected a table as one of: {words}; got {given}; convert it first.")


def is_path_ending(*suffixes: str) -> Callable[[Any], bool]:
    """A test for paths with one of the suffixes, in any case."""
    return lambda source: isinstance(source, str | Path) and Path(source).suffix.lower() in suffixes


def is_instance_named(package: str, *names: str) -> Callable[[Any], bool]:
    """A test for instances of a foreign class (or a subclass) that does not import the foreign package."""

    def accepts(source: Any) -> bool:
        ancestry = type(source).__mro__
        return any(kind.__module__.split(".")[0] == package and kind.__name__ in names for kind in ancestry)

    return accepts


def existing_file(path: str | Path) -> Path:
    """Return the path if a regular, non-empty file is there."""
    file = Path(path)
    try:
        status = file.stat()
    except (OSError, ValueError):
        raise InputError(f"Expected an existing file, got {str(path)[:200]!r}; check the path.") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"Expected a file, got the directory {str(path)!r}; name a file inside it.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"Expected a regular file, got {str(path)!r}; save its content to a file first.")
    if status.st_size == 0:
        raise InputError(f"Expected content in {str(path)!r}, got an empty file; check that it was written.")
    return file


# Arrow tables in; CSV, Parquet and pandas pass through here too.

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


# NumPy arrays in: a mapping of names to one-dimensional arrays, a structured array, or a matrix with names.


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
        values = np.asarray(given)
    except Exception:  # what an object in a cell raises may quote the cell
        raise_alone(InputError(f"Expected column {name!r} to be one list of values, got lists of unequal length."))
    if values.ndim != 1:
        raise InputError(f"Expected column {name!r} to be one-dimensional, got shape {values.shape}; split it.")
    return _BY_KIND.get(values.dtype.kind, _opaque)(_read_only(values))


def _numbers(values: Any) -> Column:
    wide = values.dtype.kind == "f" and values.dtype != np.float64
    return Numbers(values.astype(np.float64) if wide else values)


def _text_column(values: Any) -> Column:
    pa = arrow()
    try:
        return arrow_column(pa.array(values.tolist(), from_pandas=True))
    except Exception:  # an object in a cell may raise anything
        return Opaque("mixed Python objects", len(values))


def _opaque(values: Any) -> Column:
    return Opaque(f"{values.dtype} values", len(values))


def _read_only(values: Any) -> Any:
    view = values.view()
    view.flags.writeable = False
    return view


_BY_KIND = {"f": _numbers, "i": _numbers, "u": _numbers, "b": Booleans, "U": _text_column, "O": _text_column}


def _is_structured(source: Any) -> bool:
    return isinstance(source, np.ndarray) and source.dtype.names is not None and source.ndim == 1


register_source(
    "a mapping of names to NumPy arrays", lambda source: isinstance(source, Mapping), from_arrays, unique_names
)
register_source(
    "a structured NumPy array", _is_structured, from_structured, lambda source: unique_names(source.dtype.names)
)
register_source("a Table", lambda source: isinstance(source, Table), lambda source: source, lambda source: source.names)


# pandas DataFrames in; pandas itself is imported by whoever made the frame, never here.


def from_pandas(frame: Any) -> Table:
    """Turn a `pandas.DataFrame` into a `Table`; the index is not a column, NaN and None are missing."""
    names = unique_names(frame.columns)
    return Table({name: _frame_column(frame.iloc[:, index]) for index, name in enumerate(names)})


def _frame_column(series: Any) -> Column:
    pa = arrow()
    try:
        return arrow_column(pa.Array.from_pandas(series))
    except Exception:  # an object in a cell may raise anything
        return Opaque("mixed Python objects", len(series))


register_source(
    "a pandas DataFrame",
    is_instance_named("pandas", "DataFrame"),
    from_pandas,
    lambda frame: unique_names(frame.columns),
)


# polars DataFrames in; polars itself is imported by whoever made the frame, never here.


def from_polars(frame: Any) -> Table:
    """Turn a `polars.DataFrame` into a `Table`; null and NaN are missing, categories are their words."""
    return from_arrow(frame.to_arrow())


register_source(
    "a polars DataFrame",
    is_instance_named("polars", "DataFrame"),
    from_polars,
    lambda frame: unique_names(frame.columns),
)
