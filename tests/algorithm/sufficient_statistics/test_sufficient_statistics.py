"""Regression from noised sums: exact without noise, its sensitivity never passed, honest about its noise."""

import math
import warnings

import numpy as np
import pytest

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import explain
from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.algorithm.rounds.second_moments import (
    NoisedSecondMoments,
    StatisticsOptions,
    StatisticsStack,
    _residual_variance,
    run_statistics,
    statistics_spec,
)
from sordino.core.bound import Relation
from sordino.core.validate import InputError


def drawn(n: int, d: int, seed: int, noise: float = 0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    theta = rng.standard_normal(d) / math.sqrt(d)
    y = X @ theta + noise * rng.standard_normal(n)
    return X, np.clip(y, -3, 3), theta


def options(d: int, **values) -> StatisticsOptions:
    return StatisticsOptions(row_norm=math.sqrt(d), target_bound=3.0, **values)


def test_without_noise_it_is_the_conjugate_posterior():
    X, y, _ = drawn(300, 4, 0)
    public = options(4, prior_precision=2.0)
    spec = statistics_spec(len(X), 1e-9, Relation.REPLACE_ONE, public)
    release = run_statistics(spec, X, y, SeededRandomness(0), options=public)
    scaled, target = X / 2.0, y / 3.0
    variance = release.fitted.residual_variance
    precision = scaled.T @ scaled / variance + 2.0 * np.eye(4)
    mean = np.linalg.solve(precision, scaled.T @ target / variance)
    assert release.fitted.mean == pytest.approx(mean, rel=1e-5)
    assert release.fitted.covariance == pytest.approx(np.linalg.inv(precision), rel=1e-4)
    assert release.posterior.mean == pytest.approx(mean * 3.0 / 2.0, rel=1e-5)


@pytest.mark.parametrize(("cross", "square"), [(1.0, 0.5), (0.3, 1.0), (1.4, 0.1)])
def test_no_replacement_moves_the_sums_further_than_stated_and_some_come_close(cross, square):
    stack = StatisticsStack(cross, square)
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(3000):
        first = rng.standard_normal(3)
        other = first * rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 1) + rng.standard_normal(3) * rng.uniform(0, 2)
        rows = (
            np.stack([first, other]) / np.linalg.norm([first, other], axis=1)[:, None] * rng.uniform(0.6, 1.5, (2, 1))
        )
        targets = rng.choice([-1.0, 1.0, 2.0, rng.uniform(-1, 1)], 2)
        moved = stack.total(rows[:1], targets[:1]) - stack.total(rows[1:], targets[1:])
        worst = max(worst, float(np.linalg.norm(moved)))
        assert np.linalg.norm(stack.total(rows[:1], targets[:1])) <= stack.sensitivity(Relation.ADD_REMOVE)
    # The worst pair of the proof: unit rows with cosine w^2 / 2, targets 1 and -1.
    angle = math.acos(cross**2 / 2)
    pair = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    moved = stack.total(pair[:1], np.array([1.0])) - stack.total(pair[1:], np.array([-1.0]))
    attained = float(np.linalg.norm(moved))
    bound = stack.sensitivity(Relation.REPLACE_ONE)
    assert max(worst, attained) <= bound
    assert attained == pytest.approx((2 + cross**2) / math.sqrt(2), rel=1e-5)  # digits behind 2^-20 are cut off
    assert bound == pytest.approx(math.hypot(attained, square), rel=1e-5)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("cross", "square"), [(1.0, 0.5), (0.01, 0.7), (1.4, 0.1)])
def test_no_record_contributes_more_than_the_spec_says(relation, cross, square):
    stack = StatisticsStack(cross, square)
    spec = statistics_spec(10, 3.0, relation, options(2, stack=stack))
    longest = np.linalg.norm(stack.total(np.array([[0.6, 0.8]]), np.ones(1)))
    assert spec.algorithm.contribution >= longest
    assert spec.algorithm.contribution == pytest.approx(longest, rel=1e-5)
    # The noise is the multiplier asked for times what a neighbour moves.
    assert spec.algorithm.sensitivity(relation) == stack.sensitivity(relation)
    assert spec.algorithm.sum_noise[0] >= 3.0 * stack.sensitivity(relation)
    assert spec.algorithm.sum_noise[0] == pytest.approx(3.0 * stack.sensitivity(relation), rel=1e-14)


def test_the_noise_is_what_the_spec_says():
    """One release of 1,326 entries; false-alarm rate about 1e-6."""
    d = 50
    public = options(d)
    spec = statistics_spec(10, 4.0, Relation.ADD_REMOVE, public)
    X, y = np.zeros((10, d)), np.zeros(10)
    release = run_statistics(spec, X, y, SeededRandomness(3), options=public)
    expected = 4.0 * public.stack.sensitivity(Relation.ADD_REMOVE)
    assert release.noise == pytest.approx(expected)
    assert np.std(release.statistics) == pytest.approx(expected, rel=4.9 / math.sqrt(2 * release.statistics.size))


def test_private_coefficients_are_covered_by_their_intervals():
    """Epsilon 1 on 5,000 records: 90 % intervals hold the truth in at least 80 % of 40 x 5 coefficients.

    With a coverage of 90 % fewer than 160 of 200 has a probability below 1e-4 even if all five of a run moved together.
    """
    d, inside, errors = 5, 0, []
    public = options(d)
    spec = calibrate(statistics_spec(5000, 1.0, Relation.REPLACE_ONE, public), 1.0, 1e-5, "noise").spec
    assert explain(spec, 1e-5).epsilon <= 1.0
    for seed in range(40):
        X, y, theta = drawn(5000, d, seed)
        posterior = run_statistics(spec, X, y, SeededRandomness(seed), options=public).posterior
        low, high = posterior.interval(0.9)
        inside += int(((low <= theta) & (theta <= high)).sum())
        errors.append(np.linalg.norm(posterior.mean - theta) / np.linalg.norm(theta))
        assert posterior.predict(X[:3]).variance.shape == (3,)
    assert inside >= 160
    assert np.median(errors) < 0.3


def test_too_little_data_falls_back_to_the_prior():
    X, y, _ = drawn(20, 6, 2)
    public = options(6)
    spec = calibrate(statistics_spec(20, 1.0, Relation.REPLACE_ONE, public), 0.1, 1e-5, "noise").spec
    posterior = run_statistics(spec, X, y, SeededRandomness(0), options=public).posterior
    prior = (3.0 / math.sqrt(6)) ** 2
    assert (posterior.variance <= prior * (1 + 1e-9)).all()
    assert posterior.variance.mean() > 0.5 * prior
    assert np.linalg.norm(posterior.mean) < 2 * math.sqrt(6 * prior)


def test_wrong_descriptions_are_refused():
    X, y, _ = drawn(30, 2, 3)
    public = options(2)
    spec = statistics_spec(30, 1.0, Relation.REPLACE_ONE, public)
    with pytest.raises(InputError, match="under replace-one"):
        run_statistics(spec, X[:10], y[:10], SeededRandomness(0), options=public)
    with pytest.raises(InputError, match=r"algorithm\.rounds"):
        run_statistics(spec.with_values({"algorithm.rounds": 2}), X, y, SeededRandomness(0), options=public)
    smaller = spec.with_values({"algorithm.contribution": 0.1, "algorithm.replacement": None})
    with pytest.raises(InputError, match=r"algorithm\.contribution"):
        run_statistics(smaller, X, y, SeededRandomness(0), options=public)
    closer = spec.algorithm.contribution * 1.01
    with pytest.raises(InputError, match=r"algorithm\.replacement to be at least"):
        run_statistics(spec.with_values({"algorithm.replacement": closer}), X, y, SeededRandomness(0), options=public)
    with pytest.raises(InputError, match="cross"):
        StatisticsStack(cross=2.0)


def test_a_residual_variance_far_outside_its_limits_is_at_the_nearer_one():
    """As of a table with three times as many rows as declared: moments of the law that is cut were no numbers there."""
    for left in (-1e3, -9.0, -0.01, 0.3, 1.01, 9.0, 1e3):
        for noise in np.geomspace(1e-13, 1e5, 37):
            sums = NoisedSecondMoments(np.eye(2), np.zeros(2), left, 1.0, 1.0, 1, float(noise))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = _residual_variance(sums, np.eye(2), np.zeros(2), 1e-3)
            assert 1e-3 <= found <= 1.0
            if noise < 1e-4:
                assert found == pytest.approx(np.clip(left, 1e-3, 1.0), abs=2e-4)
