"""A revealed choice between Gaussians: delta is the average of theirs, alone and composed."""

import numpy as np
import pytest

from sordino.core import gaussian
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.mixture_pairs import GaussianMixturePair, MixturePair
from sordino.core.loss.normal_pairs import GaussianPair, WithoutReplacementPair
from sordino.core.validate import InputError


def random_mixture(seed: int, size: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(size, 0.5))
    return tuple((weights / weights.sum()).tolist()), tuple(np.sort(rng.gamma(1.0, 0.5, size)).tolist())


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [2, 7, 100])
def test_delta_is_the_average_of_the_components(seed: int, size: int) -> None:
    weights, mus = random_mixture(seed, size)
    pair = LossDistribution(((GaussianMixturePair(weights, mus), 1),))
    for epsilon in (0.0, 0.1, 1.0, 4.0):
        low, high = gaussian.delta_range(np.array(mus), epsilon)
        bracket = pair.delta_bracket(epsilon)
        assert bracket.low <= np.dot(weights, high)
        assert np.dot(weights, low) <= bracket.high
        assert bracket.high <= np.dot(weights, high) * 1.02 + 1e-14


@pytest.mark.parametrize("seed", range(3))
def test_composed_with_others_it_agrees_with_the_general_mixture(seed: int) -> None:
    weights, mus = random_mixture(seed, 6)
    others = ((WithoutReplacementPair(0.05, 0.7), 20), (GaussianPair(0.3), 1))
    special = LossDistribution(((GaussianMixturePair(weights, mus), 2), *others))
    general = MixturePair(weights, tuple(((GaussianPair(mu), 1),) for mu in mus))
    same = LossDistribution(((general, 2), *others)).epsilon_bracket(1e-5)
    found = special.epsilon_bracket(1e-5)
    assert found.low <= same.high
    assert same.low <= found.high


def test_a_component_without_any_loss_is_an_atom() -> None:
    found = LossDistribution(((GaussianMixturePair((0.25, 0.75), (0.0, 1.0)), 1),)).delta_bracket(0.5)
    assert 0.75 * float(gaussian.delta_range(1.0, 0.5)[0]) <= found.high
    assert found.low <= 0.75 * float(gaussian.delta_range(1.0, 0.5)[1])


def test_a_rare_huge_component_costs_its_probability_and_no_accuracy() -> None:
    rare = GaussianMixturePair((0.5, 0.5 - 1e-15, 1e-15), (0.01, 0.02, 50.0))
    plain = LossDistribution(((GaussianMixturePair((0.5, 0.5), (0.01, 0.02)), 1),))
    found = LossDistribution(((rare, 1),)).epsilon_bracket(1e-5)
    assert found.relative_width < 2e-3
    assert found.high <= plain.epsilon(1e-5) * 1.002
    assert LossDistribution(((rare, 1),)).epsilon(1e-16) > 100


@pytest.mark.parametrize(
    ("weights", "mus"),
    [((1.0,), ()), ((0.4, 0.5), (1.0, 2.0)), ((1.0,), (-1.0,)), ((1.0,), (0.0,)), ((-1.0, 2.0), (1.0, 1.0))],
)
def test_bad_mixtures_are_refused(weights: tuple[float, ...], mus: tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        GaussianMixturePair(weights, mus)
