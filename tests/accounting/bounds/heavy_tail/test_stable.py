"""The stable law's facts are upper bounds, and close ones."""

import math

import mpmath
import pytest

from sordino.accounting.bounds.heavy_tail import gaussian_moment, shift_total_variation
from sordino.models.exact import shift_total_variation as exact_total_variation

RATIOS = (1e-300, 1e-12, 1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 10.0, 1e3, 1e300)


@pytest.mark.parametrize("alpha", [1.01, 1.2, 1.5, 1.8, 1.999, 2.0])
def test_total_variation_of_a_shift_is_bounded_from_above(alpha):
    for ratio in RATIOS:
        bound = shift_total_variation(alpha, ratio)
        assert exact_total_variation(alpha, ratio, 1.0).low <= bound <= 1.0
        assert bound <= ratio * math.gamma(1 + 1 / alpha) / math.pi * (1 + 1e-11)


def test_moments_are_rounded_up_in_any_dimension():
    for dim in (1, 2, 10, 999, 10_000, 10_001, 2**53):
        for power in (1.0, 1.3, 2.0):
            with mpmath.workdps(40):
                half = mpmath.mpf(dim) / 2
                exact = mpmath.mpf(2) ** (mpmath.mpf(power) / 2) * mpmath.gammaprod([half + power / 2], [half])
                assert exact <= gaussian_moment(power, dim) <= exact * (1 + mpmath.mpf("3e-5"))
