"""Refuting mu-GDP is not bounding epsilon: the difference, by an exact counterexample."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sordino.auditing.confidence import ErrorCounts, GaussianClaim, epsilon_lower, epsilon_of_gaussian_pair, mu_refuted
from sordino.core.bound import Citation
from sordino.core.guarantee import GaussianDP
from sordino.core.validate import InputError

PAIR = GaussianClaim(Citation("dong2022gaussian", "Theorem 2.7"), "one Gaussian release with a known sensitivity")


def counts_of(false_positive, false_negative, models):
    return ErrorCounts(round(false_positive * models), models, round(false_negative * models), models)


def test_the_refuted_mu_approaches_the_true_one_from_below():
    found = [mu_refuted(counts_of(norm.cdf(-1), norm.cdf(-1), n), 0.95) for n in (100, 10_000, 1_000_000)]
    assert found == sorted(found)
    assert found[-1] < 2.0
    assert found[-1] == pytest.approx(2.0, abs=0.02)


def test_for_a_gaussian_pair_it_is_worth_more_than_one_point():
    """At delta = 1e-5 the whole curve is known once mu is; the point alone proves far less."""
    counts = counts_of(norm.cdf(-1), norm.cdf(-1), 1000)
    from_family = epsilon_of_gaussian_pair(counts, 1e-5, 0.95, PAIR)
    assert epsilon_lower(counts, 1e-5, 0.95) < from_family < GaussianDP(2.0).epsilon(1e-5)


def test_for_another_family_the_conversion_would_lie():
    """Randomised response with epsilon = 1 errs with p = 1 / (1 + e). That refutes mu-GDP up to 2 Phi^-1(1 - p) = 1.24,
    and 1.24-GDP has epsilon 5.7 at delta = 1e-5, but the mechanism is (1, 0)-DP: the bound needs the family."""
    p = 1 / (1 + math.e)
    counts = counts_of(p, p, 1_000_000)
    assert mu_refuted(counts, 0.95) > 1.2
    assert epsilon_of_gaussian_pair(counts, 1e-5, 0.95, PAIR) > 5
    assert epsilon_lower(counts, 1e-5, 0.95) < 1.0


def test_errors_everywhere_refute_nothing():
    assert mu_refuted(ErrorCounts(10, 10, 0, 10), 0.9) == 0.0
    assert mu_refuted(ErrorCounts(5, 10, 5, 10), 0.9) == 0.0


def test_a_family_without_a_reason_is_refused():
    with pytest.raises(InputError, match="reason"):
        GaussianClaim(Citation("dong2022gaussian", "Theorem 2.7"), " ")
    with pytest.raises(InputError, match="GaussianClaim"):
        epsilon_of_gaussian_pair(ErrorCounts(0, 9, 0, 9), 1e-5, 0.9, np.nan)
