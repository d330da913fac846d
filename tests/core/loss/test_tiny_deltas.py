"""Deltas as small as floats go: finite brackets, above lower bounds that need no grid, and below Rényi's answer."""

import itertools
import math

import pytest

from sordino.accounting.renyi import poisson_renyi
from sordino.core.bound import Relation
from sordino.core.gaussian import epsilon_upper
from sordino.core.guarantee import ORDERS, LossDistribution, RenyiDP
from sordino.core.loss.atomic_pairs import LaplacePair, ResponsePair
from sordino.core.loss.mixture_pairs import GaussianMixturePair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair

DELTAS = (1e-16, 1e-150, 1e-300)
COMPOSITIONS = {
    "poisson": ((PoissonRemovePair(0.01, 1.0), 1000),),
    "replace": ((PoissonReplacePair(0.01, 1.0), 1000),),
    "without replacement": ((WithoutReplacementPair(0.01, 1.0), 1000),),
    "mixture": ((GaussianMixturePair((0.9, 0.1), (0.1, 1.0)), 10),),
    "laplace and gaussian": ((LaplacePair(0.1), 10), (GaussianPair(0.5), 1)),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_brackets_stay_narrow_down_to_the_smallest_floats(name):
    """Infinite at 1e-300 before, and 60 % too wide for mixtures from 1e-200 on."""
    found = [LossDistribution(COMPOSITIONS[name]).epsilon_bracket(delta) for delta in DELTAS]
    for bracket in found:
        assert math.isfinite(bracket.high)
        assert bracket.high - bracket.low <= 2e-3 * bracket.high
    assert all(first.high < second.low for first, second in itertools.pairwise(found))


def test_sampled_gaussians_lie_below_renyi_accounting():
    curve = RenyiDP(ORDERS, tuple(1000 * poisson_renyi(order, 0.01, 1.0, Relation.ADD_REMOVE) for order in ORDERS))
    for delta in DELTAS:
        bracket = LossDistribution(COMPOSITIONS["poisson"]).epsilon_bracket(delta)
        assert bracket.low < curve.epsilon(delta)
        assert bracket.high < curve.epsilon(delta)


def test_a_mixture_of_one_gaussian_is_that_gaussian():
    """Ten uses of mu = 0.3 on a grid against the closed form of mu = 0.3 sqrt(10)."""
    pair = GaussianMixturePair((0.5, 0.5), (0.3, 0.3 * (1 + 1e-12)))
    for delta in DELTAS:
        bracket = LossDistribution(((pair, 10),)).epsilon_bracket(delta)
        exact = epsilon_upper(0.3 * math.sqrt(10), delta)
        assert bracket.low <= exact * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= bracket.high <= exact * (1 + 2e-3)


@pytest.mark.parametrize("epsilon", [1.5e-323, 1e-300, 1e-200])
def test_a_loss_of_next_to_nothing_beside_a_gaussian_costs_nothing(epsilon: float) -> None:
    """Its lattice is so fine that no spacing is a multiple of it; that is no reason to stop."""
    together = LossDistribution(((ResponsePair(epsilon, 5e-324), 1), (GaussianPair(1.0), 1)))
    found = together.epsilon_bracket(1e-5)
    assert found.low <= epsilon_upper(1.0, 1e-5) <= found.high <= epsilon_upper(1.0, 1e-5) * 1.002


@pytest.mark.every(2)
@pytest.mark.parametrize(("rate", "uses", "most"), [(1e-6, 1000, 0.025), (1e-12, 10**6, 8e-8)])
def test_rare_jumps_do_not_hide_the_bulk(rate, uses, most):
    """142 and 1.6e-7 before, at delta 1e-20; one use alone has delta = q times that of the Gaussian at its loss."""
    found = LossDistribution(((PoissonRemovePair(rate, 1.0), uses),)).epsilon_bracket(1e-20)
    alone = math.log1p(rate * math.expm1(epsilon_upper(1.0, 1e-20 / rate) * (1 - 1e-9)))
    assert found.low <= found.high
    assert alone <= found.high <= most
