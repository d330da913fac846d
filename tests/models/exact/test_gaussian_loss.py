"""Divergences: closed forms, roots, contours and draws agree, and brackets on the line are as narrow as they say."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special

from papers.framework.renyi import renyi
from sordino.core.gaussian import delta_range
from sordino.core.validate import InputError
from sordino.models.exact import GaussianLaw, GaussianLoss, GaussianMixtureLaw, StableLaw1D, hockey_stick
from tests.models.exact.laws import density, epsilon_at, log_density, mixture_of, total_variation


def law(mean: float, variance: float) -> GaussianLaw:
    return GaussianLaw(np.array([mean]), np.array([[variance]]))


def random_pair(generator, dim):
    a = generator.normal(size=(dim, dim))
    b = a + 0.3 * generator.normal(size=(dim, dim))
    mean = generator.normal(size=dim)
    first = GaussianLaw(mean, a @ a.T + 0.1 * np.eye(dim))
    return first, GaussianLaw(mean + 0.5 * generator.normal(size=dim), b @ b.T + 0.1 * np.eye(dim))


def test_equal_covariances_give_the_gaussian_trade_off(generator):
    root = generator.normal(size=(4, 4))
    covariance = root @ root.T + 0.1 * np.eye(4)
    gap = generator.normal(size=4)
    mu = math.sqrt(gap @ np.linalg.solve(covariance, gap))
    first, second = GaussianLaw(gap, covariance), GaussianLaw(np.zeros(4), covariance)
    for epsilon in (-1.0, 0.0, 0.5, 3.0):
        assert float(delta_range(mu, epsilon)[0]) == pytest.approx(hockey_stick(first, second, epsilon).low, rel=1e-11)
    assert renyi(first, second, 3.0) == pytest.approx(1.5 * mu * mu, rel=1e-12)
    assert total_variation(first, second).low == pytest.approx(2 * special.ndtr(mu / 2) - 1, rel=1e-12)


def test_renyi_agrees_with_the_determinant_formula(generator):
    for dim in (1, 2, 5):
        first, second = random_pair(generator, dim)
        for order in (0.5, 1.3, 2.0):
            mixed = order * second.covariance + (1 - order) * first.covariance
            gap = first.mean - second.mean
            if np.linalg.eigvalsh(mixed).min() <= 0:
                assert renyi(first, second, order) == math.inf
                continue
            log_dets = [np.linalg.slogdet(m)[1] for m in (mixed, first.covariance, second.covariance)]
            determinant = log_dets[0] - (1 - order) * log_dets[1] - order * log_dets[2]
            expected = order / 2 * gap @ np.linalg.solve(mixed, gap) - determinant / (2 * (order - 1))
            assert renyi(first, second, order) == pytest.approx(expected, rel=1e-10)


def test_renyi_of_order_one_is_the_limit():
    first, second = law(0.3, 1.2), law(0.0, 1.0)
    assert renyi(first, second, 1.0) == pytest.approx(renyi(first, second, 1 + 1e-7), rel=1e-5)


def test_renyi_is_infinite_exactly_beyond_its_domain():
    assert math.isfinite(renyi(law(0.0, 1.5), law(0.0, 1.0), 2.999))
    assert renyi(law(0.0, 1.5), law(0.0, 1.0), 3.0) == math.inf


@pytest.mark.parametrize(
    ("ratio", "mean", "epsilon"), [(1.5, 0.3, 0.2), (0.6, 1.0, 0.5), (2.0, 0.0, 1.0), (0.5, 0.0, 0.1)]
)
def test_on_the_line_roots_agree_with_high_precision_quadrature(ratio, mean, epsilon):
    def positive_part(x):
        p = mpmath.npdf(x, mean, mpmath.sqrt(ratio))
        return max(p - mpmath.exp(epsilon) * mpmath.npdf(x, 0, 1), mpmath.mpf(0))

    with mpmath.workdps(20):
        a, b = 0.5 * (1 - 1 / ratio), mean / ratio
        c = -0.5 * math.log(ratio) - mean**2 / (2 * ratio) - epsilon
        roots = sorted(np.roots([a, b, c]).real)
        exact = float(mpmath.quad(positive_part, [-14, *roots, 14]))
    found = hockey_stick(law(mean, ratio), law(0.0, 1.0), epsilon)
    assert found.low <= exact * (1 + 1e-12)
    assert found.high >= exact * (1 - 1e-12)
    assert found.width < 1e-13


@pytest.mark.parametrize("cases", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_contour_brackets_contain_what_roots_and_closed_forms_say(generator, cases):
    for _ in range(cases):
        ratio = math.exp(generator.normal() * generator.choice([0.01, 0.3, 1.5]))
        mean, epsilon = generator.normal() * generator.choice([0.1, 1, 5]), generator.normal() * 2
        loss = GaussianLoss(0.0, np.array([ratio]), np.array([mean]))
        roots, integral = loss.delta(epsilon), loss.contour(epsilon)
        assert integral.low <= roots.high
        assert roots.low <= integral.high
        mu = abs(generator.normal()) * generator.choice([0.01, 0.3, 3.0, 20.0])
        flat = GaussianLoss(mu, np.empty(0), np.empty(0))
        closed, integral = flat.delta(epsilon), flat.contour(epsilon)
        assert integral.low <= closed.high
        assert closed.low <= integral.high
        assert integral.width <= 1e-11 * integral.high + 1e-290


def test_in_two_dimensions_the_contour_agrees_with_averaging_over_one_of_them():
    loss = GaussianLoss(0.0, np.array([0.6, 1.7]), np.array([0.4, -0.3]))
    rest = GaussianLoss(0.0, loss.ratios[1:], loss.means[1:])
    z, weights = np.polynomial.hermite_e.hermegauss(120)
    # Given the first coordinate, under P, its loss shifts epsilon and scales nothing.
    v, m = loss.ratios[0], loss.means[0]
    first = -0.5 * math.log(v) + m * m / 2 + m * math.sqrt(v) * z + (v - 1) / 2 * z * z
    mixed = sum(w * rest.delta(0.3 - shift).low for w, shift in zip(weights, first, strict=True)) / math.sqrt(
        2 * math.pi
    )
    assert loss.delta(0.3).low == pytest.approx(mixed, rel=1e-9)


def test_multidimensional_delta_agrees_with_draws(generator):
    """8 two-sided comparisons at 5 standard errors: false alarm below 8 x 6e-7 = 4.8e-6."""
    for dim in (2, 3, 5, 8):
        for epsilon in (0.0, 0.7):
            first, second = random_pair(generator, dim)
            points = first.sample(generator, 100_000)
            log_ratio = log_density(first, points) - log_density(second, points)
            drawn = np.maximum(0, -np.expm1(epsilon - log_ratio))
            exact = GaussianLoss.between(first, second).delta(epsilon).low
            assert abs(drawn.mean() - exact) < 5 * drawn.std() / math.sqrt(len(drawn)) + 1e-4 / len(drawn)


def test_a_tiny_delta_keeps_its_relative_accuracy():
    found = GaussianLoss(0.1, np.array([0.5, 1.2]), np.array([0.2, 0.3])).delta(100.0)
    assert 0 < found.low < 1e-100
    assert found.width < 1e-9 * found.low


def test_epsilon_at_reproduces_the_gaussian_mechanism():
    # Reference: one Gaussian, multiplier 1, delta = 1e-5, add-remove.
    found = epsilon_at(law(1.0, 1.0), law(0.0, 1.0), 1e-5)
    assert found.low == pytest.approx(4.3772, abs=1e-4)
    assert found.width < 1e-9


def test_laws_without_a_density_or_of_different_dimension_are_refused():
    with pytest.raises(InputError, match="singular"):
        hockey_stick(GaussianLaw(np.zeros(2), np.ones((2, 2))), GaussianLaw(np.zeros(2), np.eye(2)), 0.0)
    with pytest.raises(InputError, match="same dimension"):
        renyi(GaussianLaw(np.zeros(2), np.eye(2)), law(0, 1), 2.0)


def test_an_epsilon_beyond_the_exponential_gives_a_bracket():
    loss = GaussianLoss.between(GaussianLaw([8.0], [[1.01]]), GaussianLaw([0.0], [[1.0]]))
    far = loss.delta(1500.0)
    assert far.low == 0.0
    assert far.high <= loss.delta(690.0).high + 1e-300


def mixture(weights, means, variances) -> GaussianMixtureLaw:
    return GaussianMixtureLaw(np.array(weights), np.array(means)[:, None], np.array(variances)[:, None, None])


FIRST = mixture([0.9, 0.1], [0.0, 2.0], [1.0, 1.0])
SECOND = mixture([0.9, 0.1], [0.0, -2.0], [1.0, 1.2])


@pytest.mark.parametrize(
    ("mean", "variance", "epsilon"), [(1, 1, 0.0), (1, 1, 2.0), (0.3, 1.2, 0.1), (0, 0.5, 0.2), (1, 0.9, -1)]
)
def test_one_component_agrees_with_the_exact_gaussian_formula(mean, variance, epsilon):
    exact = hockey_stick(law(mean, variance), law(0, 1), epsilon)
    found = hockey_stick(mixture_of(law(mean, variance)), mixture_of(law(0, 1)), epsilon)
    assert found.low <= exact.high
    assert exact.low <= found.high
    assert found.width <= 1e-10


@pytest.mark.every(2)
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 1.0])
def test_mixtures_agree_with_plain_quadrature(epsilon):
    def positive_part(x):
        at = np.array([x])
        return max(0.0, float((density(FIRST, at) - math.exp(epsilon) * density(SECOND, at))[()]))

    exact, error = integrate.quad(positive_part, -15, 15, limit=2000, epsabs=1e-11, points=[-2, 0, 1, 2])
    found = hockey_stick(FIRST, SECOND, epsilon)
    assert found.low - 10 * error - 1e-10 <= exact <= found.high + 10 * error + 1e-10


def test_a_coarser_request_gives_a_wider_bracket_that_still_contains_the_finer_one():
    coarse, fine = (hockey_stick(FIRST, SECOND, 0.2, width=width) for width in (1e-3, 1e-11))
    assert coarse.low <= fine.low
    assert fine.high <= coarse.high
    assert fine.width < 1e-11 < coarse.width <= 1e-3


def test_a_narrow_spike_is_not_missed():
    found = hockey_stick(mixture([1 - 1e-4, 1e-4], [0.0, 3.3], [1.0, 1e-10]), law(0, 1), 0.0)
    assert found.low == pytest.approx(1e-4, rel=1e-3)


def test_both_directions_satisfy_the_identity_of_the_hockey_stick():
    # delta_PQ(eps) = 1 - exp(eps) + exp(eps) delta_QP(-eps).
    for epsilon in (-0.4, 0.7):
        forward, backward = hockey_stick(FIRST, SECOND, epsilon), hockey_stick(SECOND, FIRST, -epsilon)
        assert forward.low == pytest.approx(1 - math.exp(epsilon) + math.exp(epsilon) * backward.low, abs=1e-9)


def test_stable_laws_of_different_scale_agree_with_plain_quadrature():
    first, second = StableLaw1D(1.5, 0.5, 1.0), StableLaw1D(1.5, 0.0, 1.3)

    def positive_part(x):
        return max(0.0, float(density(first, x) - math.exp(0.1) * density(second, x)))

    exact, error = integrate.quad(positive_part, -60, 60, limit=500, epsabs=1e-9, points=[-1, 0, 1, 2])
    found = hockey_stick(first, second, 0.1)
    assert found.low - error - 1e-8 <= exact <= found.high + error + 1e-8
    assert found.width <= 1e-8


@pytest.mark.parametrize("order", [0.5, 2.0, 8.0, 40.0])
def test_renyi_by_quadrature_agrees_with_the_closed_form(order):
    first, second = law(0.7, 0.95), law(0, 1)
    found = renyi(mixture_of(first), mixture_of(second), order)
    assert found == pytest.approx(renyi(first, second, order), rel=1e-9)


def test_renyi_of_a_mixture_is_at_most_that_of_its_best_matched_components():
    # Joint convexity of exp((order - 1) D) for matched components.
    shifted = mixture([0.5, 0.5], [0.3, 1.0], [1.0, 1.0])
    base = mixture([0.5, 0.5], [0.0, 0.7], [1.0, 1.0])
    assert 0 < renyi(shifted, base, 3.0) <= 3.0 * 0.09 / 2 * (1 + 1e-12)
