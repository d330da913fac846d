"""A target that is true or false, encoded as signs (-1, +1) or bits (0, 1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import one_of, refuse
from sordino.data.encoding_report import ColumnCounts
from sordino.data.json_fields import JsonFields
from sordino.data.kinds.boolean import DEFAULT_FALSE, DEFAULT_TRUE, WORDS_JSON_SCHEMA, Truth
from sordino.data.kinds.missing import REFUSE, MissingRule, RawValue, missing_json_schema
from sordino.data.table import Column
from sordino.data.targets.base import TargetKind, refusing_words, target_kind, target_missing

_LABELS = {"signs": (-1.0, 1.0), "bits": (0.0, 1.0)}


@target_kind("boolean")
@dataclass(frozen=True)
class BooleanTarget(TargetKind):
    """A yes-or-no target; `labels` says which two numbers stand for false and true."""

    labels: str = "signs"
    true_values: tuple[str, ...] = DEFAULT_TRUE
    false_values: tuple[str, ...] = DEFAULT_FALSE
    missing: MissingRule = REFUSE

    def __post_init__(self) -> None:
        one_of("labels", self.labels, _LABELS)
        truth = self.truth
        object.__setattr__(self, "true_values", truth.true_values)
        object.__setattr__(self, "false_values", truth.false_values)
        if target_missing(self.missing.to_json()).rule == "value" and not isinstance(self.missing.value, bool):
            raise refuse("missing.value", "to be true or false", self.missing.value)

    @property
    def truth(self) -> Truth:
        """The words and their meaning."""
        return Truth(self.true_values, self.false_values)

    @property
    def class_words(self) -> tuple[bool, bool] | tuple[str, str]:
        """What false and true are called in predictions: the first declared word of each, or booleans by default."""
        if (self.true_values, self.false_values) == (DEFAULT_TRUE, DEFAULT_FALSE):
            return False, True
        return self.false_values[0], self.true_values[0]

    @property
    def words(self) -> tuple[str, ...]:
        return self.true_values + self.false_values

    @property
    def can_refuse(self) -> tuple[str, ...]:
        return refusing_words(self.missing, "words that are neither true nor false")

    @property
    def classes(self) -> int | None:
        return 2

    @property
    def bound(self) -> float | None:
        return 1.0

    @property
    def width(self) -> float | None:
        low, high = _LABELS[self.labels]
        return high - low

    def encode(self, name: str, column: Column, tokens: Sequence[str]) -> tuple[NDArray[Any], ColumnCounts]:
        truth, missing = self.truth.read(name, column, tokens)
        self.missing.check(name, missing)
        if self.missing.value is not None:
            truth = truth | (missing & bool(self.missing.value))
        low, high = _LABELS[self.labels]
        return np.where(truth, high, low), ColumnCounts(missing=int(missing.sum()))

    def decode(self, encoded: Any) -> NDArray[Any]:
        values = np.asarray(encoded)
        if not np.isin(values, _LABELS[self.labels]).all():
            raise refuse("encoded labels", f"to be among {_LABELS[self.labels]}", "others")
        return values == _LABELS[self.labels][1]

    def extremes(self) -> tuple[RawValue, RawValue]:
        return self.true_values[0], self.false_values[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "labels": self.labels,
            "true_values": list(self.true_values),
            "false_values": list(self.false_values),
            "missing": self.missing.to_json(),
        }

    @classmethod
    def from_json(cls, fields: JsonFields) -> "BooleanTarget":
        return fields.build(
            lambda labels, true_values, false_values, missing: cls(
                labels, true_values, false_values, target_missing(missing)
            ),
            labels=fields.optional("labels", "signs"),
            true_values=fields.optional("true_values", DEFAULT_TRUE),
            false_values=fields.optional("false_values", DEFAULT_FALSE),
            missing=fields.optional("missing", "refuse"),
        )

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        properties = {
            "labels": {"enum": [*_LABELS, None]},
            "true_values": WORDS_JSON_SCHEMA,
            "false_values": WORDS_JSON_SCHEMA,
            "missing": missing_json_schema({"type": "boolean"}, ("refuse",)),
        }
        return {"properties": properties, "required": []}

    @classmethod
    def template(cls) -> dict[str, Any]:
        words = {"true_values": list(DEFAULT_TRUE), "false_values": list(DEFAULT_FALSE)}
        return words | {"labels": "signs", "missing": "refuse"}
