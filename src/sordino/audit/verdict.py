"""Upper bound against lower bound: does what was found contradict the certificate, and what does that show?"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sordino.audit.lower_bound import Examined, LowerBound
from sordino.core.bound import Bound
from sordino.core.rounding import show_down, show_up

_FOUND = {
    Examined.DESCRIPTION: "neighbours that the description allows leak epsilon at least",
    Examined.RUN: "the {method} audit finds epsilon at least",
}


class VerdictKind(StrEnum):
    """What a lower bound says about a certificate."""

    TIGHTNESS = "tightness-of-description"
    CONSISTENT = "consistent"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not-comparable"

    @property
    def words(self) -> str:
        """The kind as a person reads it."""
        return Examined.DESCRIPTION.words if self is VerdictKind.TIGHTNESS else self.value.replace("-", " ")


@dataclass(frozen=True)
class Verdict:
    """The kind, and one sentence with both numbers or with what keeps them from being compared."""

    kind: VerdictKind
    evidence: str

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind.value, "evidence": self.evidence}


def verdict(bound: Bound | None, lower: LowerBound) -> Verdict:
    """Compare a certificate with a lower bound of the same run, at the delta of the latter.

    | kind | when |
    | --- | --- |
    | violated | the lower bound is above the certified epsilon |
    | tightness-of-description | it is not, and the description alone was read: no code was tested |
    | consistent | it is not, a run was attacked, and the attack could have found a violation |
    | inconclusive | it is not, but the attack's cap does not exceed the certified epsilon |
    | not-comparable | no bound, or one about another relation, view or delta |
    """
    mismatch = _mismatch(bound, lower)
    if bound is None or mismatch:
        return Verdict(VerdictKind.NOT_COMPARABLE, mismatch)
    certified = bound.guarantee.epsilon(lower.delta)
    found = f"{_FOUND[lower.examined].format(method=lower.method)} {show_down(lower.epsilon)}{_with_confidence(lower)}"
    claim = f"{bound.theorem} certifies at most {show_up(certified)} at delta {lower.delta:g}"
    if lower.epsilon > certified:
        return Verdict(VerdictKind.VIOLATED, f"{found}, and {claim}: {_refuted(lower)}.")
    if lower.examined is Examined.DESCRIPTION:
        return Verdict(VerdictKind.TIGHTNESS, f"{found}, and {claim}; no code was run.")
    if lower.cap is not None and lower.cap <= certified:
        return Verdict(
            VerdictKind.INCONCLUSIVE,
            f"{found}, and {claim}: this attack cannot report more than {show_down(lower.cap)}, "
            "so it could not have contradicted the certificate.",
        )
    return Verdict(VerdictKind.CONSISTENT, f"{found}, and {claim}.")


def _mismatch(bound: Bound | None, lower: LowerBound) -> str:
    """Why the two cannot be compared, or nothing."""
    if bound is None:
        return (
            f"No theorem gives a finite epsilon for this run at delta {lower.delta:g}: there is nothing to contradict."
        )
    if bound.relation is not lower.relation:
        return f"{bound.theorem} holds under {bound.relation}, and the audit used neighbours under {lower.relation}."
    if bound.view is not lower.view:
        return f"{bound.theorem} is about the view {bound.view}, and the audit saw {lower.view}."
    if math.isinf(bound.guarantee.epsilon(lower.delta)):
        return f"{bound.theorem} gives no finite epsilon at the audit's delta {lower.delta:g}."
    return ""


def _refuted(lower: LowerBound) -> str:
    """What a violation means, and how often chance alone makes one."""
    if lower.examined is Examined.DESCRIPTION:
        return "the certificate does not hold for the run described"
    said = "the certificate does not hold for this run"
    if lower.confidence == 1.0:
        return said
    chance = 100 * (1 - lower.confidence)
    return f"{said}, or this is one of the {chance:.3g} % that chance makes at most; repeat with a higher --confidence"


def _with_confidence(lower: LowerBound) -> str:
    return "" if lower.confidence == 1.0 else f" with confidence {100 * lower.confidence:g} %"
