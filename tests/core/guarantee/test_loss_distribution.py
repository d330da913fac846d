"""Loss distributions: width, both orders of a pair, and curves that are upper bounds."""

import math

import numpy as np
import pytest

from sordino.core.guarantee import GaussianDP, LossDistribution
from sordino.core.loss import normal_pairs as normal
from sordino.core.loss.atomic_pairs import LaplacePair, ResponsePair

GOLDEN = LossDistribution(((normal.PoissonRemovePair(0.01, 1.0), 1000),))


# fmt: off
CASES = [
    (normal.PoissonRemovePair(0.01, 1.0), 10**6, 1e-5), (normal.PoissonReplacePair(0.01, 1.0), 10**6, 1e-5),
    (normal.WithoutReplacementPair(0.01, 1.0), 1000, 1e-5), (normal.WithoutReplacementPair(1e-3, 0.5), 10**6, 1e-6),
    (normal.PoissonRemovePair(1e-3, 2.0), 2000, 1e-6), (normal.PoissonRemovePair(0.2, 0.5), 100, 1e-9),
    (normal.PoissonReplacePair(1e-4, 1.0), 10**5, 1e-5), (normal.PoissonRemovePair(1e-3, 5.0), 1000, 1e-5),
    (normal.PoissonRemovePair(0.5, 0.01), 10**6, 1e-5), (LaplacePair(0.1), 1000, 1e-6),
    (ResponsePair(0.05, 0.0), 10**4, 1e-6), (normal.GaussianPair(0.01), 10**6, 1e-7),
]
# fmt: on


@pytest.mark.every(2)
@pytest.mark.parametrize(("pair", "count", "delta"), CASES)
def test_epsilon_is_known_to_a_thousandth(pair, count, delta):
    bracket = LossDistribution(((pair, count),)).epsilon_bracket(delta)
    assert 0 < bracket.low <= bracket.high < math.inf
    assert bracket.relative_width <= 1e-3


def test_many_gaussian_steps_without_the_shortcut_agree_with_it():
    """The Poisson pair at a rate next to 1 is nearly a Gaussian: a long composition stays consistent."""
    sampled = LossDistribution(((normal.PoissonRemovePair(1 - 1e-12, 0.01), 10**6),)).epsilon_bracket(1e-5)
    exact = GaussianDP(10.0).epsilon(1e-5)
    assert sampled.low <= exact * (1 + 1e-6)
    assert sampled.high >= exact * (1 - 1e-6)


def test_gaussians_merge_exactly_whatever_their_split():
    merged = LossDistribution(((normal.GaussianPair(0.3), 16), (normal.GaussianPair(0.5), 4)))
    exact = GaussianDP(math.sqrt(16 * 0.09 + 4 * 0.25))
    assert merged.epsilon(1e-5) == pytest.approx(exact.epsilon(1e-5), rel=1e-12)
    assert merged.epsilon_bracket(1e-5).relative_width < 1e-10


def test_the_curve_is_an_upper_bound_at_every_point():
    epsilons = np.linspace(0.0, 3.0, 13)
    curve = GOLDEN.deltas(epsilons)
    assert (np.diff(curve) <= 0).all()
    for epsilon, delta in zip(epsilons, curve, strict=True):
        bracket = GOLDEN.delta_bracket(float(epsilon))
        assert delta >= bracket.low
        assert delta <= bracket.high * 1.5


def test_both_orders_of_a_pair_are_covered():
    """Adding and removing give one guarantee, whichever of the two pairs describes it."""
    for pair in (normal.PoissonRemovePair(0.3, 2.0), normal.PoissonAddPair(0.3, 2.0)):
        assert pair.reversed().reversed() == pair
    remove = LossDistribution(((normal.PoissonRemovePair(0.3, 2.0), 2),)).epsilon_bracket(1e-4)
    add = LossDistribution(((normal.PoissonAddPair(0.3, 2.0), 2),)).epsilon_bracket(1e-4)
    assert remove == add
