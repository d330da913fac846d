"""A score known beforehand: every model counted, a whole curve of tests, and the power page that goes with it."""

import numpy as np
import pytest
from scipy.stats import norm

from sordino.auditing.confidence import band_cap, band_epsilon, band_tests
from sordino.auditing.experiment import Claim, audit_by_fixed_score
from sordino.auditing.lower_bound import AuditOptions
from sordino.core.bound import Relation, View
from sordino.core.guarantee import GaussianDP

CLAIM = Claim(Relation.ADD_REMOVE, View.ONE_SAMPLE)


def shifted(mean, seeds, /):
    return np.random.default_rng(seeds).standard_normal((len(seeds), 1)) + mean


def test_every_model_is_counted_and_every_point_of_the_curve_holds():
    """mu = 2, 2000 models, fixed seed: all points lie above the true trade-off curve at once (95 %)."""
    asked = AuditOptions(delta=1e-3, models=2000, seed=8)
    found = audit_by_fixed_score(shifted, 0.0, 2.0, lambda releases: releases[:, 0], CLAIM, asked, "shift 2")
    assert 2.0 < found.epsilon < GaussianDP(2.0).epsilon(1e-3)
    assert dict(found.counts)["counted models of the first dataset"] == 1000
    assert max(point.epsilon(1e-3) for point in found.curve) == found.epsilon
    for point in found.curve:
        assert point.false_negative >= norm.cdf(norm.isf(point.false_positive) - 2.0)
    falling = [point.false_negative for point in found.curve]
    assert falling == sorted(falling, reverse=True)
    assert [point.false_positive for point in found.curve] == sorted(point.false_positive for point in found.curve)


def test_the_kept_thresholds_lose_nothing():
    rng = np.random.default_rng(9)
    for shift in (0.0, 1.0, 3.0, 20.0):
        first, second = rng.normal(size=150), rng.normal(size=120) + shift
        best = max(test.point.epsilon(1e-3) for test in band_tests(first, second, 0.9))
        assert best == pytest.approx(float(band_epsilon(first, second, 1e-3, 0.9)), abs=1e-10)
        assert best <= band_cap(150, 120, 1e-3, 0.9)
    assert best == band_cap(150, 120, 1e-3, 0.9)
