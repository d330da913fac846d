"""Stable noise has its characteristic function, and at alpha = 2 it is N(0, 2I).

Averages of cosines are compared at 5.6 standard errors: a false-alarm rate of 2e-8 each, below 1e-6 for this file.
"""

import numpy as np
import pytest

from sordino.core.spec import Scheme
from sordino.mechanisms import SeededRandomness, run
from sordino.models.families.regression import GaussianLinear
from sordino.noise.port import mixing_scale

STANDARD_ERRORS = 5.6
DIRECTIONS = np.array([[0.3, 0.0], [0.5, -0.5], [1.0, 0.2], [-0.6, 1.1], [2.0, 0.0]])


def one_noise_step(quadratic, alpha, chains, seed=5):
    """Rows of zeros and no penalty: one step from the origin is the noise itself, at scale 1."""
    noise = {"kind": "stable", "alpha": alpha, "scale": 1.0}
    spec = quadratic.spec(Scheme.FULL, 1, chains, noise=noise)
    empty = np.zeros_like(quadratic.rows)
    return np.asarray(run(spec, GaussianLinear(), empty, quadratic.target, SeededRandomness(seed)).iterates, np.float64)


def worst_characteristic_deviation(sample, alpha, directions):
    worst = 0.0
    for u in directions:
        length = np.linalg.norm(u)
        exact = np.exp(-(length**alpha))
        variance = 0.5 * (1.0 + np.exp(-((2.0 * length) ** alpha))) - exact**2
        worst = max(worst, abs(np.cos(sample @ u).mean() - exact) / np.sqrt(variance / len(sample)))
    return worst


@pytest.mark.parametrize(
    ("alpha", "draws"),
    [
        *((alpha, 20_000) for alpha in (1.05, 1.3, 1.5, 1.7, 1.95, 2.0)),
        *(pytest.param(alpha, 1_000_000, marks=pytest.mark.slow) for alpha in (1.05, 1.5, 1.95)),
    ],
)
def test_characteristic_function(quadratic, alpha, draws):
    sample = one_noise_step(quadratic, alpha, draws)
    assert worst_characteristic_deviation(sample, alpha, DIRECTIONS) < STANDARD_ERRORS


def test_the_characteristic_test_has_power(quadratic):
    sample = one_noise_step(quadratic, 1.5, 20_000)
    assert worst_characteristic_deviation(sample, 1.75, DIRECTIONS) > 2 * STANDARD_ERRORS


@pytest.mark.parametrize("alpha", [1.2, 1.6])
def test_mixing_scales_have_the_laplace_transform_of_a_positive_stable_law(alpha):
    half_squares = 0.5 * mixing_scale(np.random.default_rng(2).random((200_000, 2)), alpha, np) ** 2
    for t in (0.1, 1.0, 4.0):
        values = np.exp(-t * half_squares)
        exact = np.exp(-(t ** (alpha / 2.0)))
        assert abs(values.mean() - exact) < STANDARD_ERRORS * values.std() / np.sqrt(values.size)


def test_mixing_scales_are_finite_and_positive_at_the_ends_of_the_uniform_draws():
    draws = np.array([[0.0, 0.0], [0.0, 1.0 - 2.0**-53], [1.0 - 2.0**-53, 0.0], [1.0 - 2.0**-53, 0.5]])
    scales = mixing_scale(draws, 1.01, np)
    assert np.all(np.isfinite(scales))
    assert np.all(scales > 0.0)


def test_alpha_two_is_gaussian_noise_of_variance_two(quadratic):
    """Not only in law: with one seed the two runs are the same."""
    stable = quadratic.spec(Scheme.CYCLIC, 9, 50, noise={"kind": "stable", "alpha": 2.0, "scale": 0.3})
    scale = float(0.3 * np.sqrt(2.0))
    gaussian = quadratic.spec(Scheme.CYCLIC, 9, 50, noise={"kind": "gaussian", "scale": scale})
    runs = [
        run(spec, quadratic.model, quadratic.rows, quadratic.target, SeededRandomness(1)).iterates
        for spec in (stable, gaussian)
    ]
    np.testing.assert_array_equal(*runs)


def test_a_step_has_one_scale_for_all_coordinates(quadratic):
    """Rotation-invariant, not coordinate-wise: large coordinates come together.

    Under independent coordinates |x| > 20 and |y| > 20 would meet with probability below 1e-3, here it is about half
    of the probability of one.
    """
    far = np.abs(one_noise_step(quadratic, 1.1, 20_000)) > 20.0
    assert far.all(axis=1).sum() > 0.3 * far[:, 0].sum() > 30
