"""Random chains of every scheme, relation and view: no theorem is below the exact audit of the extremal quadratic."""

from typing import Any

import numpy as np
import pytest

from sordino.accounting.evaluate import explain, tightest
from sordino.auditing.exact.extremal_chain import LONGEST
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from tests.soundness import long_runs
from tests.soundness.compare import exact_epsilon

SCHEMES = ("full", "cyclic", "shuffle-once", "reshuffled", "without-replacement", "poisson", "with-replacement")


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


@pytest.mark.parametrize(
    "make",
    [
        # Sums of at most and more than 8192 values; the second is rounded down onto a grid.
        lambda: long_runs.drawn_anew(12, 1, 4, 0.8, 1.0),
        lambda: long_runs.drawn_anew(16, 1, 4, 0.8, 1.0),
        pytest.param(lambda: long_runs.drawn_anew(300, 1, 20, 0.99, 1.0), marks=pytest.mark.slow),
        lambda: long_runs.reshuffled(24, 6, 0.8, 1.0),
        lambda: long_runs.reshuffled(60, 6, 0.95, 1.0),
        lambda: long_runs.shuffled_once(40, 8, 0.9, 2.0),
        lambda: long_runs.shuffled_once(41, 8, -1.02, 2.0),
    ],
)
def test_an_audit_on_either_side_of_its_sizes_agrees_with_the_law(make):
    """The extremal quadratic is the one whose law is enumerated here; half-lines are its best tests, or good ones."""
    instance = make()
    found, truth = audit(instance.spec, "exact", AuditOptions(delta=1e-5)).epsilon, exact_epsilon(instance, 1e-5)
    # Both are rounded down, the law here by about a part in a thousand.
    assert 0.8 * truth <= found <= truth * (1 + 3e-3)
    assert all(found <= epsilon for _, epsilon in explain(instance.spec, 1e-5).bounds)


@pytest.mark.parametrize("factor", [0.9, -1.5])
def test_an_audit_refuses_more_steps_than_it_follows(factor):
    long = long_runs.chain(LONGEST + 1, 1, 2, factor, 1.0, scheme="cyclic")
    with pytest.raises(InputError, match=f"at most {LONGEST} steps"):
        audit(long, "exact", AuditOptions(delta=1e-5))
    near = long.with_values({"algorithm.steps": LONGEST if factor > 0 else 500})
    bound = tightest(near, 1e-5)
    assert bound is not None
    assert audit(near, "exact", AuditOptions(delta=1e-5)).epsilon <= bound.guarantee.epsilon(1e-5)
