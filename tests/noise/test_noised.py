"""Sums with noise: on a grid, of the scale that is asked for, and rounding to a grid is exact."""

import math

import numpy as np
import pytest
from scipy import stats

from sordino.core.validate import InputError
from sordino.noise.gaussian import ExactGaussians
from sordino.noise.port import CheckedSum, SumNoise, grid_below, on_grid
from sordino.noise.randomness import NoisePort
from tests.noise.released import noised_sums

NUMBER = 20_000


def of(value):
    """The whole numbers of 2^-40 nearest to a value, many times."""
    return np.full(NUMBER, round(value * 2**40), np.int64)


@pytest.mark.parametrize("other", [1.0 / 3.0, 1e-9])
def test_the_last_bits_of_the_grid_are_alike_whatever_is_beneath(other):
    """Two-sample chi-squared on the lowest four bits of the grid point; false-alarm rate 1e-6 a case."""
    generator = np.random.default_rng(2)
    counts = []
    for value in (0.0, other):
        released = noised_sums(of(value), -40, 1.0, ExactGaussians(generator, NUMBER))
        counts.append(np.bincount(np.ldexp(released, 10).astype(np.int64) & 15, minlength=16))
    assert stats.chi2_contingency(counts).pvalue > 1e-6


def test_sums_keep_their_value_and_get_the_noise_that_is_asked_for():
    """Mean and spread at five standard errors: false-alarm rate below 1e-6 each."""
    units = np.full(NUMBER, 7 * 2**40 + 12345, np.int64)
    released = noised_sums(units, -40, 3.0, ExactGaussians(np.random.default_rng(3), NUMBER))
    assert np.mean(released) == pytest.approx(7 + 12345 * 2.0**-40, abs=5 * 3.0 / math.sqrt(NUMBER))
    assert np.std(released) == pytest.approx(3.0, rel=5 / math.sqrt(2 * NUMBER))
    cells = np.ldexp(released, 9)
    assert np.array_equal(cells, np.rint(cells))  # 1,024 cells or more in one noise scale


def test_a_scale_for_each_sum():
    scales = np.array([0.01, 10.0] * 5_000)
    released = noised_sums(np.zeros(10_000, np.int64), -40, scales, ExactGaussians(np.random.default_rng(5), 10_000))
    for k, scale in enumerate((0.01, 10.0)):
        assert np.std(released[k::2]) == pytest.approx(scale, rel=5 / math.sqrt(2 * 5_000))


def test_sums_may_be_of_any_size_beside_their_unit():
    """Bounds of later rounds follow what was read of residuals: a scale was refused by its size, after the debit."""
    for exponent in (-160, -40, 0):
        released = noised_sums(
            np.zeros(4_000, np.int64),
            exponent,
            math.ldexp(3.0, exponent + 30),
            ExactGaussians(np.random.default_rng(5), 4_000),
        )
        assert np.std(np.ldexp(released, -exponent - 30)) == pytest.approx(3.0, rel=5 / math.sqrt(2 * 4_000))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e-30])
def test_noise_of_no_size_is_refused(scale):
    with pytest.raises(InputError, match="noise scale"):
        noised_sums(np.zeros(2, np.int64), 0, scale, ExactGaussians(np.random.default_rng(6), 2))


def test_what_is_recorded_says_how_much_the_call_costs():
    """One unit moves the stack, each sum over its noise, by the root of the squares of 1 / multiplier."""
    calls = []

    class Written(NoisePort):
        def answer(self, call, draw):
            calls.append(call)
            return draw()

    noise = SumNoise(ExactGaussians(np.random.default_rng(8), 3), Written())
    shares = np.array([1.0, 0.5])
    noise.noised([CheckedSum(np.zeros(2, int), -3, 2.0, 5.0, shares), CheckedSum(np.zeros(1, int), -3, 4.0, 0.5)])
    (call,) = calls
    assert call.mu == pytest.approx(math.hypot(1 / 5, 1 / 0.5))
    assert np.asarray(call.scale) == pytest.approx([10.0, 5.0, 2.0])
    assert (np.asarray(call.scale) >= [10.0, 5.0, 2.0]).all()


def test_rounded_values_are_the_nearest_points_of_the_grid():
    values = np.concatenate([np.random.default_rng(0).normal(size=1000), [0.0, -0.0, 2.0**-7, 3 * 2.0**-7, 1e300]])
    rounded = on_grid(values, -6)
    assert np.all(rounded[:-1] * 64 == np.rint(rounded[:-1] * 64))
    assert np.all(np.abs(rounded - values) <= 2.0**-7)
    assert rounded[-1] == 1e300
    np.testing.assert_array_equal(on_grid(rounded, -6), rounded)
    assert rounded[-3:-1].tolist() == [0.0, 2 * 2.0**-6]  # ties go to even


@pytest.mark.parametrize("tau", [1e-3, 0.02, 1.0, 1.0000001, 1024.0])
@pytest.mark.parametrize("cells", [1, 16, 1000])
def test_the_grid_has_at_least_the_cells_asked_for_and_less_than_twice_as_many(tau, cells):
    assert tau / cells / 2 < 2.0 ** grid_below(tau, cells) <= tau / cells


def test_what_cannot_be_rounded_is_refused():
    for values in ([math.nan], [math.inf]):
        with pytest.raises(InputError, match="finite"):
            on_grid(values, -3)
    with pytest.raises(InputError, match="tau"):
        grid_below(0.0)
