"""The line of a release's certificate about floating point: covered, or plainly not."""

from dataclasses import replace
from typing import Any

from sordino.core.bound import Bound
from sordino.core.certificate import Certificate, Evidence
from sordino.core.constants import FLOATING_POINT

NOT_COVERED = Certificate(
    FLOATING_POINT,
    0.0,
    Evidence.ASSUMED,
    "not covered: the theorems are about real numbers, and this run was computed in floating point",
)


def exactly_computed(reason: str) -> Certificate:
    """The line of a mechanism that is computed without error: what is released has the certified law."""
    return Certificate(FLOATING_POINT, 0.0, Evidence.PROVED, reason)


def floating_point_line(bound: Bound) -> Certificate:
    """What a bound says about floating point; a bound that says nothing does not cover it."""
    lines = [one for one in bound.certificates if one.constant == FLOATING_POINT]
    return min(lines, key=lambda one: one.evidence, default=NOT_COVERED)


def floating_point_answer(bound: Bound) -> dict[str, Any]:
    """The line as JSON values: what it costs, how that is known, and why."""
    line = floating_point_line(bound)
    return {"total_variation": line.value, "evidence": line.evidence.word, "reason": line.reason}


def with_floating_point(bound: Bound, line: Certificate) -> Bound:
    """The bound with this line, in place of one it may have."""
    return replace(bound, certificates=(*without_floating_point(bound).certificates, line))


def without_floating_point(bound: Bound) -> Bound:
    """The bound as its theorem gives it."""
    return replace(bound, certificates=tuple(one for one in bound.certificates if one.constant != FLOATING_POINT))
