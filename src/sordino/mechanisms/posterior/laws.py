"""Released posteriors: draws, and Gaussians. Everything they answer is post-processing of a release."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.validate import OPEN_UNIT, InputError, number, own_arrays, refuse, whole_number
from sordino.models.base import Model
from sordino.models.message_passing.gaussians import DiagonalGaussian, GaussianFamily, Moments, Site

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Mean and variance of the target of each row, the spread of the observation included."""

    mean: Values
    variance: Values


class Posterior(ABC):
    """A posterior over one parameter vector, Gaussian with its mean and covariance unless a subclass says otherwise."""

    stored: ClassVar[tuple[str, ...]] = ()  # its arrays in a release, in the order in which it takes them

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a release stores of it."""
        if not self.stored:
            raise InputError(f"Expected a posterior that can be stored, got a {type(self).__name__}.")
        return {name: np.asarray(getattr(self, name)) for name in self.stored}

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

    @cached_property
    def _root(self) -> Values:
        return np.asarray(np.linalg.cholesky(self.covariance), np.float64)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        """Draws from the posterior, shape (draws, dim)."""
        return self.mean + generator.standard_normal((whole_number("draws", draws), self.dim)) @ self._root.T

    def interval(self, level: float) -> tuple[Values, Values]:
        """Central intervals of each parameter that hold `level` of the posterior: lower and upper ends.

        How often they cover the true value is measured for the estimators, not for every run.
        """
        half = special.ndtri(0.5 + 0.5 * checked_level(level)) * np.sqrt(self.variance)
        return self.mean - half, self.mean + half


def checked_level(level: float) -> float:
    """A probability strictly between 0 and 1."""
    return number("level", level, OPEN_UNIT)


@dataclass(frozen=True, eq=False)
class DrawsPosterior(Posterior):
    """Draws of shape (chains, draws, dim) under a model; a release's last iterates are one draw for each chain."""

    stored = ("draws",)

    model: Model
    draws: NDArray[np.floating]

    def __post_init__(self) -> None:
        own_arrays(self)
        if self.draws.ndim != 3 or 0 in self.draws.shape or not np.isfinite(self.draws).all():
            raise refuse("draws", "to be finite numbers of shape (chains, draws, dim)", f"shape {self.draws.shape}")

    @property
    def _flat(self) -> Values:
        return np.asarray(self.draws.reshape(-1, self.draws.shape[2]), np.float64)

    @property
    def mean(self) -> Values:
        return self._flat.mean(axis=0)

    @property
    def covariance(self) -> Values:
        if len(self._flat) == 1:
            return np.zeros((self.dim, self.dim))
        return np.atleast_2d(np.cov(self._flat, rowvar=False))

    @property
    def variance(self) -> Values:
        return self._flat.var(axis=0, ddof=1) if len(self._flat) > 1 else np.zeros(self.dim)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        return self._flat[generator.integers(0, len(self._flat), whole_number("draws", draws))]

    def interval(self, level: float) -> tuple[Values, Values]:
        tail = 0.5 * (1.0 - checked_level(level))
        low, high = np.quantile(self._flat, [tail, 1.0 - tail], axis=0)
        return low, high


@dataclass(frozen=True, eq=False)
class GaussianPosterior(Posterior):
    """A member of a Gaussian family and the likelihood it belongs to; `natural` is the stack (Lambda mu, Lambda)."""

    site: Site
    family: GaussianFamily
    natural: NDArray[np.floating]

    def __post_init__(self) -> None:
        own_arrays(self)
        if self.natural.shape != (self.family.size,):
            raise refuse("natural parameters", f"to be a vector of {self.family.size}", f"shape {self.natural.shape}")
        precision = np.asarray(self.family.unpack(jnp.asarray(self.natural)).precision, np.float64)
        values = precision if self._diagonal else np.linalg.eigvalsh(precision)
        if not (np.isfinite(self.natural).all() and values.min() > 0.0):
            raise refuse("natural parameters", "to be finite with a positive definite precision", "others")

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"means": self.mean, "covariances": self.covariance}

    @property
    def _diagonal(self) -> bool:
        return isinstance(self.family, DiagonalGaussian)

    @cached_property
    def moments(self) -> Moments:
        """Means, covariances and Gamma parameters in the shapes of the family."""
        return self.family.moments(jnp.asarray(self.natural))

    @property
    def mean(self) -> Values:
        return np.asarray(self.moments.mean.reshape(-1), np.float64)

    @property
    def covariance(self) -> Values:
        found = np.asarray(self.moments.covariance, np.float64)
        if self._diagonal:
            return np.diag(found)
        count, width, _ = found.shape
        whole = np.zeros((count, width, count, width))
        whole[np.arange(count), :, np.arange(count), :] = found
        return whole.reshape(count * width, count * width)

    @property
    def variance(self) -> Values:
        return np.asarray(self.moments.covariance, np.float64) if self._diagonal else super().variance


class StoredGaussian(Posterior):
    """A posterior whose mean is stored, and its covariance unless a subclass has another form of it."""

    means: Values
    covariances: Values

    @property
    def mean(self) -> Values:
        return np.array(self.means, np.float64)

    @property
    def covariance(self) -> Values:
        return np.array(self.covariances, np.float64)


@dataclass(frozen=True, eq=False)
class DenseGaussianPosterior(StoredGaussian):
    """Mean and covariance of a model's parameters."""

    stored = ("means", "covariances")

    model: Model
    means: Values
    covariances: Values

    def __post_init__(self) -> None:
        means, covariances = as_doubles(self, "means", "covariances")
        if means.ndim != 1 or covariances.shape != 2 * means.shape:
            raise refuse("covariances", "to be a square matrix as large as the means", f"shape {covariances.shape}")
        if not (np.isfinite(means).all() and np.isfinite(covariances).all() and np.linalg.eigvalsh(covariances)[0] > 0):
            raise refuse("means and covariances", "to be finite, and positive definite", "others")


@dataclass(frozen=True, eq=False)
class FactorisedPosterior(StoredGaussian):
    """A mean and a standard deviation for each parameter of a model."""

    stored = ("means", "deviations")

    model: Model
    means: Values
    deviations: Values

    def __post_init__(self) -> None:
        means, deviations = as_doubles(self, "means", "deviations")
        for name, values in (("means", means), ("deviations", deviations)):
            if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
                raise refuse(name, "to be a vector of finite numbers", f"shape {values.shape}")
        if means.shape != deviations.shape or not (deviations > 0).all():
            raise refuse("deviations", "to be one positive number for each mean", f"shape {deviations.shape}")

    @property
    def variance(self) -> Values:
        return np.array(self.deviations, np.float64) ** 2

    @property
    def covariance(self) -> Values:
        return np.diag(self.variance)

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        return self.means + generator.standard_normal((whole_number("draws", draws), self.dim)) * self.deviations


def as_doubles(posterior: Posterior, *names: str) -> list[Values]:
    """Replace these arrays of a posterior by copies in double precision that cannot be written to."""
    for name in names:
        object.__setattr__(posterior, name, np.array(getattr(posterior, name), np.float64))
    own_arrays(posterior)
    return [getattr(posterior, name) for name in names]
