"""Whole numbers from the discrete Laplace law."""

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.noise.gaussian import whole_laplace


@pytest.mark.parametrize("scale", [0.3, 2.0, 20.0])
def test_probabilities_are_those_of_the_law(scale):
    """20,000 draws, 5 counts: each is within 5 standard errors of its mean but for one run in 10^5."""
    generator = np.random.default_rng(1)
    drawn = np.array([whole_laplace(generator, scale) for _ in range(20_000)])
    ratio = np.exp(-1.0 / scale)
    for value in (-2, -1, 0, 1, 2):
        chance = (1 - ratio) / (1 + ratio) * ratio ** abs(value)
        assert np.sum(drawn == value) == pytest.approx(20_000 * chance, abs=5 * np.sqrt(20_000 * chance) + 1)


def test_scales_that_cannot_be_are_refused():
    for scale in (0.0, -1.0, 1e20, float("nan")):
        with pytest.raises(InputError, match="scale"):
            whole_laplace(np.random.default_rng(0), scale)
