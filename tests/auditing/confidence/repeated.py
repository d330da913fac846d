"""Audits repeated many times on mechanisms whose truth is known: every procedure answers a bound and its truth.

A bound is compared with the truth of the very rule it judged, which is at most the truth of the mechanism: a bound that
hides behind a weak rule gets no credit.
"""

from collections.abc import Callable

import numpy as np
from scipy.stats import binom, norm

from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.experiment import Claim, LinearScore
from sordino.auditing.confidence import (
    ErrorCounts,
    band_epsilon,
    choose_threshold,
    count_errors,
    each_failure,
    epsilon_from_rates,
    mu_refuted,
    upper_end,
)
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.one_run.guesses import epsilon_from_guesses
from sordino.core.bound import Relation, View
from sordino.core.guarantee import GaussianDP

MODELS, DELTA = 200, 1e-3
FALSE_ALARM = 1e-6
Repeated = Callable[[np.random.Generator, int, float, float], tuple[np.ndarray, np.ndarray]]


def most_allowed(repetitions, failure):
    """How many of so many repetitions may exceed the truth; a valid procedure exceeds it 1 time in a million."""
    return int(binom.ppf(1 - FALSE_ALARM, repetitions, failure))


def drawn(rng, repetitions, mu, models=MODELS):
    first = rng.normal(size=(repetitions, models))
    return first, rng.normal(size=(repetitions, models)) + mu


def bound_of(false_positives, false_negatives, models, confidence):
    failure = each_failure(confidence)
    ends = upper_end(false_positives, models, failure), upper_end(false_negatives, models, failure)
    return epsilon_from_rates(*ends, DELTA)


def truth_of(cut, mu):
    """What the rule `score >= cut` truly proves."""
    tiny = np.finfo(float).tiny
    return epsilon_from_rates(np.maximum(norm.sf(cut), tiny), np.maximum(norm.cdf(cut - mu), tiny), DELTA)


def fixed_threshold(rng, repetitions, mu, confidence):
    cut = np.full(repetitions, mu / 2 + 0.7)
    errors = count_errors(*drawn(rng, repetitions, mu), cut)
    return bound_of(*errors, MODELS, confidence), truth_of(cut, mu)


def chosen_threshold(rng, repetitions, mu, confidence):
    cut = choose_threshold(*drawn(rng, repetitions, mu), DELTA, confidence)
    errors = count_errors(*drawn(rng, repetitions, mu), cut)
    return bound_of(*errors, MODELS, confidence), truth_of(cut, mu)


def all_thresholds(rng, repetitions, mu, confidence):
    best = truth_of(np.linspace(-4, mu + 4, 2001), mu).max()
    return band_epsilon(*drawn(rng, repetitions, mu), DELTA, confidence), np.full(repetitions, best)


def gaussian_claim(rng, repetitions, mu, confidence):
    errors = count_errors(*drawn(rng, repetitions, mu), np.full(repetitions, mu / 2))
    found = [mu_refuted(ErrorCounts(int(a), MODELS, int(b), MODELS), confidence) for a, b in zip(*errors, strict=True)]
    return np.array(found), np.full(repetitions, mu)


def whole_attack(rng, repetitions, mu, confidence):
    def release(mean, seeds, /):
        return np.random.default_rng(seeds).standard_normal((len(seeds), 2)) + np.array([mean, 0.0])

    claim = Claim(Relation.ADD_REMOVE, View.ONE_SAMPLE)
    found = [
        audit_by_attack(
            release,
            0.0,
            mu,
            (LinearScore(),),
            claim,
            AuditOptions(delta=DELTA, confidence=confidence, models=200, seed=int(seed)),
            "repeated",
        ).epsilon
        for seed in rng.integers(0, 2**62, repetitions)
    ]
    return np.array(found), np.full(repetitions, GaussianDP(mu).epsilon(DELTA))


def one_run_randomised_response(rng, repetitions, mu, confidence):
    """Randomised response, epsilon = mu, which tells all coins with probability delta: the theorem's own worst case."""
    coins = 300
    right = rng.binomial(coins, 1 / (1 + np.exp(-mu)), repetitions)
    right[rng.random(repetitions) < DELTA] = coins
    values = {int(v): epsilon_from_guesses(coins, coins, int(v), DELTA, confidence) for v in np.unique(right)}
    return np.array([values[int(v)] for v in right]), np.full(repetitions, mu)


def one_run_gaussian(rng, repetitions, mu, confidence):
    """Orthogonal canaries under Gaussian noise, add-remove: the clearest quarter of 400 coins is guessed."""
    coins = rng.integers(0, 2, (repetitions, 400)).astype(bool)
    order = np.argsort(-(mu * coins + rng.normal(size=coins.shape)), axis=1)
    sorted_coins = np.take_along_axis(coins, order, axis=1)
    right = sorted_coins[:, :50].sum(axis=1) + (~sorted_coins[:, -50:]).sum(axis=1)
    values = {int(v): epsilon_from_guesses(400, 100, int(v), DELTA, confidence) for v in np.unique(right)}
    return np.array([values[int(v)] for v in right]), np.full(repetitions, GaussianDP(mu).epsilon(DELTA))


def threshold_chosen_and_counted_on_the_same_models(rng, repetitions, mu, confidence):
    """Not valid: it is here to show that the test below can fail."""
    scores = drawn(rng, repetitions, mu)
    cut = choose_threshold(*scores, DELTA, confidence)
    return bound_of(*count_errors(*scores, cut), MODELS, confidence), truth_of(cut, mu)


PROCEDURES: tuple[Repeated, ...] = (
    fixed_threshold,
    chosen_threshold,
    all_thresholds,
    gaussian_claim,
    whole_attack,
    one_run_randomised_response,
    one_run_gaussian,
)
