"""Statements of Bertazzi et al. that no certificate rests on, on Gaussian laws where everything is known."""

import math

import numpy as np
import pytest

from papers.bertazzi.statements import (
    first_leaking_step,
    forced_distance,
    from_moments,
    from_tail,
    leaking_distance,
    posterior_from_chain,
    released_with_noise,
)
from sordino.core.guarantee import GaussianDP
from sordino.models.exact import GaussianLaw, hockey_stick
from tests.models.exact.laws import total_variation

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def normal(mean: float, scale: float) -> GaussianLaw:
    return GaussianLaw(np.array([mean]), np.array([[scale**2]]))


def test_a_private_chain_forces_a_private_posterior():
    assert posterior_from_chain(1.0, 1e-5, 0.0).delta_value == 1e-5
    biased = posterior_from_chain(1.0, 1e-5, 1e-3)
    assert biased.delta_value == pytest.approx(1e-5 + 1e-3 * (1 + math.e), rel=1e-9)
    assert posterior_from_chain(2000.0, 0.0, 1e-3).delta_value == 1.0


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0])
def test_a_chain_at_a_leaking_distance_leaks(epsilon):
    """Chains moved towards each other by less than the leaking distance still break (epsilon, delta)."""
    posteriors = normal(0.0, 1.0), normal(3.0, 1.0)
    broken = hockey_stick(*posteriors, epsilon).low
    delta = 0.5 * broken
    distance = leaking_distance(epsilon, delta, broken)
    assert distance == pytest.approx((broken - delta) / (1 + math.exp(epsilon)), rel=1e-9)
    step = next(s for s in np.geomspace(3, 1e-6, 400) if total_variation(normal(0, 1), normal(s, 1)).high <= distance)
    chains = normal(step, 1.0), normal(3.0 - step, 1.0)
    assert hockey_stick(*chains, epsilon).low > delta


def test_the_first_leaking_step_is_the_first():
    zeta, rate, bias = 10.0, 0.9, 1e-3
    distance = leaking_distance(1.0, 1e-5, 0.05)
    step = first_leaking_step(zeta, rate, bias, distance)
    assert step is not None
    assert zeta * rate**step + bias <= distance < zeta * rate ** (step - 1) + bias
    assert first_leaking_step(zeta, rate, distance, distance) is None
    assert first_leaking_step(1e-9, rate, 0.0, 0.5) == 0
    assert first_leaking_step(10.0, 0.0, 0.0, 0.5) == 1


def test_a_private_chain_stays_away_from_a_posterior_that_is_not():
    """A constant chain is (0, 0)-DP, so for one of two far posteriors its distance exceeds the forced one."""
    posteriors = normal(0.0, 1.0), normal(2.0, 1.0)
    for epsilon in (0.0, 1.0):
        forced = forced_distance(epsilon, 0.0, hockey_stick(*posteriors, epsilon).low)
        assert max(total_variation(normal(1.0, 1.0), law).low for law in posteriors) > forced > 0


def test_tails_and_moments_of_a_likelihood_ratio_are_guarantees():
    mu, orders = 0.7, (2.0, 8.0)
    found = from_moments(orders, [(order - 1) * order * mu**2 / 2 for order in orders])
    assert found.at(8.0) == pytest.approx(8 * mu**2 / 2)
    assert found.at(8.0) >= 8 * mu**2 / 2
    # log dP/dQ ~ N(mu^2/2, mu^2) under P.
    epsilon = 2.0
    tail = 0.5 * math.erfc((epsilon - mu**2 / 2) / mu / math.sqrt(2))
    assert from_tail(epsilon, tail).delta(epsilon) >= GaussianDP(mu).delta(epsilon)


def test_noise_on_a_value_that_may_move_too_far():
    """Proposition A.6: a coupling that is at most 1 apart with probability 0.97, under noise of scale 1."""
    noise, failure = GaussianDP(1.0), 0.03
    found = released_with_noise(noise, failure)
    assert released_with_noise(noise, 0.0) == noise
    for epsilon in EPSILONS:
        stated = noise.delta(epsilon) + failure
        assert found.delta(epsilon) <= stated * (1 + 1e-3)
        # With probability 0.97 the move is 1, else it is so large that nothing is hidden.
        exact = (1 - failure) * hockey_stick(normal(1.0, 1.0), normal(0.0, 1.0), epsilon).low + failure
        assert found.delta(epsilon) >= exact * (1 - 1e-9)


def test_stochastic_integrals_are_within_lemmas_b2_and_b3():
    """u = K sign(W_t), which looks at the path, and u = K, which attains B.2; 20,000 paths, five standard errors."""
    rng, steps, bound = np.random.default_rng(5), 100, 0.8
    moves = rng.standard_normal((20_000, steps)) / np.sqrt(steps)
    before = np.cumsum(moves, axis=1) - moves
    for weights in (bound * np.sign(before + 1e-300), np.full_like(moves, bound)):
        integral = (weights * moves).sum(axis=1)
        moments = np.exp(integral)
        assert moments.mean() - 5 * moments.std() / np.sqrt(len(moments)) <= np.exp(bound**2 / 2)
        for level in (0.5, 1.0, 2.0):
            share = np.mean(integral > level)
            assert share - 5 * np.sqrt(share * (1 - share) / len(integral)) <= np.exp(-(level**2) / (2 * bound**2))
