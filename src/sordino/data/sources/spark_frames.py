"""Spark data frames in: asked by the Spark engine where their rows lie, read whole by everybody else."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sordino.data.sources.in_memory import from_arrow, is_spark
from sordino.data.sources.part import Part
from sordino.data.sources.registry import register_source, unique_names
from sordino.data.table import Table


def quoted(name: str) -> str:
    """A column that Spark takes for a name, whatever signs it has."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, eq=False)
class SparkRows(Part):
    """All rows of a Spark frame; their order is nobody's promise."""

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


def _read(frame: Any, only: Collection[str] | None = None) -> Table:
    names = unique_names(frame.columns)
    kept = names if only is None else tuple(name for name in names if name in set(only)) or names[:1]
    return next(SparkRows(frame).tables(kept))


register_source(
    "a Spark data frame",
    is_spark,
    _read,
    lambda frame: unique_names(frame.columns),
    _read,
    parts=lambda frame: [SparkRows(frame)],
)
