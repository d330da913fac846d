"""polars DataFrames in; polars itself is imported by whoever made the frame, never here."""

from typing import Any

from sordino.data.sources.arrow_table import from_arrow, unique_names
from sordino.data.sources.registry import is_instance_named, register_source
from sordino.data.table import Table


def from_polars(frame: Any) -> Table:
    """Turn a `polars.DataFrame` into a `Table`; null and NaN are missing, categories are their words."""
    return from_arrow(frame.to_arrow())


register_source(
    "a polars DataFrame",
    is_instance_named("polars", "DataFrame"),
    from_polars,
    lambda frame: unique_names(frame.columns),
)
