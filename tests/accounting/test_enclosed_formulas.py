"""Closed forms of the theory in ball arithmetic, written from their statements: ours are above, by a hair."""

import pytest
from flint import acb, arb, ctx

from sordino.accounting.bounds.closed_forms import bounded_full_shift, cyclic_shift, full_shift
from sordino.accounting.bounds.heavy_tail import shift_total_variation
from sordino.core.guarantee import GaussianDP, RenyiDP

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
