"""The declared cap on the length of an encoded record, and the clipping that makes it true."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError
from sordino.core.rounding import down
from sordino.core.validate import Interval, instance_of, number
from sordino.data.float32_safe import SHRINK, norm_up
from sordino.data.json_fields import JsonFields
from sordino.data.row_lengths import row_lengths

CAP_RANGE = Interval(1e-9, 1e15)


@dataclass(frozen=True)
class RowNorm:
    """A cap on |x|; `includes_intercept` says whether the intercept's 1 counts towards it.

    With the intercept included the other features are clipped to sqrt(cap^2 - 1), so the intercept stays 1.
    """

    cap: float
    includes_intercept: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", number("row_norm.cap", self.cap, CAP_RANGE))
        instance_of("row_norm.includes_intercept", self.includes_intercept, bool)

    def feature_cap(self, intercept: bool) -> float:
        """The cap on the features without the intercept, rounded down."""
        if not (intercept and self.includes_intercept):
            return self.cap
        if self.cap <= 1.0:
            raise InputError(
                f"Expected row_norm.cap above 1 because it includes the intercept's 1, got {self.cap:g}; raise it or "
                "set includes_intercept to false."
            )
        return down(math.sqrt(down(down(self.cap * self.cap) - 1.0)), 2)

    def total(self, intercept: bool) -> float:
        """The cap on the whole record, rounded up: R of theory.md, whose square includes the intercept's 1."""
        if self.includes_intercept or not intercept:
            return self.cap
        return norm_up([self.cap, 1.0])

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {"cap": self.cap, "includes_intercept": self.includes_intercept}

    @classmethod
    def from_json(cls, given: Any) -> "RowNorm":
        """Read the JSON form; both keys are required."""
        fields = JsonFields("row_norm", given)
        return fields.build(cls, cap=fields.required("cap"), includes_intercept=fields.required("includes_intercept"))


def clip_rows(rows: NDArray[np.float64], cap: float) -> int:
    """Shorten, in place, every row longer than `cap`; return how many were.

    Rows are brought to at most ``cap * (1 - 2^-23)``, so that their exact length is at most `cap` in float64 and also
    after a cast to float32. Entries must be within 1e15.
    """
    lengths = row_lengths(rows)
    safe = cap * SHRINK
    long = np.flatnonzero(lengths > safe)
    rows[long] *= (safe / lengths[long])[:, None]
    return int(np.count_nonzero(lengths > cap))
