"""Exact audits of composites against brute force: every record in turn is the odd one, in all parts at once.

An audit above the truth cries wolf, and one far below it is of no use; where all parts are shifts it is the truth.
"""

from typing import Any

import pytest

from sordino.accounting.evaluate import tightest
from sordino.auditing.exact.leak import GaussianShift
from sordino.auditing.lower_bound import AuditOptions, VerdictKind, audit, verdict
from sordino.auditing.methods.exact import findings
from sordino.core.spec import Spec
from tests.soundness.compare import exact_epsilon
from tests.soundness.registry import draw

DELTA = 1e-5


def cyclic(steps: int, convexity: float, size: int = 1, n: int = 2, scale: float = 2.0) -> dict[str, Any]:
    return {
        "algorithm": {
            "kind": "noisy-gradient",
            "steps": steps,
            "step_size": 1.0,
            "noise": {"kind": "gaussian", "scale": scale},
            "batch": {"scheme": "cyclic", "size": size},
        },
        "problem": {
            "n": n,
            "dim": 1,
            "gradient_sensitivity": 2.0,
            "strong_convexity": convexity,
            "smoothness": convexity,
        },
    }


def composite(*parts: dict[str, Any], relation: str = "replace-one") -> Spec:
    return Spec.from_dict(
        {
            "algorithm": {"kind": "composite", "parts": list(parts)},
            "relation": relation,
            "view": "last-iterate",
            "delta": DELTA,
        }
    )


def lower(spec: Spec) -> float:
    return audit(spec, "exact", AuditOptions(delta=DELTA)).epsilon


def test_different_records_are_not_added_up() -> None:
    """One step uses the first record, two steps with c = 0 show only the second: each record shows one shift of 1."""
    spec = composite(cyclic(1, 0.5), cyclic(2, 1.0))
    found = audit(spec, "exact", AuditOptions(delta=DELTA))
    assert found.epsilon == pytest.approx(4.3772, abs=1e-4)
    assert verdict(tightest(spec, DELTA), found).kind is VerdictKind.TIGHTNESS


def test_one_record_that_shows_in_both_parts_is_added_up() -> None:
    assert lower(composite(cyclic(1, 0.5), cyclic(1, 0.5))) == pytest.approx(6.5724, abs=1e-3)


@pytest.mark.parametrize("name", ["composite-per-record", "composite-fixed-orders"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_an_audit_is_never_above_the_worst_record_and_reaches_it(name: str, seed: int) -> None:
    instance = draw(name, seed)
    found, truth = lower(instance.spec), exact_epsilon(instance, DELTA)
    # Cells fall short of mixtures by about a part in 10^5.
    assert found <= truth * (1 + 1e-4) + 1e-6
    bound = tightest(instance.spec, DELTA)
    assert bound is not None
    assert found <= bound.guarantee.epsilon(DELTA)
    if all(isinstance(one.leak, GaussianShift) for part in instance.spec.runs() for one in findings(part)):
        assert found == pytest.approx(truth, rel=1e-4)
