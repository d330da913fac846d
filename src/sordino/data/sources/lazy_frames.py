"""Frames that are not computed yet: Polars' lazy frames and Dask's data frames, a piece at a time.

Neither package is imported before whoever made the frame did that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sordino.data.sources.duckdb_tables import read_part
from sordino.data.sources.in_memory import from_arrow, from_pandas
from sordino.data.sources.part import ROWS_AT_ONCE, Part, joined, read_without_quoting
from sordino.data.sources.registry import is_instance_named, register_source, unique_names
from sordino.data.table import Table

is_lazy_polars = is_instance_named("polars", "LazyFrame")


def is_dask(source: Any) -> bool:
    """Whether something is a data frame of Dask."""
    kind = type(source)
    return kind.__module__.split(".")[0] in ("dask", "dask_expr") and kind.__name__ == "DataFrame"


@dataclass(frozen=True, eq=False)
class LazyPolars(Part):
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
class DaskPart(Part):
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


def dask_parts(frame: Any) -> list[Part]:
    """The partitions of a Dask frame, none of them computed."""
    return [DaskPart(piece, frame._meta, place) for place, piece in enumerate(frame.to_delayed())]


def _dask_table(frame: Any, only: Any = None) -> Table:
    parts = dask_parts(frame)
    names = parts[0].names()
    kept = names if only is None else tuple(name for name in names if name in set(only)) or names[:1]
    return joined([table for part in parts for table in part.tables(kept)], kept)


register_source(
    "a lazy Polars frame",
    is_lazy_polars,
    lambda frame: read_part(LazyPolars(frame)),
    lambda frame: LazyPolars(frame).names(),
    lambda frame, only: read_part(LazyPolars(frame), only),
    lambda frame: LazyPolars(frame).empty(),
    parts=lambda frame: [LazyPolars(frame)],
)
register_source(
    "a Dask data frame",
    is_dask,
    _dask_table,
    lambda frame: unique_names(frame.columns),
    _dask_table,
    lambda frame: from_pandas(frame._meta),
    parts=dask_parts,
)
