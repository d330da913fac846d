"""No conversion creates privacy: delta after is never below the exact delta before, at any epsilon."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino import InputError, Relation
from sordino.accounting.convert import group_of, replace_one_from_add_remove, to_loss_distribution, to_renyi
from sordino.core.guarantee import ORDERS, ApproxDP, GaussianDP, LossDistribution, PureDP, TotalVariation
from sordino.core.loss.atomic_pairs import ExplicitPair, LaplacePair, pair_from_curve
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair
from tests.core.loss import exact as known

EPSILONS = [0.0, 1e-3, 0.05, 0.3, 0.9, 1.7, 4.0, 9.0]
EXACT = [
    (PureDP(0.7), lambda e: known.response_delta(0.7, 0.0, 1, e)),
    (PureDP(5.0), lambda e: known.response_delta(5.0, 0.0, 1, e)),
    (ApproxDP(0.5, 1e-6), lambda e: known.response_delta(0.5, 1e-6, 1, e)),
    (ApproxDP(1.0, 0.9), lambda e: known.response_delta(1.0, 0.9, 1, e)),
    (TotalVariation(0.03), lambda e: mp.mpf(0.03)),
    (GaussianDP(0.05), lambda e: known.gaussian_delta(0.05, e)),
    (GaussianDP(1.0), lambda e: known.gaussian_delta(1.0, e)),
    (GaussianDP(4.0), lambda e: known.gaussian_delta(4.0, e)),
    (LossDistribution(((GaussianPair(1.0), 1),)), lambda e: known.gaussian_delta(1.0, e)),
    (LossDistribution(((LaplacePair(1.0), 1),)), lambda e: known.laplace_delta(1.0, e)),
    (
        LossDistribution(((PoissonRemovePair(0.1, 1.0), 1),)),
        lambda e: max(known.poisson_remove_delta(0.1, 1.0, e), known.poisson_add_delta(0.1, 1.0, e)),
    ),
    (LossDistribution(((PoissonReplacePair(0.1, 1.0), 1),)), lambda e: known.poisson_replace_delta(0.1, 1.0, e)),
    # All of Q on finite losses, half of P not: conditioning must not hide the difference of the finite halves.
    (
        LossDistribution(((ExplicitPair((math.log(0.25 / 0.933), math.log(0.25 / 0.067)), (0.25, 0.25), 0.5), 1),)),
        lambda e: known.hockey_stick((math.log(0.25 / 0.933), math.log(0.25 / 0.067)), (0.25, 0.25), e, 0.5),
    ),
]
KINDS = [f"{guarantee.kind}-{i}" for i, (guarantee, _) in enumerate(EXACT)]


@pytest.mark.parametrize(("guarantee", "exact"), EXACT, ids=KINDS)
def test_to_loss_distribution(guarantee, exact):
    converted = to_loss_distribution(guarantee)
    for epsilon in EPSILONS:
        assert converted.delta(epsilon) >= exact(epsilon)
    assert (converted.deltas(EPSILONS) >= [float(exact(e)) * (1 - 1e-15) for e in EPSILONS]).all()


@pytest.mark.parametrize(("guarantee", "exact"), EXACT, ids=KINDS)
def test_to_renyi(guarantee, exact):
    converted = to_renyi(guarantee)
    assert converted.orders == ORDERS
    for epsilon in EPSILONS:
        assert converted.delta(epsilon) >= exact(epsilon)
    again = to_loss_distribution(converted)
    for epsilon in EPSILONS:
        assert again.delta(epsilon) >= exact(epsilon)


@pytest.mark.every(3)
@pytest.mark.parametrize(("guarantee", "exact"), EXACT, ids=KINDS)
def test_beta_lies_below_every_test(guarantee, exact):
    """1 - alpha exp(epsilon) - beta <= delta(epsilon) for the exact delta would fail if beta were too large."""
    alphas = np.concatenate([np.geomspace(1e-6, 0.5, 12), [0.9, 1.0]])
    beta = guarantee.beta(alphas)
    assert ((beta >= 0) & (beta <= 1 - alphas + 1e-15)).all()
    # The exact trade-off is the envelope of its supporting lines; a fine grid of epsilons gives it up to 1 %.
    epsilons = np.linspace(0.0, 12.0, 121)
    missing = np.array([1 - float(exact(e)) for e in epsilons])
    lines = np.maximum(missing - np.exp(epsilons) * alphas[:, None], np.exp(-epsilons) * (missing - alphas[:, None]))
    envelope = np.maximum(lines.max(axis=1), 0.0)
    assert (beta <= envelope * 1.05 + 1e-4).all()


def test_renyi_values_of_known_pairs():
    gaussian = to_renyi(LossDistribution(((GaussianPair(0.5), 4),)))
    laplace = to_renyi(LossDistribution(((LaplacePair(1.0), 1),)))
    response = to_renyi(PureDP(1.0))
    for order in (1.1, 2.0, 7.0, 64.0, 4096.0):
        assert gaussian.at(order) >= order / 2
        assert gaussian.at(order) == pytest.approx(order / 2, rel=1e-6)
        a, e = mp.mpf(order), mp.mpf(1)
        exact = mp.log(a / (2 * a - 1) * mp.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.exp(-a * e)) / (a - 1)
        assert exact <= laplace.at(order) <= exact * 1.01
        yes, no = 1 / (1 + mp.exp(-e)), 1 / (1 + mp.exp(e))
        exact = mp.log(yes * mp.exp((a - 1) * e) + no * mp.exp(-(a - 1) * e)) / (a - 1)
        assert exact <= response.at(order) <= exact * (1 + mp.mpf("1e-9"))


def test_a_high_order_is_not_lost_to_trimming():
    """Order 64 of a unit Gaussian is decided 64 deviations out, far beyond any grid of probabilities."""
    curve = to_renyi(LossDistribution(((PoissonRemovePair(0.5, 1.0), 1),)))
    with mp.workdps(400):
        for epsilon in (5.0, 12.0, 20.0):
            assert curve.delta(epsilon) >= known.poisson_remove_delta(0.5, 1.0, epsilon)


# --- curves to pairs


@settings(derandomize=True, deadline=None, max_examples=25)
@given(mu=st.floats(1e-3, 6.0), points=st.integers(2, 25), reach=st.floats(0.1, 60.0))
def test_a_pair_from_a_curve_dominates_it(mu, points, reach):
    epsilons = np.concatenate([[0.0], np.geomspace(reach / 1000, reach, points)])
    deltas = GaussianDP(mu).deltas(epsilons)
    pair = pair_from_curve(epsilons, deltas)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        assert known.hockey_stick(pair.losses, pair.masses, float(epsilon), pair.infinite_mass) >= delta
    for epsilon in np.linspace(0, reach, 9):
        exact = known.gaussian_delta(mu, float(epsilon))
        assert (
            exact < 1e-40 or known.hockey_stick(pair.losses, pair.masses, float(epsilon), pair.infinite_mass) >= exact
        )


# --- groups and relations


@pytest.mark.every(5)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 12, 100])
@pytest.mark.parametrize("mu", [0.01, 0.3])
def test_a_group_under_a_gaussian(mu, size):
    assert size * mu <= group_of(GaussianDP(mu), size).mu <= size * mu * (1 + 1e-15)
    assert group_of(to_loss_distribution(GaussianDP(mu)), size).delta(0.5) >= known.gaussian_delta(size * mu, 0.5)
    general = group_of(to_renyi(GaussianDP(mu)), size)
    for epsilon in EPSILONS:
        # So many records can really move N(0, 1) by size * mu: anything less would be too private.
        assert general.delta(epsilon) >= known.gaussian_delta(size * mu, epsilon)


def test_a_group_under_pure_and_approximate_guarantees():
    assert 1.2 <= group_of(PureDP(0.4), 3).value <= 1.2000000000000004
    grouped = group_of(ApproxDP(0.5, 1e-6), 4)
    sums = sum(mp.exp(mp.mpf(0.5) * i) for i in range(4)) * mp.mpf(1e-6)
    assert grouped.epsilon_value == 2.0
    assert sums <= grouped.delta_value <= 1.0001 * float(sums)
    assert group_of(ApproxDP(0.0, 1e-3), 3).delta_value >= 3e-3
    assert group_of(ApproxDP(300.0, 1e-310), 3).delta_value == 1.0
    assert group_of(ApproxDP(300.0, 0.0), 3).delta_value == 0.0
    assert 0.9 <= group_of(TotalVariation(0.3), 3).value <= 0.9 + 1e-15
    assert group_of(TotalVariation(0.5), 3) == TotalVariation(1.0)


def test_add_remove_from_replace_one_is_refused():
    with pytest.raises(InputError, match="add-remove"):
        replace_one_from_add_remove(GaussianDP(1.0), Relation.REPLACE_ONE)


def test_replace_one_by_groups_is_not_below_the_direct_pair():
    """Poisson sampling has its own, tighter replace-one pair; the group bound must lie above it."""
    grouped = replace_one_from_add_remove(LossDistribution(((PoissonRemovePair(0.1, 1.0), 1),)), Relation.ADD_REMOVE)
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        exact = known.poisson_replace_delta(0.1, 1.0, epsilon)
        assert exact <= grouped.delta(epsilon)
        assert epsilon > 1 or grouped.delta(epsilon) <= 30 * exact
