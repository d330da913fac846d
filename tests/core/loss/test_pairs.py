"""Normal probabilities of intervals, revealed mixtures of Gaussians, and deltas as small as floats go."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.accounting.bounds.renyi import poisson_renyi
from sordino.core import gaussian
from sordino.core.gaussian import epsilon_upper
from sordino.core.guarantee import ORDERS, LossDistribution, RenyiDP
from sordino.core.loss import normal_pairs
from sordino.core.loss.atomic_pairs import LaplacePair, ResponsePair
from sordino.core.loss.mixture_pairs import GaussianMixturePair, MixturePair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair

DELTAS = (1e-16, 1e-150, 1e-300)
COMPOSITIONS = {
    "mixture": ((GaussianMixturePair((0.9, 0.1), (0.1, 1.0)), 10),),
    "poisson": ((PoissonRemovePair(0.01, 1.0), 1000),),
    "replace": ((PoissonReplacePair(0.01, 1.0), 1000),),
    "laplace and gaussian": ((LaplacePair(0.1), 10), (GaussianPair(0.5), 1)),
    "without replacement": ((WithoutReplacementPair(0.01, 1.0), 1000),),
}


@pytest.mark.parametrize("mean", [0.0, 0.3, -1.7, 25.0])
@pytest.mark.parametrize("width", [1e-6, 1e-3, 0.1, 2.0])
def test_normal_mass_between_edges_is_within_its_error(mean, width):
    """Against 50 digits: scipy's error is inside the stated bound."""
    starts = np.concatenate([np.linspace(-37, 37, 75), np.random.default_rng(20).uniform(-9, 9, 75)]) + mean
    for start in starts:
        (mass,), (error,) = normal_pairs.normal_mass(np.array([start, start + width]), mean)
        with mp.workdps(50):
            low, high = mp.mpf(float(start)) - mp.mpf(mean), mp.mpf(float(start + width)) - mp.mpf(mean)
            low, high = (-high, -low) if low > 0 else (low, high)
            gap = abs(mp.mpf(float(mass)) - (mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2)
        assert gap <= error + 5e-324


def test_normal_tails_and_quantiles_are_rounded_up():
    mass, error = normal_pairs.normal_mass(np.array([-np.inf, 0.0, np.inf]), 0.0)
    assert mass == pytest.approx([0.5, 0.5], abs=1e-15)
    assert (error < 1e-11).all()
    with mp.workdps(50):
        for z in (-30.0, -8.0, -1.0, 0.0, 2.0, 12.0, 36.0):
            exact = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
            for rounded in (normal_pairs.above(z, 0.0), normal_pairs.below(-z, 0.0)):
                assert exact <= rounded <= exact * (1 + mp.mpf("1e-11"))
        for tail in (1e-300, 1e-40, 1e-9, 0.01, 0.4):
            assert mp.erfc(mp.mpf(normal_pairs.quantile(tail)) / mp.sqrt(2)) / 2 <= tail


def random_mixture(seed: int, size: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(size, 0.5))
    return tuple((weights / weights.sum()).tolist()), tuple(np.sort(rng.gamma(1.0, 0.5, size)).tolist())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [2, 7, 100])
def test_delta_of_a_revealed_mixture_is_the_average_of_its_components(seed: int, size: int) -> None:
    weights, mus = random_mixture(seed, size)
    pair = LossDistribution(((GaussianMixturePair(weights, mus), 1),))
    for epsilon in (0.0, 0.1, 1.0, 4.0):
        low, high = gaussian.delta_range(np.array(mus), epsilon)
        bracket = pair.delta_bracket(epsilon)
        assert bracket.low <= np.dot(weights, high)
        assert np.dot(weights, low) <= bracket.high <= np.dot(weights, high) * 1.02 + 1e-14


@pytest.mark.parametrize("seed", range(3))
def test_composed_with_others_a_gaussian_mixture_agrees_with_the_general_one(seed: int) -> None:
    weights, mus = random_mixture(seed, 6)
    others = ((WithoutReplacementPair(0.05, 0.7), 20), (GaussianPair(0.3), 1))
    general = MixturePair(weights, tuple(((GaussianPair(mu), 1),) for mu in mus))
    one, other = (
        LossDistribution(((pair, 2), *others)).epsilon_bracket(1e-5)
        for pair in (GaussianMixturePair(weights, mus), general)
    )
    assert one.low <= other.high
    assert other.low <= one.high


def test_components_without_loss_and_rare_huge_ones() -> None:
    """The first is an atom; the second costs its probability, and no accuracy."""
    still = LossDistribution(((GaussianMixturePair((0.25, 0.75), (0.0, 1.0)), 1),)).delta_bracket(0.5)
    low, high = gaussian.delta_range(1.0, 0.5)
    assert 0.75 * float(low) <= still.high
    assert still.low <= 0.75 * float(high)
    rare = LossDistribution(((GaussianMixturePair((0.5, 0.5 - 1e-15, 1e-15), (0.01, 0.02, 50.0)), 1),))
    plain = LossDistribution(((GaussianMixturePair((0.5, 0.5), (0.01, 0.02)), 1),))
    bracket = rare.epsilon_bracket(1e-5)
    assert bracket.relative_width < 2e-3
    assert bracket.high <= plain.epsilon(1e-5) * 1.002
    assert rare.epsilon(1e-16) > 100


@pytest.mark.parametrize(
    ("weights", "mus"),
    [((1.0,), ()), ((0.4, 0.5), (1.0, 2.0)), ((1.0,), (-1.0,)), ((1.0,), (0.0,)), ((-1.0, 2.0), (1.0, 1.0))],
)
def test_bad_mixtures_are_refused(weights: tuple[float, ...], mus: tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        GaussianMixturePair(weights, mus)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_brackets_stay_narrow_down_to_the_smallest_floats(name):
    brackets = [LossDistribution(COMPOSITIONS[name]).epsilon_bracket(delta) for delta in DELTAS]
    assert all(math.isfinite(bracket.high) for bracket in brackets)
    assert all(bracket.high - bracket.low <= 2e-3 * bracket.high for bracket in brackets)
    assert all(first.high < second.low for first, second in itertools.pairwise(brackets))


def test_tiny_deltas_of_a_sampled_gaussian_lie_below_renyi_and_of_a_lone_gaussian_at_its_closed_form():
    curve = RenyiDP(ORDERS, tuple(1000 * poisson_renyi(order, 0.01, 1.0, Relation.ADD_REMOVE) for order in ORDERS))
    lone = GaussianMixturePair((0.5, 0.5), (0.3, 0.3 * (1 + 1e-12)))
    for delta in DELTAS:
        assert LossDistribution(COMPOSITIONS["poisson"]).epsilon_bracket(delta).high < curve.epsilon(delta)
        bracket, exact = LossDistribution(((lone, 10),)).epsilon_bracket(delta), epsilon_upper(0.3 * 10**0.5, delta)
        assert bracket.low <= exact * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= bracket.high <= exact * (1 + 2e-3)


@pytest.mark.parametrize("epsilon", [1.5e-323, 1e-300, 1e-200])
def test_a_loss_of_next_to_nothing_beside_a_gaussian_costs_nothing(epsilon: float) -> None:
    """Its lattice is so fine that no spacing is a multiple of it; that is no reason to stop."""
    together = LossDistribution(((ResponsePair(epsilon, 5e-324), 1), (GaussianPair(1.0), 1)))
    bracket = together.epsilon_bracket(1e-5)
    assert bracket.low <= epsilon_upper(1.0, 1e-5) <= bracket.high <= epsilon_upper(1.0, 1e-5) * 1.002


@pytest.mark.parametrize(("rate", "uses", "most"), [(1e-6, 1000, 0.025), (1e-12, 10**6, 8e-8)])
def test_rare_jumps_do_not_hide_the_bulk(rate, uses, most):
    """At delta 1e-20; one use alone has delta = q times that of the Gaussian at its loss."""
    bracket = LossDistribution(((PoissonRemovePair(rate, 1.0), uses),)).epsilon_bracket(1e-20)
    alone = math.log1p(rate * math.expm1(epsilon_upper(1.0, 1e-20 / rate) * (1 - 1e-9)))
    assert bracket.low <= bracket.high
    assert alone <= bracket.high <= most
