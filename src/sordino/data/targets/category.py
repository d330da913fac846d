"""A target that is one of a declared list of classes, encoded as its position in the list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import one_of, refuse
from sordino.data.encoding_report import ColumnCounts
from sordino.data.json_fields import JsonFields
from sordino.data.kinds.category import UNSEEN_WORDS, VALUES_JSON_SCHEMA, category_values, check_unseen
from sordino.data.kinds.missing import REFUSE, MissingRule, RawValue, missing_json_schema
from sordino.data.raw_values import MISSING, UNSEEN, as_codes
from sordino.data.table import Column
from sordino.data.targets.base import TargetKind, label_codes, refusing_words, target_kind, target_missing

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
