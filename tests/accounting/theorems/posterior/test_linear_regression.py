"""Lemma A.1 against exact Gaussian posteriors, and its reference value; Propose-Test-Sample."""

import pytest

from sordino.accounting.theorems.posterior import linear_regression, propose_test_sample
from sordino.core.guarantee import RenyiDP
from sordino.core.spec import Spec
from tests.accounting.described import described, example, guarantee, refusal


def spec(n: int, **potential: float) -> Spec:
    model = {"kind": "linear-regression", **potential}
    return described("posterior-sample", "replace-one", "one-sample", potential=model, problem={"n": n})


def curve(run: Spec) -> RenyiDP:
    return guarantee(linear_regression, run)


def test_every_order_has_room_for_its_records():
    run = spec(100, alpha=1.0, beta=1.0, gamma1=0.1, x_low=1.0, x_high=2.0, c=1.0)
    orders = curve(run).orders
    # n > 1 + 10 nu x_h^2 / (x_l^2 beta) = 1 + 40 nu
    assert orders[0] == 2.0
    assert orders[-1] == 2.4
    assert "n > 81" in refusal(linear_regression, run.with_values({"problem.n": 81}))


def test_propose_test_sample_costs_four_epsilon_and_two_delta_and_only_with_an_exact_draw():
    run = example("propose-test-sample")
    found = guarantee(propose_test_sample, run)
    # Of the paper's 5 epsilon, the number of records is free.
    assert found.epsilon_value == pytest.approx(0.8)
    assert found.delta_value == 1e-5
    assert "Claim IV.9" in refusal(propose_test_sample, example("propose-test-sample-sgld"))
    loose = run.with_values({"algorithm.epsilon": 6.0, "algorithm.beta": 2.0})
    assert "epsilon = 6" in refusal(propose_test_sample, loose)
