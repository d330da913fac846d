"""Natural parameters convert to moments and back, measure lengths as stated, and give posteriors with those moments."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.mechanisms.posterior.laws import DrawsPosterior, GaussianPosterior
from sordino.models.families.classification import Logistic
from sordino.models.message_passing.gaussians import BlockGaussian, DiagonalGaussian, Moments, Slopes
from sordino.models.message_passing.sites import GaussianSite
from tests.mechanisms.messages.conftest import natural

FREE = (-np.inf, np.inf)
FAMILIES = [DiagonalGaussian(3), DiagonalGaussian(2, 1), BlockGaussian(3), BlockGaussian(6, blocks=3)]
SITE = GaussianSite()


def random_moments(family, seed=0):
    rng = np.random.default_rng(seed)
    gammas = [rng.uniform(2, 5, family.gammas) for _ in range(2)]
    if isinstance(family, DiagonalGaussian):
        return Moments(rng.normal(size=family.dim), rng.uniform(0.5, 2, family.dim), *gammas)
    roots = rng.normal(size=(family.blocks, family.width, family.width))
    covariance = roots @ roots.swapaxes(1, 2) + np.eye(family.width)
    return Moments(rng.normal(size=(family.blocks, family.width)), covariance, *gammas)


@partial(jax.jit, static_argnums=0)
def moments_of(family, theta):
    """Compiled as a whole: operation by operation takes many times as long."""
    return family.moments(theta)


def dense(family, moments):
    """Mean and covariance of the Gaussian part as plain arrays."""
    if isinstance(family, DiagonalGaussian):
        return np.asarray(moments.mean), np.diag(moments.covariance)
    covariance = np.zeros((family.dim, family.dim))
    for block in range(family.blocks):
        place = slice(block * family.width, (block + 1) * family.width)
        covariance[place, place] = moments.covariance[block]
    return np.asarray(moments.mean).ravel(), covariance


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_moments_survive_natural_parameters_whose_length_is_the_norm_of_the_stack(family):
    with jax.enable_x64(True):
        moments = random_moments(family)
        theta = natural(family, moments)
        assert theta.shape == (family.size,)
        for there, back in zip(moments, moments_of(family, theta), strict=True):
            np.testing.assert_allclose(back, there, rtol=1e-10)
        parts = jax.jit(family.unpack)(theta)
        np.testing.assert_allclose(jax.jit(family.pack)(parts), theta, rtol=1e-12)
        squares = sum(jnp.sum(part**2) for part in parts)
        assert float(np.linalg.norm(theta)) == pytest.approx(np.sqrt(float(squares)), rel=1e-12)
        prior = jax.jit(lambda: family.prior(4.0, jnp.arange(family.dim) * 1.0, ((3.0, 2.0),) * family.gammas))()
        mean, covariance = dense(family, moments_of(family, prior))
        np.testing.assert_allclose(mean, np.arange(family.dim), rtol=1e-12)
        np.testing.assert_allclose(covariance, np.eye(family.dim) / 4.0, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_message_times_the_cavity_has_the_tilted_moments(family):
    """Mean m + V g and covariance V - V k V, whatever g and k are, as long as the result is a covariance."""
    with jax.enable_x64(True):
        moments = random_moments(family)
        rng = np.random.default_rng(3)
        g = rng.normal(size=moments.mean.shape)
        if isinstance(family, DiagonalGaussian):
            k = rng.uniform(-0.3, 0.3, moments.mean.shape)
        else:
            raw = rng.uniform(-0.05, 0.05, moments.covariance.shape)
            k = raw + raw.swapaxes(1, 2)
        slopes = Slopes(g, k, np.zeros(2 * family.gammas))
        message = jax.jit(lambda moments, slopes: family.site(moments, slopes, 1.0, FREE))(moments, slopes)
        m, V = dense(family, moments)
        step, curve = dense(family, Moments(g, k, moments.shape, moments.rate))
        mean, covariance = dense(family, moments_of(family, natural(family, moments) + message))
        np.testing.assert_allclose(mean, m + V @ step, rtol=1e-8)
        np.testing.assert_allclose(covariance, V - V @ curve @ V, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("family", [FAMILIES[0], FAMILIES[3]], ids=str)
def test_a_gaussian_posterior_and_its_own_draws_agree(family):
    """40,000 draws: errors of moments and of ends are about 0.5 % of a standard deviation."""
    moments = random_moments(family)
    posterior = GaussianPosterior(SITE, family, np.asarray(natural(family, moments)))
    draws = DrawsPosterior(Logistic(), posterior.sample(np.random.default_rng(1), 40_000)[None])
    mean, covariance = dense(family, moments)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(posterior.covariance, covariance, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), rtol=1e-3)
    width = np.sqrt(covariance.max())
    np.testing.assert_allclose(draws.mean, mean, atol=0.03 * width)
    np.testing.assert_allclose(draws.covariance, covariance, atol=0.06 * width**2)
    np.testing.assert_allclose(draws.interval(0.8), posterior.interval(0.8), atol=0.06 * width)


def test_bad_posteriors_and_levels_are_refused():
    good = DrawsPosterior(Logistic(), np.ones((1, 2, 3)))
    for build in (
        lambda: GaussianPosterior(SITE, SITE.family(2), np.zeros(5)),
        lambda: GaussianPosterior(SITE, SITE.family(2), np.zeros(4)),
        lambda: DrawsPosterior(Logistic(), np.zeros((2, 3))),
        lambda: good.interval(1.0),
    ):
        with pytest.raises(InputError, match="Expected"):
            build()
