"""Gaussian guides with more than independent coordinates, and the words and NumPyro classes they are asked for by.

As in `rounds.variational`, a draw is theta(phi, e), and every guide here moves theta by products of a coordinate's
own parameters with e. So the squared length of a lifted gradient is again sum_j w_j g_j^2, with w from phi and e alone,
and one record's contribution is clipped before anything as large as phi is made.
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
from sordino.mechanisms.variational.evidence_bound import FactorisedGaussian, PointMass, VariationalFamily

_LIMITS = (math.log(1e-4), math.log(10.0))


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
        dim = dimension(phi.size)
        return jnp.zeros_like(phi).at[dim : 2 * dim].set(1.0)

    def restrained(self, phi: Array) -> Array:
        dim = dimension(phi.size)
        return phi.at[dim : 2 * dim].set(jnp.clip(phi[dim : 2 * dim], *_LIMITS))

    def root(self, phi: Array, dim: int) -> Array:
        """The lower triangular root of the covariance."""
        row, column = np.tril_indices(dim, -1)
        return jnp.diag(jnp.exp(phi[dim : 2 * dim])).at[row, column].set(phi[2 * dim :])


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
        return jax.grad(lambda each: 0.5 * jnp.linalg.slogdet(self.covariance(each))[1])(phi)

    def restrained(self, phi: Array) -> Array:
        dim = phi.size // (2 + self.rank)
        return phi.at[dim : 2 * dim].set(jnp.clip(phi[dim : 2 * dim], *_LIMITS))

    def covariance(self, phi: Array) -> Array:
        """The covariance of theta."""
        dim = phi.size // (2 + self.rank)
        factors = phi[2 * dim :].reshape(dim, self.rank)
        return jnp.diag(jnp.exp(2.0 * phi[dim : 2 * dim])) + factors @ factors.T

    def _parts(self, phi: Array, standard: Array) -> tuple[Array, ...]:
        dim = standard.size - self.rank
        factors = phi[2 * dim :].reshape(dim, self.rank)
        return phi[:dim], jnp.exp(phi[dim : 2 * dim]), factors, standard[:dim], standard[dim:]


def dimension(size: int) -> int:
    """The number of parameters of a full Gaussian whose phi has this length: size = d (d + 3) / 2."""
    return round((math.sqrt(9.0 + 8.0 * size) - 3.0) / 2.0)


def standards(family: VariationalFamily, dim: int) -> int:
    """How many standard normals a draw is made of."""
    return dim + (family.rank if isinstance(family, LowRankGaussian) else 0)


def mean_and_covariance(family: VariationalFamily, phi: NDArray[np.floating], dim: int) -> tuple[Any, Any]:
    """Of theta under the guide."""
    phi = np.asarray(phi, np.float64)
    if isinstance(family, FullGaussian):
        root = np.asarray(family.root(jnp.asarray(phi), dim))
        return phi[:dim], root @ root.T
    if isinstance(family, LowRankGaussian):
        return phi[:dim], np.asarray(family.covariance(jnp.asarray(phi)))
    if isinstance(family, FactorisedGaussian):
        return phi[:dim], np.diag(np.exp(2.0 * phi[dim:]))
    return phi, np.zeros((dim, dim))


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
