"""Released posteriors, draws and Gaussians, and what all of them answer: densities, predictions, intervals."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from numpy.typing import NDArray
from scipy import special

from sordino.core.validate import OPEN_UNIT, number, refuse, whole_number
from sordino.models.base import Model
from sordino.models.families.classification import Logistic, Probit
from sordino.models.families.mixture import GaussianMixture
from sordino.models.families.networks import MLPRegression
from sordino.models.families.regression import GaussianLinear, PoissonRegression
from sordino.models.message_passing.gaussians import DiagonalGaussian, GaussianFamily, Moments, PredictiveMoments, Site
from sordino.models.message_passing.likelihoods import GaussianSite, LogisticSite, MixtureSite, ProbitSite

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

    @abstractmethod
    def predict(self, features: Any) -> Prediction:
        """The target of each row, averaged over the posterior."""

    @abstractmethod
    def log_predictive(self, features: Any, target: Any) -> Values:
        """The log-density of each record, averaged over the posterior."""

    def interval(self, level: float) -> tuple[Values, Values]:
        """Central intervals of each parameter that hold `level` of the posterior: lower and upper ends.

        How often they cover the true value is measured for the estimators, not for every run.
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

    conditional: Callable[[Array, Array], PredictiveMoments]
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

    def conditional(theta: Array, X: Array) -> PredictiveMoments:
        mean = jax.vmap(lambda x: model.predict(theta, x)[0])(X)
        return PredictiveMoments(mean, jnp.full_like(mean, variance))

    def log_likelihood(theta: Array, X: Array, y: Array) -> Array:
        gap = y - conditional(theta, X).mean
        return -0.5 * (math.log(2.0 * math.pi * variance) + gap * gap / variance)

    return Observation(conditional, log_likelihood)


@observation.register
def _(model: PoissonRegression) -> Observation:
    def conditional(theta: Array, X: Array) -> PredictiveMoments:
        rate = jnp.exp(jnp.minimum(X @ theta, math.log(model.rate_cap)))
        return PredictiveMoments(rate, rate)

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


@dataclass(frozen=True, eq=False)
class GaussianPosterior(Posterior):
    """A member of a Gaussian family and the likelihood it belongs to; `natural` is the stack (Lambda mu, Lambda)."""

    site: Site
    family: GaussianFamily
    natural: NDArray[np.floating]

    def __post_init__(self) -> None:
        own = np.array(self.natural)
        if own.shape != (self.family.size,):
            raise refuse("natural parameters", f"to be a vector of {self.family.size}", f"shape {own.shape}")
        own.setflags(write=False)
        object.__setattr__(self, "natural", own)
        if not (np.isfinite(own).all() and self._eigenvalues().min() > 0.0):
            raise refuse("natural parameters", "to be finite with a positive definite precision", "others")

    @cached_property
    def moments(self) -> Moments:
        """Means, covariances and Gamma parameters in the shapes of the family."""
        return self.family.moments(jnp.asarray(self.natural))

    @property
    def mean(self) -> Values:
        return np.asarray(self.family.mean_vector(self.moments), np.float64)

    @property
    def variance(self) -> Values:
        return self._variances() if self._diagonal else super().variance

    @property
    def covariance(self) -> Values:
        return np.diag(self._variances()) if self._diagonal else _block_diagonal(self._variances())

    @property
    def gammas(self) -> tuple[tuple[float, float], ...]:
        """Shape and rate of each unknown precision."""
        pairs = zip(np.asarray(self.moments.shape), np.asarray(self.moments.rate), strict=True)
        return tuple((float(shape), float(rate)) for shape, rate in pairs)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        standard = generator.standard_normal((whole_number("draws", draws), self.dim))
        if self._diagonal:
            return self.mean + standard * np.sqrt(self._variances())
        return self.mean + standard @ np.linalg.cholesky(self.covariance).T

    def predict(self, features: Any) -> Prediction:
        found = self.site.predict(self.moments, self._rows(features))
        return Prediction(np.asarray(found.mean, np.float64), np.asarray(found.variance, np.float64))

    def log_predictive(self, features: Any, target: Any) -> Values:
        X = self._rows(features)
        y = jnp.asarray(np.asarray(target), X.dtype)
        return np.asarray(self.site.log_predictive(self.moments, X, y), np.float64)

    @property
    def _diagonal(self) -> bool:
        return isinstance(self.family, DiagonalGaussian)

    def _variances(self) -> Values:
        return np.asarray(self.moments.covariance, np.float64)

    def _eigenvalues(self) -> Values:
        precision = np.asarray(self.family.unpack(jnp.asarray(self.natural)).precision, np.float64)
        return precision if self._diagonal else np.asarray(np.linalg.eigvalsh(precision), np.float64)

    def _rows(self, features: Any) -> Any:
        X = np.asarray(features)
        if X.ndim != 2 or self.site.family(X.shape[1]) != self.family:
            raise refuse("features", "to be rows like those the posterior was fitted to", f"shape {X.shape}")
        return jnp.asarray(X, self.natural.dtype)


def _block_diagonal(blocks: Values) -> Values:
    count, width, _ = blocks.shape
    whole = np.zeros((count, width, count, width))
    whole[np.arange(count), :, np.arange(count), :] = blocks
    return whole.reshape(count * width, count * width)


_PREDICTIVE_DRAWS = 256


class _OfModel(Posterior):
    """A Gaussian over the parameters of any model, in double precision."""

    # Predictions average over draws of a fixed public seed, so that one does not change when asked for again.
    model: Model
    means: NDArray[np.floating]
    _seed: ClassVar[int]

    @property
    def mean(self) -> Values:
        return np.array(self.means, np.float64)

    def predict(self, features: Any) -> Prediction:
        return self._draws.predict(features)

    def log_predictive(self, features: Any, target: Any) -> Values:
        return self._draws.log_predictive(features, target)

    def _keep(self, **arrays: Values) -> None:
        for name, values in arrays.items():
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @cached_property
    def _draws(self) -> DrawsPosterior:
        drawn = self.sample(np.random.default_rng(self._seed), _PREDICTIVE_DRAWS)
        return DrawsPosterior(self.model, drawn.astype(np.float32)[None])


@dataclass(frozen=True, eq=False)
class DenseGaussianPosterior(_OfModel):
    """Mean and covariance of a model's parameters; predictions are exact for linear regression, else by fixed draws."""

    _seed: ClassVar[int] = 20_241

    model: Model
    means: NDArray[np.floating]
    covariances: NDArray[np.floating]

    def __post_init__(self) -> None:
        means, covariances = np.array(self.means, np.float64), np.array(self.covariances, np.float64)
        if means.ndim != 1 or covariances.shape != 2 * means.shape:
            raise refuse("covariances", "to be a square matrix as large as the means", f"shape {covariances.shape}")
        if not (np.isfinite(means).all() and np.isfinite(covariances).all() and np.linalg.eigvalsh(covariances)[0] > 0):
            raise refuse("means and covariances", "to be finite, and positive definite", "others")
        self._keep(means=means, covariances=covariances)

    @property
    def covariance(self) -> Values:
        return np.array(self.covariances, np.float64)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        standard = generator.standard_normal((whole_number("draws", draws), self.dim))
        return self.means + standard @ np.linalg.cholesky(self.covariances).T

    def predict(self, features: Any) -> Prediction:
        if not isinstance(self.model, GaussianLinear):
            return super().predict(features)
        X = np.asarray(features, np.float64)
        spread = np.einsum("ij,jk,ik->i", X, self.covariances, X)
        return Prediction(X @ self.means, spread + 1.0 / self.model.noise_precision)

    def log_predictive(self, features: Any, target: Any) -> Values:
        if not isinstance(self.model, GaussianLinear):
            return super().log_predictive(features, target)
        found = self.predict(features)
        return _log_density(np.asarray(target, np.float64), found.mean, np.sqrt(found.variance))


@dataclass(frozen=True, eq=False)
class FactorisedPosterior(_OfModel):
    """A mean and a standard deviation for each parameter of a model."""

    _seed: ClassVar[int] = 20_240

    model: Model
    means: NDArray[np.floating]
    deviations: NDArray[np.floating]

    def __post_init__(self) -> None:
        for name in ("means", "deviations"):
            own = np.array(getattr(self, name), np.float64)
            if own.ndim != 1 or own.size == 0 or not np.isfinite(own).all():
                raise refuse(name, "to be a vector of finite numbers", f"shape {own.shape}")
            self._keep(**{name: own})
        if self.means.shape != self.deviations.shape or not (self.deviations > 0).all():
            raise refuse("deviations", "to be one positive number for each mean", f"shape {self.deviations.shape}")

    @property
    def variance(self) -> Values:
        return np.array(self.deviations, np.float64) ** 2

    @property
    def covariance(self) -> Values:
        return np.diag(self.variance)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        standard = generator.standard_normal((whole_number("draws", draws), self.dim))
        return self.means + standard * self.deviations


def _log_density(points: Values, means: Any, deviations: Any) -> Values:
    """The logarithms of normal densities."""
    from scipy import stats  # noqa: PLC0415  (slow to load, and a fit needs none)

    return stats.norm.logpdf(points, means, deviations)
