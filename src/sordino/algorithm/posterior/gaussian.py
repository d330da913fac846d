"""Gaussian posteriors: from natural parameters, or over the parameters of any model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.posterior.base import DrawsPosterior, Posterior, Prediction, Values
from sordino.core.validate import refuse, whole_number
from sordino.model.base import Model
from sordino.model.families.regression import GaussianLinear
from sordino.model.sites.families import DiagonalGaussian, Family, Moments, Site


@dataclass(frozen=True, eq=False)
class GaussianPosterior(Posterior):
    """A member of a Gaussian family and the likelihood it belongs to; `natural` is the stack (Lambda mu, Lambda)."""

    site: Site
    family: Family
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
    def precision(self) -> Values:
        """The inverse of the covariance, shape (dim, dim)."""
        parts = np.asarray(self.family.unpack(jnp.asarray(self.natural)).precision, np.float64)
        return np.diag(parts) if self._diagonal else _block_diagonal(parts)

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

    def log_prob(self, theta: Any) -> Values:
        if not self._diagonal:
            return super().log_prob(theta)
        scaled = (np.atleast_2d(np.asarray(theta, np.float64)) - self.mean) ** 2 / self._variances()
        return -0.5 * np.sum(scaled + np.log(2.0 * np.pi * self._variances()), axis=1)

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
    """A Gaussian over the parameters of any model, in double precision.

    Predictions average over draws of a fixed public seed, so that one does not change when asked for again.
    """

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

    def log_prob(self, theta: Any) -> Values:
        points = np.atleast_2d(np.asarray(theta, np.float64))
        return _log_density(points, self.mean, np.asarray(self.deviations, np.float64)).sum(axis=-1)


def _log_density(points: Values, means: Any, deviations: Any) -> Values:
    """The logarithms of normal densities."""
    from scipy import stats  # noqa: PLC0415  (slow to load, and a fit needs none)

    return stats.norm.logpdf(points, means, deviations)
