"""Known laws: Gaussians, mixtures and stable laws, all answers from below."""

import numpy as np
import pytest
from scipy import stats

from sordino.auditing.exact.leak import GaussianShift, LawPair
from sordino.models.exact import GaussianLaw, GaussianMixtureLaw, StableLaw1D, hockey_stick, shift_total_variation

NARROW = GaussianLaw(np.array([0.0]), np.array([[1.0]]))
WIDE = GaussianLaw(np.array([0.7]), np.array([[1.5]]))
MIXED = GaussianMixtureLaw(np.array([0.3, 0.7]), np.array([[-1.0], [0.5]]), np.array([[[1.0]], [[0.8]]]))
PLANE = (
    GaussianLaw(np.zeros(2), np.array([[1.0, 0.2], [0.2, 0.5]])),
    GaussianLaw(np.array([0.5, -0.3]), np.array([[1.2, 0.1], [0.1, 0.6]])),
)
PAIRS = {
    "gaussians": LawPair(NARROW, WIDE),
    "plane": LawPair(*PLANE),
    "mixture": LawPair(NARROW, MIXED),
    "stable": LawPair(StableLaw1D(1.6, 0.0, 1.0), StableLaw1D(1.6, 0.8, 1.0)),
}


def largest_delta(pair: LawPair, epsilon: float) -> float:
    """The upper end of the exact divergence, in the worse direction."""
    both = ((pair.first, pair.second), (pair.second, pair.first))
    return max(hockey_stick(first, second, epsilon).high for first, second in both)


@pytest.mark.parametrize("name", PAIRS)
def test_epsilon_and_delta_are_below_and_invert_each_other(name):
    pair = PAIRS[name]
    epsilon = pair.epsilon(0.05)
    assert epsilon > 0
    assert 0.05 < largest_delta(pair, epsilon) < 0.05 + 1e-6
    assert pair.delta(0.1) <= largest_delta(pair, 0.1)
    assert pair.delta(0.0) >= pair.delta(0.1) > 0


def test_the_curve_of_gaussians_lies_above_the_gaussian_trade_off():
    leak = GaussianShift(1.3)
    for point in leak.curve():
        exact = stats.norm.cdf(stats.norm.isf(point.false_positive) - 1.3)
        assert point.false_negative >= exact * (1 - 1e-9)
        assert point.false_negative == pytest.approx(exact, rel=1e-6, abs=1e-12)


def test_stable_shifts_have_the_known_total_variation():
    found = LawPair(StableLaw1D(1.8, 0.0, 1.0), StableLaw1D(1.8, 0.5, 1.0)).delta(0.0)
    known = shift_total_variation(1.8, 0.5, 1.0)
    assert found <= known.high
    assert found == pytest.approx(0.140708, abs=2e-6)
