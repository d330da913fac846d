"""Frames that are not computed yet: Polars' lazy frames, Dask's and Spark's data frames, a piece at a time.

None of these packages is imported before whoever made the frame did that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sordino.data.sources.in_memory import from_arrow, from_pandas, is_spark
from sordino.data.sources.registry import (
    ROWS_AT_ONCE,
    TablePart,
    is_instance_named,
    read_without_quoting,
    register_source,
    unique_names,
)
from sordino.data.table import Table


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
