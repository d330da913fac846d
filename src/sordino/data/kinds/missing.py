"""What happens to a missing value, declared per column and never decided by looking at the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import one_of, refuse
from sordino.data.raw_values import first_row
from sordino.data.row_error import RowError

RawValue = float | str | bool


@dataclass(frozen=True)
class MissingRule:
    """``refuse`` stops; ``value`` uses a declared constant; ``indicator`` encodes 0 and sets a column of its own.

    Whether a ``refuse`` rule stops is visible to whoever runs the program and is not covered by any guarantee; the
    other two rules treat every record alike.
    """

    rule: str
    value: RawValue | None = None

    def __post_init__(self) -> None:
        one_of("missing", self.rule, ("refuse", "value", "indicator"))
        if (self.rule == "value") == (self.value is None):
            raise refuse("missing", "to have a value exactly when its rule is 'value'", (self.rule, self.value))

    @property
    def adds_indicator(self) -> bool:
        """Whether the encoding gets one more column that says "missing"."""
        return self.rule == "indicator"

    def check(self, name: str, missing: NDArray[np.bool_]) -> None:
        """Stop if the rule refuses missing values and there are some."""
        if self.rule == "refuse" and missing.any():
            raise RowError(
                f"Expected no missing values in column {name!r}, got {int(missing.sum())} (the first in row ",
                first_row(missing),
                "); declare its missing rule as 'indicator' or as a value.",
            )

    def to_json(self) -> Any:
        """The JSON form: a word, or an object that holds the constant."""
        return {"value": self.value} if self.rule == "value" else self.rule

    @classmethod
    def from_json(cls, given: Any) -> "MissingRule":
        """Read the JSON form."""
        if isinstance(given, dict):
            if set(given) != {"value"} or given["value"] is None:
                raise refuse("missing", "to be 'refuse', 'indicator' or an object with the one key 'value'", given)
            return cls("value", given["value"])
        return cls(one_of("missing", given, ("refuse", "indicator"), 'or an object {"value": CONSTANT}'))


REFUSE = MissingRule("refuse")
INDICATOR = MissingRule("indicator")


def missing_json_schema(value: dict[str, Any], words: tuple[str, ...] = ("refuse", "indicator")) -> dict[str, Any]:
    """The JSON Schema of a missing rule whose constant has the given JSON Schema."""
    constant = {"type": "object", "properties": {"value": value}, "required": ["value"], "additionalProperties": False}
    return {"anyOf": [{"enum": [*words, None]}, constant]}
