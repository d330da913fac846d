"""The truths the harness compares with: cells against the library's own exact divergences, and projected laws."""

import numpy as np
import pytest

from papers.framework.renyi import renyi
from sordino.models.exact import GaussianLaw, GaussianMixtureLaw, LineMixture, hockey_stick
from sordino.models.exact.line import NORMAL
from tests.models.exact.laws import mixture_of
from tests.soundness.cells import CellTruth
from tests.soundness.interval import law_on_interval
from tests.soundness.truth import GaussianTruth, truth_between

EPSILONS = (0.0, 0.3, 1.0, 3.0)


def mixture(rng: np.random.Generator, dim: int, covariance: np.ndarray | None = None) -> GaussianMixtureLaw:
    count = int(rng.integers(1, 6))
    if covariance is None:
        covariances = rng.uniform(0.5, 1.0, count)[:, None, None] * np.eye(dim)
    else:
        covariances = np.tile(covariance, (count, 1, 1))
    return GaussianMixtureLaw(rng.dirichlet(np.ones(count)), rng.normal(size=(count, dim)), covariances)


@pytest.mark.parametrize("seed", range(8))
def test_cells_on_the_line_are_just_below_the_exact_divergences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = mixture(rng, 1), mixture(rng, 1)
    truth = CellTruth.between(first, second)
    for epsilon in EPSILONS:
        brackets = [hockey_stick(a, b, epsilon) for a, b in ((first, second), (second, first))]
        exact = max(bracket.high for bracket in brackets)
        assert exact * (1 - 1e-4) - 1e-9 <= truth.delta(epsilon) <= exact
    for order in (1.1, 1.4):
        exact = max(renyi(first, second, order), renyi(second, first, order))
        assert truth.renyi(order) <= exact * (1 + 1e-9)
        assert not np.isfinite(exact) or truth.renyi(order) >= exact * (1 - 1e-3)


@pytest.mark.parametrize("dim", [2, 3])
def test_cells_in_space_are_just_below_the_exact_divergences_of_gaussians(dim: int) -> None:
    rng = np.random.default_rng(dim)
    root = rng.normal(size=(dim, dim)) + 2 * np.eye(dim)
    means = 0.5 * rng.normal(size=(2, dim))
    laws = [GaussianLaw(mean, root @ root.T) for mean in means]
    exact = GaussianTruth(*laws)
    cells = CellTruth.between(*(mixture_of(law) for law in laws))
    for epsilon in EPSILONS:
        assert exact.delta(epsilon) * (1 - 1e-4) - 1e-12 <= cells.delta(epsilon) <= exact.delta(epsilon) * (1 + 1e-9)
    assert cells.renyi(4.0) == pytest.approx(exact.renyi(4.0), rel=1e-4)
    assert cells.renyi(4.0) <= exact.renyi(4.0) * (1 + 1e-9)


def test_cells_in_space_of_a_product_add_up() -> None:
    """Two coordinates that are independent of each other: Rényi divergences add, and delta lies between."""
    rng = np.random.default_rng(5)
    weights, places = np.array([0.3, 0.7]), rng.normal(size=(2, 2, 2))

    def line(k: int, side: int) -> GaussianMixtureLaw:
        return GaussianMixtureLaw(weights, places[side, :, k, None], np.ones((2, 1, 1)))

    def plane(side: int) -> GaussianMixtureLaw:
        grid = np.array([[places[side, i, 0], places[side, j, 1]] for i in range(2) for j in range(2)])
        return GaussianMixtureLaw(np.outer(weights, weights).reshape(-1), grid, np.tile(np.eye(2), (4, 1, 1)))

    both = truth_between(plane(0), plane(1))
    first, second = (CellTruth.between(line(k, 0), line(k, 1)) for k in range(2))
    for order in (1.5, 3.0):
        forward = [renyi(line(k, 0), line(k, 1), order) for k in range(2)]
        backward = [renyi(line(k, 1), line(k, 0), order) for k in range(2)]
        assert both.renyi(order) == pytest.approx(max(sum(forward), sum(backward)), rel=1e-3)
    for epsilon in EPSILONS:
        assert max(first.delta(epsilon), second.delta(epsilon)) <= both.delta(epsilon) + 1e-6


def test_components_with_different_covariances_are_refused_in_space() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="one covariance"):
        CellTruth.between(mixture(rng, 2), mixture(rng, 2))


def test_a_projected_chain_whose_walls_are_out_of_reach_is_a_gaussian_chain() -> None:
    maps = [lambda x: 0.5 * x + 0.2] * 3
    scales = [0.5, 0.6, 0.7]
    law = law_on_interval(maps, scales, 5.0, 1.0)
    mean, variance = 1.0, 0.0
    for scale in scales:
        mean, variance = 0.5 * mean + 0.2, 0.25 * variance + scale**2
    points = np.linspace(-3, 3, 21)
    expected = LineMixture(NORMAL, np.ones(1), np.array([mean]), np.array([np.sqrt(variance)]))
    assert np.allclose(law.density(points), expected.density(points), rtol=1e-10, atol=0)


def test_a_projected_chain_agrees_with_simulation() -> None:
    """400,000 draws; the cdf at five points within 5 standard errors (false alarms below 1e-5)."""
    rng = np.random.default_rng(3)

    def drift(x: np.ndarray) -> np.ndarray:
        return x - 0.8 * np.clip(2 * x - 1.0, -0.5, 0.5)

    law = law_on_interval([drift] * 4, [0.3] * 4, 1.0, 0.9, kinks=[0.25, 0.75])
    theta = np.full(400_000, 0.9)
    for _ in range(4):
        theta = np.clip(drift(theta) + 0.3 * rng.standard_normal(theta.size), -1.0, 1.0)
    for point in (-0.8, -0.3, 0.1, 0.5, 0.9):
        exact = float(law.cdf(np.array([point]))[0])
        error = np.sqrt(exact * (1 - exact) / theta.size)
        assert abs(float((theta <= point).mean()) - exact) < 5 * error
