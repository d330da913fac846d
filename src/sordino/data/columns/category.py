"""One of a declared list of categories, encoded one-hot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import InputError, instance_of, one_of, refuse
from sordino.data.columns.base import (
    REFUSE,
    ColumnCounts,
    FeatureKind,
    MissingRule,
    RawValue,
    TargetKind,
    feature_kind,
    label_codes,
    missing_json_schema,
    refusing_words,
    target_kind,
    target_missing,
)
from sordino.data.scaling import JsonFields, clean_texts
from sordino.data.table import MISSING, UNSEEN, Column, RowError, as_codes, first_row

UNSEEN_WORDS = ("refuse", "other")
VALUES_JSON_SCHEMA: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}


@feature_kind("category")
@dataclass(frozen=True)
class Category(FeatureKind):
    """A word from `values`; `unseen` says whether another word stops the run or counts as one more category."""

    values: tuple[str, ...]
    unseen: str = "refuse"
    drop_first: bool = False
    missing: MissingRule = REFUSE

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", category_values(self.values))
        one_of("unseen", self.unseen, UNSEEN_WORDS)
        instance_of("drop_first", self.drop_first, bool)
        if self.missing.rule == "value" and self.missing.value not in self.values:
            raise refuse("missing.value", "to be one of the declared values", self.missing.value)
        if not self.feature_names("x"):
            raise InputError("Expected a category with something to encode, got one value that drop_first drops.")

    @property
    def words(self) -> tuple[str, ...]:
        return self.values

    @property
    def can_refuse(self) -> tuple[str, ...]:
        missing = ("missing values",) if self.missing.rule == "refuse" else ()
        return missing + (("unseen categories",) if self.unseen == "refuse" else ())

    def feature_names(self, name: str) -> tuple[str, ...]:
        kept = self.values[1:] if self.drop_first else self.values
        other = (f"{name} is unseen",) if self.unseen == "other" else ()
        indicator = (f"{name} is missing",) if self.missing.adds_indicator else ()
        return (*(f"{name}={value}" for value in kept), *other, *indicator)

    @property
    def block_norm(self) -> float:
        return 1.0

    def encode(self, name: str, column: Column, tokens: Sequence[str], out: NDArray[np.float64]) -> ColumnCounts:
        codes = as_codes(column, name, self.values, tokens)
        missing, unseen = codes == MISSING, codes == UNSEEN
        self.missing.check(name, missing)
        check_unseen(name, unseen, self.unseen)
        if isinstance(self.missing.value, str):
            codes[missing] = self.values.index(self.missing.value)
        codes[unseen] = len(self.values)
        if self.missing.adds_indicator:
            codes[missing] = len(self.values) + (self.unseen == "other")
        positions = codes - 1 if self.drop_first else codes
        out[...] = 0.0
        rows = np.flatnonzero(positions >= 0)
        out[rows, positions[rows]] = 1.0
        return ColumnCounts(missing=int(missing.sum()), unseen=int(unseen.sum()))

    def extremes(self) -> tuple[RawValue, RawValue]:
        return self.values[-1], self.values[0]

    def to_json(self) -> dict[str, Any]:
        return {
            "values": list(self.values),
            "unseen": self.unseen,
            "drop_first": self.drop_first,
            "missing": self.missing.to_json(),
        }

    @classmethod
    def from_json(cls, fields: JsonFields) -> "Category":
        return fields.build(
            lambda values, unseen, drop_first, missing: cls(values, unseen, drop_first, MissingRule.from_json(missing)),
            values=fields.required("values"),
            unseen=fields.optional("unseen", "refuse"),
            drop_first=fields.optional("drop_first", False),
            missing=fields.optional("missing", "refuse"),
        )

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        properties = {
            "values": VALUES_JSON_SCHEMA,
            "unseen": {"enum": [*UNSEEN_WORDS, None]},
            "drop_first": {"type": ["boolean", "null"]},
            "missing": missing_json_schema({"type": "string"}),
        }
        return {"properties": properties, "required": ["values"]}

    @classmethod
    def template(cls) -> dict[str, Any]:
        return {"values": None, "unseen": "refuse", "drop_first": False, "missing": "refuse"}


def category_values(values: Any) -> tuple[str, ...]:
    """Check a declared list of categories; numbers must be written as text, "1" rather than 1."""
    texts = clean_texts("values", values)
    if not texts:
        raise refuse("values", "to list at least one category", list(texts))
    return texts


def check_unseen(name: str, unseen: NDArray[np.bool_], rule: str) -> None:
    """Stop if the rule refuses categories outside the declared list and there are some."""
    if rule == "refuse" and unseen.any():
        raise RowError(
            f"Expected only declared categories in column {name!r}, got {int(unseen.sum())} others (the first in row ",
            first_row(unseen),
            "); add them to its values or declare unseen as 'other'.",
        )


# A target that is one of a declared list of classes, encoded as its position in the list.

OTHER = "other (unseen)"


@target_kind("category")
@dataclass(frozen=True)
class CategoryTarget(TargetKind):
    """A class from `values`, as codes 0, 1, ...; with ``unseen: other`` the last code is every other word."""

    values: tuple[str, ...]
    unseen: str = "refuse"
    missing: MissingRule = REFUSE

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", category_values(self.values))
        one_of("unseen", self.unseen, UNSEEN_WORDS)
        if len(self.values) < 2:
            raise refuse("values", "to list at least two classes", list(self.values))
        if target_missing(self.missing.to_json()).rule == "value" and self.missing.value not in self.values:
            raise refuse("missing.value", "to be one of the declared values", self.missing.value)

    @property
    def words(self) -> tuple[str, ...]:
        return self.values

    @property
    def can_refuse(self) -> tuple[str, ...]:
        return refusing_words(self.missing, *(("unseen categories",) if self.unseen == "refuse" else ()))

    @property
    def classes(self) -> int | None:
        return len(self.values) + (self.unseen == "other")

    @property
    def bound(self) -> float | None:
        return None

    @property
    def width(self) -> float | None:
        return None

    def encode(self, name: str, column: Column, tokens: Sequence[str]) -> tuple[NDArray[Any], ColumnCounts]:
        codes = as_codes(column, name, self.values, tokens)
        missing, unseen = codes == MISSING, codes == UNSEEN
        self.missing.check(name, missing)
        check_unseen(name, unseen, self.unseen)
        if isinstance(self.missing.value, str):
            codes[missing] = self.values.index(self.missing.value)
        codes[unseen] = len(self.values)
        return codes, ColumnCounts(missing=int(missing.sum()), unseen=int(unseen.sum()))

    def decode(self, encoded: Any) -> NDArray[Any]:
        words = self.values + ((OTHER,) if self.unseen == "other" else ())
        return np.array(words, dtype=object)[label_codes(encoded, len(words))]

    def extremes(self) -> tuple[RawValue, RawValue]:
        return self.values[0], self.values[-1]

    def to_json(self) -> dict[str, Any]:
        return {"values": list(self.values), "unseen": self.unseen, "missing": self.missing.to_json()}

    @classmethod
    def from_json(cls, fields: JsonFields) -> "CategoryTarget":
        return fields.build(
            lambda values, unseen, missing: cls(values, unseen, target_missing(missing)),
            values=fields.required("values"),
            unseen=fields.optional("unseen", "refuse"),
            missing=fields.optional("missing", "refuse"),
        )

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        properties = {
            "values": VALUES_JSON_SCHEMA | {"minItems": 2},
            "unseen": {"enum": [*UNSEEN_WORDS, None]},
            "missing": missing_json_schema({"type": "string"}, ("refuse",)),
        }
        return {"properties": properties, "required": ["values"]}

    @classmethod
    def template(cls) -> dict[str, Any]:
        return {"values": None, "unseen": "refuse", "missing": "refuse"}
