"""True or false, encoded 1 and 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError
from sordino.core.validate import refuse
from sordino.data.declared_text import clean_texts, shown_names
from sordino.data.encoding_report import ColumnCounts
from sordino.data.json_fields import JsonFields
from sordino.data.kinds.base import FeatureKind, feature_kind
from sordino.data.kinds.missing import REFUSE, MissingRule, RawValue, missing_json_schema
from sordino.data.raw_values import MISSING, UNSEEN, as_codes, first_row
from sordino.data.row_error import RowError
from sordino.data.table import Column

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
