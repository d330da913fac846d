"""Expectation propagation against exact posteriors, and the stochastic version against both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from papers.vinaroz_park.message_passing import ProbitSite, expectation_propagation, inverse_mills, stochastic_ep
from sordino.core.spec import Scheme
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.messages import Prior, Refinement
from sordino.models.message_passing.sites import GaussianSite, LogisticSite, MixtureSite


def regression(n=12, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dim))
    return X, X @ rng.normal(size=dim) + 0.3 * rng.normal(size=n)


def exact_regression(X, y, noise_precision, prior_precision):
    precision = prior_precision * np.eye(X.shape[1]) + noise_precision * X.T @ X
    covariance = np.linalg.inv(precision)
    return covariance @ (noise_precision * X.T @ y), covariance


def test_ep_is_the_exact_posterior_of_a_gaussian_likelihood():
    X, y = regression()
    with jax.enable_x64(True):
        result = expectation_propagation(GaussianSite(noise_precision=4.0), X, y, prior=Prior(0.5), passes=1)
        mean, covariance = exact_regression(X, y, 4.0, 0.5)
        np.testing.assert_allclose(result.posterior.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(result.posterior.covariance, covariance, rtol=1e-9, atol=1e-12)
        assert result.repairs.rounds == 0


@pytest.mark.slow
def test_one_full_round_of_stochastic_ep_is_exact_for_a_gaussian_likelihood():
    """Gaussian messages do not depend on the cavity, so gamma = N sums them all at once."""
    X, y = regression()
    with jax.enable_x64(True):
        result = stochastic_ep(
            GaussianSite(noise_precision=4.0),
            X,
            y,
            SeededRandomness(0),
            prior=Prior(0.5),
            refinement=Refinement(),
            steps=1,
            sampling=Scheme.FULL,
            damping=float(len(X)),
        )
        mean, covariance = exact_regression(X, y, 4.0, 0.5)
        np.testing.assert_allclose(result.posterior.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(result.posterior.covariance, covariance, rtol=1e-9, atol=1e-12)


def reference_ep(likelihood, x, y, passes):
    """Expectation propagation for one parameter with a standard normal prior, moments by a grid: slow and obvious."""
    linear, precision = np.zeros(len(x)), np.zeros(len(x))
    for _ in range(passes):
        for n in range(len(x)):
            cavity_precision = 1.0 + precision.sum() - precision[n]
            cavity_mean = (linear.sum() - linear[n]) / cavity_precision
            grid = cavity_mean + np.linspace(-9, 9, 4001) / np.sqrt(cavity_precision)
            density = np.exp(-0.5 * cavity_precision * (grid - cavity_mean) ** 2 + likelihood(y[n] * x[n] * grid))
            density /= density.sum()
            mean = density @ grid
            variance = density @ (grid - mean) ** 2
            precision[n] = 1.0 / variance - cavity_precision
            linear[n] = mean / variance - cavity_mean * cavity_precision
    total = 1.0 + precision.sum()
    return linear.sum() / total, total**-0.5


@pytest.mark.parametrize(
    ("site", "likelihood"), [(ProbitSite(), special.log_ndtr), (LogisticSite(), special.log_expit)]
)
def test_ep_for_binary_labels_matches_quadrature(site, likelihood):
    """One parameter, 25 labels: a plain EP by quadrature gives the same fixed point, and both are near the truth.

    The posterior is skewed by 0.24, so EP's deviation is 1 to 2 % short of the exact one; its mean is not.
    """
    rng = np.random.default_rng(2)
    x = rng.normal(size=25)
    y = np.where(rng.uniform(size=25) < special.ndtr(0.8 * x), 1.0, -1.0)
    grid = np.linspace(-6, 6, 20001)
    log_density = -0.5 * grid**2 + likelihood(y[:, None] * x[:, None] * grid).sum(axis=0)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = density @ grid
    deviation = np.sqrt(density @ (grid - mean) ** 2)
    with jax.enable_x64(True):
        posterior = expectation_propagation(site, x[:, None], y, prior=Prior(1.0), passes=10).posterior
        found = posterior.mean[0], posterior.variance[0] ** 0.5
    np.testing.assert_allclose(found, reference_ep(likelihood, x, y, 10), rtol=1e-5)
    assert found[0] == pytest.approx(mean, abs=0.01 * deviation)
    assert found[1] == pytest.approx(deviation, rel=0.02)


@pytest.mark.slow
def test_stochastic_ep_comes_near_ep():
    """Full rounds, one factor instead of 40: within 5 % of a deviation, and variances within 5 %."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    y = np.where(X @ [1.0, -0.5] + rng.normal(size=40) > 0, 1.0, -1.0)
    with jax.enable_x64(True):
        ep = expectation_propagation(ProbitSite(), X, y, prior=Prior(1.0), passes=20).posterior
        sep = stochastic_ep(
            ProbitSite(),
            X,
            y,
            SeededRandomness(0),
            prior=Prior(1.0),
            refinement=Refinement(),
            steps=60,
            sampling=Scheme.FULL,
            damping=0.5 * len(X),
        ).posterior
        np.testing.assert_allclose(sep.mean, ep.mean, atol=0.05 * np.sqrt(ep.variance).max())
        np.testing.assert_allclose(sep.variance, ep.variance, rtol=0.05)


@pytest.mark.slow
def test_ep_finds_the_means_of_a_mixture():
    rng = np.random.default_rng(6)
    means = np.array([[-2.0, 0.0], [2.0, 1.0]])
    X = means[rng.integers(0, 2, 200)] + 0.5 * rng.normal(size=(200, 2))
    prior = Prior(1.0, (-0.5, 0.0, 0.5, 0.0))
    result = expectation_propagation(MixtureSite((0.5, 0.5), 0.5), X, np.zeros(200), prior=prior, passes=5)
    # Each mean has about 100 points of spread 0.5: standard error 0.05, so 0.25 is five of them.
    np.testing.assert_allclose(result.posterior.mean.reshape(2, 2), means, atol=0.25)


def test_non_private_results_say_so():
    X, y = regression()
    result = expectation_propagation(GaussianSite(), X, y, prior=Prior(), passes=1)
    assert str(result).startswith("NOT PRIVATE")
    assert repr(result).startswith("NonPrivateResult(NOT PRIVATE")
    assert not hasattr(result, "spec")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_mills_ratio_keeps_its_precision_in_both_tails(dtype):
    z = np.concatenate([-np.geomspace(1e-3, 1e6, 200), np.linspace(-5, 8, 101)])
    with jax.enable_x64(True):
        ours = np.asarray(jax.jit(inverse_mills)(np.asarray(z, dtype=dtype)), dtype=float)
        held = np.asarray(np.asarray(z, dtype=dtype), dtype=float)
    exact = np.sqrt(2 / np.pi) / special.erfcx(-held / np.sqrt(2))
    assert ours == pytest.approx(exact, rel=2e2 * float(jnp.finfo(dtype).eps), abs=1e-30)
