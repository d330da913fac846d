"""Random allocation and drawing with replacement: brackets hold the exact values, by quadrature or enumeration."""

import json
import math
from itertools import product
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

from sordino.accounting.evaluate import explain
from sordino.core.guarantee import LossDistribution
from sordino.core.loss import allocation
from sordino.core.loss.allocation import AllocationPair
from sordino.core.loss.mixture_pairs import MixturePair, WithReplacementPair
from sordino.core.loss.normal_pairs import PoissonRemovePair, WithoutReplacementPair
from sordino.core.loss.pair import GridLaw, Pair
from sordino.core.spec import Spec

EXAMPLES = Path(__file__).parents[3] / "examples/specs"


def bracket(pair: Pair, epsilon: float, count: int = 1) -> tuple[float, float]:
    found = LossDistribution(((pair, count),)).delta_bracket(epsilon)
    return found.low, found.high


def exact(total: int, done: int, mu: float, epsilon: float) -> float:
    """The larger direction, by the trapezium rule in one or two dimensions; relative error below 1e-6."""
    z = np.linspace(-9, 9 + mu, 3001)
    weights, x = stats.norm.pdf(z) * (z[1] - z[0]), np.exp(mu * z - mu * mu / 2)
    ratio = 1 + (x - 1) / total if done == 1 else 1 + (x[:, None] + x[None, :] - 2) / total
    mass = weights if done == 1 else weights[:, None] * weights[None, :]
    y = math.exp(epsilon)
    return max(float((np.maximum(ratio - y, 0) * mass).sum()), float((np.maximum(1 - y * ratio, 0) * mass).sum()))


@pytest.mark.parametrize(
    ("total", "done", "mu"),
    [(10, 1, 0.7), (2, 2, 0.3), (5, 2, 1.2), (2, 1, 1.2), (1, 1, 1.0), *((2, 2, mu) for mu in (2e-4, 1e-4, 1e-5))],
)
def test_short_rounds_are_bracketed_by_quadrature(total: int, done: int, mu: float) -> None:
    for epsilon in (0.0, 0.1, 0.5):
        low, high = bracket(AllocationPair(total, done, mu), epsilon)
        truth = exact(total, done, mu, epsilon)
        assert low <= truth * (1 + 1e-6)
        assert truth <= high * (1 + 1e-6)
        assert high <= 1.02 * low + 2e-8


def exact_replacement(mu: float, epsilon: float, first: float, second: float) -> float:
    """Two steps, moves of `first` and `second` with one sign each way, by Gauss-Hermite quadrature inside a sum."""
    z = np.linspace(-10, 10, 6001)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    y = math.exp(epsilon)
    gain = np.exp(first * z - first * first / 2) - y * np.exp(second * z - second * second / 2)
    order = np.argsort(gain)
    values, masses = gain[order], weight[order]
    # E (a + b)+ over independent copies: for each value the tail above minus it, from cumulative sums.
    tail, mean = np.cumsum(masses[::-1])[::-1], np.cumsum((values * masses)[::-1])[::-1]
    place = np.searchsorted(values, -values)
    inside = place < len(values)
    at = np.minimum(place, len(values) - 1)
    return float((masses * inside * (values * tail[at] + mean[at])).sum()) / 2


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_a_replaced_record_in_two_steps_is_bounded_by_quadrature(mu: float) -> None:
    """The opposite moves of full length are bounded closely; shorter moves, and moves the same way, are smaller."""
    for epsilon in (0.0, 0.5, 1.5):
        found = allocation.replaced_delta(2, mu, epsilon)
        truth = exact_replacement(mu, epsilon, mu, -mu)
        assert truth * (1 - 1e-5) <= found <= truth * 1.002 + 1e-12
        for first, second in ((mu, mu / 2), (mu, 0.0), (mu / 2, -mu), (mu, -mu / 3)):
            assert exact_replacement(mu, epsilon, first, second) <= truth * (1 + 1e-5)


@pytest.mark.slow
def test_rounds_too_long_for_the_curve_of_a_replacement_count_as_two_changes() -> None:
    """Either side of the longest round: both are bounds, and the longer round is the looser one."""
    longest = allocation._MOST_REPLACED
    assert allocation.replaceable(longest, 0.5)
    assert not allocation.replaceable(longest + 1, 0.5)
    spec = json.loads((EXAMPLES / "random-allocation-replace-one.json").read_text("utf-8"))
    said = []
    for length in (longest, longest + 1):
        spec["algorithm"] |= {"steps": length, "batch": {"scheme": "random-allocation", "size": 1}}
        spec["algorithm"]["noise"]["scale"] = 2 * spec["algorithm"]["step_size"]
        spec["problem"]["n"] = length
        spec["problem"]["gradient_bound"], spec["algorithm"]["clipping"] = 1.0, None
        spec["problem"]["gradient_sensitivity"] = 2.0
        found = {bound.theorem: epsilon for bound, epsilon in explain(Spec.from_dict(spec), 1e-5).bounds}
        said.append(found["composition.random-allocation"])
    assert 0 < said[0] < said[1] < 3 * said[0]


@pytest.mark.parametrize(("count", "chance"), [(2, 0.3), (511, 0.5), (513, 1e-3), (200_000, 0.01), (10**6, 0.9)])
def test_sums_of_two_points_are_binomial(count: int, chance: float) -> None:
    """However many are summed, what is said of the error holds, and it is small."""
    law = GridLaw(1.0, -1, np.array([1 - chance, chance]), 0.0, 0.0, 0.0, 0.0, 0.0)
    first, masses, error = allocation.summed(law, count)
    places = np.arange(first, first + len(masses)) + count
    inside = (places >= 0) & (places <= count)
    exact = np.where(inside, stats.binom.pmf(places, count, chance), 0.0)
    # 1 - chance is a float of its own; the reference is good to 1e-12 a place.
    assert np.abs(masses - exact).sum() <= error + 1e-11
    assert error < 2e-15 * count + 1e-12


def test_transforms_are_as_near_as_is_said() -> None:
    generator, length = np.random.default_rng(20260401), 256
    for heavy in (0.5, 3.0, 12.0):
        masses = np.exp(-heavy * generator.exponential(size=200))
        masses /= masses.sum()
        middle, base, doubt = allocation._transform(masses, length, allocation._TRANSFORM * 8)
        assert doubt[0] < doubt[-1] == allocation._TRANSFORM * 8
        for frequency in (0, 1, 2, 5, 40, 128):
            turns = [mp.mpf(2 * frequency * (place - middle)) / length for place in range(200)]
            exact = mp.fsum(mp.mpf(float(m)) * mp.expjpi(-turn) for m, turn in zip(masses, turns, strict=True))
            assert abs(exact - mp.mpc(complex(base[frequency]))) <= doubt[frequency]


def test_a_common_run_has_an_answer() -> None:
    """A million records in batches of 256: what is known from below is nothing, and that is no reason to stop."""
    found = LossDistribution(((AllocationPair(3906, 3906, 1 / 1.1), 1),)).epsilon(1e-6)
    assert 0.05 < found < 0.08


@pytest.mark.slow
def test_large_moves_are_bounded_from_both_sides() -> None:
    """At 1.65 noises a use the grid is as coarse as memory wants: still narrow, and above a lower end."""
    found = LossDistribution(((AllocationPair(4000, 4000, 1.65), 1),)).epsilon_bracket(1e-5)
    assert 0.5 < found.low < found.high < 1.02 * found.low


def test_long_rounds_agree_with_draws() -> None:
    """A hundred steps at mu 1: 400,000 draws of R, five standard errors on each side (false alarms below 1e-6)."""
    generator = np.random.default_rng(0)
    x = np.concatenate([np.exp(generator.standard_normal((20_000, 100)) - 0.5).mean(axis=1) for _ in range(20)])
    for epsilon in (0.1, 0.3):
        draws = np.maximum(x - math.exp(epsilon), 0)
        low, high = bracket(AllocationPair(100, 100, 1.0), epsilon)
        error = 5 * float(draws.std()) / math.sqrt(len(x))
        assert low - error <= float(draws.mean()) <= high + error


def replaced(size: int, records: int, mu: float, epsilon: float) -> float:
    """Others at 0, the record at 0 or moving by mu: delta of the mixture over its uses, by cells."""
    uses = np.arange(size + 1)
    weights = stats.binom.pmf(uses, size, 1 / records)
    cuts = np.linspace(-10, 10 + size * mu, 20_001)
    cells = np.diff(special.ndtr(cuts[:, None] - mu * uses), axis=0)
    p, q, y = cells @ weights, cells[:, 0], math.exp(epsilon)
    return max(float(np.maximum(p - y * q, 0).sum()), float(np.maximum(q - y * p, 0).sum()))


@pytest.mark.every(3)
@pytest.mark.parametrize(("size", "records", "mu"), [*product((1, 3, 40), (2, 50), (0.3, 1.5))])
def test_drawing_with_replacement_is_above_its_extremal_neighbours(size: int, records: int, mu: float) -> None:
    """Of neighbours whose other records do not move; one draw attains the curve, at epsilon 0 all come near it."""
    for epsilon in (0.0, 0.2, 1.0):
        low, high = bracket(WithReplacementPair(size, records, mu), epsilon)
        truth = replaced(size, records, mu, epsilon)
        assert truth <= high * (1 + 1e-9) + 1e-12
        assert (size > 1 and epsilon > 0) or low <= truth * (1.0 if size == 1 else 1.3) + 1e-9


def test_one_draw_with_replacement_is_one_without() -> None:
    for epsilon in (0.0, 0.3, 1.0):
        with_replacement = bracket(WithReplacementPair(1, 20, 1.0), epsilon)
        np.testing.assert_allclose(with_replacement, bracket(WithoutReplacementPair(0.05, 1.0), epsilon), rtol=2e-3)


def test_components_of_very_different_widths_mix() -> None:
    """A step that moves by many noises: its reverse is narrow beyond floating point, a rare swap is not."""
    own, other = PoissonRemovePair(0.3, 30.0), PoissonRemovePair(0.3, 60.0)
    low, high = bracket(MixturePair((0.9, 0.1), (((own, 1),), ((other, 1),))), 0.2)
    assert low <= 0.3 <= high * (1 + 1e-9)
    assert high <= 0.302
