"""What the shape of a potential promises: orders with room for their records, ranges of several draws, one norms."""

import pytest

from sordino.accounting.convert import compose, repeat, to_loss_distribution, to_renyi
from sordino.accounting.theorems.posterior import linear_regression, propose_test_sample
from sordino.core.guarantee import BoundedRange
from tests.accounting.described import described, example, guarantee, refusal


def test_every_order_has_room_for_its_records():
    model = {"alpha": 1.0, "beta": 1.0, "gamma1": 0.1, "x_low": 1.0, "x_high": 2.0, "c": 1.0}
    potential = {"kind": "linear-regression", **model}
    run = described("posterior-sample", "replace-one", "one-sample", potential=potential, problem={"n": 100})
    orders = guarantee(linear_regression, run).orders
    # n > 1 + 10 nu x_h^2 / (x_l^2 beta) = 1 + 40 nu
    assert (orders[0], orders[-1]) == (2.0, 2.4)
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


def test_a_bounded_range_as_a_pair_and_as_a_curve_is_no_smaller():
    for found in (BoundedRange(0.5), BoundedRange(0.5, 20), BoundedRange(2.0, 3)):
        for epsilon in (0.0, 1.0):
            assert found.delta(epsilon) <= to_loss_distribution(found).delta(epsilon)
            assert found.delta(epsilon) <= to_renyi(found).delta(epsilon)
        # Different laws share no interval: composed they cost more than draws from one.
        assert compose([(found, 2)]).epsilon(1e-5) > repeat(found, 2).epsilon(1e-5)


@pytest.mark.parametrize(("dim", "exact"), [(1, 0.2), (4, 0.4)])
def test_laplace_noise_on_a_minimiser_pays_in_the_one_norm(dim, exact):
    run = {"lipschitz": 1.0, "strong_convexity": 10.0, "tolerance": 0.0, "dim": dim}
    noise = {"kind": "laplace", "scale": 0.5}
    spec = described("output-perturbation", "replace-one", "posterior-parameters", noise=noise, **run)
    assert guarantee("output.strongly-convex", spec).value == pytest.approx(exact, rel=1e-9)
