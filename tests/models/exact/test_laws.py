"""Laws are frozen values whose density, cdf and draws agree; the posterior of linear regression is one of them."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from sordino.core.validate import InputError
from sordino.models.exact import ConjugateRegression, GaussianLaw, GaussianMixtureLaw, LineMixture, StableLaw1D
from sordino.models.exact.line import NORMAL, NormalFamily, StableFamily
from tests.models.exact.laws import log_density, moments, predictive, sample

MIXTURE = GaussianMixtureLaw(
    np.array([0.2, 0.5, 0.3]), np.array([[-2.0], [0.5], [1.0]]), np.array([[[0.3]], [[1.0]], [[2.0]]])
)
LINES = [
    MIXTURE,
    GaussianLaw(np.array([0.4]), np.array([[2.0]])),
    StableLaw1D(1.6, -0.3, 0.7),
    StableLaw1D(2.0, 1.0, 0.5),
]


def test_arrays_are_read_only_copies():
    mean = np.zeros(2)
    law = GaussianLaw(mean, np.eye(2))
    mean[0] = 5.0
    assert law.mean[0] == 0.0
    for array in (law.mean, law.covariance, MIXTURE.weights, MIXTURE.means, MIXTURE.covariances):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1.0


@pytest.mark.parametrize("law", LINES, ids=lambda law: type(law).__name__)
def test_the_density_is_the_derivative_of_the_cdf(law):
    for low, high in ((-3.0, -1.0), (-1.0, 0.5), (0.5, 4.0)):
        mass = integrate.quad(lambda x: float(law.line().density(x)), low, high, epsabs=1e-12)[0]
        assert float(law.line().cdf(high) - law.line().cdf(low)) == pytest.approx(mass, abs=1e-10)


@pytest.mark.parametrize("law", LINES, ids=lambda law: type(law).__name__)
def test_draws_follow_the_cdf(law, generator):
    """Kolmogorov-Smirnov at level 1e-6 for each of four laws."""
    assert stats.kstest(sample(law, generator, 20_000).reshape(-1), law.line().cdf).pvalue > 1e-6


def test_mixture_moments_and_draws_in_two_dimensions(generator):
    """Five moments at 5 standard errors: false alarm below 3e-6."""
    law = GaussianMixtureLaw(
        np.array([0.3, 0.7]), np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([np.eye(2), [[2.0, 0.5], [0.5, 1.0]]])
    )
    draws = sample(law, generator, 100_000)
    mean, covariance = moments(law)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * draws.std(axis=0) / math.sqrt(len(draws)))
    products = np.einsum("ia,ib->iab", draws - mean, draws - mean)
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 5 * products.std(axis=0) / math.sqrt(len(draws)))


def test_copies_are_independent():
    law = GaussianLaw(np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]]))
    assert law.copies(2).covariance.tolist() == np.kron(np.eye(2), law.covariance).tolist()


@pytest.mark.parametrize("family", [NORMAL, StableFamily(1.2), StableFamily(1.7), StableFamily(2.0)], ids=str)
def test_the_curvature_bound_holds(family):
    points = np.concatenate([np.linspace(0.0, 8.0, 400), np.geomspace(8.0, 200.0, 100)])
    step = 1e-3 * (1 + points)
    density = [np.exp(family.log_density(points + k * step)) for k in (-1, 0, 1)]
    second = np.abs(density[0] - 2 * density[1] + density[2]) / step**2
    # sup of |p''| over everything further out, by a backward running maximum, with the error of the difference.
    beyond = np.maximum.accumulate(second[::-1])[::-1]
    assert np.all(beyond <= family.curvature(points) * (1 + 1e-4) + 1e-9)


@pytest.mark.parametrize("family", [NormalFamily(), StableFamily(1.5)], ids=str)
def test_the_reach_leaves_at_most_the_tail(family):
    assert 2 * float(family.above(np.array(family.reach(1e-6)))) <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GaussianLaw(np.zeros(2), np.eye(3)), "shape"),
        (lambda: GaussianLaw(np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]])), "symmetric"),
        (lambda: GaussianLaw(np.zeros(2), np.diag([1.0, -1.0])), "negative eigenvalue"),
        (lambda: GaussianLaw(np.array([np.nan]), np.eye(1)), "finite"),
        (lambda: GaussianMixtureLaw(np.array([0.5, 0.6]), np.zeros((2, 1)), np.ones((2, 1, 1))), "add to 1"),
        (lambda: LineMixture(NORMAL, np.ones(1), np.zeros(1), np.zeros(1)), "positive"),
        (lambda: StableLaw1D(0.9, 0.0, 1.0), "alpha"),
        (lambda: StableLaw1D(1.5, 0.0, 0.0), "scale"),
        (lambda: GaussianLaw(np.zeros(2), np.eye(2)).line(), "on the line"),
    ],
)
def test_bad_laws_are_refused_in_one_sentence(build, message):
    with pytest.raises(InputError, match=message):
        build()


@pytest.fixture
def table(generator):
    x = generator.normal(size=(12, 3))
    return x, x @ [1.0, -2.0, 0.5] + generator.normal(size=12)


def test_the_posterior_is_the_conditional_of_the_joint_gaussian(table):
    x, y = table
    model = ConjugateRegression(prior_precision=0.7, noise_precision=2.0)
    prior = np.eye(3) / 0.7
    cross, targets = prior @ x.T, x @ prior @ x.T + np.eye(12) / 2.0
    gain = cross @ np.linalg.inv(targets)
    posterior = model.posterior(x, y)
    assert np.allclose(posterior.mean, gain @ y, rtol=0, atol=1e-12)
    assert np.allclose(posterior.covariance, prior - gain @ cross.T, rtol=0, atol=1e-12)


def test_counts_stand_for_repeated_rows(table):
    x, y = table
    model = ConjugateRegression(1.0, 1.5)
    counts = np.arange(1, 13)
    grouped, plain = model.posterior(x, y, counts), model.posterior(np.repeat(x, counts, 0), np.repeat(y, counts))
    assert np.allclose(grouped.mean, plain.mean, atol=1e-13)
    assert np.allclose(grouped.covariance, plain.covariance, atol=1e-13)


def test_the_evidence_is_a_product_of_one_step_predictives(table):
    x, y = table
    model = ConjugateRegression(0.7, 2.0)
    prior = GaussianLaw(np.zeros(3), np.eye(3) / 0.7)
    law, total = prior, 0.0
    for k in range(12):
        total += float(log_density(predictive(model, law, x[k : k + 1]), y[k : k + 1]))
        law = model.posterior(x[: k + 1], y[: k + 1])
    assert float(log_density(predictive(model, prior, x), y)) == pytest.approx(total, rel=1e-12)


def test_one_parameter_matches_the_scalar_formula():
    # Reference: precision alpha + n x^2 beta, mean n c x^2 beta over it.
    law = ConjugateRegression(2.0, 1.0).posterior([[1.8]], [1.8 * 5.0], [1000.0])
    precision = 2.0 + 1000 * 1.8**2
    assert law.mean[0] == pytest.approx(1000 * 5.0 * 1.8**2 / precision, rel=1e-14)
    assert math.sqrt(law.covariance[0, 0]) == pytest.approx(precision**-0.5, rel=1e-14)
