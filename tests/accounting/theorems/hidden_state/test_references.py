"""The hidden-state coefficients have the published reference values and satisfy the recursions they solve."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sordino.accounting.theorems import hidden_state as fixed_batches
from sordino.accounting.theorems import hidden_state as random_batches
from sordino.core.guarantee import ORDERS

# n = 1000, b = 100, eta = 0.02, m = 1, Delta = 4, sigma = 0.02: contraction 0.98, kappa 0.2, ten batches a pass.
C, U, PERIOD = 0.98, 0.02, 10


@pytest.mark.parametrize(("steps_left", "expected"), [(10, 0.02179), (1, 0.04014)])
def test_theorem_3_3_at_100_passes(steps_left: int, expected: float) -> None:
    assert_allclose(fixed_batches.strongly_convex(C, U, PERIOD, 99, steps_left), expected, atol=5e-6)


def test_full_batch_theorems_at_100_steps() -> None:
    assert_allclose(fixed_batches.full(0.02, U, 100), 2.51051, atol=5e-6)
    assert_allclose(fixed_batches.chourasia(0.02, U, 100), 2.52848, atol=5e-6)


def test_random_batch_theorems_at_order_10() -> None:
    order = np.array([10.0])
    assert_allclose(random_batches.shuffled(order, C, U, PERIOD, 1000), 0.2744, atol=5e-5)
    assert_allclose(random_batches.subsampled(order, C, U, 0.1, 1000), 2.3104, atol=5e-5)


def test_one_pass_solves_the_recursion_of_lemma_3_2() -> None:
    """Using the record costs u; a step without it multiplies by 1 - 1 / sum_{s<=j} c^{2s}."""
    for contraction in (0.3, 0.9, 0.98, 1.0):
        value, expected = U, []
        for j in range(1, 40):
            expected.append(value)
            value *= 1 - 1 / np.sum(contraction ** (2.0 * np.arange(j + 1)))
        assert_allclose(fixed_batches.one_pass(contraction, U, np.arange(1, 40)), expected, rtol=1e-10)


@pytest.mark.every(5)
@pytest.mark.parametrize("steps", [1, 7, 10, 25, 30, 1000])
@pytest.mark.parametrize("period", [2, 3, 10])
def test_shuffled_averages_over_every_position(period: int, steps: int) -> None:
    orders = np.array([1.01, 2.0, 4.0, 10.0])
    total = np.zeros(len(orders))
    for position in range(period):
        uses = list(range(position, steps, period))
        coefficient = (
            float(fixed_batches.strongly_convex(0.9, 0.3, period, len(uses) - 1, steps - uses[-1])) if uses else 0.0
        )
        total += np.exp((orders - 1) * orders * coefficient) / period
    assert_allclose(random_batches.shuffled(orders, 0.9, 0.3, period, steps), np.log(total) / (orders - 1), rtol=1e-8)


@pytest.mark.parametrize(("contraction", "u", "rate"), [(0.98, 0.02, 0.1), (0.9999, 0.02, 0.01), (0.5, 3.0, 0.5)])
def test_subsampled_follows_the_recursion_from_above(contraction: float, u: float, rate: float) -> None:
    orders = np.asarray(ORDERS)
    growth, log_s = orders * (orders - 1) * u, np.zeros(len(orders))
    for step in range(1, 8001):
        log_s = np.logaddexp(np.log(rate) + growth + log_s, np.log1p(-rate) + contraction**2 * log_s)
        if step in {1, 2, 100, 8000}:
            found = random_batches.subsampled(orders, contraction, u, rate, step)
            # The plain recursion loses digits where log S is tiny; blocks of steps cost at most 2e-4.
            assert np.all(found >= log_s / (orders - 1) * (1 - 1e-9) - 1e-11)
            assert_allclose(found, log_s / (orders - 1), rtol=2e-4, atol=1e-11)
