"""A Gaussian law with any covariance."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, special

from sordino.core.errors import InputError
from sordino.core.validate import whole_number
from sordino.model.exact.line_family import NORMAL
from sordino.model.exact.line_mixture import LineMixture
from sordino.model.exact.read_only import Array, read_only


@dataclass(frozen=True, eq=False)
class GaussianLaw:
    """N(mean, covariance); the covariance may be singular, and then there is no density."""

    mean: Array
    covariance: Array

    def __post_init__(self) -> None:
        mean = read_only("mean", self.mean, (None,))
        covariance = read_only("covariance", self.covariance, (len(mean), len(mean)))
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", checked_covariance(covariance))

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.mean)

    def sample(self, generator: np.random.Generator, size: int) -> Array:
        """Independent draws, one a row."""
        values, vectors = linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return self.mean + generator.standard_normal((size, self.dim)) @ root.T

    def log_density(self, points: ArrayLike) -> Array:
        """Log density at points of shape (..., dim)."""
        factor = cholesky(self.covariance)
        centred = np.asarray(points, float) - self.mean
        white = linalg.solve_triangular(factor, centred.reshape(-1, self.dim).T, lower=True)
        log_scale = np.log(np.diag(factor)).sum() + 0.5 * self.dim * math.log(2 * math.pi)
        return (-0.5 * np.sum(white * white, axis=0) - log_scale).reshape(centred.shape[:-1])

    def density(self, points: ArrayLike) -> Array:
        """Density at points of shape (..., dim)."""
        return np.exp(self.log_density(points))

    def cdf(self, values: ArrayLike) -> Array:
        """P(theta <= value) for a law on the line."""
        centre, scale = on_the_line(self.mean, self.covariance)
        return special.ndtr((np.asarray(values, float) - centre) / scale)

    def line(self) -> LineMixture:
        """The same law as a mixture of one, on the line."""
        centre, scale = on_the_line(self.mean, self.covariance)
        return LineMixture(NORMAL, np.ones(1), np.array([centre]), np.array([scale]))

    def image(self, matrix: ArrayLike, offset: ArrayLike | None = None) -> "GaussianLaw":
        """The law of matrix @ theta + offset."""
        linear = read_only("matrix", matrix, (None, self.dim))
        shift = 0.0 if offset is None else read_only("offset", offset, (len(linear),))
        return GaussianLaw(linear @ self.mean + shift, linear @ self.covariance @ linear.T)

    def copies(self, count: int) -> "GaussianLaw":
        """The joint law of independent draws, stacked: what several chains released together look like."""
        count = whole_number("count", count)
        stacked: Array = np.array(linalg.block_diag(*[self.covariance] * count))
        return GaussianLaw(np.tile(self.mean, count), stacked)


def checked_covariance(covariance: Array) -> Array:
    """The symmetric part of a matrix (or stack of them) that is symmetric and non-negative up to rounding."""
    largest = np.abs(covariance).max()
    mirrored = np.swapaxes(covariance, -1, -2)
    if np.abs(covariance - mirrored).max() > 1e-9 * largest:
        raise InputError("Expected the covariance to be symmetric, got a matrix that is not.")
    symmetric = np.array((covariance + mirrored) / 2)
    if np.linalg.eigvalsh(symmetric).min() < -1e-9 * largest:
        raise InputError("Expected the covariance to have no negative eigenvalue, got one that has.")
    symmetric.flags.writeable = False
    return symmetric


def cholesky(covariance: Array) -> Array:
    """The lower Cholesky factor, or a refusal of a singular covariance."""
    try:
        return linalg.cholesky(covariance, lower=True)
    except linalg.LinAlgError:
        raise InputError("Expected a law with a density, got a Gaussian whose covariance is singular.") from None


def on_the_line(mean: Array, covariance: Array) -> tuple[float, float]:
    """Mean and standard deviation of a one-dimensional law with a density."""
    if len(mean) != 1:
        raise InputError(f"Expected a law on the line, got one with {len(mean)} coordinates.")
    return float(mean[0]), float(cholesky(covariance)[0, 0])
