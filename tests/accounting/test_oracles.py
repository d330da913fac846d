"""Against other people's accountants: dp-accounting always; prv-accountant and autodp where they are installed.

Their traps: multipliers are relative to the clip norm in dp-accounting's PLD under
replace-one, but to the relation's own sensitivity in its Rényi accountant.
"""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.privacy_accountant import NeighboringRelation

from sordino.core.guarantee import LossDistribution
from sordino.core.loss.atomic_pairs import DiscreteGaussianPair, DiscreteLaplacePair, ExplicitPair
from sordino.core.loss.mixture_pairs import RandomShiftPair
from sordino.core.loss.normal_pairs import PoissonRemovePair, PoissonReplacePair

GRID = [(0.01, 1.0, 200), (0.1, 1.5, 50), (0.3, 0.8, 10)]


def bounds(build, count, delta):
    """[optimistic, pessimistic] epsilon of dp-accounting's loss distribution."""
    return [
        build(pessimistic_estimate=side, value_discretization_interval=1e-3)
        .self_compose(count)
        .get_epsilon_for_delta(delta)
        for side in (False, True)
    ]


def overlaps(bracket, low, high):
    # Their float rounding is not accounted for; ours is.
    return bracket.low <= high * (1 + 1e-9) and bracket.high >= low * (1 - 1e-9)


@pytest.mark.parametrize(("rate", "multiplier", "count"), GRID)
@pytest.mark.parametrize("delta", [1e-7, 1e-4])
def test_poisson_add_remove_overlaps_dp_accounting(rate, multiplier, count, delta):
    low, high = bounds(
        lambda **options: pld.from_gaussian_mechanism(multiplier, sampling_prob=rate, **options), count, delta
    )
    ours = LossDistribution(((PoissonRemovePair(rate, 1 / multiplier), count),)).epsilon_bracket(delta)
    assert overlaps(ours, low, high)
    assert ours.width <= high - low + 1e-3 * high


@pytest.mark.parametrize(("rate", "multiplier", "count"), GRID)
def test_poisson_replace_one_overlaps_dp_accounting(rate, multiplier, count):
    low, high = bounds(
        lambda **options: pld.from_gaussian_mechanism(
            multiplier, sampling_prob=rate, neighboring_relation=NeighboringRelation.REPLACE_ONE, **options
        ),
        count,
        1e-5,
    )
    ours = LossDistribution(((PoissonReplacePair(rate, 1 / multiplier), count),)).epsilon_bracket(1e-5)
    assert overlaps(ours, low, high)


MECHANISMS = {
    "discrete laplace": (DiscreteLaplacePair(0.3, 2), lambda **o: pld.from_discrete_laplace_mechanism(0.3, 2, **o)),
    "discrete gaussian": (DiscreteGaussianPair(4.0, 1), lambda **o: pld.from_discrete_gaussian_mechanism(4.0, 1, **o)),
    "randomised response": (
        # Theirs keeps the truth with probability 1/2 + 1/8, and tells any of four categories else.
        ExplicitPair((-np.log(5.0), 0.0, np.log(5.0)), (0.125, 0.25, 0.625), 0.0),
        lambda **o: pld.from_randomized_response(0.5, 4, **o),
    ),
    "mixture of Gaussians": (
        RandomShiftPair((0.97, 0.02, 0.01), (0.0, 0.5, 1.0)),
        # Coarser than the others: theirs takes four seconds at 1e-3, and is known to .002 here.
        lambda **o: pld.from_mixture_gaussian_mechanism(
            2.0, [0.0, 1.0, 2.0], [0.97, 0.02, 0.01], **o | {"value_discretization_interval": 4e-3}
        ),
    ),
}


@pytest.mark.parametrize("count", [1, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_overlap_dp_accounting(name, count):
    pair, build = MECHANISMS[name]
    low, high = bounds(build, count, 1e-4)
    ours = LossDistribution(((pair, count),)).epsilon_bracket(1e-4)
    assert overlaps(ours, low, high)
    assert ours.high <= 1.01 * high + 1e-3
