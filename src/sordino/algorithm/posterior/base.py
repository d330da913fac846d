"""What every released posterior answers: draws, densities, predictions, intervals, and an ArviZ export."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from numpy.typing import NDArray
from scipy import special

from sordino.algorithm.chain.release import ChainRelease, KeptIterates, LastIterate
from sordino.core.validate import OPEN_UNIT, number, refuse, whole_number
from sordino.model.base import Model
from sordino.model.families.classification import Logistic, Probit
from sordino.model.families.mixture import GaussianMixture
from sordino.model.families.networks import MLPRegression
from sordino.model.families.regression import GaussianLinear, PoissonRegression
from sordino.model.sites import GaussianSite, LogisticSite, MixtureSite, Predicted, ProbitSite, Site

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Mean and variance of the target of each row, the spread of the observation included."""

    mean: Values
    variance: Values


class Posterior(ABC):
    """A posterior over one parameter vector; everything it answers is post-processing of a release."""

    @property
    @abstractmethod
    def mean(self) -> Values:
        """The posterior mean, shape (dim,)."""

    @property
    @abstractmethod
    def covariance(self) -> Values:
        """The posterior covariance, shape (dim, dim)."""

    @property
    def variance(self) -> Values:
        """The posterior variance of each parameter, shape (dim,)."""
        return np.diagonal(self.covariance).astype(np.float64)

    @property
    def dim(self) -> int:
        """The number of parameters."""
        return len(self.mean)

    @abstractmethod
    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        """Draws from the posterior, shape (draws, dim)."""

    def log_prob(self, theta: Any) -> Values:
        """The log-density at each row of `theta`: that of the Gaussian with this mean and covariance."""
        root = np.linalg.cholesky(self.covariance)
        scaled = np.linalg.solve(root, (np.atleast_2d(np.asarray(theta, np.float64)) - self.mean).T)
        return -0.5 * (scaled**2).sum(axis=0) - np.log(np.diagonal(root)).sum() - 0.5 * self.dim * np.log(2.0 * np.pi)

    @abstractmethod
    def predict(self, features: Any) -> Prediction:
        """The target of each row, averaged over the posterior."""

    @abstractmethod
    def log_predictive(self, features: Any, target: Any) -> Values:
        """The log-density of each record, averaged over the posterior."""

    def interval(self, level: float) -> tuple[Values, Values]:
        """Central intervals of each parameter that hold `level` of the posterior: lower and upper ends.

        How often they hold the truth is another question, which is measured for the estimators and not for every run.
        """
        half = special.ndtri(0.5 + 0.5 * checked_level(level)) * np.sqrt(self.variance)
        return self.mean - half, self.mean + half

    def to_arviz(self, generator: np.random.Generator, draws: int = 1000) -> Any:
        """The posterior as an ArviZ object with the variable `theta`; needs the extra `arviz`."""
        return _to_arviz(self.sample(generator, draws)[None])


def checked_level(level: float) -> float:
    """A probability strictly between 0 and 1."""
    return number("level", level, OPEN_UNIT)


def _to_arviz(draws: Values) -> Any:
    """An ArviZ object from draws of shape (chains, draws, dim)."""
    try:
        import arviz  # noqa: PLC0415  (an extra: loaded only when asked for)
    except ImportError:
        raise refuse("the package arviz", "to be installed", "none", "install sordino[arviz]") from None
    return arviz.from_dict(posterior={"theta": draws})


@dataclass(frozen=True)
class Observation:
    """Mean and variance of targets, and log-densities of records, at one parameter vector."""

    conditional: Callable[[Array, Array], Predicted]
    log_likelihood: Callable[[Array, Array, Array], Array]


@singledispatch
def observation(model: Model | Site) -> Observation:
    """The observation law of a model or site; a new kind registers its own."""
    raise refuse("the model", "to have a registered observation law", type(model).__name__)


observation.register(Site, lambda site: Observation(site.conditional, site.log_likelihood))
observation.register(GaussianLinear, lambda model: observation(GaussianSite(noise_precision=model.noise_precision)))
observation.register(Probit, lambda _: observation(ProbitSite()))
observation.register(Logistic, lambda _: observation(LogisticSite()))
observation.register(GaussianMixture, lambda model: observation(MixtureSite(model.weights, model.spread)))


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


@dataclass(frozen=True, eq=False)
class DrawsPosterior(Posterior):
    """Draws of shape (chains, draws, dim) under a model; a release's last iterates are one draw for each chain."""

    model: Model | Site
    draws: NDArray[np.floating]

    def __post_init__(self) -> None:
        own = np.array(self.draws)
        if own.ndim != 3 or 0 in own.shape or not np.isfinite(own).all():
            raise refuse("draws", "to be finite numbers of shape (chains, draws, dim)", f"shape {own.shape}")
        own.setflags(write=False)
        object.__setattr__(self, "draws", own)

    @classmethod
    def from_release(cls, release: ChainRelease, model: Model | Site) -> "DrawsPosterior":
        """The posterior that a chain release with iterates stands for."""
        if isinstance(release, KeptIterates):
            return cls(model, release.iterates)
        if isinstance(release, LastIterate):
            return cls(model, release.iterates[:, None])
        raise refuse("the release", "to hold iterates", type(release).__name__)

    @property
    def dim(self) -> int:
        return self.draws.shape[2]

    @property
    def mean(self) -> Values:
        return self._flat.mean(axis=0)

    @property
    def variance(self) -> Values:
        return self._flat.var(axis=0, ddof=1) if len(self._flat) > 1 else np.zeros(self.dim)

    @property
    def covariance(self) -> Values:
        if len(self._flat) == 1:
            return np.zeros((self.dim, self.dim))
        return np.atleast_2d(np.cov(self._flat, rowvar=False))

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        """Draw again from the draws, with replacement."""
        return self._flat[generator.integers(0, len(self._flat), whole_number("draws", draws))]

    def log_prob(self, theta: Any) -> Values:
        """The log-density of the Gaussian with the draws' mean and covariance; needs more draws than parameters."""
        if len(self._flat) <= self.dim:
            raise refuse("the number of draws", f"to exceed the {self.dim} parameters for a density", len(self._flat))
        return super().log_prob(theta)

    def predict(self, features: Any) -> Prediction:
        """Mean over the draws; variance within draws plus variance between them."""
        X = jnp.asarray(np.asarray(features), self.draws.dtype)
        conditional = observation(self.model).conditional
        found = jax.lax.map(lambda theta: conditional(theta, X), jnp.asarray(self._single))
        means, variances = (np.asarray(part, np.float64) for part in found)
        return Prediction(means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0))

    def log_predictive(self, features: Any, target: Any) -> Values:
        X = jnp.asarray(np.asarray(features), self.draws.dtype)
        y = jnp.asarray(np.asarray(target), self.draws.dtype)
        law = observation(self.model).log_likelihood
        found = jax.lax.map(lambda theta: law(theta, X, y), jnp.asarray(self._single))
        return special.logsumexp(np.asarray(found, np.float64), axis=0) - np.log(len(self._flat))

    def interval(self, level: float) -> tuple[Values, Values]:
        tail = 0.5 * (1.0 - checked_level(level))
        low, high = np.quantile(self._flat, [tail, 1.0 - tail], axis=0)
        return low, high

    def to_arviz(self, generator: np.random.Generator, draws: int = 1000) -> Any:
        """The draws as they are; nothing is drawn again."""
        return _to_arviz(np.asarray(self.draws, np.float64))

    @property
    def _single(self) -> NDArray[np.floating]:
        return self.draws.reshape(-1, self.dim)

    @property
    def _flat(self) -> Values:
        return np.asarray(self._single, np.float64)
