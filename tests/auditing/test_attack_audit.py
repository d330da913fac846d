"""The attack audit finds what is there, never reports more than its cap, and keeps counted models out of the choice."""

import numpy as np
import pytest
from scipy.stats import norm

from papers.heller_fetaya.network_audit import LogisticScore
from sordino import InputError, Relation, View
from sordino.auditing.confidence import band_cap, band_epsilon, band_tests
from sordino.auditing.experiment import Claim, attack_parts, audit_by_attack, audit_by_fixed_score, linear_score
from sordino.auditing.lower_bound import AuditOptions
from sordino.core.guarantee import GaussianDP

CLAIM = Claim(Relation.ADD_REMOVE, View.ONE_SAMPLE)


def gaussian(mean, seeds, /):
    """One Gaussian release of a vector of length 5 whose first coordinate is the data."""
    noise = np.random.default_rng(seeds).standard_normal((len(seeds), 5))
    return noise + mean * np.eye(5)[0]


def feature(function):
    """Any function of the releases, turned round if it is smaller on the second dataset."""

    def learned(first, second):
        sign = -1.0 if np.median(function(second)) < np.median(function(first)) else 1.0
        return lambda releases: sign * np.asarray(function(releases), float)

    return learned


def log_density(mean):
    return lambda releases: -0.5 * (releases[:, 0] - mean) ** 2


SCORES = {
    "likelihood ratio": lambda first, second: lambda releases: log_density(2.0)(releases) - log_density(0.0)(releases),
    "linear": linear_score,
    "logistic": LogisticScore(),
    "feature, the wrong way round": feature(lambda releases: -releases[:, 0]),
}


@pytest.mark.parametrize("name", SCORES)
def test_every_score_finds_a_gaussian_and_stays_below_the_truth(name):
    """mu = 2, 4000 models, 95 % confidence, fixed seed: between 2 and the true epsilon at delta = 1e-3."""
    found = audit_by_attack(
        gaussian, 0.0, 2.0, (SCORES[name],), CLAIM, AuditOptions(delta=1e-3, models=4000, seed=3), "shift 2"
    )
    assert 2.0 < found.epsilon < GaussianDP(2.0).epsilon(1e-3)
    assert found.epsilon <= found.cap
    assert found.method == "attack"
    assert found.relation is Relation.ADD_REMOVE
    # Both errors in one test say more than two limits, which the curve holds.
    assert found.curve[0].epsilon(found.delta) <= found.epsilon


def test_equal_datasets_give_nothing():
    asked = AuditOptions(delta=1e-5, models=400, seed=0)
    assert audit_by_attack(gaussian, 1.0, 1.0, tuple(SCORES.values()), CLAIM, asked, "null").epsilon == 0.0


def test_the_same_seed_gives_the_same_answer_and_none_a_fresh_one():
    def found(seed):
        asked = AuditOptions(delta=1e-3, models=400, seed=seed)
        return audit_by_attack(gaussian, 0.0, 1.5, (linear_score,), CLAIM, asked, "shift")

    assert found(5) == found(5)
    assert "operating system" in found(None).seed_policy


@pytest.mark.parametrize("models", [8, 9, 10, 100, 1001])
def test_every_model_has_one_job(models):
    learn, count = attack_parts(models)
    assert 2 * learn + count == models // 2
    assert count >= 2 * learn > 0


def test_more_numbers_than_models_are_no_obstacle():
    def wide(mean, seeds, /):
        return np.random.default_rng(seeds).standard_normal((len(seeds), 500)) + mean * np.eye(500)[0]

    asked = AuditOptions(delta=1e-3, models=200, seed=3)
    assert audit_by_attack(wide, 0.0, 20.0, (linear_score,), CLAIM, asked, "wide").epsilon > 2.0


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InputError, match="at least 8"):
        audit_by_attack(gaussian, 0.0, 1.0, (linear_score,), CLAIM, AuditOptions(delta=0.1, models=4), "few")
    with pytest.raises(InputError, match="at least one score"):
        audit_by_attack(gaussian, 0.0, 1.0, (), CLAIM, AuditOptions(delta=0.1), "no score")
    with pytest.raises(InputError, match="one row of floats"):
        audit_by_attack(
            lambda data, seeds, /: np.zeros(3), 0.0, 1.0, (linear_score,), CLAIM, AuditOptions(delta=0.1), "flat"
        )


def test_every_model_is_counted_and_every_point_of_the_curve_holds():
    """mu = 2, 2000 models, fixed seed: all points lie above the true trade-off curve at once (95 %)."""

    def shifted(mean, seeds, /):
        return np.random.default_rng(seeds).standard_normal((len(seeds), 1)) + mean

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
        assert best == pytest.approx(band_epsilon(first, second, 1e-3, 0.9), abs=1e-10)
        assert best <= band_cap(150, 120, 1e-3, 0.9)
    assert best == band_cap(150, 120, 1e-3, 0.9)
