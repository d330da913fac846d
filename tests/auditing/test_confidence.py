"""Confidence limits and thresholds: against arbitrary precision, by enumeration of every outcome, and refusals."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from sordino.auditing import confidence
from sordino.auditing.lower_bound import TradeOffPoint
from sordino.core.validate import InputError

MODELS, DELTA, CONFIDENCE = 9, 1e-3, 0.8


def binomial_cdf(errors, trials, rate):
    with mpmath.workdps(40):
        return mpmath.betainc(trials - errors, errors + 1, 0, 1 - mpmath.mpf(rate), regularized=True)


@pytest.mark.parametrize("failure", [0.05, 0.025, 1e-6])
@pytest.mark.parametrize(
    ("errors", "trials"), [(0, 1), (0, 500), (1, 500), (17, 500), (250, 500), (499, 500), (3, 100_000), (0, 10**7)]
)
def test_at_either_end_such_errors_are_as_rare_as_promised(errors, trials, failure):
    """P[Binomial(n, end) <= k] <= failure in 40 digits, and within 1e-5 of it: outwards, but not far."""
    reached = binomial_cdf(errors, trials, float(confidence.upper_end(errors, trials, failure)))
    assert failure * (1 - 1e-5) <= reached <= failure


@pytest.mark.parametrize(("models", "value"), [(500, 5.11), (400, 4.89), (250, 4.42)])
def test_the_cap_of_an_attack_that_never_errs(models, value):
    """Reference values: zero errors on each side, one-sided 95 % each, so 90 % jointly."""
    counts = confidence.ErrorCounts(0, models, 0, models)
    assert round(confidence.epsilon_lower(counts, 1e-9, 0.90), 2) == value


def test_no_counts_beat_the_cap():
    found = [
        confidence.epsilon_lower(confidence.ErrorCounts(a, 60, b, 40), 1e-5, 0.95) for a in range(61) for b in range(41)
    ]
    assert max(found) == found[0]
    assert found[50 * 41 + 20] == found[60 * 41] == min(found) == 0.0, "no better than a coin"
    ends = TradeOffPoint(float(confidence.upper_end(3, 100, 0.05)), float(confidence.upper_end(9, 200, 0.05)))
    assert confidence.ErrorCounts(3, 100, 9, 200).point(0.9) == ends


@pytest.mark.parametrize(("trials", "failure"), [(3, 0.1), (40, 0.05), (300, 0.04)])
def test_limits_for_all_thresholds_fail_as_often_as_stated_and_not_much_less(trials, failure):
    """The k-th smallest of n uniform numbers against its limit, 20,000 times; false-alarm rate 1e-6 each way."""
    ordered = np.sort(np.random.default_rng(trials).random((20_000, trials)), axis=1)
    failed = int((ordered > confidence.simultaneous_ends(trials, failure)[:trials]).any(axis=1).sum())
    low, high = binom.ppf([1e-6, 1 - 1e-6], 20_000, failure)
    assert low <= failed <= high


@pytest.mark.parametrize("counts", [(-1, 5, 0, 5), (6, 5, 0, 5), (0, 0, 0, 5), (0, 5, 6, 5), (0.5, 5, 0, 5)], ids=str)
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(InputError):
        confidence.ErrorCounts(*counts)


@pytest.mark.parametrize(("errors", "trials", "failure"), [(1.5, 3, 0.1), (4, 3, 0.1), (0, 0, 0.1), (0, 3, math.nan)])
def test_limits_of_what_was_not_counted_are_refused(errors, trials, failure):
    with pytest.raises(InputError):
        confidence.upper_end(errors, trials, failure)


@pytest.mark.parametrize(
    ("counts", "value"), [((0, 250, 0, 250), 5.378), ((1, 250, 1, 250), 4.36), ((0, 500, 0, 500), 6.07)]
)
def test_the_values_of_the_theory(counts, value):
    found = confidence.joint_epsilon(confidence.ErrorCounts(*counts), 1e-9, 0.90)
    assert found == pytest.approx(value, abs=6e-3)
    assert found > confidence.epsilon_lower(confidence.ErrorCounts(*counts), 1e-9, 0.90) + 0.4
    assert found <= confidence.joint_epsilon(confidence.ErrorCounts(0, counts[1], 0, counts[3]), 1e-9, 0.90)


def test_no_rates_are_contradicted_more_often_than_stated():
    """Every outcome of 9 models a side, at 80 %, for rates over the whole square: exact, nothing is drawn."""
    found = np.zeros((MODELS + 1, MODELS + 1))
    for a, b in itertools.product(range(MODELS + 1), repeat=2):
        counts = confidence.ErrorCounts(a, MODELS, b, MODELS)
        found[a, b] = confidence.joint_epsilon(counts, DELTA, CONFIDENCE)
        assert found[a, b] >= confidence.epsilon_lower(counts, DELTA, CONFIDENCE)
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


@pytest.mark.parametrize("levels", [None, 4], ids=["continuous", "tied"])
def test_the_error_curve_counts_what_a_loop_counts(levels):
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=40), rng.normal(size=30) + 1.0
    if levels:
        first, second = np.round(first), np.round(second)
    curve = confidence.error_curve(first, second)
    for cut, positives, negatives in zip(*curve, strict=True):
        assert positives == np.sum(first >= cut)
        assert negatives == np.sum(second < cut)
    assert len(curve.thresholds) == len(np.unique(np.concatenate([first, second]))) + 1


def test_the_chosen_threshold_is_the_best_of_all():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=80), rng.normal(size=80) + 2.5
    chosen = confidence.choose_threshold(first, second, 1e-5, 0.9)

    def bound(cut):
        positives, negatives = confidence.count_errors(first, second, cut)
        return confidence.epsilon_lower(confidence.ErrorCounts(int(positives), 80, int(negatives), 80), 1e-5, 0.9)

    assert bound(chosen) == pytest.approx(max(bound(cut) for cut in np.linspace(-3, 6, 400)), abs=1e-12)


def test_infinite_scores_are_cut_and_nan_is_refused():
    cut = confidence.choose_threshold(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]), 1e-5, 0.9)
    assert confidence.count_errors(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]), cut) == (0, 0)
    with pytest.raises(InputError, match="NaN"):
        confidence.error_curve(np.array([np.nan]), np.array([0.0]))
