"""Products of declared columns as one number, with bounds that follow from those of their parts.

In a product a number counts from the middle of its bounds, where the coefficients of the parts alone hold, and a word
is 1 where the cell holds it and 0 elsewhere. So a product of numbers of half widths h and h' lies within h h' of 0, one
of a number and a word within h, one of words between 0 and 1. A missing cell makes it 0, whatever its column declares.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec.fields import Contradiction, Nested, Section, Several
from sordino.core.spec.fields import Schema as JsonSchema
from sordino.core.validate import InputError
from sordino.data.columns.base import KINDS, REFUSE, ColumnKind, ColumnKinds, MissingRule, TextLine, column_kind
from sordino.data.columns.category import Boolean, Category
from sordino.data.columns.number import Measurement
from sordino.data.raw_columns import Column
from sordino.data.table import as_codes

_PARTS = 3


class SimpleKinds(ColumnKinds):
    """Every kind but products."""

    def __init__(self) -> None:
        super().__init__(KINDS)

    def schema(self, definitions: dict[str, JsonSchema]) -> JsonSchema:
        return {"type": "object"}


@dataclass(frozen=True, kw_only=True)
class Factor(Section):
    """A column of a product, its declaration, and the word that counts as 1 where it holds words."""

    column: Annotated[str, TextLine(blank=False)]
    kind: Annotated[ColumnKind, SimpleKinds()]
    word: Annotated[str | None, TextLine(), "of a column of words: the one that is 1"] = None

    def contradictions(self) -> Iterator[Contradiction]:
        words = self.kind.values if isinstance(self.kind, Category) else ()
        if isinstance(self.kind, Interaction):
            yield Contradiction("kind", "to be no product itself", self.kind.word)
        elif words and self.word not in words:
            yield Contradiction("word", "to be one of the declared values", self.word)
        elif not words and self.word is not None:
            yield Contradiction("word", "to be absent for a number or a boolean", self.word)

    @property
    def half(self) -> float:
        return (self.kind.high - self.kind.low) / 2.0 if isinstance(self.kind, Measurement) else 1.0

    def factor(self, column: Column, tokens: Sequence[str]) -> NDArray[np.float64]:
        """One number for each record, 0 where the cell is missing."""
        if isinstance(self.kind, Measurement):
            low, high = self.kind.low, self.kind.high
            values = np.clip(self.kind.measured(self.column, column, tokens), low, high) - (low + high) / 2.0
            return np.nan_to_num(np.clip(values, -self.half, self.half), nan=0.0)
        codes = as_codes(column, self.column, self.kind.words, tokens)
        if isinstance(self.kind, Boolean):
            return ((codes >= 0) & (codes < len(self.kind.true_values))).astype(np.float64)
        return (codes == self.kind.words.index(str(self.word))).astype(np.float64)


@column_kind("interaction")
class Interaction(Measurement):
    """A product of two or three declared columns, for features only."""

    missing: ClassVar[MissingRule] = REFUSE  # type: ignore[misc]
    can_refuse: ClassVar[tuple[str, ...]] = ()  # type: ignore[misc]

    of: Annotated[tuple[Factor, ...], Several(Nested(Factor), _PARTS), "the columns that are multiplied"]

    def contradictions(self) -> Iterator[Contradiction]:
        names = [part.column for part in self.of]
        if len(names) < 2 or len(set(names)) < len(names):
            yield Contradiction("of", "to name two or three different columns", names)
        elif not 1e-12 < self.high < 1e15:
            yield Contradiction("of", "to have a product of a sensible size", self.high, "change a unit of measurement")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(part.column for part in self.of)

    @property
    def high(self) -> float:  # type: ignore[override]
        return float(math.prod(part.half for part in self.of))

    @property
    def low(self) -> float:  # type: ignore[override]
        return -self.high if any(isinstance(part.kind, Measurement) for part in self.of) else 0.0

    def measured(self, name: str, column: object, tokens: Sequence[str]) -> NDArray[np.float64]:
        if not isinstance(column, Mapping):  # of the columns that are multiplied, by name
            raise InputError(f"The columns of the product {name!r} are encoded together. Encode the table.")
        return np.prod([part.factor(column[part.column], tokens) for part in self.of], axis=0)
