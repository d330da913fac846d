"""Tilted moments: exact for Gaussians, by quadrature for others, backpropagation by simulation and by derivatives.

What a site computes is compiled as a whole: operation by operation, hundreds of small programs would be compiled.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sordino.core.validate import InputError
from sordino.models.message_passing import sites
from sordino.models.message_passing.gaussians import DiagonalGaussian, Moments
from sordino.noise.lattice import clipped_total

EMPTY = np.zeros(0)
NETWORK = sites.NetworkSite(4, 3.0)


def full_cavity(seed=0, dim=2):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(dim, dim))
    return Moments(rng.normal(size=(1, dim)), (root @ root.T + 0.3 * np.eye(dim))[None], EMPTY, EMPTY)


def network_cavity(features=3, seed=0):
    rng = np.random.default_rng(seed)
    dim = NETWORK.family(features).dim
    return Moments(rng.normal(size=dim), rng.uniform(0.05, 0.8, dim), EMPTY, EMPTY)


def on_device(moments):
    return Moments(*(jnp.asarray(part) for part in moments))


# Each site with its likelihood of a score.
LIKELIHOODS = {
    "gaussian": (sites.GaussianSite(noise_precision=2.5), lambda s, y: jnp.exp(-1.25 * (y - s) ** 2)),
    "logistic": (sites.LogisticSite(), lambda s, y: jax.nn.sigmoid(y * s)),
}
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(100)


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_slopes_are_derivatives_of_the_predictive_density(name, label):
    """g = dlogZ/dm and k = -d2logZ/dm2 in every direction, Z by 100 nodes; logistic sites have 32, good to 1e-6."""
    site, likelihood = LIKELIHOODS[name]
    with jax.enable_x64(True):
        cavity, x, y = on_device(full_cavity()), jnp.asarray([0.8, -1.1]), jnp.asarray(label)

        def log_z(mean):
            scores = x @ mean + jnp.sqrt(x @ cavity.covariance[0] @ x) * NODES
            return jnp.log(jnp.sum(WEIGHTS * likelihood(scores, y)))

        slopes = jax.jit(site.slopes)(cavity, x, y)
        np.testing.assert_allclose(slopes.g[0], jax.jit(jax.grad(log_z))(cavity.mean[0]), rtol=1e-5)
        np.testing.assert_allclose(slopes.k[0], -jax.jit(jax.hessian(log_z))(cavity.mean[0]), rtol=1e-4, atol=1e-9)


def test_a_mixture_is_tilted_as_a_grid_says():
    """Two means on a line: the tilted law of both is a density in the plane, integrated on a grid of 1200 x 1200."""
    site = sites.MixtureSite((0.3, 0.7), 0.5)
    means, variances, x = np.array([-0.4, 0.9]), np.array([0.6, 0.3]), 0.35
    grid = np.linspace(-8, 8, 1200)
    priors = [stats.norm.pdf(grid, m, v**0.5) for m, v in zip(means, variances, strict=True)]
    seen = [weight * stats.norm.pdf(x, grid, 0.5) for weight in site.weights]
    density = (seen[0][:, None] + seen[1][None]) * priors[0][:, None] * priors[1][None]
    density /= density.sum()
    with jax.enable_x64(True):
        cavity = on_device(Moments(means[:, None], variances[:, None, None], EMPTY, EMPTY))
        slopes = jax.jit(site.slopes)(cavity, jnp.asarray([x]), jnp.asarray(0.0))
        for component in range(2):
            marginal = density.sum(axis=1 - component)
            mean = marginal @ grid
            variance = marginal @ (grid - mean) ** 2
            m, v = means[component], variances[component]
            assert m + v * float(slopes.g[component, 0]) == pytest.approx(mean, rel=1e-6)
            assert v - v * v * float(slopes.k[component, 0, 0]) == pytest.approx(variance, rel=1e-6)


def test_the_networks_output_moments_match_simulation():
    """Mean and variance of the output over random weights are exact; 400,000 draws, false alarms below 1e-6 each."""
    cavity, x = network_cavity(), np.array([0.7, -1.2, 0.4])
    rng = np.random.default_rng(5)
    draws = 400_000
    weights = cavity.mean + np.sqrt(cavity.covariance) * rng.standard_normal((draws, len(cavity.mean)))
    first, second = weights[:, :16].reshape(draws, 4, 4), weights[:, 16:]
    hidden = np.maximum(first @ (np.append(x, 1.0) / 2.0), 0.0)
    output = (np.sum(hidden * second[:, :4], axis=1) + second[:, 4]) / math.sqrt(5)
    with jax.enable_x64(True):
        predicted = jax.jit(NETWORK.predict)(on_device(cavity), jnp.asarray(x[None]))
    mean, variance = float(predicted[0][0]), float(predicted[1][0]) - 1 / 3.0
    assert abs(output.mean() - mean) < 5.0 * output.std() / math.sqrt(draws)
    spread = (output - mean) ** 2
    assert abs(spread.mean() - variance) < 5.0 * spread.std() / math.sqrt(draws)


def test_backpropagation_by_hand_is_the_gradient_of_log_z():
    """g = dlogZ/dm and k = g^2 - 2 dlogZ/dv, coded by hand, against automatic differentiation."""
    with jax.enable_x64(True):
        cavity, x, y = on_device(network_cavity()), jnp.asarray([0.7, -1.2, 0.4]), jnp.asarray(0.9)

        def log_z(mean, variance):
            at, spread = NETWORK.predict(cavity._replace(mean=mean, covariance=variance), x[None])
            return -0.5 * (jnp.log(spread[0]) + (y - at[0]) ** 2 / spread[0])

        by_mean, by_variance = jax.jit(jax.grad(log_z, argnums=(0, 1)))(cavity.mean, cavity.covariance)
        slopes = jax.jit(NETWORK.slopes)(cavity, x, y)
        np.testing.assert_allclose(slopes.g, by_mean, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(slopes.k, by_mean**2 - 2 * by_variance, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("noise", "bound"),
    [
        (sites.GammaPrecision(6.0, 6.0), 30.0),
        pytest.param(3.0, 0.05, marks=pytest.mark.slow),
        pytest.param(3.0, 30.0, marks=pytest.mark.slow),
        pytest.param(sites.GammaPrecision(6.0, 6.0), 0.05, marks=pytest.mark.slow),
    ],
)
def test_the_factored_sum_is_the_sum_of_clipped_slopes(noise, bound):
    """Matrix products over hidden units give what clipping each record's whole vector gives; rows have 20 digits."""
    site = sites.NetworkSite(4, noise)
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        gammas = [jnp.asarray([value]) for pair in site.gamma_prior for value in pair] or [jnp.asarray(EMPTY)] * 2
        cavity = on_device(network_cavity())._replace(shape=gammas[0], rate=gammas[1])
        X, y = jnp.asarray(rng.normal(size=(7, 3))), jnp.asarray(rng.normal(size=7))
        weights = jnp.asarray([1.0, 1, 1, 0, 1, 1, 0])
        fast, slow = (
            jax.jit(
                lambda parts=parts: clipped_total(parts(cavity, X, y, 0.1), weights, jnp.asarray(bound)).noised(0.0)
            )()
            for parts in (site.centred_parts, super(sites.NetworkSite, site).centred_parts)
        )
        np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-6 * bound)


def test_the_message_to_an_unknown_precision_matches_its_tilted_moments():
    """Where the weights hardly vary, the exact tilted law of the precision is a Gamma: shape + 1/2, rate + r^2 / 2.

    The match replaces a Student density by a Gaussian of the same variance, so it is close, not equal: 2 %.
    """
    site = sites.NetworkSite(2, sites.GammaPrecision(40.0, 20.0))
    family = site.family(1)
    assert isinstance(family, DiagonalGaussian)
    with jax.enable_x64(True):
        moments = Moments(jnp.zeros(family.dim), jnp.full(family.dim, 1e-6), jnp.asarray([40.0]), jnp.asarray([20.0]))
        message = jax.jit(site.slopes)(moments, jnp.asarray([0.3]), jnp.asarray(0.5)).gamma
    # The first two moments of the precision, exact against matched.
    exact = stats.gamma(40.5, scale=1 / 20.125)
    matched = stats.gamma(40.0 + float(message[0]), scale=1 / (20.0 - float(message[1])))
    assert matched.mean() == pytest.approx(exact.mean(), rel=0.02)
    assert matched.var() == pytest.approx(exact.var(), rel=0.05)


def test_bad_sites_are_refused():
    for build in (
        lambda: sites.GaussianSite(noise_precision=0.0),
        lambda: sites.MixtureSite((0.5, 0.6), 1.0),
        lambda: sites.MixtureSite((0.5, 0.5), -1.0),
        lambda: sites.NetworkSite(0, 1.0),
        lambda: sites.GammaPrecision(1.0, 1.0),
    ):
        with pytest.raises(InputError, match="Expected"):
            build()
