"""What an audit says about a certificate, and that it says it only about the same run."""

import math
from dataclasses import fields, replace
from typing import Any

import pytest

from sordino.auditing.lower_bound import Examined, LowerBound, VerdictKind, verdict
from sordino.core.bound import Bound, Citation, Relation, Status, View
from sordino.core.guarantee import ApproxDP, GaussianDP, Guarantee
from sordino.core.validate import InputError


def bound(guarantee: Guarantee, relation: Relation = Relation.REPLACE_ONE, view: View = View.LAST_ITERATE) -> Bound:
    return Bound(guarantee, relation, view, (), "some.theorem", Citation("dong2022gaussian", "x"), Status.AS_STATED)


LOWER = LowerBound(
    epsilon=1.0625,
    delta=1e-5,
    relation=Relation.REPLACE_ONE,
    view=View.LAST_ITERATE,
    method="exact",
    confidence=1.0,
    counts=(("pairs of neighbours", 1),),
    cap=None,
    seed_policy="This audit drew no random numbers.",
    evidence="Worst pair of neighbours tried.",
    examined=Examined.RUN,
)
DESCRIBED = replace(LOWER, examined=Examined.DESCRIPTION)


def test_a_lower_bound_below_the_certificate_is_consistent():
    answer = verdict(bound(GaussianDP(1.0)), LOWER)
    assert answer.kind is VerdictKind.CONSISTENT
    assert "at least 1.062" in answer.evidence
    assert "at most 4.378" in answer.evidence


def test_what_only_a_description_shows_is_its_tightness_and_never_called_consistent_or_audited():
    """Whatever the code does, the description says the same: the noise could be missing from the program."""
    answer = verdict(bound(GaussianDP(1.0)), DESCRIBED)
    assert answer.kind is VerdictKind.TIGHTNESS
    assert answer.kind.words == "tightness of the description"
    assert "the run has a privacy loss of epsilon at least 1.062" in answer.evidence
    assert answer.evidence.endswith("No code was run for this.")
    assert "audit" not in answer.evidence
    assert verdict(bound(ApproxDP(0.9, 1e-6)), DESCRIBED).kind is VerdictKind.VIOLATED
    assert verdict(bound(ApproxDP(0.9, 1e-6)), DESCRIBED).evidence.endswith("does not hold for the run described.")
    assert verdict(None, DESCRIBED).kind is VerdictKind.NOT_COMPARABLE


def test_whoever_does_not_say_what_was_examined_claims_less():
    told = {field.name: getattr(LOWER, field.name) for field in fields(LOWER) if field.name != "examined"}
    assert LowerBound(**told).examined is Examined.DESCRIPTION
    assert [kind.value for kind in Examined] == ["description", "run"]


def test_a_lower_bound_above_the_certificate_is_a_violation_with_both_numbers():
    answer = verdict(bound(ApproxDP(0.9, 1e-6)), replace(LOWER, confidence=0.95))
    assert answer.kind is VerdictKind.VIOLATED
    assert "at least 1.062 with confidence 95 %" in answer.evidence
    assert "some.theorem certifies at most 0.9" in answer.evidence
    assert answer.as_json() == {"kind": "violated", "evidence": answer.evidence}


def test_equality_is_no_violation():
    guarantee = GaussianDP(1.0)
    same = replace(LOWER, epsilon=guarantee.epsilon(1e-5))
    assert verdict(bound(guarantee), same).kind is VerdictKind.CONSISTENT
    above = replace(LOWER, epsilon=math.nextafter(same.epsilon, math.inf))
    assert verdict(bound(guarantee), above).kind is VerdictKind.VIOLATED


def test_an_audit_that_cannot_reach_the_certificate_is_inconclusive():
    answer = verdict(bound(GaussianDP(1.0)), replace(LOWER, cap=4.0))
    assert answer.kind is VerdictKind.INCONCLUSIVE
    assert "cannot report more than 4" in answer.evidence
    assert verdict(bound(GaussianDP(1.0)), replace(LOWER, cap=4.5)).kind is VerdictKind.CONSISTENT


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (None, "No theorem"),
        (bound(GaussianDP(1.0), relation=Relation.ADD_REMOVE), "add-remove"),
        (bound(GaussianDP(1.0), view=View.ONE_SAMPLE), "one-sample"),
        (bound(ApproxDP(0.5, 1e-3)), "no finite epsilon at the audit's delta"),
    ],
)
def test_what_is_about_something_else_is_not_compared(other, word):
    """A posterior's bound says nothing about the chain that approaches it, however much the chain leaks."""
    answer = verdict(other, replace(LOWER, epsilon=1000.0))
    assert answer.kind is VerdictKind.NOT_COMPARABLE
    assert word in answer.evidence


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -0.1},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"confidence": 0.0},
        {"cap": 0.5},
        {"method": ""},
        {"counts": (("models", -1),)},
        {"relation": "replace-one"},
        {"examined": "run"},
    ],
)
def test_a_malformed_lower_bound_is_refused(change: dict[str, Any]):
    with pytest.raises(InputError):
        replace(LOWER, **change)
