"""Exact posterior draws: the bounds of strongly log-concave and bounded posteriors against integrals on a grid."""

import math

import numpy as np
import pytest

from sordino.accounting.convert import compose, repeat, to_loss_distribution, to_renyi
from sordino.accounting.evaluate import Theorem, evaluate
from sordino.accounting.theorems.posterior import bounded, bounded_pure, bounded_range, strongly_log_concave
from sordino.core.bound import Bound
from sordino.core.guarantee import BoundedRange, Guarantee, PureDP
from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw, hockey_stick

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def draw(theorem: Theorem, draws: int = 1, **potential: object) -> Guarantee:
    spec = Spec.from_dict(
        {
            "algorithm": {"kind": "posterior-sample", "potential": potential, "draws": draws},
            "relation": "replace-one",
            "view": "one-sample",
        }
    )
    answer = evaluate(theorem, spec)
    assert isinstance(answer, Bound), answer.reason
    return answer.guarantee


def grid_delta(points: np.ndarray, first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """The larger hockey-stick divergence of densities e^-F and e^-F' given on a grid."""
    p, q = (np.exp(values.min() - values) for values in (first, second))
    p, q = p / np.trapezoid(p, points), q / np.trapezoid(q, points)
    ways = ((p, q), (q, p))
    return max(float(np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0.0), points)) for a, b in ways)


@pytest.mark.parametrize("dim", [1, 3])
def test_shifted_gaussian_posteriors_attain_the_bound(dim):
    rng = np.random.default_rng(dim)
    for precision in (0.3, 4.0, 100.0):
        shift = rng.normal(size=dim)
        first, second = (GaussianLaw(centre, np.eye(dim) / precision) for centre in (0 * shift, shift))
        lipschitz = precision * float(np.linalg.norm(shift))
        found = draw(strongly_log_concave, kind="strongly-log-concave", lipschitz=lipschitz, strong_convexity=precision)
        for epsilon in EPSILONS:
            exact = hockey_stick(first, second, epsilon)
            assert exact.low <= found.delta(epsilon)
            assert found.delta(epsilon) == pytest.approx(exact.high, rel=1e-9, abs=1e-300)


def test_strongly_log_concave_posteriors_on_a_grid_stay_below_the_bound():
    rng = np.random.default_rng(0)
    points = np.linspace(-30, 30, 60_001)
    for _ in range(40):
        convexity, slope = rng.uniform(0.2, 3.0), rng.uniform(0.2, 3.0)
        # A convex part on top of the parabola, and a difference with slopes between -L and L.
        extra = rng.uniform(0, 3) * np.abs(points - rng.normal()) + rng.uniform(0, 1) * np.maximum(points, 0) ** 2
        lean = slope * np.clip(points - rng.normal(), *np.sort(rng.normal(0, 3, 2)))
        first = convexity / 2 * points**2 + extra
        # Both potentials must be strongly convex: the difference only bends inside the parabola's own curvature.
        second = first + (lean if rng.random() < 0.3 else slope * rng.choice([-1, 1]) * points)
        bent = np.diff(second, 2) / (points[1] - points[0]) ** 2
        if bent.min() < convexity - 1e-6:
            continue
        found = draw(strongly_log_concave, kind="strongly-log-concave", lipschitz=slope, strong_convexity=convexity)
        for epsilon in EPSILONS:
            assert grid_delta(points, first, second, epsilon) <= found.delta(epsilon) + 1e-7


def test_bounded_posteriors_on_a_grid_stay_below_both_bounds():
    rng = np.random.default_rng(1)
    for _ in range(40):
        diameter, slope = rng.uniform(0.2, 4.0), rng.uniform(0.1, 3.0)
        points = np.linspace(0, diameter, 20_001)
        first = rng.uniform(-3, 3) * points + rng.uniform(0, 2) * points**2
        second = first + slope * rng.choice([-1, 1]) * points
        for theorem in (bounded, bounded_pure):
            found = draw(theorem, kind="bounded", lipschitz=slope, diameter=diameter)
            for epsilon in EPSILONS:
                assert grid_delta(points, first, second, epsilon) <= found.delta(epsilon) + 1e-8


def two_point_delta(width: float, top: float, draws: int, epsilon: float) -> float:
    """delta of `draws` uses of the pair with losses top and top - width, summed term by term."""
    chance = math.expm1(top - width) / math.expm1(-width)
    return math.fsum(
        math.comb(draws, lows)
        * chance ** (draws - lows)
        * (1 - chance) ** lows
        * max(0.0, -math.expm1(epsilon - draws * top + lows * width))
        for lows in range(draws + 1)
    )


@pytest.mark.parametrize(
    ("lipschitz", "draws", "reachable"), [(1.0, 10, 7.105), (0.1, 100, 1.989), (0.02, 2500, 1.993)]
)
def test_reference_values_of_bounded_ranges(lipschitz, draws, reachable):
    found = draw(bounded_range, draws, kind="bounded", lipschitz=lipschitz, diameter=1.0)
    assert found.epsilon(1e-5) == pytest.approx(reachable, rel=1e-3)
    assert found.epsilon(1e-5) < 0.75 * repeat(PureDP(lipschitz), draws).epsilon(1e-5)


@pytest.mark.every(3)
@pytest.mark.parametrize("draws", [1, 2, 5, 12])
@pytest.mark.parametrize("width", [0.05, 0.7, 3.0])
def test_a_bounded_range_is_the_worst_of_all_two_point_laws(width, draws):
    """A fine grid of t finds no larger delta, and comes as near as its spacing allows."""
    found = BoundedRange(width, draws)
    for epsilon in (0.0, 0.1 * width, 0.5 * width * draws, 0.9 * width * draws):
        grid = max(two_point_delta(width, share * width, draws, epsilon) for share in np.linspace(1e-6, 1 - 1e-6, 801))
        assert grid <= found.delta(epsilon)
        assert found.delta(epsilon) == pytest.approx(grid, rel=1e-3)


def test_a_bounded_range_as_a_pair_and_as_a_curve_is_no_smaller():
    for found in (BoundedRange(0.5), BoundedRange(0.5, 20), BoundedRange(2.0, 3)):
        for epsilon in (0.0, 0.3, 1.0, 4.0):
            assert found.delta(epsilon) <= to_loss_distribution(found).delta(epsilon)
            assert found.delta(epsilon) <= to_renyi(found).delta(epsilon)
        # Different laws share no interval: composed they cost more than draws from one.
        assert compose([(found, 2)]).epsilon(1e-5) > repeat(found, 2).epsilon(1e-5)
