"""Rounding to a grid is exact, and its stated cost is never below the cost of cases that can be computed."""

import math

import numpy as np
import pytest
from scipy import stats

from sordino.algorithm.noise.sums import Grid, grid_below, noise_error, with_total_variation
from sordino.core.validate import InputError


def test_rounded_values_are_the_nearest_points_of_the_grid():
    grid = Grid(-6)
    values = np.concatenate([np.random.default_rng(0).normal(size=1000), [0.0, -0.0, 2.0**-7, 3 * 2.0**-7, 1e300]])
    rounded = grid.round(values)
    assert np.all(rounded[:-1] * 64 == np.rint(rounded[:-1] * 64))
    assert np.all(np.abs(rounded - values) <= grid.spacing / 2)
    assert rounded[-1] == 1e300
    np.testing.assert_array_equal(grid.round(rounded), rounded)
    assert rounded[-3:-1].tolist() == [0.0, 2 * 2.0**-6]  # ties go to even


@pytest.mark.parametrize("tau", [1e-3, 0.02, 1.0, 1.0000001, 1024.0])
@pytest.mark.parametrize("cells", [1, 16, 1000])
def test_the_grid_has_at_least_the_cells_asked_for_and_less_than_twice_as_many(tau, cells):
    assert tau / cells / 2 < grid_below(tau, cells).spacing <= tau / cells


@pytest.mark.parametrize("cells", [0.3, 1.0, 4.0, 64.0])
@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.1, 0.49])
def test_the_cost_is_above_the_exact_probability_and_not_far(cells, share):
    """The mass near cell edges is a sum of Gaussian probabilities; the worst mean among a hundred is compared."""
    grid, tau = Grid(-3), cells * 0.125
    error = share * grid.spacing
    edges = (np.arange(-40 * math.ceil(cells) - 40, 40 * math.ceil(cells) + 40) + 0.5) * grid.spacing
    worst = max(
        float(np.sum(stats.norm.cdf(edges + error, m, tau) - stats.norm.cdf(edges - error, m, tau)))
        for m in np.linspace(0.0, grid.spacing, 101)
    )
    stated = grid.total_variation(tau, error, 1)
    assert worst <= stated <= 4.0 * worst


def test_simulated_crossings_stay_below_the_cost():
    """Errors of up to 2e-3 are added and crossings counted, at 5.2 standard errors: false alarms below 1e-7."""
    generator = np.random.default_rng(1)
    grid, tau, number = Grid(-4), 1.0, 400_000
    ideal = 0.3 + tau * generator.normal(size=number)
    computed = ideal + generator.uniform(-2e-3, 2e-3, number)
    crossed = np.mean(grid.round(ideal) != grid.round(computed))
    stated = grid.total_variation(tau, 2e-3, 1)
    assert 0.0 < crossed < stated + 5.2 * math.sqrt(stated / number)


def test_double_precision_is_cheap_and_single_precision_is_not():
    grid = grid_below(0.02)
    double, single = (grid.total_variation(0.02, noise_error(0.02, 1.0, np.dtype(p)), 50) for p in ("f8", "f4"))
    assert double < 3e-9
    assert single > 1e-3
    assert grid.total_variation(0.02, grid.spacing, 1) == 1.0


def test_the_error_of_computed_noise_is_within_what_is_stated():
    """m + tau xi in single precision against the same in double, over many means and draws."""
    generator = np.random.default_rng(2)
    m = generator.uniform(-3.0, 3.0, 100_000)
    xi = np.clip(generator.normal(size=100_000) * 3, -9.0, 9.0)
    m, xi = m.astype(np.float32), xi.astype(np.float32)
    for tau in (np.float32(0.01), np.float32(2.0)):
        computed = (m + tau * xi).astype(np.float64)
        off = np.abs(computed - (m.astype(np.float64) + float(tau) * xi.astype(np.float64)))
        assert off.max() <= noise_error(float(tau), 3.0, np.dtype(np.float32))


def test_a_release_within_a_distance_pays_for_it_on_both_sides():
    """Two Bernoulli laws moved towards the worse by t each: the exact delta is the stated one."""
    epsilon, t = 0.7, 0.01
    p, q = 0.3 * math.exp(epsilon), 0.3
    moved = (p + t) - math.exp(epsilon) * (q - t)
    assert with_total_variation(epsilon, 0.0, t) >= moved
    assert with_total_variation(epsilon, 0.0, t) == pytest.approx(moved)
    assert with_total_variation(epsilon, 1e-5, 0.0) == pytest.approx(1e-5)
    assert with_total_variation(50.0, 0.0, 0.5) == 1.0


def test_what_cannot_be_rounded_is_refused():
    for values in ([math.nan], [math.inf]):
        with pytest.raises(InputError, match="finite"):
            Grid(-3).round(values)
    with pytest.raises(InputError, match="tau"):
        grid_below(0.0)
    with pytest.raises(InputError, match="distance"):
        with_total_variation(1.0, 0.0, 1.5)
