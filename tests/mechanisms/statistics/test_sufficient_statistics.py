"""Noised sums of second moments: their sensitivity is never passed, and their noise is what the spec says."""

import math

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.mechanisms.statistics.second_moments import (
    StatisticsOptions,
    StatisticsStack,
    run_statistics,
    statistics_spec,
)
from sordino.noise.integer_sums import PRODUCT_EXPONENT
from sordino.noise.randomness import SeededRandomness


def options(d: int, **values) -> StatisticsOptions:
    return StatisticsOptions(row_norm=math.sqrt(d), target_bound=3.0, **values)


def total(stack: StatisticsStack, rows, targets):
    """The sum over records as a stack."""
    return stack.weights(rows.shape[1]) * np.ldexp(
        stack.products(rows, targets).total(1.0, PRODUCT_EXPONENT).astype(float), PRODUCT_EXPONENT
    )


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
        moved = total(stack, rows[:1], targets[:1]) - total(stack, rows[1:], targets[1:])
        worst = max(worst, float(np.linalg.norm(moved)))
        assert np.linalg.norm(total(stack, rows[:1], targets[:1])) <= stack.sensitivity(Relation.ADD_REMOVE)
    assert np.array_equal(total(stack, rows[:1], np.array([2.0])), total(stack, rows[:1], np.ones(1)))
    # The worst pair of the proof: unit rows with cosine w^2 / 2, targets 1 and -1.
    angle = math.acos(cross**2 / 2)
    pair = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
    moved = total(stack, pair[:1], np.array([1.0])) - total(stack, pair[1:], np.array([-1.0]))
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
    longest = np.linalg.norm(total(stack, np.array([[0.6, 0.8]]), np.ones(1)))
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


def test_wrong_descriptions_are_refused():
    X, y = np.random.default_rng(3).uniform(-1, 1, (30, 2)), np.zeros(30)
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
