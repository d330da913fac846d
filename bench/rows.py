"""One line of the bench table: a question, Sordino's answer, a peer's, their ratio, and who is ahead.

Every figure is a median with quartiles over repetitions. Ratios are taken repetition by repetition between answers
given one after the other, so that a busy moment of the machine hits both.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

_LEAST = 1e-12  # what stands for a figure of zero in a ratio
EVEN = 0.02  # ratios closer to one than this are called even


@dataclass(frozen=True)
class Spread:
    """A median and its quartiles."""

    median: float
    low: float
    high: float
    repetitions: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        low, middle, high = np.quantile(np.asarray(values, float), (0.25, 0.5, 0.75)).tolist()
        return cls(middle, low, high, len(values))


@dataclass(frozen=True)
class Row:
    """A comparison; `ratio` above one means that Sordino is ahead, whatever the unit. No ratio: `reason` says why."""

    id: str
    area: str
    question: str
    unit: str
    peer: str
    ours: Spread | None
    theirs: Spread | None
    ratio: Spread | None
    how: str
    even: float = EVEN
    reason: str | None = None
    recorded: bool = False

    @property
    def ahead(self) -> str:
        """Who is ahead: decided by the quartiles of the ratio, so that noise decides nothing."""
        if self.ratio is None:
            return "could not be run"
        if self.ratio.low > 1.0 + self.even:
            return "Sordino"
        return self.peer if self.ratio.high < 1.0 / (1.0 + self.even) else "even"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"ahead": self.ahead}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        known: dict[str, Any] = {name: value for name, value in data.items() if name != "ahead"}
        spreads: dict[str, Any] = {
            name: Spread(**known[name]) for name in ("ours", "theirs", "ratio") if known[name] is not None
        }
        return cls(**(known | spreads))


@dataclass(frozen=True)
class Question:
    """What is asked of everyone; `row` and `missing` are its two kinds of answers."""

    area: str
    name: str
    text: str
    unit: str
    how: str
    more_is_better: bool = True
    even: float = EVEN

    def row(self, peer: str, ours: Sequence[float], theirs: Sequence[float], recorded: bool = False) -> Row:
        pairs = [(max(mine, _LEAST), max(other, _LEAST)) for mine, other in zip(ours, theirs, strict=True)]
        ratio = [mine / other if self.more_is_better else other / mine for mine, other in pairs]
        return Row(
            id=self.id_for(peer),
            area=self.area,
            question=self.text,
            unit=self.unit,
            peer=peer,
            ours=Spread.of(ours),
            theirs=Spread.of(theirs),
            ratio=Spread.of(ratio),
            how=self.how,
            even=self.even,
            recorded=recorded,
        )

    def missing(self, peer: str, reason: str) -> Row:
        return Row(
            id=self.id_for(peer),
            area=self.area,
            question=self.text,
            unit=self.unit,
            peer=peer,
            ours=None,
            theirs=None,
            ratio=None,
            how=self.how,
            reason=reason,
        )

    def id_for(self, peer: str) -> str:
        """The anchor of a row: lower case, digits and hyphens."""
        words = "".join(letter if letter.isalnum() else " " for letter in f"{self.area} {self.name} {peer}".lower())
        return "-".join(words.split())
