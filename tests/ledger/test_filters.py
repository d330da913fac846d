"""No adaptive adversary gets more than the budget; every kind of release is charged at least what it costs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from sordino.accounting.compose import compose
from sordino.core import gaussian
from sordino.core.errors import InputError
from sordino.core.guarantee import ORDERS, ApproxDP, GaussianDP, LossDistribution, PureDP, RenyiDP, TotalVariation
from sordino.core.loss.atomic_pairs import LaplacePair
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.relation import Relation
from sordino.ledger.budget import Budget
from sordino.ledger.filters import (
    Charge,
    GaussianFilter,
    OrderShares,
    RenyiFilter,
    filter_from_dict,
    filter_kinds,
    filter_named,
)
from sordino.ledger.filters.dominating_gaussian import dominating_gaussian
from sordino.ledger.filters.on_orders import on_orders

BUDGETS = ((1.0, 1e-5), (3.0, 1e-6), (0.1, 1e-8), (10.0, 1e-3))


def opened(kind: str, epsilon: float, delta: float, reserve: float = 0.0):
    return filter_named(kind).opened(Budget("clinic", Relation.ADD_REMOVE, epsilon, delta, reserve))


def exceeded_delta(shares: OrderShares, epsilon: float, delta: float, mu: float) -> float:
    """Exact delta of the adversary that spends mu first, looks at the loss, and then picks the order that suits it.

    Stage one is a Gaussian release; its loss is L = mu^2/2 + mu x with x ~ N(0, 1). Stage two, given L, is a release
    with two outcomes: with probability p under P the loss is t, so large that L + t passes epsilon by log(a / (a -
    1)), where the Rényi conversion of order a is tight. p is the largest for which this order's total, both ways, is
    still within its cap.
    """
    x = np.linspace(-10, 10, 1201)
    loss = mu * mu / 2 + mu * x
    at_once = np.maximum(0.0, -np.expm1(epsilon - loss))
    rooms = epsilon - shares.epsilons([order * mu * mu / 2 for order in shares.orders], delta)
    best = at_once
    for order, room in zip(shares.orders, rooms, strict=True):
        if room > 0:
            extra = math.log(order / (order - 1))
            chance = _largest_chance(order, room, np.maximum(epsilon + extra - loss, 1e-9))
            best = np.maximum(best, np.where(loss < epsilon, chance * -math.expm1(-extra), 0.0))
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return float(np.trapezoid(best * density, x))


def _largest_chance(order: float, room: float, jump: np.ndarray) -> np.ndarray:
    low, high = np.full(len(jump), -60.0), np.minimum((order - 1) * (room - jump), -1e-9)  # logarithms of p
    for _ in range(40):
        middle = (low + high) / 2
        p, q = np.exp(middle), np.exp(middle - jump)
        forwards = np.logaddexp(middle + (order - 1) * jump, order * np.log1p(-p) + (1 - order) * np.log1p(-q))
        backwards = np.logaddexp(middle - order * jump, order * np.log1p(-q) + (1 - order) * np.log1p(-p))
        fits = np.maximum(forwards, backwards) <= (order - 1) * room
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.exp(low)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (3.0, 1e-6)])
def test_an_order_chosen_late_exceeds_the_budget_unless_each_order_has_its_share(epsilon, delta):
    """Why `OrderShares` exists: the plain rule "some order is within its cap" is not a privacy filter."""
    orders = (4.0, 6.0, 9.0, 13.0, 18.0, 27.0, 40.0, 60.0)
    shares = OrderShares(orders, (1 / len(orders),) * len(orders))
    mu = 0.3 * gaussian.largest_mu(epsilon, delta)
    assert exceeded_delta(shares, epsilon, delta, mu) <= delta
    # Shares of 1/8 of 8 delta: the plain rule, which gives every order all of delta.
    assert exceeded_delta(shares, epsilon, len(orders) * delta, mu) > 1.4 * delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("part", [0.3, 0.8])
def test_the_same_adversary_stays_within_the_budget_of_the_renyi_filter(epsilon, delta, part):
    rule = opened("renyi", epsilon, delta)
    mu = part * rule.largest_mu(rule.total([]))
    reached = exceeded_delta(rule.shares, epsilon, delta, mu)
    assert reached <= delta
    assert reached > 0.2 * delta  # the adversary is a serious one


@pytest.mark.parametrize("kind", filter_kinds())
@pytest.mark.parametrize("seed", range(3))
def test_adaptive_gaussian_releases_never_exceed_the_budget(kind, seed):
    """An adversary that reacts to the realised loss: what it released is at most the budget, by exact composition."""
    random, epsilon, delta = np.random.default_rng(seed), 1.0, 1e-5
    rule = opened(kind, epsilon, delta)
    for _ in range(8):
        total, loss, mus = rule.total([]), 0.0, []
        while len(mus) < 30:
            room = rule.largest_mu(total)
            # Lucky so far: spend big while the loss is above its mean; otherwise nibble.
            mu = room if loss > 0.5 * sum(mu * mu for mu in mus) and mus else room * random.uniform(0.05, 0.6)
            wanted = rule.total([total, rule.charge(GaussianDP(mu))])
            if mu < 1e-6 or not rule.fits(wanted):
                break
            total, loss = wanted, loss + mu * mu / 2 + mu * random.standard_normal()
            mus.append(mu)
        exact = GaussianDP(gaussian.composed((mu, 1) for mu in mus))
        assert exact.delta(epsilon) <= delta * (1 + 1e-12)
        assert exact.epsilon(delta) <= rule.spent(total) * (1 + 1e-12) <= epsilon * (1 + 1e-12)
        assert rule.odometer(total) >= rule.spent(total)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_gaussian_filter_affords_exactly_the_budgets_gaussian(epsilon, delta):
    rule = opened("gaussian", epsilon, delta)
    mu = rule.largest_mu(rule.total([]))
    assert GaussianDP(mu).delta(epsilon) <= delta * (1 + 1e-12)
    assert GaussianDP(mu * (1 + 1e-9)).delta(epsilon) > delta
    assert not rule.fits(rule.charge(GaussianDP(mu * (1 + 1e-9))))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_renyi_filter_affords_most_of_what_the_exact_conversion_does(epsilon, delta):
    rule = opened("renyi", epsilon, delta)
    mu, exact = rule.largest_mu(rule.total([])), gaussian.largest_mu(epsilon, delta)
    assert 0.87 * exact < mu < exact
    assert rule.fits(rule.charge(GaussianDP(mu)))
    assert not rule.fits(rule.charge(GaussianDP(mu * (1 + 1e-9))))


RELEASES = (
    GaussianDP(0.1),
    PureDP(0.2),
    ApproxDP(0.1, 1e-7),
    TotalVariation(1e-7),
    LossDistribution(((GaussianPair(0.05), 4), (LaplacePair(0.05), 2))),
)


@pytest.mark.parametrize("kind", filter_kinds())
def test_what_is_charged_is_at_least_what_releases_fixed_in_advance_cost(kind):
    delta = 1e-5
    rule = opened(kind, 3.0, delta, 0.5)
    for count in range(1, len(RELEASES) + 1):
        taken = RELEASES[:count]
        total = rule.total([rule.charge(release) for release in taken])
        assert rule.fits(total)
        exact = compose([(release, 1) for release in taken])
        # The filter answers at the loss part of delta; failures have the other part.
        assert exact.epsilon(delta) <= rule.spent(total) * 1.001


def test_a_renyi_curve_enters_the_renyi_filter_and_not_the_gaussian_one():
    curve = RenyiDP((2.0, 8.0, 32.0), (0.01, 0.04, 0.16))
    assert opened("renyi", 1.0, 1e-5).fits(opened("renyi", 1.0, 1e-5).charge(curve))
    with pytest.raises(InputError, match="renyi filter"):
        opened("gaussian", 1.0, 1e-5).charge(curve)


@pytest.mark.parametrize("mu", [0.05, 1.0, 3.0])
def test_a_curve_at_orders_it_does_not_list_is_above_the_true_one(mu):
    listed = RenyiDP((1.5, 3.0, 10.0), tuple(order * mu * mu / 2 for order in (1.5, 3.0, 10.0)))
    orders = (1.2, 1.5, 2.0, 5.0, 10.0)
    for order, value in zip(orders, on_orders(listed, orders), strict=True):
        assert value >= order * mu * mu / 2
    assert on_orders(listed, (11.0,)) == (math.inf,)
    assert on_orders(listed, (3.0,)) == (3.0 * mu * mu / 2,)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 12.0])
def test_the_dominating_gaussian_of_a_pure_release_is_above_it_everywhere_and_touches_it(epsilon):
    found = dominating_gaussian(PureDP(epsilon))
    grid = np.linspace(0.0, epsilon, 50)
    assert np.all(GaussianDP(found.mu).deltas(grid) >= PureDP(epsilon).deltas(grid) * (1 - 1e-12))
    # Total variation decides: 2 Phi(mu/2) - 1 = tanh(epsilon/2).
    assert 2 * special.ndtr(found.mu / 2) - 1 == pytest.approx(math.tanh(epsilon / 2), rel=1e-9)
    assert found.failure == 0.0


def test_a_failure_is_charged_to_its_own_part_of_delta():
    for kind in filter_kinds():
        rule = opened(kind, 1.0, 1e-5, 0.5)
        assert rule.fits(rule.charge(TotalVariation(4e-6)))
        assert not rule.fits(rule.total([rule.charge(TotalVariation(3e-6))] * 2))
        assert not opened(kind, 1.0, 1e-5, 0.0).fits(rule.charge(TotalVariation(1e-12)))
        assert rule.spent(rule.charge(TotalVariation(4e-6))) < 1e-5  # rounding of the curve, no more


@pytest.mark.parametrize("kind", filter_kinds())
def test_a_filter_reads_back_as_it_was_written(kind):
    rule = opened(kind, 1.0, 1e-5, 0.1)
    assert filter_from_dict(rule.to_dict()) == rule


def test_the_shares_of_delta_add_up_to_at_most_one_and_orders_come_from_the_common_grid():
    for epsilon in np.geomspace(1e-3, 100, 12):
        for delta in (1e-12, 1e-5, 0.3):
            shares = OrderShares.centred(float(epsilon), delta)
            assert math.fsum(shares.shares) <= 1
            assert set(shares.orders) <= set(ORDERS)
            assert max(shares.shares) == pytest.approx(0.75)
    with pytest.raises(InputError, match="add up to at most 1"):
        OrderShares((2.0, 3.0), (0.6, 0.6))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(filter_kinds()),
    st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 1e-6)), min_size=1, max_size=5),
)
def test_spending_never_decreases_as_releases_are_added(kind, releases):
    rule = opened(kind, 1.0, 1e-5, 0.5)
    charges = [Charge(rule.charge(GaussianDP(mu)).amounts, failure) for mu, failure in releases]
    totals = [rule.total(charges[:count]) for count in range(len(charges) + 1)]
    for before, after in pairwise(totals):
        assert all(a <= b for a, b in zip(before.amounts, after.amounts, strict=True))
        assert before.failure <= after.failure
        # Amounts decide and are exact; the epsilon shown is found by bisection, to a relative 1e-13 or so.
        assert rule.spent(before) <= rule.spent(after) * (1 + 1e-12)
        assert rule.odometer(before) <= rule.odometer(after) * (1 + 1e-12)
        if rule.fits(after):
            assert rule.fits(before)
            assert rule.largest_mu(before) >= rule.largest_mu(after) * (1 - 1e-9)


def test_the_filters_are_the_two_documented_ones():
    assert filter_kinds() == (GaussianFilter.kind, RenyiFilter.kind) == ("gaussian", "renyi")
    with pytest.raises(InputError, match="gaussian, renyi"):
        filter_named("magic")
