"""Natural parameters convert there and back, measure lengths as stated, and give the right KL divergence."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import digamma, gammaln

from sordino.model.sites import BlockGaussian, DiagonalGaussian, Moments, Slopes

FREE = (-np.inf, np.inf)
FAMILIES = [DiagonalGaussian(3), DiagonalGaussian(2, 1), BlockGaussian(3), BlockGaussian(6, blocks=3)]


def random_moments(family, seed=0):
    rng = np.random.default_rng(seed)
    gammas = [rng.uniform(2, 5, family.gammas) for _ in range(2)]
    if isinstance(family, DiagonalGaussian):
        return Moments(rng.normal(size=family.dim), rng.uniform(0.5, 2, family.dim), *gammas)
    roots = rng.normal(size=(family.blocks, family.width, family.width))
    covariance = roots @ roots.swapaxes(1, 2) + np.eye(family.width)
    return Moments(rng.normal(size=(family.blocks, family.width)), covariance, *gammas)


@partial(jax.jit, static_argnums=0)
def natural(family, moments):
    """Compiled as a whole and once for a family: operation by operation takes many times as long."""
    return family.natural(moments)


@partial(jax.jit, static_argnums=0)
def moments_of(family, theta):
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
def test_moments_survive_the_way_through_natural_parameters(family):
    with jax.enable_x64(True):
        moments = random_moments(family)
        theta = natural(family, moments)
        assert theta.shape == (family.size,)
        for there, back in zip(moments, moments_of(family, theta), strict=True):
            np.testing.assert_allclose(back, there, rtol=1e-10)
        np.testing.assert_allclose(jax.jit(lambda t: family.pack(family.unpack(t)))(theta), theta, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_the_length_of_a_vector_is_the_norm_of_the_stack(family):
    with jax.enable_x64(True):

        @jax.jit
        def both(moments):
            parts = family.unpack(family.natural(moments))
            return family.pack(parts), sum(jnp.sum(part**2) for part in parts)

        vector, squares = both(random_moments(family))
        assert float(np.linalg.norm(vector)) == pytest.approx(np.sqrt(float(squares)), rel=1e-12)


def kl(family, first, second):
    """KL(first || second) of two members given by their natural vectors."""
    p, q = (jax.tree.map(np.asarray, moments_of(family, theta)) for theta in (first, second))
    (m, V), (w, W) = dense(family, p), dense(family, q)
    solved = np.linalg.solve(W, V)
    gaussian = np.trace(solved) - np.linalg.slogdet(solved)[1] + (w - m) @ np.linalg.solve(W, w - m) - family.dim
    gammas = (p.shape - q.shape) * digamma(p.shape) - gammaln(p.shape) + gammaln(q.shape)
    gammas += q.shape * (np.log(p.rate) - np.log(q.rate)) + p.shape * (q.rate - p.rate) / p.rate
    return 0.5 * gaussian + np.sum(gammas)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_kl_is_the_textbook_divergence(family):
    with jax.enable_x64(True):
        first, second = random_moments(family, 1), random_moments(family, 2)
        found = float(kl(family, natural(family, first), natural(family, second)))
        (m, V), (w, W) = dense(family, first), dense(family, second)
        inverse = np.linalg.inv(W)
        expected = 0.5 * (np.trace(inverse @ V) + (w - m) @ inverse @ (w - m) - family.dim)
        expected += 0.5 * (np.linalg.slogdet(W)[1] - np.linalg.slogdet(V)[1])
        for shape, rate, other, wide in zip(first.shape, first.rate, second.shape, second.rate, strict=True):
            p, q = stats.gamma(shape, scale=1 / rate), stats.gamma(other, scale=1 / wide)
            expected += integrate.quad(lambda t, p=p, q=q: p.pdf(t) * (p.logpdf(t) - q.logpdf(t)), 0, 60)[0]
        assert found == pytest.approx(expected, rel=1e-6)
        assert float(kl(family, natural(family, first), natural(family, first))) == pytest.approx(0.0, abs=1e-9)


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
