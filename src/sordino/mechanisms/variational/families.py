"""Families of approximate posteriors: a point, and Gaussians that are independent, of low rank, or full.

phi is the flat vector of the family; a draw is theta(phi, e) with e standard normal, and every family moves theta by
products of a coordinate's own parameters with e. The chain rule gives the gradient in phi, `lift(phi, e, g)`, whose
squared length is sum_j w_j g_j^2 with w = `squares(phi, e)`, from phi and e alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.validate import POSITIVE, check_numbers, one_of, refuse, whole_number
from sordino.mechanisms.posterior.laws import DrawsPosterior, FactorisedPosterior, Posterior
from sordino.models.base import Model

_LIMITS = (math.log(1e-4), math.log(10.0))


@dataclass(frozen=True)
class VariationalFamily:
    """A family of approximate posteriors over `dim` parameters; what it does not say is that of a single point."""

    def size(self, dim: int) -> int:
        """Length of phi."""
        return dim

    def standards(self, dim: int) -> int:
        """How many standard normals a draw is made of."""
        return dim

    def first(self, mean: Array) -> Array:
        """phi at the beginning of a run."""
        return mean

    def theta(self, phi: Array, standard: Array) -> Array:
        """The draw that belongs to a standard normal vector."""
        return phi

    def squares(self, phi: Array, standard: Array) -> Array | None:
        """How much a unit of each squared coordinate of a gradient counts in the squared length of its lift.

        None where each counts once: a matrix of ones is not only work for nothing, but was also multiplied wrongly in
        compiled programs (`model.contributions`).
        """
        return None

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        """The gradient in phi of a function whose gradient in theta, at the draw, is given."""
        return gradient

    def entropy_gradient(self, phi: Array) -> Array:
        """The gradient of the family's entropy."""
        return jnp.zeros_like(phi)

    def restrained(self, phi: Array) -> Array:
        """phi brought back into the family's public limits, which is post-processing."""
        return phi

    def covariance(self, phi: Array, dim: int) -> Array:
        """The covariance of theta; its mean is the first `dim` entries of phi."""
        return jnp.zeros((dim, dim))

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        """The posterior that phi stands for."""
        return DrawsPosterior(model, np.asarray(phi)[None, None])


@dataclass(frozen=True)
class PointMass(VariationalFamily):
    """A single point: variational inference becomes the search for the largest posterior density."""


@dataclass(frozen=True)
class FactorisedGaussian(VariationalFamily):
    """Independent Gaussians; phi stacks means and logarithms of standard deviations, kept between two public limits."""

    first_deviation: float = 0.05
    least_deviation: float = 1e-4
    largest_deviation: float = 10.0

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=POSITIVE, least_deviation=POSITIVE, largest_deviation=POSITIVE)
        if not self.least_deviation <= self.first_deviation <= self.largest_deviation:
            raise refuse(
                "first_deviation", "to lie between least_deviation and largest_deviation", self.first_deviation
            )

    def size(self, dim: int) -> int:
        return 2 * dim

    def first(self, mean: Array) -> Array:
        return jnp.concatenate([mean, jnp.full_like(mean, math.log(self.first_deviation))])

    def theta(self, phi: Array, standard: Array) -> Array:
        mean, log_deviation = jnp.split(phi, 2)
        return mean + jnp.exp(log_deviation) * standard

    def squares(self, phi: Array, standard: Array) -> Array:
        return 1.0 + self._moved(phi, standard) ** 2

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        return jnp.concatenate([gradient, gradient * self._moved(phi, standard)], axis=-1)

    def entropy_gradient(self, phi: Array) -> Array:
        half = jnp.zeros(phi.size // 2, phi.dtype)
        return jnp.concatenate([half, half + 1.0])

    def restrained(self, phi: Array) -> Array:
        mean, log_deviation = jnp.split(phi, 2)
        limits = math.log(self.least_deviation), math.log(self.largest_deviation)
        return jnp.concatenate([mean, jnp.clip(log_deviation, *limits)])

    def covariance(self, phi: Array, dim: int) -> Array:
        return jnp.diag(jnp.exp(2.0 * phi[dim:]))

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        mean, log_deviation = np.split(np.asarray(phi, np.float64), 2)
        return FactorisedPosterior(model, mean, np.exp(log_deviation))

    def _moved(self, phi: Array, standard: Array) -> Array:
        """d theta / d log deviation."""
        return jnp.exp(jnp.split(phi, 2)[1]) * standard


@dataclass(frozen=True)
class FullGaussian(VariationalFamily):
    """phi stacks the mean, the logarithms of the diagonal of L and its entries below; theta = mean + L e."""

    first_deviation: float = 0.05

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=POSITIVE)

    def size(self, dim: int) -> int:
        return 2 * dim + dim * (dim - 1) // 2

    def first(self, mean: Array) -> Array:
        below = mean.size * (mean.size - 1) // 2
        return jnp.concatenate([mean, jnp.full_like(mean, math.log(self.first_deviation)), jnp.zeros(below)])

    def theta(self, phi: Array, standard: Array) -> Array:
        return phi[: standard.size] + self.root(phi, standard.size) @ standard

    def squares(self, phi: Array, standard: Array) -> Array:
        dim = standard.size
        before = jnp.cumsum(standard**2) - standard**2
        return 1.0 + before + (jnp.exp(phi[dim : 2 * dim]) * standard) ** 2

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        dim = standard.size
        row, column = np.tril_indices(dim, -1)
        moved = gradient * (jnp.exp(phi[dim : 2 * dim]) * standard)
        return jnp.concatenate([gradient, moved, gradient[..., row] * standard[column]], axis=-1)

    def entropy_gradient(self, phi: Array) -> Array:
        dim = _dimension(phi.size)
        return jnp.zeros_like(phi).at[dim : 2 * dim].set(1.0)

    def restrained(self, phi: Array) -> Array:
        dim = _dimension(phi.size)
        return phi.at[dim : 2 * dim].set(jnp.clip(phi[dim : 2 * dim], *_LIMITS))

    def root(self, phi: Array, dim: int) -> Array:
        """The lower triangular root of the covariance."""
        row, column = np.tril_indices(dim, -1)
        return jnp.diag(jnp.exp(phi[dim : 2 * dim])).at[row, column].set(phi[2 * dim :])

    def covariance(self, phi: Array, dim: int) -> Array:
        root = self.root(phi, dim)
        return root @ root.T


@dataclass(frozen=True)
class LowRankGaussian(VariationalFamily):
    """phi stacks the mean, the logarithms of deviations d and a matrix U; theta = mean + d e + U e'."""

    rank: int = 2
    first_deviation: float = 0.05

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=POSITIVE)
        whole_number("rank", self.rank)

    def size(self, dim: int) -> int:
        return (2 + self.rank) * dim

    def standards(self, dim: int) -> int:
        return dim + self.rank

    def first(self, mean: Array) -> Array:
        # Zero factors would stay zero in expectation's first order only by symmetry; a small public pattern breaks it.
        pattern = 0.1 * self.first_deviation * np.cos(np.outer(np.arange(mean.size), 1.0 + np.arange(self.rank)))
        deviations = jnp.full_like(mean, math.log(self.first_deviation))
        return jnp.concatenate([mean, deviations, jnp.asarray(pattern, mean.dtype).ravel()])

    def theta(self, phi: Array, standard: Array) -> Array:
        mean, deviations, factors, own, shared = self._parts(phi, standard)
        return mean + deviations * own + factors @ shared

    def squares(self, phi: Array, standard: Array) -> Array:
        _, deviations, _, own, shared = self._parts(phi, standard)
        return 1.0 + (deviations * own) ** 2 + jnp.sum(shared**2)

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        _, deviations, _, own, shared = self._parts(phi, standard)
        outer = (gradient[..., :, None] * shared).reshape(*gradient.shape[:-1], -1)
        return jnp.concatenate([gradient, gradient * (deviations * own), outer], axis=-1)

    def entropy_gradient(self, phi: Array) -> Array:
        dim = phi.size // (2 + self.rank)
        return jax.grad(lambda each: 0.5 * jnp.linalg.slogdet(self.covariance(each, dim))[1])(phi)

    def restrained(self, phi: Array) -> Array:
        dim = phi.size // (2 + self.rank)
        return phi.at[dim : 2 * dim].set(jnp.clip(phi[dim : 2 * dim], *_LIMITS))

    def covariance(self, phi: Array, dim: int) -> Array:
        factors = phi[2 * dim :].reshape(dim, self.rank)
        return jnp.diag(jnp.exp(2.0 * phi[dim : 2 * dim])) + factors @ factors.T

    def _parts(self, phi: Array, standard: Array) -> tuple[Array, ...]:
        dim = standard.size - self.rank
        factors = phi[2 * dim :].reshape(dim, self.rank)
        return phi[:dim], jnp.exp(phi[dim : 2 * dim]), factors, standard[:dim], standard[dim:]


def _dimension(size: int) -> int:
    """The number of parameters of a full Gaussian whose phi has this length: size = d (d + 3) / 2."""
    return round((math.sqrt(9.0 + 8.0 * size) - 3.0) / 2.0)


# NumPyro's automatic guides, by the names of their classes, and the words for them.
_GUIDES = {
    "point": PointMass,
    "diagonal": FactorisedGaussian,
    "low-rank": LowRankGaussian,
    "full": FullGaussian,
}
_AUTOMATIC = {
    "AutoDelta": "point",
    "AutoNormal": "diagonal",
    "AutoDiagonalNormal": "diagonal",
    "AutoLowRankMultivariateNormal": "low-rank",
    "AutoMultivariateNormal": "full",
}


def guide_for(given: Any) -> VariationalFamily:
    """The guide for a word, or for a class or object of NumPyro's automatic guides."""
    if isinstance(given, VariationalFamily):
        return given
    if isinstance(given, str):
        return _GUIDES[one_of("guide", given, tuple(_GUIDES))]()
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if name not in _AUTOMATIC:
        raise refuse("guide", f"to be one of {', '.join((*_GUIDES, *_AUTOMATIC))}", name)
    if name == "AutoLowRankMultivariateNormal" and getattr(given, "rank", None):
        return LowRankGaussian(rank=int(given.rank))
    return _GUIDES[_AUTOMATIC[name]]()
