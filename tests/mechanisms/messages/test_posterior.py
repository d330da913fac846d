"""Posterior objects: Gaussian ones and draws answer alike, and agree where both describe the same posterior."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.mechanisms.posterior.laws import DrawsPosterior, GaussianPosterior
from sordino.models.families.classification import Logistic, Probit
from sordino.models.families.mixture import GaussianMixture
from sordino.models.families.networks import MLPRegression
from sordino.models.families.regression import GaussianLinear, PoissonRegression
from sordino.models.message_passing.gaussians import Moments
from sordino.models.message_passing.likelihoods import GaussianSite, LogisticSite, MixtureSite, ProbitSite
from sordino.models.message_passing.network import NetworkSite, PublicPrecision

EMPTY = jnp.zeros(0)
SITES = {
    "gaussian": GaussianSite(noise_precision=2.0),
    "gaussian-diagonal": GaussianSite(diagonal=True, noise_precision=2.0),
    "probit": ProbitSite(),
    "logistic": LogisticSite(),
    "mixture": MixtureSite((0.4, 0.6), 0.7),
    "network": NetworkSite(3, PublicPrecision(2.0)),
}


LONG = ("mixture", "probit", "network")


def posterior_of(name):
    rng = np.random.default_rng(0)
    site = SITES[name]
    family = site.family(2)
    mean = jnp.asarray(rng.normal(size=family.dim), jnp.float32)
    if name in ("gaussian-diagonal", "network"):
        moments = Moments(mean, jnp.asarray(rng.uniform(0.05, 0.4, family.dim), jnp.float32), EMPTY, EMPTY)
    else:
        roots = 0.4 * rng.normal(size=(family.blocks, family.width, family.width))
        covariance = jnp.asarray(roots @ roots.swapaxes(1, 2) + 0.05 * np.eye(family.width), jnp.float32)
        moments = Moments(mean.reshape(family.blocks, family.width), covariance, EMPTY, EMPTY)
    return GaussianPosterior(site, family, np.asarray(family.natural(moments)))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("mixture", "probit", "network") else name
        for name in SITES
    ],
)
def test_gaussian_predictions_match_those_of_its_own_draws(name):
    """40,000 draws: means and log-densities within 2 % of the closed form, variances within 5 %; errors are 0.5 %."""
    posterior = posterior_of(name)
    draws = DrawsPosterior(posterior.site, posterior.sample(np.random.default_rng(1), 40_000)[None].astype(np.float32))
    X, y = np.array([[0.3, -0.8], [1.0, 0.5], [-0.6, 0.2]]), np.array([1.0, -1.0, 1.0])
    closed, sampled = posterior.predict(X), draws.predict(X)
    scale = np.sqrt(closed.variance).max()
    np.testing.assert_allclose(sampled.mean, closed.mean, atol=0.02 * scale)
    np.testing.assert_allclose(sampled.variance, closed.variance, rtol=0.05)
    # The network's closed form takes its output to be Gaussian, which shows in the tails.
    share = 0.05 if name == "network" else 0.0
    np.testing.assert_allclose(draws.log_predictive(X, y), posterior.log_predictive(X, y), rtol=share, atol=0.02)
    np.testing.assert_allclose(draws.mean, posterior.mean, atol=0.02)
    np.testing.assert_allclose(draws.covariance, posterior.covariance, atol=0.02)
    np.testing.assert_allclose(draws.interval(0.8), posterior.interval(0.8), atol=0.05)


MODELS = {
    GaussianLinear(noise_precision=2.0): 2,
    Probit(): 2,
    Logistic(): 2,
    GaussianMixture((0.4, 0.6), 0.7): 4,
    MLPRegression((3,), noise_precision=2.0): 13,
    PoissonRegression(5.0, 9.0): 2,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_draws_under_every_model_have_proper_predictions(model):
    """Log-likelihoods differ from minus the loss by a constant of the record only, and variances are positive."""
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(1, 2, MODELS[model])).astype(np.float32)
    X, y = rng.normal(size=(4, 2)).astype(np.float32), np.array([1.0, -1.0, 1.0, -1.0], np.float32)
    y = np.abs(y) if isinstance(model, PoissonRegression) else y
    assert (DrawsPosterior(model, draws).predict(X).variance > 0).all()
    one, other = (DrawsPosterior(model, draws[:, i : i + 1]).log_predictive(X, y) for i in range(2))
    losses = [[float(model.loss(jnp.asarray(theta), x, t)) for x, t in zip(X, y, strict=True)] for theta in draws[0]]
    if isinstance(model, PoissonRegression):  # beyond the cap the loss is linear and no likelihood
        assert (one < 0).all()
    else:
        np.testing.assert_allclose(one - other, np.subtract(losses[1], losses[0]), rtol=1e-3, atol=1e-3)


def test_arviz_gets_the_draws_and_is_loaded_only_then():
    arviz = pytest.importorskip("arviz")
    data = posterior_of("gaussian").to_arviz(np.random.default_rng(0), draws=50)
    assert data.posterior["theta"].shape == (1, 50, 2)
    assert arviz is not None
    code = "import sys, sordino.mechanisms.posterior.laws; sys.exit('arviz' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: GaussianPosterior(SITES["gaussian"], SITES["gaussian"].family(2), np.zeros(5)),
        lambda: GaussianPosterior(SITES["gaussian"], SITES["gaussian"].family(2), np.zeros(4)),
        lambda: DrawsPosterior(Probit(), np.zeros((2, 3))),
        lambda: posterior_of("gaussian").interval(1.0),
        lambda: posterior_of("gaussian").predict(np.zeros((1, 3))),
    ],
)
def test_bad_posteriors_and_questions_are_refused(build):
    with pytest.raises(InputError, match="Expected"):
        build()
