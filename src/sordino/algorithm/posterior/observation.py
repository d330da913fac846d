"""What a model says about a target at one parameter vector: the observation law, for predictions from draws."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln

from sordino.core.validate import refuse
from sordino.model.base import Model
from sordino.model.gaussian_linear import GaussianLinear
from sordino.model.logistic import Logistic
from sordino.model.mixture import GaussianMixture
from sordino.model.mlp import MLPRegression
from sordino.model.poisson import PoissonRegression
from sordino.model.probit import Probit
from sordino.model.sites import GaussianSite, LogisticSite, MixtureSite, Predicted, ProbitSite, Site


@dataclass(frozen=True)
class Observation:
    """Mean and variance of targets, and log-densities of records, at one parameter vector."""

    conditional: Callable[[Array, Array], Predicted]
    log_likelihood: Callable[[Array, Array, Array], Array]


@singledispatch
def observation(model: Model | Site) -> Observation:
    """The observation law of a model or site; a new kind registers its own."""
    raise refuse("the model", "to have a registered observation law", type(model).__name__)


@observation.register
def _(model: Site) -> Observation:
    return Observation(model.conditional, model.log_likelihood)


@observation.register
def _(model: GaussianLinear) -> Observation:
    return observation(GaussianSite(noise_precision=model.noise_precision))


@observation.register
def _(model: Probit) -> Observation:
    del model
    return observation(ProbitSite())


@observation.register
def _(model: Logistic) -> Observation:
    del model
    return observation(LogisticSite())


@observation.register
def _(model: GaussianMixture) -> Observation:
    return observation(MixtureSite(model.weights, model.spread))


@observation.register
def _(model: MLPRegression) -> Observation:
    variance = 1.0 / model.noise_precision

    def conditional(theta: Array, X: Array) -> Predicted:
        mean = jax.vmap(lambda x: model.predict(theta, x)[0])(X)
        return Predicted(mean, jnp.full_like(mean, variance))

    def log_likelihood(theta: Array, X: Array, y: Array) -> Array:
        gap = y - conditional(theta, X).mean
        return -0.5 * (math.log(2.0 * math.pi * variance) + gap * gap / variance)

    return Observation(conditional, log_likelihood)


@observation.register
def _(model: PoissonRegression) -> Observation:
    def conditional(theta: Array, X: Array) -> Predicted:
        rate = jnp.exp(jnp.minimum(X @ theta, math.log(model.rate_cap)))
        return Predicted(rate, rate)

    def log_likelihood(theta: Array, X: Array, y: Array) -> Array:
        rate = conditional(theta, X).mean
        return y * jnp.log(rate) - rate - gammaln(y + 1.0)

    return Observation(conditional, log_likelihood)
