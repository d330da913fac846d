"""Normal probabilities of intervals: scipy's error is inside the stated bound, against 50 digits."""

import mpmath as mp
import numpy as np
import pytest

from sordino.core.loss import normal_pairs as normal_bins


def exact_mass(low, high, mean):
    low, high = mp.mpf(float(low)) - mp.mpf(mean), mp.mpf(float(high)) - mp.mpf(mean)
    if low > 0:
        low, high = -high, -low
    return (mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2


@pytest.mark.parametrize("mean", [0.0, 0.3, -1.7, 25.0])
@pytest.mark.parametrize("width", [1e-6, 1e-3, 0.1, 2.0])
def test_mass_between_edges_is_within_its_error(mean, width):
    rng = np.random.default_rng(20)
    starts = np.concatenate([np.linspace(-37, 37, 75) + mean, rng.uniform(-9, 9, 75) + mean])
    for start in starts:
        edges = np.array([start, start + width])
        (mass,), (error,) = normal_bins.normal_mass(edges, mean)
        with mp.workdps(50):
            gap = abs(mp.mpf(float(mass)) - exact_mass(*edges, mean))
        assert gap <= error + 5e-324


def test_edges_at_infinity_hold_everything():
    mass, error = normal_bins.normal_mass(np.array([-np.inf, 0.0, np.inf]), 0.0)
    assert mass == pytest.approx([0.5, 0.5], abs=1e-15)
    assert (error < 1e-11).all()


@pytest.mark.parametrize("z", [-30.0, -8.0, -1.0, 0.0, 2.0, 12.0, 36.0])
def test_tails_are_rounded_up(z):
    with mp.workdps(50):
        exact = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
    assert exact <= normal_bins.above(z, 0.0) <= exact * (1 + mp.mpf("1e-11"))
    assert exact <= normal_bins.below(-z, 0.0) <= exact * (1 + mp.mpf("1e-11"))


@pytest.mark.parametrize("tail", [1e-300, 1e-40, 1e-9, 0.01, 0.4])
def test_quantile_leaves_at_most_the_tail(tail):
    with mp.workdps(50):
        assert mp.erfc(mp.mpf(normal_bins.quantile(tail)) / mp.sqrt(2)) / 2 <= tail
