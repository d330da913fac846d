"""Over many repetitions no audit exceeds the truth more often than its confidence allows.

Each test fails on a valid procedure once in a million (binomial test).
"""

import numpy as np
import pytest

from tests.audit.confidence.repeated import (
    PROCEDURES,
    most_allowed,
    threshold_chosen_and_counted_on_the_same_models,
)

MUS = [0.0, 1.0, 3.0]
CONFIDENCES = [0.8, 0.95]


def exceeded(procedure, repetitions, mu, confidence):
    rng = np.random.default_rng([repetitions, round(10 * mu), round(100 * confidence)])
    bound, truth = procedure(rng, repetitions, mu, confidence)
    assert bound.shape == truth.shape == (repetitions,)
    return int(np.sum(bound > truth))


@pytest.mark.every(3)
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


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.__name__)
def test_on_equal_laws_nothing_is_found_more_often_than_allowed(procedure):
    """jax-privacy's `epsilon_from_gdp` is positive on such data nearly always; a lower bound is so rarely."""
    rng = np.random.default_rng(4)
    bound, _ = procedure(rng, 100, 0.0, 0.95)
    assert np.sum(bound > 0) <= most_allowed(100, 0.05)


def test_the_test_catches_a_threshold_that_was_not_paid_for():
    cheat = threshold_chosen_and_counted_on_the_same_models
    assert exceeded(cheat, 1000, 0.0, 0.8) > most_allowed(1000, 0.2)
