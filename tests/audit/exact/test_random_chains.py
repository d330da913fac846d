"""Random chains of every scheme, relation and view: no theorem is below the exact audit of the extremal quadratic."""

from typing import Any

import numpy as np
import pytest

from sordino.accounting.evaluate import explain
from sordino.audit import AuditOptions, audit
from sordino.core.errors import InputError
from sordino.core.spec import Spec

SCHEMES = ("full", "cyclic", "shuffle-once", "reshuffled", "without-replacement", "poisson")


def random_chain(rng: np.random.Generator, scheme: str) -> Spec:
    steps, n = int(rng.integers(1, 40)), int(rng.integers(4, 40))
    size = n if scheme == "full" else int(rng.integers(1, n + 1))
    convexity = float(rng.choice([0.0, rng.uniform(0.01, 1.0)]))
    bound = float(rng.uniform(0.2, 3.0))
    step = float(rng.uniform(0.02, 0.9))
    view = str(rng.choice(["last-iterate", "all-iterates"]))
    noise = step * bound / size * float(rng.uniform(0.3, 8.0))
    problem: dict[str, Any] = {
        "n": n,
        "dim": int(rng.integers(1, 4)),
        "gradient_sensitivity": float(rng.uniform(0.5, 2.0)) * bound,
        "gradient_bound": bound,
        "strong_convexity": convexity,
        "smoothness": convexity + float(rng.uniform(0.0, 1.0)),
    }
    if rng.random() < 0.5:
        problem["regulariser"] = {"strong_convexity": convexity, "smoothness": convexity}
        problem["drift_bound"] = bound * max(1.0, n / size)
    relation = "add-remove" if scheme in {"full", "poisson"} and rng.random() < 0.5 else "replace-one"
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": step,
                "noise": {"kind": "gaussian", "scale": noise},
                "batch": {"scheme": scheme, "size": size},
                "chains": int(rng.integers(1, 3)),
            },
            "problem": problem,
            "relation": relation,
            "view": view,
        }
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_no_theorem_is_below_the_exact_audit(scheme, seed):
    rng = np.random.default_rng([seed, SCHEMES.index(scheme)])
    audited = 0
    for _ in range(4):
        spec = random_chain(rng, scheme)
        delta = float(10 ** rng.uniform(-7, -2))
        try:
            lower = audit(spec, "exact", AuditOptions(delta=delta)).epsilon
        except InputError:
            continue
        audited += 1
        for bound, epsilon in explain(spec, delta).bounds:
            assert lower <= epsilon, (bound.theorem, spec.to_json())
    assert audited > 0
