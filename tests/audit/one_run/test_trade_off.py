"""Guesses against a whole trade-off curve: never below what mechanisms attain, its level, and its power."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sordino.auditing.confidence import GaussianPair
from sordino.auditing.one_run.guesses import epsilon_from_errors, epsilon_from_guesses, planned_guesses, right_guesses
from sordino.auditing.one_run.trade_off import (
    epsilon_of_gaussian_guesses,
    gaussian_least,
    mu_refuted,
    p_value,
)
from sordino.core import gaussian
from sordino.core.bound import Citation
from sordino.core.validate import InputError

PAIR = GaussianPair(Citation("dong2022gaussian", "Theorem 2.7"), "one Gaussian release of two known means")


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
    plan = planned_guesses(coins, coins, 2 * norm.cdf(mu / 2) - 1, 1e-5, 0.95)
    rng = np.random.default_rng(12)
    any_, known = [], []
    for _ in range(audits):
        heads = rng.integers(0, 2, coins).astype(bool)
        scores = mu * heads + rng.standard_normal(coins)
        right = right_guesses(scores, heads, plan.guesses)
        any_.append(plan.epsilon(scores, heads, 1e-5, 0.95))
        known.append(epsilon_of_gaussian_guesses(coins, plan.guesses, right, 1e-5, 0.95, PAIR))
    return float(np.median(any_)), float(np.median(known))


def test_a_planned_number_of_guesses_proves_what_the_bench_asks_for():
    """mu = 2, 1,000 canaries: jax-privacy's best are 2.7 for any mechanism and 4.21 for a Gaussian one."""
    any_, known = medians(1000, 2.0, 31)
    assert any_ >= 3.3
    assert 5.0 <= known < gaussian.epsilon_lower(2.0, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "least"), [(1.0, 2.3), (2.0, 4.75), (3.0, 6.4)])
def test_ten_thousand_canaries(mu, least):
    assert medians(10_000, mu, 31)[0] >= least


@pytest.mark.parametrize("counts", [(10, 11, 3), (10, 5, 6), (0, 0, 0)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(InputError):
        mu_refuted(*counts, 0.95)


@pytest.mark.parametrize(("first", "guesses", "errors"), [(0, 50, 3), (20, 50, 3), (50, 50, 4)])
def test_errors_that_count_twice_keep_the_level_of_randomised_response(first, guesses, errors):
    """At the epsilon that is refuted, outcomes as good have at most the stated chance, by a sum over all of them."""
    epsilon = epsilon_from_errors(100, first, guesses, errors, 1e-6, 0.95)
    wrong = 1 / (1 + math.exp(epsilon))
    early, late = (binom.pmf(np.arange(n + 1), n, wrong) for n in (first, guesses - first))
    sums = 2 * np.arange(first + 1)[:, None] + np.arange(guesses - first + 1)[None, :]
    chance = float(np.outer(early, late)[sums <= errors].sum())
    assert 0.045 < chance <= 0.05


def test_nothing_counted_twice_is_what_guesses_alone_prove():
    assert epsilon_from_errors(200, 0, 60, 5, 1e-5, 0.95) == epsilon_from_guesses(200, 60, 55, 1e-5, 0.95)
    # What is added for delta does not keep a small epsilon from being refuted with a larger one.
    assert epsilon_from_errors(10_000, 200, 500, 1, 1e-5, 0.95) > 4.5
