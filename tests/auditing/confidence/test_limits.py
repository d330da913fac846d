"""Confidence limits against arbitrary precision, reference caps, and what must be refused."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from sordino.auditing.confidence import (
    ErrorCounts,
    cap,
    epsilon_from_rates,
    epsilon_lower,
    lower_end,
    simultaneous_ends,
    upper_end,
)
from sordino.auditing.lower_bound import TradeOffPoint
from sordino.core.validate import InputError

CASES = [(0, 1), (0, 500), (1, 500), (17, 500), (250, 500), (499, 500), (3, 100_000), (0, 10**7)]


def binomial_cdf(errors, trials, rate):
    with mpmath.workdps(40):
        return mpmath.betainc(trials - errors, errors + 1, 0, 1 - mpmath.mpf(rate), regularized=True)


@pytest.mark.parametrize("failure", [0.05, 0.025, 1e-6])
@pytest.mark.parametrize(("errors", "trials"), CASES)
def test_at_the_upper_end_so_few_errors_are_as_rare_as_promised(errors, trials, failure):
    """P[Binomial(n, end) <= k] <= failure in 40 digits, and within 1e-5 of it: outwards, but not far."""
    reached = binomial_cdf(errors, trials, float(upper_end(errors, trials, failure)))
    assert reached <= failure
    assert reached >= failure * (1 - 1e-5)


@pytest.mark.parametrize("failure", [0.05, 1e-6])
@pytest.mark.parametrize(("errors", "trials"), [(1, 1), (1, 500), (250, 500), (500, 500), (3, 100_000)])
def test_at_the_lower_end_so_many_errors_are_as_rare_as_promised(errors, trials, failure):
    reached = 1 - binomial_cdf(errors - 1, trials, float(lower_end(errors, trials, failure)))
    assert reached <= failure
    assert reached >= failure * (1 - 1e-5)


def test_ends_of_extreme_counts():
    assert float(upper_end(7, 7, 0.05)) == 1.0
    assert float(lower_end(0, 7, 0.05)) == 0.0
    assert float(upper_end(0, 500, 0.05)) == pytest.approx(1 - 0.05 ** (1 / 500), rel=1e-8)


@pytest.mark.parametrize(("models", "value"), [(500, 5.11), (400, 4.89), (250, 4.42)])
def test_the_cap_of_an_attack_that_never_errs(models, value):
    """Reference values: zero errors on each side, one-sided 95 % each, so 90 % jointly."""
    assert round(cap(models, models, 1e-9, 0.90), 2) == value


def test_no_counts_beat_the_cap():
    caps = cap(60, 40, 1e-5, 0.95)
    found = [epsilon_lower(ErrorCounts(a, 60, b, 40), 1e-5, 0.95) for a in range(61) for b in range(41)]
    assert max(found) == caps
    assert min(found) == 0.0


def test_two_limits_share_the_failure_probability():
    first, second = ErrorCounts(3, 100, 9, 200).upper_ends(0.9)
    assert first == float(upper_end(3, 100, 0.05))
    assert second == float(upper_end(9, 200, 0.05))


def test_many_tests_at_once_give_what_one_gives():
    rng = np.random.default_rng(0)
    rates = rng.uniform(1e-6, 1.0, (300, 2))
    together = epsilon_from_rates(rates[:, 0], rates[:, 1], 1e-3)
    alone = [TradeOffPoint(a, b).epsilon(1e-3) for a, b in rates]
    assert np.allclose(together, alone, rtol=0, atol=1e-12)


def test_a_test_no_better_than_a_coin_proves_nothing():
    assert epsilon_lower(ErrorCounts(50, 100, 50, 100), 1e-5, 0.95) == 0.0
    assert epsilon_lower(ErrorCounts(100, 100, 0, 100), 1e-5, 0.95) == 0.0


def test_limits_for_all_thresholds_are_no_smaller_than_for_one():
    together = simultaneous_ends(300, 0.05)
    alone = upper_end(np.arange(301), 300, 0.05)
    assert (together >= alone).all()
    assert (np.diff(together) >= 0).all()
    # Without errors the price is less than a factor 2 in the failure probability.
    assert float(upper_end(0, 300, 0.05)) < together[0] <= float(upper_end(0, 300, 0.025))


@pytest.mark.parametrize(("trials", "failure"), [(3, 0.1), (40, 0.05), (300, 0.04)])
def test_limits_for_all_thresholds_fail_as_often_as_stated_and_not_much_less(trials, failure):
    """The k-th smallest of n uniform numbers against its limit, 20,000 times; false-alarm rate 1e-6 each way."""
    ordered = np.sort(np.random.default_rng(trials).random((20_000, trials)), axis=1)
    failed = int((ordered > simultaneous_ends(trials, failure)[:trials]).any(axis=1).sum())
    low, high = binom.ppf([1e-6, 1 - 1e-6], 20_000, failure)
    assert low <= failed <= high


@pytest.mark.parametrize("counts", [(-1, 5, 0, 5), (6, 5, 0, 5), (0, 0, 0, 5), (0, 5, 6, 5), (0.5, 5, 0, 5)], ids=str)
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(InputError):
        ErrorCounts(*counts)


@pytest.mark.parametrize(("errors", "trials", "failure"), [(1.5, 3, 0.1), (4, 3, 0.1), (0, 0, 0.1), (0, 3, math.nan)])
def test_limits_of_what_was_not_counted_are_refused(errors, trials, failure):
    with pytest.raises(InputError):
        upper_end(errors, trials, failure)
