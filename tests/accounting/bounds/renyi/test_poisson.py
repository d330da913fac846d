"""Rényi divergence of a Poisson-sampled Gaussian: mpmath quadrature and dp-accounting's series."""

import itertools
import math

import mpmath as mp
import pytest

from sordino.accounting.bounds.renyi import LARGEST_ORDER, poisson_renyi
from sordino.accounting.convert import repeat
from sordino.core.bound import Relation
from sordino.core.guarantee import ORDERS, RenyiDP

CASES = [
    (1.01, 0.01, 1.0),
    (1.5, 1e-7, 1.0),
    (2.0, 0.01, 1.0),
    (2.5, 0.5, 0.3),
    (7.3, 1e-3, 2.0),
    (32.0, 1e-6, 1.0),
    (32.0, 0.01, 0.7),
    (64.0, 0.2, 0.05),
    (256.0, 0.01, 1.0),
]


def quadrature(order, rate, mu, replace):
    """D_order by adaptive quadrature of the difference from 1, which keeps relative accuracy for tiny rates."""
    a, q, m = mp.mpf(order), mp.mpf(rate), mp.mpf(mu)

    def p(z):
        return 1 + q * mp.expm1(m * z - m * m / 2)

    def excess(z):
        ratio = a * mp.log(p(z)) + ((1 - a) * mp.log(p(-z)) if replace else 0)
        return mp.npdf(z) * mp.expm1(ratio)

    end = float(a * m) + 14
    points = [mp.mpf(x) for x in (-end if replace else -14, -6, -2, 0, 2, 6, *sorted({12, end / 2, end}))]
    with mp.workdps(35):
        return mp.log1p(mp.quad(excess, sorted(set(points)))) / (a - 1)


@pytest.mark.every(3)
@pytest.mark.parametrize(("order", "rate", "mu"), CASES)
def test_add_remove_is_the_exact_value_rounded_up(order, rate, mu):
    exact, ours = quadrature(order, rate, mu, replace=False), poisson_renyi(order, rate, mu, Relation.ADD_REMOVE)
    # The value is a sum near 1 less 1, known to an absolute 1e-18.
    assert exact <= ours <= exact * (1 + mp.mpf("1e-8")) + 3e-18 / (order - 1)


@pytest.mark.every(3)
@pytest.mark.parametrize(("order", "rate", "mu"), CASES[:7])
def test_replace_one_is_the_exact_value_rounded_up(order, rate, mu):
    exact, ours = quadrature(order, rate, mu, replace=True), poisson_renyi(order, rate, mu, Relation.REPLACE_ONE)
    # The value is a sum near 1 less 1, known to an absolute 1e-18.
    assert exact <= ours <= exact * (1 + mp.mpf("1e-8")) + 3e-18 / (order - 1)


@pytest.mark.every(3)
@pytest.mark.parametrize(("order", "rate", "mu"), CASES)
def test_removing_is_the_worse_direction(order, rate, mu):
    """Mironov, Talwar & Zhang 2019, Theorem 5: D(N || mixture) never exceeds what is reported."""
    a, q, m = mp.mpf(order), mp.mpf(rate), mp.mpf(mu)
    end = 14 + float(m)
    with mp.workdps(30):
        excess = mp.quad(
            lambda z: mp.npdf(z) * mp.expm1((1 - a) * mp.log1p(q * mp.expm1(m * z - m * m / 2))),
            [-end, -4, -1, 1, 4, end],
        )
        assert mp.log1p(excess) / (a - 1) <= poisson_renyi(order, rate, mu, Relation.ADD_REMOVE)


@pytest.mark.every(3)
@pytest.mark.parametrize("order", [1.01, 1.1, 2.0, 3.7, 8.0, 64.0, 200.0])
@pytest.mark.parametrize(("rate", "multiplier"), [(0.01, 1.0), (0.2, 2.0), (1e-3, 0.8)])
def test_agrees_with_dp_accounting(order, rate, multiplier):
    from dp_accounting import dp_event
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    accountant = rdp.RdpAccountant([order])
    accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier)))
    theirs = float(accountant._rdp[0])  # the only place where it shows the curve
    ours = poisson_renyi(order, rate, 1 / multiplier, Relation.ADD_REMOVE)
    assert ours <= theirs * (1 + 1e-6)
    # Between whole orders its series adds absolute values: a bound, not the value.
    if order.is_integer():
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_golden_value():
    """theory.md section 1: q = 0.01, multiplier 1, T = 1000, delta = 1e-5, by Rényi accounting: 2.1014."""
    step = RenyiDP(ORDERS, tuple(poisson_renyi(order, 0.01, 1.0, Relation.ADD_REMOVE) for order in ORDERS))
    assert repeat(step, 1000).epsilon(1e-5) == pytest.approx(2.1014, abs=2e-3)
    assert repeat(step, 1000).epsilon(1e-5) <= repeat(step, 1000).mironov_epsilon(1e-5)


def test_full_sampling_and_high_orders_are_the_plain_gaussian():
    for relation, signal in ((Relation.ADD_REMOVE, 1.0), (Relation.REPLACE_ONE, 2.0)):
        assert poisson_renyi(8.0, 1.0, 1.0, relation) == pytest.approx(4.0 * signal**2)
        beyond = LARGEST_ORDER + 1
        assert poisson_renyi(beyond, 0.1, 1.0, relation) == pytest.approx(beyond / 2 * signal**2)


def test_monotone_in_order_rate_and_signal():
    for relation in Relation:
        by_order = [poisson_renyi(order, 0.05, 0.8, relation) for order in ORDERS if order <= 300]
        by_rate = [poisson_renyi(4.0, rate, 0.8, relation) for rate in (1e-4, 1e-3, 0.1, 0.9)]
        by_signal = [poisson_renyi(4.0, 0.05, mu, relation) for mu in (0.01, 0.5, 1.0, 5.0, 20.0)]
        for values in (by_order, by_rate, by_signal):
            assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values))
        assert all(math.isfinite(value) for value in by_order)
