"""What an audit answers: a lower bound on epsilon with everything that makes it checkable."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sordino.audit.trade_off import TradeOffPoint
from sordino.core.relation import Relation
from sordino.core.validate import OPEN_UNIT, Interval, instance_of, number, refuse, whole_number
from sordino.core.view import View

_CONFIDENCE = Interval(0.0, 1.0, low_open=True)


class Examined(StrEnum):
    """What a lower bound was found out from; the two are not the same, and neither is the code that made a release."""

    DESCRIPTION = "description"
    RUN = "run"

    @property
    def words(self) -> str:
        """What to call a lower bound of this kind."""
        return _TITLES[self]

    @property
    def sentence(self) -> str:
        """What it does not show."""
        return _SENTENCES[self]


_TITLES = {
    Examined.DESCRIPTION: "tightness of the description",
    Examined.RUN: "attack on a run by this code",
}
_SENTENCES = {
    Examined.DESCRIPTION: (
        "Tightness of the description: both bounds are computed from it. No code was run, so noise that the program "
        "leaves out would not be seen here."
    ),
    Examined.RUN: (
        "Attacked was what the evidence says, run by this code. It is not the run that made a release, and other parts "
        "of the program are not tested."
    ),
}


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """The run leaks at least this much: no smaller epsilon is true at this delta, with this confidence.

    Attributes:
        epsilon: the lower bound, rounded down; 0 when nothing was found, infinite when no epsilon is enough.
        delta: the delta it holds at.
        relation: the relation of the two datasets that were told apart.
        view: what the test was allowed to see.
        method: the registered name of the audit, such as "exact".
        confidence: joint probability that the statement holds; 1 when nothing was sampled.
        counts: named whole numbers that the confidence rests on, such as ("models per side", 500).
        cap: the largest epsilon this audit could have reported whatever the run did; None when there is no cap.
        seed_policy: one sentence on where randomness came from.
        evidence: one sentence on which datasets and which test.
        curve: tests found, each with upper bounds on its two errors; empty when the audit gives no curve.
        examined: whether something was run, or the description alone was read; a caller who does not say claims less.
    """

    epsilon: float
    delta: float
    relation: Relation
    view: View
    method: str
    confidence: float
    counts: tuple[tuple[str, int], ...]
    cap: float | None
    seed_policy: str
    evidence: str
    curve: tuple[TradeOffPoint, ...] = ()
    examined: Examined = Examined.DESCRIPTION

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            number("epsilon", self.epsilon, Interval(0.0))
        number("delta", self.delta, OPEN_UNIT)
        number("confidence", self.confidence, _CONFIDENCE)
        instance_of("relation", self.relation, Relation)
        instance_of("view", self.view, View)
        instance_of("examined", self.examined, Examined)
        for name in ("method", "seed_policy", "evidence"):
            if not instance_of(name, getattr(self, name), str):
                raise refuse(name, "to say something", "")
        for name, count in self.counts:
            whole_number(name, count, Interval(0))
        if self.cap is not None and not self.epsilon <= self.cap:
            raise refuse("epsilon", f"to be at most the cap {self.cap!r} of the audit", self.epsilon)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite epsilon is null."""
        return {
            "epsilon": _finite(self.epsilon),
            "delta": self.delta,
            "relation": self.relation.value,
            "view": self.view.value,
            "method": self.method,
            "examined": self.examined.value,
            "confidence": self.confidence,
            "counts": dict(self.counts),
            "cap": None if self.cap is None else _finite(self.cap),
            "seed_policy": self.seed_policy,
            "evidence": self.evidence,
            "curve": [[point.false_positive, point.false_negative] for point in self.curve],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
