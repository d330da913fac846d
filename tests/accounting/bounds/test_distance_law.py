"""The law of the distance left by random participation is above the exact one, and close to it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sordino.accounting.bounds.window import distance_law, largest_distance


def exact(contraction: float, rate: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    used = np.array(list(itertools.product([0, 1], repeat=steps)))
    count = used.sum(axis=1)
    return used @ contraction ** np.arange(steps), rate**count * (1 - rate) ** (steps - count)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 1.0), st.floats(0.01, 0.99), st.integers(1, 11), st.integers(8, 200))
def test_every_tail_is_at_least_the_exact_one(contraction: float, rate: float, steps: int, most: int) -> None:
    distances, chances = exact(contraction, rate, steps)
    law = distance_law(contraction, rate, steps, most)
    values, weights = np.array(law.values), np.array(law.weights)
    assert abs(weights.sum() - 1) < 1e-13
    assert np.all(np.diff(values) >= 0)
    assert values[-1] <= largest_distance(contraction, steps)
    for threshold in np.linspace(0, distances.max(), 200):
        assert weights[values > threshold].sum() >= chances[distances > threshold * (1 + 1e-12)].sum() - 1e-14


@pytest.mark.parametrize(
    ("contraction", "rate", "steps"),
    [(0.99, 0.01, 20000), (0.9, 0.3, 50), (0.9999, 0.01, 10**6), (1.0, 0.1, 1000), (0.99, 0.5, 1000), (0.999, 1.0, 99)],
)
def test_moments_are_close_to_the_exact_ones(contraction: float, rate: float, steps: int) -> None:
    """Sums of independent Bernoulli variables have known mean and variance; rounding up costs a few per cent."""
    law = distance_law(contraction, rate, steps, 4000)
    values, weights = np.array(law.values), np.array(law.weights)
    squares = steps if contraction == 1 else (1 - contraction ** (2 * steps)) / (1 - contraction**2)
    mean = rate * largest_distance(contraction, steps)
    assert mean * (1 - 1e-9) <= values @ weights <= mean * 1.01 + 0.01
    deviation = np.sqrt(max(weights @ values**2 - (weights @ values) ** 2, 0.0))
    assert_allclose(deviation, np.sqrt(rate * (1 - rate) * squares), rtol=0.02, atol=0.02)
