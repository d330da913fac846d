"""Lemma A.1 against exact Gaussian posteriors, and its reference value; Propose-Test-Sample."""

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate
from sordino.accounting.theorems.posterior import linear_regression, propose_test_sample
from sordino.core.bound import Bound, Inapplicable
from sordino.core.guarantee import ApproxDP, RenyiDP
from sordino.core.spec import Spec, read_spec
from sordino.models.exact import ConjugateRegression, GaussianLaw, renyi
from tests.conformance.examples import FOLDER


def spec(n: int, **potential: float) -> Spec:
    return Spec.from_dict(
        {
            "algorithm": {"kind": "posterior-sample", "potential": {"kind": "linear-regression", **potential}},
            "problem": {"n": n},
            "relation": "replace-one",
            "view": "one-sample",
        }
    )


def curve(run: Spec) -> RenyiDP:
    answer = evaluate(linear_regression, run)
    assert isinstance(answer, Bound), answer.reason
    assert isinstance(answer.guarantee, RenyiDP)
    return answer.guarantee


def neighbours(rng: np.random.Generator, n: int, model: dict[str, float]) -> tuple[GaussianLaw, GaussianLaw]:
    """Two posteriors: records at random or at the ends of the domain, the last one replaced."""
    spread = n ** model["gamma1"]
    x = rng.uniform(model["x_low"], model["x_high"], n + 1)
    ratio = model["c"] + spread * rng.uniform(-1, 1, n + 1)
    if rng.random() < 0.7:
        x[:-2] = rng.choice([model["x_low"], model["x_high"]])
        ratio[:-2] = model["c"] + spread * rng.choice([-1, 0, 1])
        x[-2:] = rng.choice([[model["x_low"], model["x_high"]], [model["x_high"], model["x_low"]]])
        ratio[-2:] = model["c"] + spread * rng.choice([-1, 1], 2)
    regression = ConjugateRegression(model["alpha"], model["beta"])
    keep = [np.r_[: n - 1, last] for last in (n - 1, n)]
    first, second = (regression.posterior(x[rows, None], (x * ratio)[rows]) for rows in keep)
    return first, second


@pytest.mark.parametrize("seed", range(60))
def test_exact_posteriors_stay_below_the_lemma(seed):
    rng = np.random.default_rng([seed, 11])
    low = rng.uniform(0.3, 2.0)
    high = low * rng.uniform(1.05, 3.0)
    model = {
        "alpha": float(np.exp(rng.uniform(-3, 4))),
        "beta": 3.01 / high**2 * float(np.exp(rng.uniform(0, 4))),
        "gamma1": float(rng.uniform(0, 0.49)),
        "x_low": low,
        "x_high": high,
        "c": float(rng.choice([0.0, 1.0, 30.0, 1e4])),
    }
    ratio = (high / low) ** 2
    least = max(1 + 20 * ratio / model["beta"], 1 + 2 * ratio, 20 * (ratio - 1))
    size = int(least * rng.uniform(1.01, 4.0)) + 2
    found = curve(spec(size, **model))
    for _ in range(4):
        pair = neighbours(rng, size, model)
        for order in (found.orders[0], found.orders[len(found.orders) // 2], found.orders[-1]):
            assert max(renyi(*pair, order), renyi(*pair[::-1], order)) <= found.at(order)


def test_the_reference_value_of_section_six():
    run = read_spec(FOLDER / "posterior-linear-regression.json")
    found = curve(run)
    # Mironov's conversion, as in the paper; the optimal one asks for less.
    assert found.mironov_epsilon(1e-3) == pytest.approx(0.285, abs=1e-3)
    assert found.epsilon(1e-3) < 0.285


def test_every_order_has_room_for_its_records():
    run = spec(100, alpha=1.0, beta=1.0, gamma1=0.1, x_low=1.0, x_high=2.0, c=1.0)
    orders = curve(run).orders
    # n > 1 + 10 nu x_h^2 / (x_l^2 beta) = 1 + 40 nu
    assert orders[0] == 2.0
    assert orders[-1] == 2.4
    answer = evaluate(linear_regression, run.with_values({"problem.n": 81}))
    assert isinstance(answer, Inapplicable)
    assert "n > 81" in answer.reason


def test_propose_test_sample_costs_four_epsilon_and_two_delta_and_only_with_an_exact_draw():
    run = read_spec(FOLDER / "propose-test-sample.json")
    answer = evaluate(propose_test_sample, run)
    assert isinstance(answer, Bound)
    assert isinstance(answer.guarantee, ApproxDP)
    assert answer.guarantee.epsilon_value == pytest.approx(
        0.8
    )  # of the paper's 5 epsilon, the number of records is free
    assert answer.guarantee.delta_value == 1e-5
    refused = evaluate(propose_test_sample, read_spec(FOLDER / "propose-test-sample-sgld.json"))
    assert isinstance(refused, Inapplicable)
    assert "Claim IV.9" in refused.reason
    loose = run.with_values({"algorithm.epsilon": 6.0, "algorithm.beta": 2.0})
    refused = evaluate(propose_test_sample, loose)
    assert isinstance(refused, Inapplicable)
    assert "epsilon = 6" in refused.reason
