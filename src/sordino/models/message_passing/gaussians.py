"""Gaussian families in natural parameters: what a message is, and how messages become moments and back.

A member is one flat vector theta = (Lambda mu, Lambda), and, where a model has unknown precisions, the natural
parameters (shape - 1, -rate) of independent Gammas behind it. Off-diagonal entries of Lambda appear once, times
sqrt(2), so that the length of theta is the Euclidean norm of the stack with the Frobenius norm of Lambda.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.validate import Declared
from sordino.models.clip import row_lengths, working_bound
from sordino.models.contributions import Parts, Plain, RowSizes


class Moments(NamedTuple):
    """Means, covariances (variances where the family is diagonal), and shapes and rates of the Gammas."""

    mean: Array
    covariance: Array
    shape: Array
    rate: Array


class Natural(NamedTuple):
    """The parts of a natural vector, each in its own shape; `gamma` stacks shape - 1 and -rate."""

    linear: Array
    precision: Array
    gamma: Array


class Slopes(NamedTuple):
    """How one record tilts a cavity: mean m + V g, covariance V - V k V, and its Gamma messages as they are.

    g is the derivative of log Z in the mean and k = g g' - 2 dlog Z / dV (Hernandez-Lobato & Adams 2015, Section 3.2).
    """

    g: Array
    k: Array
    gamma: Array


@dataclass(frozen=True)
class GaussianFamily(ABC):
    """A family of approximate posteriors; a frozen value, because it is compiled in."""

    dim: int
    gammas: int = 0

    @property
    @abstractmethod
    def gaussian_size(self) -> int:
        """The length of the Gaussian part of a natural vector."""

    @property
    def size(self) -> int:
        return self.gaussian_size + 2 * self.gammas

    @abstractmethod
    def pack(self, parts: Natural) -> Array:
        """One flat vector."""

    @abstractmethod
    def unpack(self, theta: Array) -> Natural:
        """The parts of a flat vector."""

    @abstractmethod
    def moments(self, theta: Array) -> Moments:
        """Means and covariances of a member; its precision has to be positive definite."""

    @abstractmethod
    def site(self, moments: Moments, slopes: Slopes, count: Array | float, clamp: tuple[float, float]) -> Array:
        """The natural parameters of `count` records whose slopes add up to `slopes`, seen from one cavity.

        ((1 - K V)^-1 (g + K m), (1 - K V)^-1 K), where K in the factor is the average over the records and the
        eigenvalues of 1 - K V are kept inside `clamp`. With one record this is its exact message.
        """

    def prior(self, precision: float, mean: Array, gamma: tuple[tuple[float, float], ...] = ()) -> Array:
        """An isotropic Gaussian, and Gammas of these shapes and rates."""
        shape, rate = (jnp.asarray([pair[i] for pair in gamma], mean.dtype) for i in (0, 1))
        return self.pack(Natural(*self._isotropic(precision, mean), jnp.concatenate([shape - 1.0, -rate])))

    @abstractmethod
    def _isotropic(self, precision: float, mean: Array) -> tuple[Array, Array]:
        """Lambda mu and Lambda with this precision in every coordinate."""

    def _gamma_moments(self, gamma: Array) -> tuple[Array, Array]:
        return gamma[..., : self.gammas] + 1.0, -gamma[..., self.gammas :]


@dataclass(frozen=True)
class DiagonalGaussian(GaussianFamily):
    """Independent coordinates: means, variances and precisions all have shape (dim,)."""

    @property
    def gaussian_size(self) -> int:
        return 2 * self.dim

    def pack(self, parts: Natural) -> Array:
        return jnp.concatenate(parts, axis=-1)

    def unpack(self, theta: Array) -> Natural:
        return Natural(theta[: self.dim], theta[self.dim : 2 * self.dim], theta[2 * self.dim :])

    def moments(self, theta: Array) -> Moments:
        parts = self.unpack(theta)
        variance = 1.0 / parts.precision
        return Moments(parts.linear * variance, variance, *self._gamma_moments(parts.gamma))

    def site(self, moments: Moments, slopes: Slopes, count: Array | float, clamp: tuple[float, float]) -> Array:
        inverse = 1.0 / jnp.clip(1.0 - moments.covariance * slopes.k / count, *clamp)
        linear = (slopes.g + moments.mean * slopes.k) * inverse
        return self.pack(Natural(linear, slopes.k * inverse, slopes.gamma))

    def _isotropic(self, precision: float, mean: Array) -> tuple[Array, Array]:
        return precision * mean, jnp.full(self.dim, precision, mean.dtype)


@dataclass(frozen=True)
class BlockGaussian(GaussianFamily):
    """Independent blocks of equal size with full covariances; one block is the full Gaussian family."""

    blocks: int = 1

    @property
    def width(self) -> int:
        return self.dim // self.blocks

    @property
    def gaussian_size(self) -> int:
        return self.blocks * (self.width + self.width * (self.width + 1) // 2)

    def pack(self, parts: Natural) -> Array:
        rows, columns, scale = self._triangle(parts.precision.dtype)
        halves = parts.precision[:, rows, columns] * scale
        return jnp.concatenate([parts.linear.reshape(-1), halves.reshape(-1), parts.gamma])

    def unpack(self, theta: Array) -> Natural:
        rows, columns, scale = self._triangle(theta.dtype)
        linear = theta[: self.dim].reshape(self.blocks, self.width)
        halves = theta[self.dim : self.gaussian_size].reshape(self.blocks, -1) / scale
        upper = jnp.zeros((self.blocks, self.width, self.width), theta.dtype).at[:, rows, columns].set(halves)
        return Natural(linear, upper + jnp.triu(upper, 1).swapaxes(1, 2), theta[self.gaussian_size :])

    def moments(self, theta: Array) -> Moments:
        parts = self.unpack(theta)
        covariance = jnp.linalg.inv(parts.precision)
        covariance = 0.5 * (covariance + covariance.swapaxes(1, 2))
        mean = jnp.einsum("bij,bj->bi", covariance, parts.linear)
        return Moments(mean, covariance, *self._gamma_moments(parts.gamma))

    def site(self, moments: Moments, slopes: Slopes, count: Array | float, clamp: tuple[float, float]) -> Array:
        # With V = L L' and A = L' K L the factor is L^-T (1 - A)^-1 L', and A is symmetric.
        root = jnp.linalg.cholesky(moments.covariance)
        values, vectors = jnp.linalg.eigh(jnp.einsum("bji,bjk,bkl->bil", root, slopes.k, root))
        kept = 1.0 / jnp.clip(1.0 - values / count, *clamp)
        shifted = slopes.g + jnp.einsum("bij,bj->bi", slopes.k, moments.mean)
        turned = jnp.einsum("bji,bkj,bk->bi", vectors, root, shifted)
        back = jax.scipy.linalg.solve_triangular(root.swapaxes(1, 2), vectors, lower=False)
        linear = jnp.einsum("bij,bj->bi", back, kept * turned)
        precision = jnp.einsum("bij,bj,bkj->bik", back, kept * values, back)
        return self.pack(Natural(linear, precision, slopes.gamma))

    def _isotropic(self, precision: float, mean: Array) -> tuple[Array, Array]:
        matrices = jnp.tile(precision * jnp.eye(self.width, dtype=mean.dtype), (self.blocks, 1, 1))
        return precision * mean.reshape(self.blocks, self.width), matrices

    def _triangle(self, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, columns = np.triu_indices(self.width)
        return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0)).astype(dtype)


@dataclass(frozen=True)
class Site(Declared, ABC):
    """The likelihood of one record, as a tilt of a Gaussian cavity; a frozen value, because it is compiled in."""

    @abstractmethod
    def family(self, features: int) -> GaussianFamily:
        """The family of the approximate posterior when rows have this many features."""

    @abstractmethod
    def slopes(self, moments: Moments, x: Array, y: Array) -> Slopes:
        """How the record (x, y) tilts a cavity with these moments."""

    @property
    def gamma_prior(self) -> tuple[tuple[float, float], ...]:
        """Shape and rate of each unknown precision's prior."""
        return ()

    def centred_parts(
        self, moments: Moments, X: Array, y: Array, weight: float, sizes: RowSizes | None = None
    ) -> Parts:
        """Every record's slopes (g, weight k, gamma) as parts whose flat sum is packed as the family packs them."""
        del sizes
        family = self.family(X.shape[1])

        def packed(x: Array, y: Array) -> Array:
            slopes = self.slopes(moments, x, y)
            return family.pack(Natural(slopes.g, weight * slopes.k, slopes.gamma))

        return (Plain(jax.vmap(packed)(X, y)),)


def shortening(vector: Array, bound: Array | float) -> Array:
    """The factor that brings a vector to at most `bound`; 0 where it is not finite."""
    length = row_lengths(vector[None])[0]
    target = working_bound(1.0, vector.size) * bound
    return jnp.where(jnp.isfinite(length), jnp.where(length <= target, 1.0, target / length), 0.0)
