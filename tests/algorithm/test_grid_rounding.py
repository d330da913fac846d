"""Rounding to a grid is exact."""

import math

import numpy as np
import pytest

from sordino.algorithm.noise.sums import Grid, grid_below
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


def test_what_cannot_be_rounded_is_refused():
    for values in ([math.nan], [math.inf]):
        with pytest.raises(InputError, match="finite"):
            Grid(-3).round(values)
    with pytest.raises(InputError, match="tau"):
        grid_below(0.0)
