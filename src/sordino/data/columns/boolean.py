"""True or false, encoded 1 and 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, one_of, refuse
from sordino.data.columns.base import (
    REFUSE,
    ColumnCounts,
    FeatureKind,
    MissingRule,
    RawValue,
    TargetKind,
    feature_kind,
    missing_json_schema,
    refusing_words,
    target_kind,
    target_missing,
)
from sordino.data.scaling import JsonFields, clean_texts, shown_names
from sordino.data.table import MISSING, UNSEEN, Column, RowError, as_codes, first_row

DEFAULT_TRUE = ("true", "True", "TRUE", "1")
DEFAULT_FALSE = ("false", "False", "FALSE", "0")
WORDS_JSON_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}, {"type": "null"}]
}


@dataclass(frozen=True)
class Truth:
    """Which words mean true and which mean false; any other word is an error."""

    true_values: tuple[str, ...] = DEFAULT_TRUE
    false_values: tuple[str, ...] = DEFAULT_FALSE

    def __post_init__(self) -> None:
        for key in ("true_values", "false_values"):
            words = clean_texts(key, getattr(self, key))
            if not words:
                raise refuse(key, "to list at least one word", list(words))
            object.__setattr__(self, key, words)
        both = set(self.true_values) & set(self.false_values)
        if both:
            raise InputError(
                f"Expected true_values and false_values to differ, got {shown_names(sorted(both))} in both."
            )

    def read(self, name: str, column: Column, tokens: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Truth of each record and where it is missing; a word on neither list stops."""
        codes = as_codes(column, name, self.true_values + self.false_values, tokens)
        strange = codes == UNSEEN
        if strange.any():
            allowed = shown_names(self.true_values + self.false_values)
            raise RowError(
                f"Expected column {name!r} to hold one of {allowed}, got {int(strange.sum())} other values (the first "
                "in row ",
                first_row(strange),
                "); declare true_values and false_values.",
            )
        missing = codes == MISSING
        return (codes < len(self.true_values)) & ~missing, missing


@feature_kind("boolean")
@dataclass(frozen=True)
class Boolean(FeatureKind):
    """A yes-or-no column: 1.0 for true, 0.0 for false."""

    true_values: tuple[str, ...] = DEFAULT_TRUE
    false_values: tuple[str, ...] = DEFAULT_FALSE
    missing: MissingRule = REFUSE

    def __post_init__(self) -> None:
        truth = self.truth
        object.__setattr__(self, "true_values", truth.true_values)
        object.__setattr__(self, "false_values", truth.false_values)
        if self.missing.rule == "value" and not isinstance(self.missing.value, bool):
            raise refuse("missing.value", "to be true or false", self.missing.value)

    @property
    def truth(self) -> Truth:
        """The words and their meaning."""
        return Truth(self.true_values, self.false_values)

    @property
    def words(self) -> tuple[str, ...]:
        return self.true_values + self.false_values

    @property
    def can_refuse(self) -> tuple[str, ...]:
        return (
            *(("missing values",) if self.missing.rule == "refuse" else ()),
            "words that are neither true nor false",
        )

    def feature_names(self, name: str) -> tuple[str, ...]:
        return (name, f"{name} is missing") if self.missing.adds_indicator else (name,)

    @property
    def block_norm(self) -> float:
        return 1.0

    def encode(self, name: str, column: Column, tokens: Sequence[str], out: NDArray[np.float64]) -> ColumnCounts:
        truth, missing = self.truth.read(name, column, tokens)
        self.missing.check(name, missing)
        if self.missing.value is not None:
            truth = truth | (missing & bool(self.missing.value))
        out[:, 0] = truth
        if self.missing.adds_indicator:
            out[:, 1] = missing
        return ColumnCounts(missing=int(missing.sum()))

    def extremes(self) -> tuple[RawValue, RawValue]:
        return self.true_values[0], self.false_values[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "true_values": list(self.true_values),
            "false_values": list(self.false_values),
            "missing": self.missing.to_json(),
        }

    @classmethod
    def from_json(cls, fields: JsonFields) -> "Boolean":
        return fields.build(
            lambda true_values, false_values, missing: cls(true_values, false_values, MissingRule.from_json(missing)),
            true_values=fields.optional("true_values", DEFAULT_TRUE),
            false_values=fields.optional("false_values", DEFAULT_FALSE),
            missing=fields.optional("missing", "refuse"),
        )

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        properties = {
            "true_values": WORDS_JSON_SCHEMA,
            "false_values": WORDS_JSON_SCHEMA,
            "missing": missing_json_schema({"type": "boolean"}),
        }
        return {"properties": properties, "required": []}

    @classmethod
    def template(cls) -> dict[str, Any]:
        return {"true_values": list(DEFAULT_TRUE), "false_values": list(DEFAULT_FALSE), "missing": "refuse"}


# A target that is true or false, encoded as signs (-1, +1) or bits (0, 1).

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
