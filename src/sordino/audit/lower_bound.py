"""What an audit answers: a lower bound on epsilon with everything that makes it checkable."""

import math
from dataclasses import dataclass
from typing import Any

from sordino.audit.trade_off import TradeOffPoint
from sordino.core.relation import Relation
from sordino.core.validate import OPEN_UNIT, Interval, instance_of, number, refuse, whole_number
from sordino.core.view import View

_CONFIDENCE = Interval(0.0, 1.0, low_open=True)


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

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            number("epsilon", self.epsilon, Interval(0.0))
        number("delta", self.delta, OPEN_UNIT)
        number("confidence", self.confidence, _CONFIDENCE)
        instance_of("relation", self.relation, Relation)
        instance_of("view", self.view, View)
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
            "confidence": self.confidence,
            "counts": dict(self.counts),
            "cap": None if self.cap is None else _finite(self.cap),
            "seed_policy": self.seed_policy,
            "evidence": self.evidence,
            "curve": [[point.false_positive, point.false_negative] for point in self.curve],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
