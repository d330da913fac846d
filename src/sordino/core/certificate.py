"""A constant is a certificate, not a float: value, direction, evidence, reason, and whether private rows were read."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from sordino.core import validate
from sordino.core.validate import Interval


class Direction(StrEnum):
    """Whether the true constant is at most (`UPPER`) or at least (`LOWER`) the certified value."""

    UPPER = "upper"
    LOWER = "lower"


class Evidence(IntEnum):
    """How a constant is known, weakest first, so that `min` gives the evidence of a whole bound.

    `ASSUMED` is what a release says of what nobody has shown; a spec cannot state it.
    """

    ASSUMED = -1
    ESTIMATED = 0
    DECLARED = 1
    BY_CONSTRUCTION = 2
    PROVED = 3

    @property
    def word(self) -> str:
        """The spelling used in SPEC.json and in reports."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def from_word(cls, name: str, word: Any) -> "Evidence":
        """Read the SPEC.json spelling."""
        words = {evidence.word: evidence for evidence in cls}
        return words[validate.one_of(name, word, words)]


@dataclass(frozen=True)
class Constant:
    """The name of a constant; the name fixes its direction and its range."""

    name: str
    direction: Direction
    meaning: str
    allowed: Interval = validate.NON_NEGATIVE


@dataclass(frozen=True)
class Certificate:
    """A value for a constant, with the evidence for it.

    A theorem refuses a certificate whose `reads_private_data` is true: a constant computed from private rows is
    itself a release.
    """

    constant: Constant
    value: float
    evidence: Evidence
    reason: str
    reads_private_data: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", validate.number(self.constant.name, self.value, self.constant.allowed))
        validate.instance_of(f"{self.constant.name}.evidence", self.evidence, Evidence)
        validate.instance_of(f"{self.constant.name}.reason", self.reason, str)
        validate.instance_of(f"{self.constant.name}.reads_private_data", self.reads_private_data, bool)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form used in bounds and releases."""
        return {
            "constant": self.constant.name,
            "direction": self.constant.direction.value,
            "value": self.value,
            "evidence": self.evidence.word,
            "reason": self.reason,
            "reads_private_data": self.reads_private_data,
        }
