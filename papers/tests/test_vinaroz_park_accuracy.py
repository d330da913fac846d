"""What noise and clipping cost in KL: Monte Carlo against exact cases, and the published formulas against both."""

import numpy as np
import pytest

from papers.vinaroz_park.accuracy import GaussianStep, clipped_kl, expected_kl, theorem_formula
from sordino.core.validate import InputError

TURN = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2.0)
PRECISION = TURN @ np.diag([1.0, 10.0]) @ TURN.T


def kl(first_linear, first_precision, second_linear, second_precision):
    gap = np.linalg.solve(second_precision, second_linear) - np.linalg.solve(first_precision, first_linear)
    value = np.trace(second_precision @ np.linalg.inv(first_precision)) - len(gap) + gap @ second_precision @ gap
    return 0.5 * (value + np.linalg.slogdet(first_precision)[1] - np.linalg.slogdet(second_precision)[1])


def test_noise_on_the_linear_part_alone_costs_what_algebra_says():
    """Without noise on the precision the mean KL is s^2 tr(L^-1) / 2; 20,000 draws, false alarms below 1e-6."""
    step = GaussianStep(np.array([1.0, 2.0]), PRECISION, 0.3, 0.0, 0.5)
    found = expected_kl(step, np.random.default_rng(0), 20_000)
    exact = 0.5 * 0.3**2 * np.trace(np.linalg.inv(PRECISION))
    assert abs(found.value - exact) < 5 * found.standard_error


def test_in_one_dimension_the_repair_fixes_the_precision():
    """There L + E + A is the floor whatever E is, so the mean KL is known; false alarms below 1e-6."""
    step = GaussianStep(np.array([2.0]), np.array([[4.0]]), 0.1, 0.7, 3.0)
    found = expected_kl(step, np.random.default_rng(1), 20_000)
    exact = 0.5 * (3 / 4 + 3 * (2 / 3 - 2 / 4) ** 2 + 0.1**2 / 3 - 1 + np.log(4 / 3))
    assert abs(found.value - exact) < 5 * found.standard_error


def test_the_published_formula_fails_where_the_mean_lies_along_the_least_precise_direction():
    """Claimed with probability 0.95: at most 1.42. The mean KL is 6.35 and hardly varies: not a bound."""
    step = GaussianStep(5.0 * TURN[:, 0], PRECISION, 0.01, 0.01, 0.5)
    formula = theorem_formula(step, 0.01 * np.sqrt(4 * np.log(2 / 0.05)))
    found = expected_kl(step, np.random.default_rng(2), 4000)
    assert formula.claimed_probability == pytest.approx(0.95)
    assert formula.value == pytest.approx(1.413, abs=0.01)
    assert found.value - 5 * found.standard_error > 6.0
    assert formula.label.startswith("HEURISTIC")


def test_the_published_formula_holds_where_nothing_is_turned():
    """An isotropic posterior leaves nothing to pair wrongly; there the formula is above the mean, as it should be."""
    step = GaussianStep(np.array([1.0, 1.0]), 5.0 * np.eye(2), 0.01, 0.01, 4.5)
    formula = theorem_formula(step, 0.01 * np.sqrt(4 * np.log(2 / 0.05)))
    found = expected_kl(step, np.random.default_rng(3), 4000)
    assert formula.value > found.value


@pytest.mark.parametrize("clip", [0.5, 3.0, 100.0])
def test_the_clipped_kl_is_the_divergence_between_the_two_gaussians(clip):
    linear = np.array([2.0, -1.0])
    shortened = linear * min(1.0, clip / np.linalg.norm(linear))
    smaller = PRECISION * min(1.0, clip / np.linalg.norm(PRECISION))
    assert clipped_kl(linear, PRECISION, clip) == pytest.approx(kl(linear, PRECISION, shortened, smaller), abs=1e-12)


def test_a_step_needs_a_definite_precision():
    with pytest.raises(InputError, match="positive definite"):
        GaussianStep(np.zeros(2), np.diag([1.0, -1.0]), 0.1, 0.1, 0.1)
