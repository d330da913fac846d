"""A light public declaration for plain arrays: one pair of bounds for every column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sordino.core.errors import InputError
from sordino.core.validate import number, one_of, refuse, whole_number
from sordino.data import (
    CategoryTarget,
    Feature,
    MissingRule,
    Number,
    NumberTarget,
    RowNorm,
    Schema,
    Target,
    TargetKind,
)

PUBLIC_LABELS = "public"
TARGET = "target"
MIDDLE, REFUSE_MISSING = "middle", "refuse"


@dataclass(frozen=True)
class ArrayBounds:
    """Bounds for arrays whose columns have no names; values outside are clipped to them.

    Attributes:
        low: smallest value of every feature.
        high: largest value of every feature.
        target: smallest and largest target, for regression.
        classes: the labels, for classification; "public" declares that the set of labels that occur is public
            knowledge, so that it may be read off the targets.
        records: the number of records; may be left out under replace-one, where it is public by definition.
        row_norm: a cap on the length of a row scaled to [-1, 1], intercept excluded; longer rows are shortened.
        missing: what a cell that is no number counts as: "middle" of the bounds, of the target as well, so that no row
            can stop a fit; or "refuse", which stops, after the debit, and that it stopped is covered by no guarantee.
            Infinities are clipped to the bounds, or refused too. A label that is not declared always stops the fit.

    Examples:
        >>> ArrayBounds(0, 10, target=(0, 1)).schema(features=2, records=100, labels=None).feature_names
        ('intercept', 'x0', 'x1')
    """

    low: float
    high: float
    target: tuple[float, float] | None = None
    classes: Sequence[Any] | str | None = None
    records: int | None = None
    row_norm: float | None = None
    missing: str = MIDDLE

    def __post_init__(self) -> None:
        Number(self.low, self.high)
        one_of("missing", self.missing, (MIDDLE, REFUSE_MISSING))
        if self.target is not None:
            if not isinstance(self.target, Sequence) or len(self.target) != 2:
                raise refuse("target", "to be a pair (low, high)", self.target)
            NumberTarget(*self.target)
        if isinstance(self.classes, str) and self.classes != PUBLIC_LABELS:
            raise refuse("classes", f"to be a list of labels or {PUBLIC_LABELS!r}", self.classes)
        if self.classes is not None and not isinstance(self.classes, str):
            object.__setattr__(self, "classes", tuple(self.classes))
        if self.records is not None:
            whole_number("records", self.records)
        if self.row_norm is not None:
            number("row_norm", self.row_norm)

    def schema(self, features: int, records: int, labels: Sequence[Any] | None) -> Schema:
        """The full schema for arrays of this width; labels become codes."""
        kind = Number(self.low, self.high, missing=self._rule(self.low, self.high))
        named = None if labels is None and self.target is None else Target(TARGET, self._target_kind(labels))
        return Schema(
            records=records,
            features=tuple(Feature(f"x{index}", kind) for index in range(features)),
            target=named,
            intercept=True,
            row_norm=None if self.row_norm is None else RowNorm(self.row_norm, includes_intercept=False),
        )

    def _target_kind(self, labels: Sequence[Any] | None) -> TargetKind:
        if labels is not None:
            return CategoryTarget(tuple(str(code) for code in range(len(labels))))
        if self.target is None:
            raise InputError("Expected ArrayBounds with a target for regression, got none; declare target=(low, high).")
        return NumberTarget(*self.target, missing=self._rule(*self.target))

    def _rule(self, low: float, high: float) -> MissingRule:
        return MissingRule("value", low / 2 + high / 2) if self.missing == MIDDLE else MissingRule("refuse")
