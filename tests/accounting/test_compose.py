"""Composition is associative and commutative, counts like a list, and mixes like an average."""

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting.convert import compose, mix, repeat, to_renyi
from sordino.core.guarantee import ApproxDP, GaussianDP, LossDistribution, PureDP, RenyiDP, TotalVariation
from sordino.core.loss.atomic_pairs import LaplacePair
from sordino.core.loss.normal_pairs import PoissonRemovePair
from sordino.core.validate import InputError
from tests.core.loss.exact import gaussian_delta, laplace_delta, response_delta

SETTINGS = settings(derandomize=True, deadline=None, max_examples=60)

POISSON = LossDistribution(((PoissonRemovePair(0.1, 1.0), 5),))
LAPLACE = LossDistribution(((LaplacePair(0.5), 1),))
PARTS = [GaussianDP(0.3), PureDP(0.2), ApproxDP(0.1, 1e-7), TotalVariation(1e-6), POISSON, LAPLACE]
CURVE = to_renyi(GaussianDP(0.4))

pair_guarantees = st.sampled_from(PARTS)
gaussians = st.builds(GaussianDP, st.floats(1e-180, 1e3))


def listed(guarantees):
    return [(guarantee, 1) for guarantee in guarantees]


@SETTINGS
@given(a=pair_guarantees, b=pair_guarantees, c=pair_guarantees)
def test_composition_of_pairs_is_associative_and_commutative_exactly(a, b, c):
    together = compose(listed([POISSON, a, b, c]))
    left = compose(listed([compose(listed([compose(listed([POISSON, a])), b])), c]))
    right = compose(listed([compose(listed([POISSON, c])), compose(listed([LossDistribution(()), a, b]))]))
    assert together == left == right
    assert together.factors == left.factors
    assert all(compose(listed(order)) == together for order in permutations([POISSON, a, b, c]))


@SETTINGS
@given(parts=st.lists(gaussians, min_size=2, max_size=5))
def test_gaussians_commute_exactly_and_associate_to_rounding(parts):
    together = compose(listed(parts))
    assert isinstance(together, GaussianDP)
    assert all(compose(listed(order)) == together for order in permutations(parts))
    nested = compose([(compose(listed(parts[:2])), 1), *listed(parts[2:])])
    assert nested.mu == pytest.approx(together.mu, rel=1e-14)


def test_tiny_signals_are_not_lost():
    """1e-200 squared underflows; the composition must not be perfectly private."""
    assert repeat(GaussianDP(1e-200), 4).mu >= 2e-200


@pytest.mark.parametrize("count", [0, -2, 1.5, True])
def test_bad_counts_are_refused(count):
    with pytest.raises(InputError, match="count"):
        repeat(GaussianDP(1.0), count)


def test_pure_guarantees_compose_optimally():
    """Kairouz, Oh & Viswanath: k-fold composition is the binomial formula, not k epsilon."""
    composed = repeat(PureDP(0.1), 40)
    for epsilon in (0.0, 1.0, 2.0):
        exact = response_delta(0.1, 0.0, 40, epsilon)
        assert exact <= composed.delta(epsilon) <= 1.02 * exact
    assert composed.epsilon(1e-5) < 3.0


def test_a_renyi_curve_takes_the_others_along():
    composed = compose([(CURVE, 2), (PureDP(0.1), 1), (GaussianDP(0.2), 3)])
    assert isinstance(composed, RenyiDP)
    for order in (1.5, 8.0, 64.0):
        least = 2 * order * 0.16 / 2 + 3 * order * 0.04 / 2
        assert least < composed.at(order) < least + min(0.1, order * 0.01 / 2) * 1.01 + 1e-9


def test_failure_probabilities_add():
    curve = RenyiDP((2.0, 4.0), (0.1, 0.2), 1e-6)
    assert repeat(curve, 3).failure >= 3e-6
    assert repeat(curve, 3).failure == pytest.approx(3e-6)
    assert repeat(RenyiDP((2.0,), (0.1,), 0.9), 2).failure == 1.0


def test_a_mixture_has_the_average_delta():
    mixed = mix((0.25, 0.25, 0.5), (GaussianDP(1.0), LAPLACE, ApproxDP(0.3, 1e-4)))
    for epsilon in (0.0, 0.2, 0.45, 2.0):
        exact = (
            gaussian_delta(1.0, epsilon) / 4
            + laplace_delta(0.5, epsilon) / 4
            + response_delta(0.3, 1e-4, 1, epsilon) / 2
        )
        bracket = mixed.delta_bracket(epsilon)
        assert bracket.low <= exact <= bracket.high
        assert bracket.relative_width <= 0.03


def test_a_mixture_composes():
    """Two draws, each revealed: delta is the average over the four outcomes."""
    mixed = repeat(mix((0.5, 0.5), (GaussianDP(0.6), GaussianDP(0.8))), 2)
    for epsilon in (0.1, 1.0, 2.5):
        exact = (
            gaussian_delta(math.sqrt(0.72), epsilon) / 4
            + gaussian_delta(1.0, epsilon) / 2
            + gaussian_delta(math.sqrt(1.28), epsilon) / 4
        )
        bracket = mixed.delta_bracket(epsilon)
        assert bracket.low <= exact <= bracket.high
        assert bracket.relative_width <= 0.03
