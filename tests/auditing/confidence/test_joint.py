"""Both errors in one exact test: reference values, and its level by enumeration of every outcome."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from sordino.auditing.confidence import ErrorCounts, epsilon_lower
from sordino.auditing.joint_test import joint_cap, joint_epsilon
from sordino.auditing.lower_bound import TradeOffPoint

MODELS, DELTA, CONFIDENCE = 9, 1e-3, 0.8


@pytest.mark.parametrize(
    ("counts", "value"), [((0, 250, 0, 250), 5.378), ((1, 250, 1, 250), 4.36), ((0, 500, 0, 500), 6.07)]
)
def test_the_values_of_the_theory(counts, value):
    found = joint_epsilon(ErrorCounts(*counts), 1e-9, 0.90)
    assert found == pytest.approx(value, abs=6e-3)
    assert found > epsilon_lower(ErrorCounts(*counts), 1e-9, 0.90) + 0.4


def test_the_cap_is_what_no_errors_prove():
    assert joint_cap(250, 250, 1e-9, 0.90) == joint_epsilon(ErrorCounts(0, 250, 0, 250), 1e-9, 0.90)


def test_no_rates_are_contradicted_more_often_than_stated():
    """Every outcome of 9 models a side, at 80 %, for rates over the whole square: exact, nothing is drawn."""
    found = np.zeros((MODELS + 1, MODELS + 1))
    for a, b in itertools.product(range(MODELS + 1), repeat=2):
        counts = ErrorCounts(a, MODELS, b, MODELS)
        found[a, b] = joint_epsilon(counts, DELTA, CONFIDENCE)
        assert found[a, b] >= epsilon_lower(counts, DELTA, CONFIDENCE)
    assert found.max() == found[0, 0]
    rates = np.concatenate([np.geomspace(1e-3, 0.3, 25), np.linspace(0.32, 0.999, 15)])
    worst = 0.0
    for f, g in itertools.product(rates, repeat=2):
        truth = TradeOffPoint(f, g).epsilon(DELTA)
        chances = np.outer(*(binom.pmf(np.arange(MODELS + 1), MODELS, rate) for rate in (f, g)))
        worst = max(worst, float(chances[found > truth].sum()))
    assert worst <= 1 - CONFIDENCE
    # Not more careful than it has to be: two limits that share the failure stay below half of it here.
    assert worst >= 0.6 * (1 - CONFIDENCE)
