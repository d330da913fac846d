"""Over many repetitions, on mechanisms of known truth, no audit exceeds it more often than its confidence allows.

Each test fails on a valid procedure once in a million (binomial test). Every procedure answers a bound and its truth.
A bound is compared with the truth of the very rule it judged, which is at most the truth of the mechanism: a bound that
hides behind a weak rule gets no credit.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, norm

from sordino.auditing.confidence import (
    band_epsilon,
    choose_threshold,
    count_errors,
    each_failure,
    epsilon_from_rates,
    upper_end,
)
from sordino.auditing.experiment import Claim, audit_by_attack, linear_score
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.methods.one_run_guesses import epsilon_from_guesses
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


def chosen_threshold(rng, repetitions, mu, confidence):
    cut = chosen(drawn(rng, repetitions, mu), confidence)
    return bound_of(*counted(drawn(rng, repetitions, mu), cut), MODELS, confidence), truth_of(cut, mu)


def chosen(scores, confidence):
    return np.array([choose_threshold(*each, DELTA, confidence) for each in zip(*scores, strict=True)])


def counted(scores, cut):
    return np.transpose([count_errors(*each) for each in zip(*scores, cut, strict=True)])


def all_thresholds(rng, repetitions, mu, confidence):
    best = truth_of(np.linspace(-4, mu + 4, 2001), mu).max()
    scores = zip(*drawn(rng, repetitions, mu), strict=True)
    return np.array([band_epsilon(*each, DELTA, confidence) for each in scores]), np.full(repetitions, best)


def whole_attack(rng, repetitions, mu, confidence):
    def release(mean, seeds, /):
        return np.random.default_rng(seeds).standard_normal((len(seeds), 2)) + np.array([mean, 0.0])

    claim = Claim(Relation.ADD_REMOVE, View.ONE_SAMPLE)
    found = [
        audit_by_attack(
            release,
            0.0,
            mu,
            (linear_score,),
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


def threshold_chosen_and_counted_on_the_same_models(rng, repetitions, mu, confidence):
    """Not valid: it is here to show that the test below can fail."""
    scores = drawn(rng, repetitions, mu)
    cut = chosen(scores, confidence)
    return bound_of(*counted(scores, cut), MODELS, confidence), truth_of(cut, mu)


PROCEDURES: tuple[Repeated, ...] = (chosen_threshold, all_thresholds, whole_attack, one_run_randomised_response)
MUS = [0.0, 1.0, 3.0]
CONFIDENCES = [0.8, 0.95]


def exceeded(procedure, repetitions, mu, confidence):
    rng = np.random.default_rng([repetitions, round(10 * mu), round(100 * confidence)])
    bound, truth = procedure(rng, repetitions, mu, confidence)
    assert bound.shape == truth.shape == (repetitions,)
    return int(np.sum(bound > truth))


@pytest.mark.every(5)
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.__name__)
def test_a_hundred_audits_keep_their_confidence(procedure, mu, confidence):
    assert exceeded(procedure, 100, mu, confidence) <= most_allowed(100, 1 - confidence)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("mu", [*MUS, 0.3, 2.0])
@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.__name__)
def test_a_thousand_audits_keep_their_confidence(procedure, mu, confidence):
    assert exceeded(procedure, 1000, mu, confidence) <= most_allowed(1000, 1 - confidence)


def test_the_test_catches_a_threshold_that_was_not_paid_for():
    cheat = threshold_chosen_and_counted_on_the_same_models
    assert exceeded(cheat, 1000, 0.0, 0.8) > most_allowed(1000, 0.2)
