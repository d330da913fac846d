"""pandas DataFrames in; pandas itself is imported by whoever made the frame, never here."""

from typing import Any

from sordino.data.lazy_arrow import arrow
from sordino.data.sources.arrow_table import arrow_column, unique_names
from sordino.data.sources.registry import is_instance_named, register_source
from sordino.data.table import Column, Opaque, Table


def from_pandas(frame: Any) -> Table:
    """Turn a `pandas.DataFrame` into a `Table`; the index is not a column, NaN and None are missing."""
    names = unique_names(frame.columns)
    return Table({name: _column(frame.iloc[:, index]) for index, name in enumerate(names)})


def _column(series: Any) -> Column:
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
