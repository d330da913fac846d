"""The symmetric stable law, against its characteristic function in high precision."""

import mpmath
import numpy as np
import pytest

from sordino.models.exact import StableLaw1D, hockey_stick, stable_chain_law
from sordino.models.exact.line import above, central, density, stable_table
from tests.models.exact.laws import ridge, sample, shift_total_variation, total_variation


def reference(alpha: float, x: float) -> tuple[float, float]:
    """P(X > x) and the density, by rotating the Fourier integral t -> t exp(i psi) so that it decays."""
    with mpmath.workdps(30):
        a, at = mpmath.mpf(alpha), mpmath.mpf(x)
        psi = mpmath.pi / (4 * a)
        turn = mpmath.exp(1j * psi)
        power = turn**a
        cuts = [0, *(mpmath.mpf(10) ** k for k in range(-8, 3))]
        tail = mpmath.quad(lambda t: mpmath.im(mpmath.exp(1j * t * turn * at - t**a * power)) / t, cuts)
        dense = mpmath.quad(lambda t: mpmath.re(turn * mpmath.exp(1j * t * turn * at - t**a * power)), cuts)
        return float(mpmath.mpf("0.5") - psi / mpmath.pi - tail / mpmath.pi), float(dense / mpmath.pi)


@pytest.mark.every(2)
@pytest.mark.parametrize("alpha", [1.01, 1.1, 1.5, 1.8, 1.99])
def test_tails_and_density_agree_with_the_fourier_integral(alpha):
    for x in (0.01, 3.0, 100.0) if alpha == 1.5 else (0.25, 100.0):
        tail, dense = reference(alpha, x)
        assert float(above(alpha, x)) == pytest.approx(tail, rel=1e-12)
        assert float(above(alpha, -x)) == pytest.approx(1.0 - tail, rel=1e-12)
        assert float(density(alpha, x)) == pytest.approx(dense, rel=1e-12)


@pytest.mark.parametrize(
    "alpha", [*(pytest.param(alpha, marks=pytest.mark.slow) for alpha in (1.01, 1.3, 1.99)), 1.84, 1.86, 1.999999]
)
def test_the_table_agrees_with_the_integrals(alpha, generator):
    points = np.concatenate([generator.uniform(0, 20, 300), 10 ** generator.uniform(-6, 11, 300)])
    table = stable_table(alpha)
    assert np.allclose(table.above(points), above(alpha, points), rtol=1e-12, atol=0)
    assert np.allclose(np.exp(table.log_density(points)), density(alpha, points), rtol=1e-12, atol=0)
    assert np.allclose(table.above(-points), 1 - above(alpha, points), rtol=1e-12, atol=0)
    assert table.above(np.array([1e15, np.inf])) == pytest.approx([float(above(alpha, 1e15)), 0.0], rel=1e-9)


def test_far_tails_follow_the_power_law():
    x = 1e9
    constant = float(mpmath.gamma(1.5) * mpmath.sin(mpmath.pi * 0.75) / mpmath.pi)
    assert float(above(1.5, x)) == pytest.approx(constant * x**-1.5, rel=1e-9)
    assert float(above(1.5, np.inf)) == 0.0


def test_central_mass_keeps_its_accuracy_near_zero():
    for alpha in (1.2, 1.7, 2.0):
        slope = 2 * float(mpmath.gamma(1 + 1 / alpha) / mpmath.pi)
        for x in (1e-14, 1e-7):
            assert float(central(alpha, x)) == pytest.approx(slope * x, rel=1e-12)


def test_index_two_is_the_limit_of_smaller_indices():
    points = np.linspace(-4, 4, 9)
    assert np.allclose(above(2.0 - 1e-9, points), above(2.0, points), atol=1e-8)


@pytest.mark.parametrize(("alpha", "expected"), [(2.0, 0.140316), (1.8, 0.140708), (1.5, 0.142581)])
def test_total_variation_of_a_shift_matches_the_reference_values(alpha, expected):
    # Reference values.
    exact = shift_total_variation(alpha, -0.5, 1.0)
    assert exact.low == pytest.approx(expected, abs=5e-7)
    numeric = hockey_stick(StableLaw1D(alpha, 0.5, 1.0), StableLaw1D(alpha, 0.0, 1.0), 0.0, width=1e-7)
    assert numeric.low <= exact.high
    assert exact.low <= numeric.high
    assert numeric.width < 1e-7


def test_the_shift_bound_of_theory_section_seven_holds():
    for alpha in (1.1, 1.5, 1.9):
        for shift in (1e-3, 0.5, 4.0):
            linear = shift * float(mpmath.gamma(1 + 1 / alpha) / mpmath.pi) / 0.7
            assert shift_total_variation(alpha, shift, 0.7).low <= linear


def test_the_chain_with_a_fixed_order_agrees_with_its_unrolled_sum(chain_spec):
    data = ridge([[1.0], [2.0], [0.5]], [1.0, -1.0, 0.3], 0.1)
    noise = {"kind": "stable", "alpha": 1.6, "scale": {"kind": "list", "values": [0.3, 0.2, 0.1, 0.4]}}
    spec = chain_spec(
        n=3, steps=4, noise=noise, batch={"scheme": "cyclic", "size": 1}, start={"kind": "point", "values": [2.0]}
    )
    found = stable_chain_law(spec, data)
    curvature, pull = np.array([1.0, 4.0, 0.25, 1.0]), np.array([1.0, -2.0, 0.15, 1.0])
    factors = 1 - 0.2 * (curvature + 0.1)
    weights = np.array([np.prod(factors[k + 1 :]) for k in range(4)])
    assert isinstance(found, StableLaw1D)
    assert found.location == pytest.approx(2.0 * np.prod(factors) + 0.2 * weights @ pull, rel=1e-14)
    assert found.scale == pytest.approx(np.sum(np.abs(weights * [0.3, 0.2, 0.1, 0.4]) ** 1.6) ** (1 / 1.6), rel=1e-14)


def test_a_random_order_gives_a_mixture_that_draws_agree_with(chain_spec, generator):
    """Kolmogorov distance of 20,000 simulated chains at false-alarm rate 1e-6 (Dvoretzky-Kiefer-Wolfowitz)."""
    data = ridge([[1.0], [1.0], [2.0]], [0.0, 0.0, 3.0])
    noise = {"kind": "stable", "alpha": 1.5, "scale": 0.2}
    spec = chain_spec(n=3, steps=3, noise=noise, batch={"scheme": "without-replacement", "size": 1})
    law = stable_chain_law(spec, data)
    theta, count = np.zeros(20_000), 20_000
    standard = StableLaw1D(1.5, 0.0, 1.0)
    for _ in range(3):
        odd = generator.random(count) < 1 / 3
        theta = theta - 0.2 * np.where(odd, 4 * theta - 6, theta) + 0.2 * sample(standard, generator, count)
    ranks = np.arange(1, count + 1) / count
    assert np.abs(law.line().cdf(np.sort(theta)) - ranks).max() < np.sqrt(np.log(2e6) / (2 * count)) + 1 / count
    assert total_variation(law, law).high < 1e-7
