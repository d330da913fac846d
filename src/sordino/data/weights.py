"""Survey weights with declared bounds: how much a record counts, as a share of the largest weight that is declared.

A weight is cut to its bounds and divided by the upper one, so that it lies in [0, 1] whatever the cell holds: a record
counts at most as much as one record does without weights, and every bound on what one record adds holds as it is. What
weights cost is signal: records add up to `records * mean / high` instead of `records`, and noise stays the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sordino.core.arrays import Array
from sordino.core.spec.fields import Section
from sordino.core.spec.shapes import Contradiction, Number
from sordino.core.validate import NON_NEGATIVE, POSITIVE
from sordino.data.raw_columns import Column
from sordino.data.table import as_numbers
from sordino.data.words import Line


@dataclass(frozen=True, kw_only=True)
class DeclaredWeight(Section):
    """The column of survey weights, its public bounds, and the public mean of the weights."""

    column: Annotated[str, Line(blank=False), "column that says how much a record counts"]
    low: Annotated[float, Number(NON_NEGATIVE), "public lower bound; smaller weights count as this"]
    high: Annotated[float, Number(POSITIVE), "public upper bound; larger weights count as this, and it sets the noise"]
    mean: Annotated[float, Number(POSITIVE), "public mean of the weights, 1 where they were scaled to it"]

    def contradictions(self) -> Iterator[Contradiction]:
        """The bounds have a width, and the mean lies between them."""
        if not self.low < self.high:
            yield Contradiction("high", f"above low = {self.low:g}", self.high)
        elif not self.low <= self.mean <= self.high:
            yield Contradiction("mean", f"between {self.low:g} and {self.high:g}", self.mean)

    def shares(self, column: Column, tokens: Sequence[str]) -> Array:
        """For every record its weight as a share of the largest, in [0, 1]; a cell that is no number has the mean."""
        values = as_numbers(column, self.column, tokens)
        values[np.isnan(values)] = self.mean
        return np.clip(values, self.low, self.high) / self.high

    def effective(self, records: int) -> int:
        """How many records of the largest weight the weights add up to, by their declared mean."""
        return max(1, round(records * self.mean / self.high))
