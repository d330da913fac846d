"""Privacy between a chain and its posterior, on Gaussian laws where everything is known."""

import math

import numpy as np
import pytest

from sordino.accounting.bounds.segments import step_weights
from sordino.accounting.evaluate import evaluate
from sordino.accounting.theorems import transfer
from sordino.accounting.theorems.transfer import transfer as transfer_theorem
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import read_spec
from sordino.models.exact import GaussianLaw, Quadratics, chain_law, hockey_stick, total_variation
from tests.accounting.described import noisy_chain
from tests.conformance.examples import FOLDER

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def normal(mean: float, scale: float) -> GaussianLaw:
    return GaussianLaw(np.array([mean]), np.array([[scale**2]]))


def test_what_is_close_to_something_private_is_nearly_as_private():
    for mu, wrong in ((0.3, 0.01), (1.0, 1e-3), (2.0, 0.2)):
        posteriors = normal(0.0, 1.0), normal(mu, 1.0)
        chains = normal(wrong, 1.0 + wrong), normal(mu - wrong, 1.0 + wrong)
        distance = max(total_variation(*pair).high for pair in zip(chains, posteriors, strict=True))
        found = transfer.transferred(GaussianDP(mu), distance)
        for epsilon in EPSILONS:
            exact = max(hockey_stick(*chains, epsilon).low, hockey_stick(*chains[::-1], epsilon).low)
            assert exact <= found.delta(epsilon)
            stated = GaussianDP(mu).delta(epsilon) + distance * (1 + math.exp(epsilon))
            assert found.delta(epsilon) <= stated * 1.02


def exact_posterior(data: Quadratics, n: int, inverse_temperature: float) -> GaussianLaw:
    """pi proportional to exp(-(2 eta / tau^2) F) for the mean of quadratics on the line."""
    curvature, pull = data.drift(data.counts, n)
    return normal(float(pull[0] / curvature[0, 0]), 1 / math.sqrt(inverse_temperature * curvature[0, 0]))


@pytest.mark.parametrize("steps", [30, 60, 200])
def test_ula_on_quadratics_stays_below_the_transferred_bound(steps):
    n, eta, tau, curvature = 4, 0.2, 0.3, 0.5
    pairs = [
        tuple(Quadratics(np.full((n, 1, 1), curvature), pulls, np.arange(n)) for pulls in (a, b))
        for a, b in (
            ([[1.0], [0.3], [-1.0], [1.0]], [[-1.0], [0.3], [-1.0], [1.0]]),
            ([[1.0]] * 4, [[-1.0], *[[1.0]] * 3]),
        )
    ]
    problem = {"n": n, "gradient_sensitivity": 2.0, "strong_convexity": curvature, "smoothness": curvature}
    spec = noisy_chain(steps, eta, tau, "full", problem)
    laws = [[chain_law(spec, data) for data in pair] for pair in pairs]
    targets = [[exact_posterior(data, n, 2 * eta / tau**2) for data in pair] for pair in pairs]
    flat = [(law, target) for row in zip(laws, targets, strict=True) for law, target in zip(*row, strict=True)]
    distance = max(total_variation(law, target).high for law, target in flat)
    certified = spec.with_values({"problem.convergence": {"zeta": 0.0, "rate": 0.5, "bias": distance}})
    answer = evaluate(transfer_theorem, certified)
    assert isinstance(answer, Bound)
    for first, second in laws:
        for epsilon in EPSILONS:
            exact = max(hockey_stick(first, second, epsilon).low, hockey_stick(second, first, epsilon).low)
            assert exact <= answer.guarantee.delta(epsilon)
    # The posterior's own mu is attained: the two records differ by the whole sensitivity.
    mu = 2.0 / n * math.sqrt(2 * eta) / (tau * math.sqrt(curvature))
    assert hockey_stick(*targets[0], 1.0).high == pytest.approx(GaussianDP(mu).delta(1.0), rel=1e-9)


def test_ula_at_temperature_one_has_the_posteriors_mu():
    spec = read_spec(FOLDER / "ula-transfer.json")
    exact = spec.with_values({"problem.convergence": {"zeta": 0.0, "rate": 0.0, "bias": 0.0}})
    answer = evaluate(transfer_theorem, exact)
    assert isinstance(answer, Bound)
    assert isinstance(answer.guarantee, GaussianDP)
    # Reference: mu = Delta / sqrt(n m).
    assert answer.guarantee.mu == pytest.approx(2.0 / math.sqrt(1000 * 0.1), rel=1e-9)


def test_weights_of_a_chain_that_grows_beyond_floats_between_kept_iterates() -> None:
    """c^thin is no float: what comes before the last two kept iterates is infinite, the last weight is 1."""
    weights = step_weights(4.0, range(1000, 5001, 1000), 5000)
    assert weights[-1] == pytest.approx(1.0)
    assert weights[-10] == pytest.approx(4.0**9)
    assert np.isinf(weights[:4000]).all()
