"""Closed forms of the theory in ball arithmetic, written from their statements: ours are above, by a hair."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from flint import acb, arb, ctx

from sordino.accounting.bounds.closed_forms import bounded_full_shift, cyclic_shift, full_shift
from sordino.accounting.bounds.heavy_tail import shift_total_variation
from sordino.accounting.bounds.renyi import poisson_renyi
from sordino.accounting.theorems import hidden_state
from sordino.core.bound import Relation
from sordino.core.guarantee import BoundedRange, GaussianDP, RenyiDP, TotalVariation

ctx.prec = 160
HAIR = arb("1e-9")


def above_by_a_hair(ours: float, exact: arb, hair: arb = HAIR) -> None:
    """The float is not below the ball, and not above it by more than a hair of its size."""
    assert exact.is_finite()
    assert arb(ours) >= exact * (1 - arb("1e-30"))
    assert arb(ours) <= exact * (1 + hair)


@pytest.mark.parametrize(
    ("c", "kappa", "steps"), [(0.98, 0.2, 100), (0.98, 0.2, 1000), (0.9, 0.1789, 1000), (1.0, 0.3, 7)]
)
def test_full_batches(c: float, kappa: float, steps: int) -> None:
    """mu^2 = kappa^2 (1 - c^T) / (1 + c^T) (1 + c) / (1 - c)."""
    rate, size = arb(c), arb(kappa)
    power = rate**steps
    square = size**2 * steps if c == 1.0 else size**2 * (1 - power) / (1 + power) * (1 + rate) / (1 - rate)
    above_by_a_hair(full_shift(c, kappa, steps), square.sqrt())


@pytest.mark.parametrize(
    ("c", "kappa", "period", "uses"), [(0.98, 0.2, 10, 1), (0.98, 0.2, 10, 100), (0.9, 0.18, 10, 10)]
)
def test_cyclic_batches_last_record(c: float, kappa: float, period: int, uses: int) -> None:
    """mu^2 = kappa^2 [1 + c^(2l-2) (1 - c^2) / (1 - c^l)^2 (1 - q) / (1 + q)], q = c^(l (K - 1))."""
    rate, size = arb(c), arb(kappa)
    q = rate ** (period * (uses - 1))
    more = rate ** (2 * period - 2) * (1 - rate**2) / (1 - rate**period) ** 2 * (1 - q) / (1 + q)
    above_by_a_hair(cyclic_shift(c, kappa, period, uses), (size**2 * (1 + more)).sqrt())


def test_the_printed_references_of_the_theory() -> None:
    """mu^2 / 2 of the first setting: last batch .02000, .03186, .03645; full batch .19933, 1.51632."""
    for uses, shown in ((1, ".02000"), (10, ".03186"), (100, ".03645")):
        assert abs(cyclic_shift(0.98, 0.2, 10, uses) ** 2 / 2 - float(shown)) < 6e-6
    for epochs, shown in ((10, ".19933"), (100, "1.51632")):
        assert abs(full_shift(0.98, 0.2, epochs) ** 2 / 2 - float(shown)) < 6e-6


def test_projected_convex_reference() -> None:
    """mu = min over windows of (D + t s) / (sqrt t tau): L=1, n=10, step .1, noise .8, D=1, T=640: .2500."""
    # Two gradients of norm L over n records: s = .1 * 2 / 10, tau = .1 * 8, so kappa = 1/40 and D / tau = 1.25.
    values = [(arb("1.25") + arb(t) / 40) / arb(t).sqrt() for t in range(1, 641)]
    least = values[0]
    for value in values[1:]:
        least = least.min(value)
    above_by_a_hair(bounded_full_shift(1.0, 0.025, 640, 1.25), least.min(arb(640).sqrt() / 40))


@pytest.mark.parametrize("j", [1, 4, 10])
def test_hidden_state_one_pass(j: int) -> None:
    """u c^(2 (j - 1)) / (1 + c^2 + ... + c^(2 (j - 1)))."""
    c, u = arb(0.98), arb(0.02)
    exact = u * c ** (2 * (j - 1)) / sum((c ** (2 * s) for s in range(j)), arb(0))
    found = float(np.ravel(hidden_state.one_pass(0.98, 0.02, j))[0])
    assert abs(arb(found) - exact) <= exact * HAIR


@pytest.mark.parametrize("order", [2, 8, 32])
@pytest.mark.parametrize(("rate", "mu"), [(0.01, 1.0), (0.2, 0.5)])
def test_sampled_renyi_at_whole_orders(order: int, rate: float, mu: float) -> None:
    """E ((1 - q) + q X)^a = sum over k of C(a, k) (1 - q)^(a - k) q^k e^(k (k - 1) mu^2 / 2)."""
    q, size = arb(rate), arb(mu)
    total = arb(0)
    for k in range(order + 1):
        total += math.comb(order, k) * (1 - q) ** (order - k) * q**k * (size**2 * (k * (k - 1)) / 2).exp()
    above_by_a_hair(poisson_renyi(float(order), rate, mu, Relation.ADD_REMOVE), total.log() / (order - 1))


@pytest.mark.parametrize("order", [1.5, 3.25])
def test_sampled_renyi_at_other_orders_by_quadrature(order: float) -> None:
    """The same mean as an enclosed integral over [-12, 16]; what lies outside is below e^-50."""
    q, size, exponent = arb(0.05), arb(1.0), arb(order)

    def integrand(z: acb, _: bool) -> acb:
        ratio = 1 - q + q * (size * z - size * size / 2).exp()
        # The logarithm of a ratio with a positive real part has no cut there.
        return (exponent * ratio.log() - z * z / 2).exp() if ratio.real > 0 else acb("nan")

    total = arb(0)
    for k in range(-24, 32):
        total += acb.integral(integrand, acb(k) / 2, acb(k + 1) / 2).real
    exact = (total / (2 * arb.pi()).sqrt()).log() / (exponent - 1)
    above_by_a_hair(poisson_renyi(order, 0.05, 1.0, Relation.ADD_REMOVE), exact, arb("1e-6"))


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_conversion_from_renyi(delta: float) -> None:
    """rho + log((a - 1) / a) - (log delta + log a) / (a - 1), the least over the orders that are listed."""
    orders = (1.5, 2.0, 4.0, 9.0, 33.0)
    values = tuple(0.3 * order for order in orders)
    exact = arb("inf")
    for order, value in zip(orders, values, strict=True):
        a = arb(order)
        exact = exact.min(arb(value) + ((a - 1) / a).log() - (arb(delta).log() + a.log()) / (a - 1))
    above_by_a_hair(RenyiDP(orders, values).epsilon(delta), exact)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_advantage_of_a_gaussian(mu: float) -> None:
    """TV = 2 Phi(mu / 2) - 1 = erf(mu / sqrt 8)."""
    above_by_a_hair(GaussianDP(mu).delta(0.0), (arb(mu) / arb(8).sqrt()).erf())


@pytest.mark.parametrize(("width", "draws"), [(1.0, 1), (1.0, 10), (0.1, 100)])
def test_bounded_range(width: float, draws: int) -> None:
    """The largest over t of the k-fold two-point law, at its candidates t = (epsilon + (l + 1) r) / (k + 1)."""
    r = arb(width)
    for epsilon in (0.2, 1.5):
        exact = arb(0)
        for j in range(draws + 1):
            t = (arb(epsilon) + (j + 1) * r) / (draws + 1)
            t = t.min(r).max(arb(0))
            p = (1 - (t - r).exp()) / (1 - (-r).exp())
            total = arb(0)
            for low in range(draws + 1):
                loss = draws * t - low * r
                gain = (1 - (arb(epsilon) - loss).exp()).max(arb(0))
                total += math.comb(draws, low) * p ** (draws - low) * (1 - p) ** low * gain
            exact = exact.max(total)
        found = BoundedRange(width, draws).delta(epsilon)
        if draws * width <= epsilon:
            assert found == 0.0
            continue
        assert arb(found) >= exact * (1 - arb("1e-12"))
        assert arb(found) <= exact * (1 + arb("1e-6")) + arb("1e-14")


def test_total_variation_of_a_bounded_range() -> None:
    """tanh(r / 4) for one draw, at epsilon 0."""
    above_by_a_hair(BoundedRange(1.0, 1).delta(0.0), (arb(1) / 4).tanh())
    assert TotalVariation(0.25).delta(0.0) == 0.25


def _stable(alpha_over: tuple[int, int], half: arb) -> arb:
    """2 F(half) - 1 = (2 / pi) int sin(half t) / t e^(-t^alpha) dt, with t = v^n so that t^alpha = v^m is a power."""
    m, n = alpha_over

    def integrand(v: acb, _: bool) -> acb:
        # sin(h v^n) / v^n * n v^(n - 1), written by sinc, which has no pole.
        return (half * v**n).sinc() * half * n * v ** (n - 1) * (-(v**m)).exp()

    end = arb(60) ** (arb(n) / m)  # t^alpha = 60 there in the old variable
    top = int(float(end) ** (1 / n)) + 1
    total = arb(0)
    for k in range(4 * top):
        total += acb.integral(integrand, acb(k) / 4, acb(k + 1) / 4).real
    return 2 * total / arb.pi()


@pytest.mark.parametrize(
    ("alpha", "power", "shown"), [(2.0, (2, 1), ".140316"), (1.8, (9, 5), ".140708"), (1.5, (3, 2), ".142581")]
)
def test_total_variation_of_stable_shifts(alpha: float, power: tuple[int, int], shown: str) -> None:
    exact = _stable(power, arb("0.25"))
    found = shift_total_variation(alpha, 0.5)
    assert abs(float(exact) - float(shown)) < 6e-7
    assert arb(found) >= exact * (1 - arb("1e-8"))
    assert arb(found) <= exact * (1 + arb("1e-4"))


def test_a_formula_that_is_halved_is_caught() -> None:
    """The comparison can fail, on either side."""
    checks: list[Callable[[], None]] = [
        lambda: above_by_a_hair(full_shift(0.98, 0.1, 100), arb("0.6313973")),
        lambda: above_by_a_hair(full_shift(0.98, 0.2, 100), arb("0.6313")),
    ]
    for check in checks:
        with pytest.raises(AssertionError):
            check()
