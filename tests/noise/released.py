"""Sums with noise as the port makes them, with a scale that is given."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.noise.gaussian import ExactGaussians
from sordino.noise.port import CheckedSum, SumNoise
from sordino.noise.randomness import SeededRandomness


def noised_sums(sums: NDArray[Any], exponent: int, scale: ArrayLike, drawn: ExactGaussians) -> NDArray[np.float64]:
    """Whole numbers of 2^exponent with noise of this standard deviation."""
    return SumNoise(drawn).noised([CheckedSum(sums, exponent, 1.0, 1.0, scale)])


class Floating(SeededRandomness):
    """Has no whole numbers to give."""

    @property
    def draws_exactly(self):
        return False
