"""Guesses against a whole trade-off curve: never below what mechanisms attain, its level, and its power."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sordino.auditing.confidence import GaussianClaim
from sordino.auditing.one_run.guesses import (
    epsilon_from_errors,
    epsilon_from_guesses,
    planned_guesses,
    right_guesses,
    weighed_errors,
)
from sordino.auditing.one_run.trade_off import (
    epsilon_of_gaussian_guesses,
    gaussian_least,
    mu_refuted,
    p_value,
)
from sordino.auditing.one_run.weighed_errors import _accurate, _chances, chance_of_at_most
from sordino.core import gaussian
from sordino.core.bound import Citation
from sordino.core.validate import InputError

PAIR = GaussianClaim(Citation("dong2022gaussian", "Theorem 2.7"), "one Gaussian release of two known means")


def pure(epsilon):
    """False positives at which every epsilon-private test has at most this power."""
    return lambda power: max(math.exp(-epsilon) * power, 1 - math.exp(epsilon) * (1 - power), 0.0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_randomised_response_is_never_refuted_more_often_than_it_happens(epsilon):
    """It lets every guess be right with probability e^epsilon / (1 + e^epsilon): a mechanism that attains its tail."""
    coins = 60
    for right in (31, 40, 50, 60):
        happens = float(binom.sf(right - 1, coins, 1 / (1 + math.exp(-epsilon))))
        assert p_value(coins, coins, right, pure(epsilon)) >= happens * (1 - 1e-9)


@pytest.mark.parametrize(("coins", "guesses"), [(1, 1), (2, 2), (5, 3), (40, 12)])
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_a_gaussian_release_of_every_coin_is_never_refuted_more_often_than_it_happens(coins, guesses, mu):
    """One independent Gaussian answer a coin; guessed coins are fixed, and right with probability Phi(mu/2)."""
    for right in range(1, guesses + 1):
        happens = float(binom.sf(right - 1, guesses, norm.cdf(mu / 2)))
        assert p_value(coins, guesses, right, gaussian_least(mu)) >= happens * (1 - 1e-9)


@pytest.mark.parametrize("mu", [0.0, 1.0, 2.0])
def test_ten_thousand_audits_keep_their_level(mu):
    """Known mu, 200 canaries, 60 guesses; a valid method fails this once in a million seeds."""
    rng = np.random.default_rng(11)
    right = np.empty(10_000, int)
    for audit in range(len(right)):
        coins = rng.integers(0, 2, 200).astype(bool)
        right[audit] = right_guesses(mu * coins + rng.standard_normal(200), coins, 60)
    bounds = {int(v): mu_refuted(200, 60, int(v), 0.95) for v in np.unique(right)}
    exceeded = sum(bounds[int(v)] > mu for v in right)
    assert exceeded <= binom.ppf(1 - 1e-6, 10_000, 0.05)


def test_the_p_value_and_the_bound_agree():
    mu = mu_refuted(300, 100, 90, 0.95)
    assert p_value(300, 100, 90, gaussian_least(mu * 1.001)) > 0.05
    assert p_value(300, 100, 90, gaussian_least(mu * 0.999)) <= 0.05 * (1 + 1e-6)


def medians(coins, mu, audits):
    """Median bounds with planned guesses: for any mechanism, and where the trade-off is known to be Gaussian."""
    weighed, plan = (
        planned_guesses(coins, coins, 2 * norm.cdf(mu / 2) - 1, 1e-5, 0.95, weigh=weigh) for weigh in (True, False)
    )
    rng = np.random.default_rng(12)
    any_, known = [], []
    for _ in range(audits):
        heads = rng.integers(0, 2, coins).astype(bool)
        scores = mu * heads + rng.standard_normal(coins)
        right = right_guesses(scores, heads, plan.guesses)
        any_.append(weighed.epsilon(scores, heads, 1e-5, 0.95))
        known.append(epsilon_of_gaussian_guesses(coins, plan.guesses, right, 1e-5, 0.95, PAIR))
    return float(np.median(any_)), float(np.median(known))


def test_a_planned_number_of_guesses_proves_what_the_bench_asks_for():
    """mu = 2, 1,000 canaries: jax-privacy's best are 2.7 for any mechanism and 4.21 for a Gaussian one."""
    any_, known = medians(1000, 2.0, 31)
    assert any_ >= 3.3
    assert 5.0 <= known < gaussian.epsilon_lower(2.0, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "least"), [(1.0, 2.35), (2.0, 4.75), (3.0, 6.45)])
def test_ten_thousand_canaries(mu, least):
    assert medians(10_000, mu, 301)[0] >= least


@pytest.mark.parametrize("counts", [(10, 11, 3), (10, 5, 6), (0, 0, 0)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(InputError):
        mu_refuted(*counts, 0.95)


@pytest.mark.parametrize(("steps", "errors"), [((50,), 3), ((50, 20), 3), ((50, 50), 4), ((60, 40, 13, 13, 2), 9)])
def test_errors_that_weigh_more_keep_the_level_of_randomised_response(steps, errors):
    """At the epsilon that is refuted, outcomes as good have at most the stated chance, by listing all of them."""
    epsilon = epsilon_from_errors(100, steps[0], steps[1:], errors, 1e-6, 0.95)
    wrong = 1 / (1 + math.exp(epsilon))
    law = {0: 1.0}
    for place in range(steps[0]):
        weight = sum(place < step for step in steps)
        for total, chance in sorted(law.items(), reverse=True):
            law[total] = chance * (1 - wrong) + law.get(total - weight, 0.0) * wrong
            if total + weight not in law:
                law[total + weight] = chance * wrong
    chance = sum(chance for total, chance in law.items() if total <= errors)
    assert sum(law.values()) == pytest.approx(1.0)
    assert 0.0499 < chance <= 0.05


@pytest.mark.parametrize("seed", range(6))
def test_the_quick_law_of_weighed_errors_is_the_slow_one(seed):
    rng = np.random.default_rng(seed)
    steps = tuple(sorted(map(int, rng.integers(0, 800, rng.integers(1, 60))), reverse=True))
    for errors in map(int, rng.integers(0, 90, 4)):
        odds = np.exp(-rng.uniform(0.5, 9.0, 8))
        odds = odds[_accurate(errors, odds)]
        slow = [chance_of_at_most(errors, steps, float(one / (1 + one))) for one in odds]
        np.testing.assert_allclose(_chances(errors, steps, odds), slow, rtol=1e-9)


def test_errors_of_one_weight_are_what_guesses_alone_prove():
    assert epsilon_from_errors(200, 60, (), 5, 1e-5, 0.95) == epsilon_from_guesses(200, 60, 55, 1e-5, 0.95)
    # What is added for delta does not keep a small epsilon from being refuted with a larger one.
    assert epsilon_from_errors(10_000, 500, (200,), 1, 1e-5, 0.95) > 4.5
    # Nor a bound from being found where delta hides the smallest epsilons only.
    assert 2.0 < epsilon_from_errors(10_000, 250, (100, 50), 20, 1e-5, 0.95) < 2.7


def test_the_sum_of_errors_counts_an_error_once_for_every_step_it_is_within():
    scores = np.array([5.0, 4.0, 3.0, -3.0, -4.0, -5.0])
    coins = np.array([True, False, True, False, False, True])  # the second and the last are guessed wrongly
    assert [weighed_errors(scores, coins, steps) for steps in ((6,), (4,), (2,), (6, 4, 2, 2))] == [2, 2, 1, 6]
