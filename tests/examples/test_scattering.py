"""Scattering features: their number, what shifts do to them, and that every image has its own alone."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from sordino.core.validate import InputError

_FILE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "mnist" / "scattering.py"))
Scattering, group_normalised = _FILE["Scattering"], _FILE["group_normalised"]
SMALL = Scattering(side=8, scales=1, directions=2)


def test_an_image_has_its_own_features_alone_and_a_constant_one_no_wavelet_coefficients():
    images = np.random.default_rng(0).random((2, 8, 8), np.float32)
    before = SMALL.in_parts(images, rows=2)
    assert before.shape == (2, SMALL.channels, SMALL.points, SMALL.points)
    images[1] = 1.0
    after = SMALL.in_parts(images, rows=2)
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_allclose(after[1, 0], 1.0, atol=1e-4)
    np.testing.assert_allclose(after[1, 1:], 0.0, atol=1e-4)


def test_groups_have_mean_0_and_variance_1():
    maps = np.random.default_rng(0).normal(3.0, 2.0, (2, 4, 3, 3))
    flat = np.asarray(group_normalised(maps, 2)).reshape(2, 2, -1)
    np.testing.assert_allclose(flat.mean(axis=2), 0.0, atol=1e-5)
    np.testing.assert_allclose(flat.var(axis=2), 1.0, atol=1e-3)


def test_a_side_that_cannot_be_halved_is_refused():
    assert (Scattering().channels, Scattering().points) == (81, 7)
    with pytest.raises(InputError, match="multiple"):
        Scattering(side=7, scales=1)
