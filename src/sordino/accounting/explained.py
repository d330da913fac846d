"""What every theorem said of a run, as JSON values: the contract of `certify --json`, and part of every release."""

import math
from typing import Any

from sordino.accounting.evaluate import Explanation
from sordino.accounting.registry import caller_checks
from sordino.core.bound import Bound
from sordino.core.spec import Spec


def finite(value: float) -> float | None:
    """Infinite epsilon is null in JSON."""
    return value if math.isfinite(value) else None


def as_json(found: Explanation) -> dict[str, Any]:
    """The contract of `certify --json`."""
    best = found.tightest
    return {
        "relation": found.spec.relation.value,
        "view": found.spec.view.value,
        "delta": found.delta,
        "tightest": None
        if best is None
        else {"theorem": best.theorem, "epsilon": found.epsilon, "citation": str(best.citation)},
        "bounds": [_bound(bound, epsilon, found.spec) for bound, epsilon in found.bounds],
        "inapplicable": [{"theorem": answer.theorem, "reason": answer.reason} for answer in found.inapplicable],
    }


def _bound(bound: Bound, epsilon: float, spec: Spec) -> dict[str, Any]:
    return {
        "theorem": bound.theorem,
        "epsilon": finite(epsilon),
        "delta_at_zero": bound.guarantee.delta(0.0),
        "guarantee": bound.guarantee.to_dict(),
        "citation": str(bound.citation),
        "status": bound.status.value,
        "evidence": bound.evidence.word,
        "certificates": [certificate.to_dict() for certificate in bound.certificates],
        "caller_checked": list(caller_checks(bound.theorem, spec)),
    }
