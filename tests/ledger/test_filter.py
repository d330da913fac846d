"""No adaptive adversary gets more than the budget; every kind of release is charged at least what it costs."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from sordino import InputError, Relation
from sordino.accounting.convert import compose
from sordino.core import gaussian
from sordino.core.guarantee import ORDERS, ApproxDP, GaussianDP, LossDistribution, PureDP, RenyiDP, TotalVariation
from sordino.core.loss.atomic_pairs import LaplacePair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair
from sordino.ledger.budget import Budget
from sordino.ledger.order_shares import OrderShares, on_orders
from sordino.ledger.privacy_filter import Charge, PrivacyFilter, dominating_gaussian

BUDGETS = ((1.0, 1e-5), (3.0, 1e-6), (0.1, 1e-8), (10.0, 1e-3))


def opened(epsilon: float, delta: float, reserve: float = 0.0) -> PrivacyFilter:
    return PrivacyFilter.opened(Budget("clinic", Relation.ADD_REMOVE, epsilon, delta, reserve))


# A release without a dominating Gaussian that costs next to nothing: with it first, Rényi curves have all of delta.
NEARLY_NOTHING = RenyiDP(ORDERS, (1e-12,) * len(ORDERS))


def exceeded_delta(
    shares: OrderShares, epsilon: float, delta: float, mu: float, whole_mu: float | None = None
) -> float:
    """Exact delta of the adversary that spends mu first, looks at the loss, and then picks the order that suits it.

    With `whole_mu` it may instead go on with Gaussian releases up to that mu altogether, which nobody told it not to.

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
    if whole_mu is not None:
        left, behind = math.sqrt(whole_mu**2 - mu**2), np.maximum(epsilon - loss, 0.0)
        best = np.where(loss < epsilon, gaussian.delta_range(left, behind)[0], at_once)
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
def test_the_same_adversary_stays_within_the_budget_of_a_ledger_of_curves(epsilon, delta, part):
    rule = opened(epsilon, delta)
    mu = part * rule.largest_mu(rule.total([rule.charge(NEARLY_NOTHING)]))
    reached = exceeded_delta(rule.shares, epsilon, rule.loss_delta, mu)
    assert 0.2 * delta < reached <= delta  # the adversary is a serious one


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (3.0, 1e-6), (0.1, 1e-8)])
def test_choosing_late_between_gaussians_and_curves_exceeds_the_budget_unless_each_has_its_part(epsilon, delta):
    """Why delta is divided: with all of it for both ways, the way is chosen in view of the loss."""
    rule = opened(epsilon, delta)
    mu, whole = 0.3 * rule.mu, gaussian.largest_mu(epsilon, delta)
    # One order with all of delta, and Gaussians with all of delta: each is a filter, choosing between them is none.
    single = [OrderShares((order,), (1.0,)) for order in rule.shares.orders]
    assert max(exceeded_delta(one, epsilon, delta, mu) for one in single) <= delta
    assert exceeded_delta(single[-1], epsilon, delta, mu, whole) <= delta
    assert max(exceeded_delta(one, epsilon, delta, mu, whole) for one in single) > 1.4 * delta
    assert 0.5 * delta < exceeded_delta(rule.shares, epsilon, rule.late_delta, mu, rule.mu) <= delta


@pytest.mark.parametrize("seed", range(2))
def test_adaptive_gaussian_releases_never_exceed_the_budget(seed):
    """An adversary that reacts to the realised loss: what it released is at most the budget, by exact composition."""
    random, epsilon, delta = np.random.default_rng(seed), 1.0, 1e-5
    rule = opened(epsilon, delta)
    for _ in range(6):
        total, loss, mus = rule.total([]), 0.0, []
        while len(mus) < 20:
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


RELEASES = (
    GaussianDP(0.1),
    PureDP(0.2),
    ApproxDP(0.1, 1e-7),
    TotalVariation(1e-7),
    LossDistribution(((GaussianPair(0.05), 4), (LaplacePair(0.05), 2))),
)


@pytest.mark.parametrize("first", [(), (NEARLY_NOTHING,)], ids=["Gaussians", "curves"])
def test_what_is_charged_is_at_least_what_releases_fixed_in_advance_cost(first):
    delta = 1e-5
    rule = opened(3.0, delta, 0.5)
    for count in range(1, len(RELEASES) + 1):
        taken = RELEASES[:count]
        total = rule.total([rule.charge(release) for release in (*first, *taken)])
        assert rule.fits(total)
        exact = compose([(release, 1) for release in taken])
        # The filter answers at the loss part of delta; failures have the other part.
        assert exact.epsilon(delta) <= rule.spent(total) * 1.001


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
    assert dominating_gaussian(RenyiDP((2.0,), (0.01,))) is None


@pytest.mark.parametrize(("epsilon", "delta"), [*BUDGETS, (0.01, 1e-5), (0.1, 1e-4), (1.0, 1e-3)])
def test_many_gaussian_releases_get_95_percent_of_what_optimal_composition_gives(epsilon, delta):
    rule, best = opened(epsilon, delta, 0.1), gaussian.largest_mu(epsilon, delta)
    many = rule.charge(GaussianDP(best / 40))
    total, count = rule.total([]), 0
    while rule.fits(after := rule.total([total, many])):
        total, count = after, count + 1
    assert (0.97 if (epsilon, delta) in BUDGETS else 0.95) * 1600 <= count <= 1600
    assert rule.spent(total) <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_curves_get_most_of_the_budget_when_they_come_first_and_less_when_they_come_late(epsilon, delta):
    rule, best = opened(epsilon, delta, 0.1), gaussian.largest_mu(epsilon, delta)
    first, late = [rule.charge(NEARLY_NOTHING)], [rule.charge(GaussianDP(1e-9)), rule.charge(NEARLY_NOTHING)]
    assert 0.90 < rule.largest_mu(rule.total(first)) / best < 0.93
    assert 0.79 < rule.largest_mu(rule.total(late)) / best < 0.85


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("reserve", [0.0, 0.1])
def test_a_single_release_of_any_kind_may_have_the_whole_budget_and_then_nothing_fits(epsilon, delta, reserve):
    rule = opened(epsilon, delta, reserve)
    mu = rule.largest_mu(rule.total([]))
    assert mu == pytest.approx(gaussian.largest_mu(epsilon, delta), rel=1e-12)
    sampled = largest_that_fits(lambda mu: LossDistribution(((PoissonRemovePair(0.1, mu), 20),)), epsilon, delta)
    exact = GaussianDP(gaussian.largest_mu(epsilon, delta))
    for whole in (exact, GaussianDP(mu), ApproxDP(epsilon, delta), TotalVariation(delta), sampled):
        alone = rule.total([rule.charge(whole)])
        assert rule.fits(alone)
        assert whole.epsilon(delta) <= rule.spent(alone) * (1 + 1e-12) <= epsilon * (1 + 1e-12)
        for further in (GaussianDP(1e-3 * mu), TotalVariation(delta / 10), PureDP(1e-2 * epsilon)):
            assert not rule.fits(rule.total([alone, rule.charge(further)]))
        assert rule.largest_mu(alone) == 0.0
    for over in (GaussianDP(mu * (1 + 1e-6)), ApproxDP(epsilon * (1 + 1e-9), delta), TotalVariation(delta * 1.001)):
        assert not rule.fits(rule.total([rule.charge(over)]))


def largest_that_fits(made, epsilon: float, delta: float):
    low, high = 1e-3, 60.0
    for _ in range(12):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if made(middle).epsilon(delta) <= epsilon else (low, middle)
    return made(low)


def test_the_first_release_decides_how_delta_is_divided_and_later_ones_do_not():
    rule = opened(1.0, 1e-5, 0.1)
    curve = RenyiDP(ORDERS, tuple(order * 1e-4 for order in ORDERS))
    first_gaussian = rule.total([rule.charge(GaussianDP(0.01)), rule.charge(curve)])
    first_curve = rule.total([rule.charge(curve), rule.charge(GaussianDP(0.01))])
    assert (first_gaussian.plan, first_curve.plan) == ("gaussian", "renyi")
    assert first_gaussian.amounts == pytest.approx(first_curve.amounts)
    assert rule.spent(first_gaussian) > rule.spent(first_curve)
    # A release that loses nothing decides nothing.
    assert rule.total([rule.charge(GaussianDP(0.0)), rule.charge(curve)]).plan == "renyi"
    assert rule.total([]).plan == ""
    again = rule.total([Charge.from_dict(first_gaussian.to_dict()), rule.charge(GaussianDP(0.01))])
    assert again.plan == "gaussian"


@pytest.mark.parametrize("reserve", [0.0, 0.1, 1 / 3, 0.7, 0.999])
def test_the_parts_of_delta_add_up_to_at_most_delta(reserve):
    for epsilon, delta in (*BUDGETS, (0.7, 1 / 3), (1.0, 5e-324 * 1e10)):
        rule = opened(epsilon, delta, reserve)
        parts = (rule.gaussian_delta, rule.late_delta, rule.failure_delta)
        assert sum(map(Fraction, parts)) <= Fraction(delta)
        assert sum(parts) > 0.99 * delta
        assert Fraction(rule.loss_delta) + Fraction(rule.failure_delta) <= Fraction(delta)
    with pytest.raises(InputError, match="parts of delta"):
        replace(rule, late_delta=rule.delta)


def test_where_something_may_fail_a_single_release_may_take_more_than_the_reserve():
    rule = opened(1.0, 1e-5, 0.1)
    assert rule.fits(rule.total([rule.charge(TotalVariation(9e-6))]))
    assert not rule.fits(rule.total([rule.charge(TotalVariation(9e-6)), rule.charge(GaussianDP(1e-6))]))
    assert not rule.fits(rule.total([rule.charge(GaussianDP(1e-6)), rule.charge(TotalVariation(9e-6))]))
    assert rule.fits(rule.total([rule.charge(TotalVariation(5e-7)), rule.charge(TotalVariation(4e-7))]))


@pytest.mark.parametrize("first", [GaussianDP(1e-9), NEARLY_NOTHING], ids=["Gaussians", "curves"])
def test_a_failure_is_charged_to_its_own_part_of_delta(first):
    rule = opened(1.0, 1e-5, 0.5)
    begun = [rule.charge(first)]
    assert rule.fits(rule.total([*begun, rule.charge(TotalVariation(4e-6))]))
    assert not rule.fits(rule.total([*begun, rule.charge(TotalVariation(3e-6)), rule.charge(TotalVariation(3e-6))]))
    without = opened(1.0, 1e-5, 0.0)
    assert not without.fits(without.total([without.charge(first), without.charge(TotalVariation(1e-12))]))


def test_a_filter_reads_back_as_it_was_written():
    rule = opened(1.0, 1e-5, 0.1)
    written = rule.to_dict()
    assert PrivacyFilter.from_dict(written) == rule
    for odd in ({**written, "kind": "gaussian"}, {**written, "mu": -1.0}, {**written, "late_delta": 1.0}):
        with pytest.raises(InputError):
            PrivacyFilter.from_dict(odd)


def test_the_shares_of_delta_add_up_to_at_most_one_and_orders_come_from_the_common_grid():
    for epsilon in np.geomspace(1e-3, 100, 12):
        for delta in (1e-12, 1e-5, 0.3):
            shares = OrderShares.centred(float(epsilon), delta)
            assert math.fsum(shares.shares) <= 1
            assert set(shares.orders) <= set(ORDERS)
            assert max(shares.shares) == pytest.approx(0.75)
    with pytest.raises(InputError, match="add up to at most 1"):
        OrderShares((2.0, 3.0), (0.6, 0.6))


@settings(max_examples=20, deadline=None)
@given(st.booleans(), st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 1e-6)), min_size=1, max_size=4))
def test_spending_never_decreases_as_releases_are_added(curves, releases):
    rule = opened(1.0, 1e-5, 0.5)
    charges = [rule.charge(NEARLY_NOTHING)] * curves
    charges += [Charge(rule.charge(GaussianDP(mu)).amounts, failure) for mu, failure in releases]
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


RULE = opened(1.0, 1e-5)
WIDTH = 1 + len(RULE.shares.orders)
amount = st.floats(0, 1e300) | st.floats(0, 1e-300) | st.floats(0, 1)


@settings(max_examples=300, deadline=None)
@given(st.lists(amount, min_size=1, max_size=4))
def test_a_sum_is_never_below_the_exact_one_and_at_most_one_float_above(amounts):
    total = RULE.total([Charge((one,) * WIDTH, 0.0) for one in amounts]).amounts[0]
    exact = sum(map(Fraction, amounts))
    assert Fraction(total) >= exact
    assert total == 0 or Fraction(math.nextafter(total, 0.0)) < exact
