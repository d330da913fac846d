"""A norm-clipped network with weight decay, of whose loss nothing is known: what certify finds and prints."""

import pytest

from sordino.accounting.evaluate import evaluate, explain, theorems
from sordino.accounting.theorems.langevin import constant_drift
from sordino.core.bound import Bound, Inapplicable
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec, read_spec
from tests.conformance.examples import FOLDER

PATH = FOLDER / "clipped-mlp-weight-decay.json"
RUN = read_spec(PATH)
EXPECTED = {"composition.gaussian", "langevin.path", "langevin.last-iterate", "shifted.drift-bounded"}


def mu(name: str, run: Spec) -> float:
    answer = evaluate(next(theorem for theorem in theorems() if theorem.id == name), run)
    assert isinstance(answer, Bound), answer.reason
    assert isinstance(answer.guarantee, GaussianDP)
    return answer.guarantee.mu


def test_clipping_alone_makes_the_theorems_apply():
    bare = RUN.with_values({"problem.gradient_bound": None, "problem.gradient_sensitivity": None})
    found = explain(bare, 1e-5)
    assert {bound.theorem for bound, _ in found.bounds} >= EXPECTED
    assert found.tightest is not None
    assert found.tightest.theorem == "shifted.drift-bounded"
    evidence = {certificate.constant.name: certificate.evidence.word for certificate in found.tightest.certificates}
    assert evidence["gradient_bound"] == "by-construction"


def test_poisson_batches_may_hold_more_than_their_divisor() -> None:
    poisson = RUN.with_values({"algorithm.batch": {"scheme": "poisson", "size": 10}})
    for theorem in theorems():
        if theorem.id.startswith(("langevin.", "shifted.")):
            answer = evaluate(theorem, poisson)
            assert isinstance(answer, Inapplicable)
            # Those that cover Poisson batches know no modulus of clipped gradients there; the others say so at once.
            covered = theorem.scope.failure(poisson) is None
            assert ("gradients whose length is clipped" if covered else "poisson") in answer.reason


def test_a_record_more_than_the_divisor_counts_makes_the_drift_larger_under_add_remove() -> None:
    full = RUN.with_values({"algorithm.batch": {"scheme": "full", "size": None}, "algorithm.steps": 1})
    replaced, added = (
        mu("shifted.drift-bounded", full),
        mu("shifted.drift-bounded", full.with_values({"relation": "add-remove"})),
    )
    assert added == pytest.approx(replaced * (1 + 0.5 / 500), rel=1e-12)
    declared = full.with_values({"relation": "add-remove", "problem.drift_bound": 0.5})
    assert mu("shifted.drift-bounded", declared) == pytest.approx(replaced / 2, rel=1e-12)


def test_constant_pulls_make_privacy_grow_with_the_batch() -> None:
    run = read_spec(FOLDER / "langevin-constant-drift.json")
    answer = evaluate(constant_drift, run)
    assert isinstance(answer, Bound)
    # Theorem 5.7: beta = 2 * 0.05 / 0.01 = 10, v / b = 1 / 20, a - gamma L^2 / 2 = 0.475.
    expected = 10 / 20**2 * (2 * 2 / 0.475 + 1) ** 2
    assert isinstance(answer.guarantee, GaussianDP)
    assert 2 * answer.guarantee.mu**2 == pytest.approx(expected, rel=1e-12)
    halved = evaluate(constant_drift, run.with_values({"algorithm.batch.size": 40}))
    assert isinstance(halved, Bound)
    assert halved.guarantee.mu == pytest.approx(answer.guarantee.mu / 2, rel=1e-12)
    curved = evaluate(constant_drift, run.with_values({"problem.unclipped_smoothness": 0.1}))
    assert isinstance(curved, Inapplicable)
    assert "do not depend on the parameters" in curved.reason


def test_the_same_curvature_as_the_regulariser_is_a_constant_gradient_too() -> None:
    quadratic = {"problem.regulariser": {"strong_convexity": 0.5, "smoothness": 0.5}}
    run = read_spec(FOLDER / "langevin-constant-drift.json").with_values(
        {"problem.unclipped_smoothness": None, "problem.strong_convexity": 0.5, "problem.smoothness": 0.5, **quadratic}
    )
    assert isinstance(evaluate(constant_drift, run), Bound)
    steeper = evaluate(constant_drift, run.with_values({"problem.smoothness": 0.6}))
    assert isinstance(steeper, Inapplicable)
