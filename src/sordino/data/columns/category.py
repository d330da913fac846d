"""Columns of words: true or false, as 1 and 0 or as signs; or one of a declared list, one-hot or its position."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, ClassVar

import numpy as np

from sordino.core.spec.fields import Contradiction, Flag, Word
from sordino.core.validate import InputError, refuse, shown_names
from sordino.data.columns import base
from sordino.data.columns.base import TextLine, WordList
from sordino.data.raw_columns import MISSING, UNSEEN, Column
from sordino.data.table import RowError, as_codes

DEFAULT_TRUE = ("true", "True", "TRUE", "1")
DEFAULT_FALSE = ("false", "False", "FALSE", "0")


@base.column_kind("boolean")
class Boolean(base.ColumnKind):
    """A yes-or-no column, as a target -1 and 1; a word on neither list counts as missing."""

    bound: ClassVar[float] = 1.0  # type: ignore[misc]
    width: ClassVar[float] = 2.0  # type: ignore[misc]

    true_values: Annotated[tuple[str, ...], WordList()] = DEFAULT_TRUE
    false_values: Annotated[tuple[str, ...], WordList()] = DEFAULT_FALSE
    missing: Annotated[base.MissingRule, base.MissingRuleShape(Flag())] = base.REFUSE

    def contradictions(self) -> Iterator[Contradiction]:
        both = sorted(set(self.true_values) & set(self.false_values))
        if both:
            yield Contradiction("true_values", "and false_values to differ", both)

    @property
    def labels(self) -> tuple[bool, bool] | tuple[str, str]:  # type: ignore[override]
        """The first declared word for false and the one for true, or booleans by default."""
        default = (self.true_values, self.false_values) == (DEFAULT_TRUE, DEFAULT_FALSE)
        return (False, True) if default else (self.false_values[0], self.true_values[0])

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.true_values + self.false_values

    def read(self, name: str, column: Column, tokens: Sequence[str]) -> base.ReadCells:
        codes = as_codes(column, name, self.words, tokens)
        missing = codes < 0
        self.missing.check(name, missing, f"one of {shown_names(self.words)}")
        truth = (codes < len(self.true_values)) & ~missing
        if self.missing.value is not None:
            truth |= missing & bool(self.missing.value)
        return base.ReadCells(truth, missing)

    def encode_target(self, cells: base.ReadCells) -> np.ndarray:
        return np.where(cells.values, 1.0, -1.0)

    def decode(self, encoded: object) -> np.ndarray:
        values = np.asarray(encoded)
        if not np.isin(values, (-1.0, 1.0)).all():
            raise refuse("encoded labels", "to be -1 or 1", "others")
        return values > 0

    def extremes(self) -> tuple[str, str]:
        return self.true_values[0], self.false_values[0]

    target_extremes = extremes


OTHER = "other (unseen)"


class Unseen(StrEnum):
    """What a word outside the declared list does: stop the run, or count as one more category."""

    REFUSE = "refuse"
    OTHER = "other"


@base.column_kind("category")
class Category(base.ColumnKind):
    """A word from `values`; as a target codes 0, 1, ..., and with ``unseen: other`` the last is every other word."""

    feature_keys: ClassVar[frozenset[str]] = frozenset({"drop_first"})
    missed: ClassVar[str] = "missing values"

    values: Annotated[tuple[str, ...], WordList()]
    unseen: Annotated[str, Word(tuple(Unseen)), "stop on another word, or take it as one more"] = Unseen.REFUSE
    drop_first: Annotated[bool, Flag(), "of a feature: encode the first value as zeros"] = False
    missing: Annotated[base.MissingRule, base.MissingRuleShape(TextLine())] = base.REFUSE

    def contradictions(self) -> Iterator[Contradiction]:
        if self.missing.rule == "value" and self.missing.value not in self.values:
            yield Contradiction("missing.value", "to be one of the declared values", self.missing.value)
        if not self.feature_names("x"):
            yield Contradiction("drop_first", "to leave something to encode", True, "there is only one value")

    @property
    def words(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.values

    @property
    def can_refuse(self) -> tuple[str, ...]:
        return super().can_refuse + (("unseen categories",) if self.unseen == Unseen.REFUSE else ())

    def feature_names(self, name: str) -> tuple[str, ...]:
        kept = self.values[1:] if self.drop_first else self.values
        other = (f"{name} is unseen",) if self.unseen == Unseen.OTHER else ()
        indicator = (f"{name} is missing",) if self.missing.adds_indicator else ()
        return (*(f"{name}={value}" for value in kept), *other, *indicator)

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.values + ((OTHER,) if self.unseen == Unseen.OTHER else ())

    def read(self, name: str, column: Column, tokens: Sequence[str]) -> base.ReadCells:
        codes = as_codes(column, name, self.values, tokens)
        missing, unseen = codes == MISSING, codes == UNSEEN
        self.missing.check(name, missing, "a word")
        if self.unseen == Unseen.REFUSE and unseen.any():
            got = f"{int(unseen.sum())} others (the first in row "
            before = f"Expected only declared categories in column {name!r}, got {got}"
            raise RowError(before, int(unseen.argmax()) + 1, "); add them to its values or declare unseen as 'other'.")
        if isinstance(self.missing.value, str):
            codes[missing] = self.values.index(self.missing.value)
        codes[unseen] = len(self.values)
        return base.ReadCells(codes, missing, unseen=int(unseen.sum()))

    def encode_feature(self, cells: base.ReadCells, out: np.ndarray) -> None:
        positions = cells.values - self.drop_first
        if self.missing.adds_indicator:
            positions[cells.missing] = out.shape[1] - 1
        out[...] = 0.0
        rows = np.flatnonzero(positions >= 0)
        out[rows, positions[rows]] = 1.0

    def decode(self, encoded: object) -> np.ndarray:
        codes = np.asarray(encoded)
        whole = codes.astype(np.int64)
        if codes.size and (np.any(whole != codes) or whole.min() < 0 or whole.max() >= len(self.labels)):
            raise InputError(f"Class codes must be in 0..{len(self.labels) - 1}. Pass codes that this schema encoded.")
        return np.array(self.labels, dtype=object)[whole]

    def extremes(self) -> tuple[str, str]:
        return self.values[-1], self.values[0]

    def target_extremes(self) -> tuple[str, str]:
        return self.values[0], self.values[-1]
