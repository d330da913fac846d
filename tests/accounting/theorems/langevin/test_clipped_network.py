"""A norm-clipped network with weight decay, of whose loss nothing is known: what certify finds and prints."""

import pytest

from sordino.accounting.evaluate import evaluate, explain, theorems
from sordino.accounting.theorems.langevin import constant_drift
from sordino.core.bound import Inapplicable
from tests.accounting.described import example, mu, refusal

RUN = example("clipped-mlp-weight-decay")
EXPECTED = {"composition.gaussian", "langevin.path", "langevin.last-iterate", "shifted.drift-bounded"}


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


def test_constant_pulls_make_privacy_grow_with_the_batch() -> None:
    run = example("langevin-constant-drift")
    # Theorem 5.7: beta = 2 * 0.05 / 0.01 = 10, v / b = 1 / 20, a - gamma L^2 / 2 = 0.475.
    expected = 10 / 20**2 * (2 * 2 / 0.475 + 1) ** 2
    assert 2 * mu(constant_drift, run) ** 2 == pytest.approx(expected, rel=1e-12)
    halved = mu(constant_drift, run.with_values({"algorithm.batch.size": 40}))
    assert halved == pytest.approx(mu(constant_drift, run) / 2, rel=1e-12)
    reason = refusal(constant_drift, run.with_values({"problem.unclipped_smoothness": 0.1}))
    assert "do not depend on the parameters" in reason
