"""Privacy between a chain and its posterior, on Gaussian laws where everything is known."""

import math

import numpy as np
import pytest

from sordino.accounting import transfer
from sordino.accounting.evaluate import evaluate
from sordino.accounting.theorems.transfer import transfer as transfer_theorem
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP, PureDP
from sordino.core.spec import Spec, read_spec
from sordino.model.exact import GaussianLaw, Quadratics, chain_law, hockey_stick, total_variation
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


def test_no_distance_changes_nothing():
    assert transfer.transferred(PureDP(1.0), 0.0) == PureDP(1.0)


def test_a_private_chain_forces_a_private_posterior():
    assert transfer.posterior_from_chain(1.0, 1e-5, 0.0).delta_value == 1e-5
    biased = transfer.posterior_from_chain(1.0, 1e-5, 1e-3)
    assert biased.delta_value == pytest.approx(1e-5 + 1e-3 * (1 + math.e), rel=1e-9)
    assert transfer.posterior_from_chain(2000.0, 0.0, 1e-3).delta_value == 1.0


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0])
def test_a_chain_at_a_leaking_distance_leaks(epsilon):
    """Chains moved towards each other by less than the leaking distance still break (epsilon, delta)."""
    posteriors = normal(0.0, 1.0), normal(3.0, 1.0)
    broken = hockey_stick(*posteriors, epsilon).low
    delta = 0.5 * broken
    distance = transfer.leaking_distance(epsilon, delta, broken)
    assert distance == pytest.approx((broken - delta) / (1 + math.exp(epsilon)), rel=1e-9)
    step = next(s for s in np.geomspace(3, 1e-6, 400) if total_variation(normal(0, 1), normal(s, 1)).high <= distance)
    chains = normal(step, 1.0), normal(3.0 - step, 1.0)
    assert hockey_stick(*chains, epsilon).low > delta


def test_the_first_leaking_step_is_the_first():
    zeta, rate, bias = 10.0, 0.9, 1e-3
    distance = transfer.leaking_distance(1.0, 1e-5, 0.05)
    step = transfer.first_leaking_step(zeta, rate, bias, distance)
    assert step is not None
    assert zeta * rate**step + bias <= distance < zeta * rate ** (step - 1) + bias
    assert transfer.first_leaking_step(zeta, rate, distance, distance) is None
    assert transfer.first_leaking_step(1e-9, rate, 0.0, 0.5) == 0
    assert transfer.first_leaking_step(10.0, 0.0, 0.0, 0.5) == 1


def test_a_private_chain_stays_away_from_a_posterior_that_is_not():
    """A constant chain is (0, 0)-DP, so for one of two far posteriors its distance exceeds the forced one."""
    posteriors = normal(0.0, 1.0), normal(2.0, 1.0)
    for epsilon in (0.0, 1.0):
        forced = transfer.forced_distance(epsilon, 0.0, hockey_stick(*posteriors, epsilon).low)
        assert max(total_variation(normal(1.0, 1.0), law).low for law in posteriors) > forced > 0


def test_tails_and_moments_of_a_likelihood_ratio_are_guarantees():
    mu, orders = 0.7, (2.0, 8.0)
    found = transfer.from_moments(orders, [(order - 1) * order * mu**2 / 2 for order in orders])
    assert found.at(8.0) == pytest.approx(8 * mu**2 / 2)
    assert found.at(8.0) >= 8 * mu**2 / 2
    # log dP/dQ ~ N(mu^2/2, mu^2) under P.
    epsilon = 2.0
    tail = 0.5 * math.erfc((epsilon - mu**2 / 2) / mu / math.sqrt(2))
    assert transfer.from_tail(epsilon, tail).delta(epsilon) >= GaussianDP(mu).delta(epsilon)


def test_a_distance_never_exceeds_one():
    assert transfer.distance_after(10.0, 0.5, 0.0, 1) == 1.0
    assert transfer.distance_after(10.0, 0.5, 1e-9, 10**15) == pytest.approx(1e-9)


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
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": eta,
                "noise": {"kind": "gaussian", "scale": tau},
                "batch": {"scheme": "full"},
            },
            "problem": {
                "n": n,
                "dim": 1,
                "gradient_sensitivity": 2.0,
                "strong_convexity": curvature,
                "smoothness": curvature,
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
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
    # theory.md, section 3: mu = Delta / sqrt(n m).
    assert answer.guarantee.mu == pytest.approx(2.0 / math.sqrt(1000 * 0.1), rel=1e-9)


def test_noise_on_a_value_that_may_move_too_far():
    """Proposition A.6: a coupling that is at most 1 apart with probability 0.97, under noise of scale 1."""
    noise, failure = GaussianDP(1.0), 0.03
    found = transfer.released_with_noise(noise, failure)
    assert transfer.released_with_noise(noise, 0.0) == noise
    for epsilon in EPSILONS:
        stated = noise.delta(epsilon) + failure
        assert found.delta(epsilon) <= stated * (1 + 1e-3)
        # With probability 0.97 the move is 1, else it is so large that nothing is hidden.
        exact = (1 - failure) * hockey_stick(normal(1.0, 1.0), normal(0.0, 1.0), epsilon).low + failure
        assert found.delta(epsilon) >= exact * (1 - 1e-9)
