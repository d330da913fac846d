"""Mechanisms that claim an epsilon and break it, each with the correct version beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sordino.accounting.evaluate import explain
from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.chains import (
    ChainFit,
    constant_pull_model,
    exposed_position,
    extremal_rows,
    extremal_scores,
)
from sordino.auditing.attack.experiment import Claim
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.core.bound import Bound, View
from sordino.core.spec import Spec

CONFIDENCE = 0.99


@dataclass(frozen=True)
class Case:
    """What is claimed of a mechanism, an audit of the broken one, and the same audit of the correct one.

    The correct one has a claim of its own where the mistake is in the claim.
    """

    claim: Bound
    broken: Callable[[], LowerBound]
    correct: Callable[[], LowerBound]
    correct_claim: Bound | None = None


CASES: dict[str, Callable[[], Case]] = {}


def case(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    def registered(made: Callable[[], Case]) -> Callable[[], Case]:
        CASES[name] = made
        return made

    return registered


def claimed(spec: Spec, delta: float) -> Bound:
    """The tightest certificate of a spec."""
    bound = explain(spec, delta).tightest
    assert bound is not None
    return bound


def options(delta: float, models: int, seed: int = 1) -> AuditOptions:
    return AuditOptions(delta=delta, confidence=CONFIDENCE, models=models, seed=seed)


def chain(**changes: Any) -> Spec:
    """Ten steps of noisy gradient descent with full batches of 20 records in one dimension, with these changes."""
    described: dict[str, Any] = {
        "algorithm": {
            "kind": "noisy-gradient",
            "steps": 10,
            "step_size": 0.1,
            "noise": {"kind": "gaussian", "scale": 0.1},
            "batch": {"scheme": "full"},
        },
        "problem": {
            "n": 20,
            "dim": 1,
            "gradient_sensitivity": 2.0,
            "gradient_bound": 1.0,
            "strong_convexity": 0.5,
            "smoothness": 0.5,
        },
        "relation": "replace-one",
        "view": "last-iterate",
    }
    return Spec.from_dict(described).with_values(changes) if changes else Spec.from_dict(described)


def attacked(spec: Spec, asked: AuditOptions, view: View | None = None) -> LowerBound:
    """Attack the extremal quadratic of what really runs; `view` is what the release says it shows."""
    pair, model = extremal_rows(spec, exposed_position(spec)), constant_pull_model(spec)
    return audit_by_attack(
        ChainFit(spec, model),
        pair.first,
        pair.second,
        extremal_scores(spec, pair, model.weight_decay),
        Claim(spec.relation, view or spec.view),
        asked,
        "extremal quadratic",
    )
