"""Families of approximate posteriors: a point, and independent Gaussians.

phi is the flat vector of the family; a draw is theta(phi, e) with e standard normal, of the size of theta. The chain
rule gives the gradient in phi, `lift(phi, e, g)`, whose squared length is sum_j w_j g_j^2 with w = `squares(phi, e)`,
from phi and e alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.validate import Interval, check_numbers, one_of
from sordino.mechanisms.posterior.laws import DrawsPosterior, FactorisedPosterior, Posterior
from sordino.models.base import Model


@dataclass(frozen=True)
class VariationalFamily:
    """A family of approximate posteriors over `dim` parameters; what it does not say is that of a single point."""

    def size(self, dim: int) -> int:
        return dim

    def first(self, mean: Array) -> Array:
        return mean

    def theta(self, phi: Array, standard: Array) -> Array:
        """The draw that belongs to a standard normal vector."""
        return phi

    def squares(self, phi: Array, standard: Array) -> Array | None:
        """How much a unit of each squared coordinate of a gradient counts in the squared length of its lift.

        None where each counts once: a matrix of ones was multiplied wrongly in compiled programs (`contributions`).
        """
        return None

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        """The gradient in phi of a function whose gradient in theta, at the draw, is given."""
        return gradient

    def entropy_gradient(self, phi: Array) -> Array:
        return jnp.zeros_like(phi)

    def restrained(self, phi: Array) -> Array:
        """phi brought back into the family's public limits, which is post-processing."""
        return phi

    def covariance(self, phi: Array, dim: int) -> Array:
        """The covariance of theta; its mean is the first `dim` entries of phi."""
        return jnp.zeros((dim, dim))

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        return DrawsPosterior(model, np.asarray(phi)[None, None])


@dataclass(frozen=True)
class PointMass(VariationalFamily):
    """A single point: variational inference becomes the search for the largest posterior density."""


_DEVIATIONS = Interval(1e-4, 10.0)


@dataclass(frozen=True)
class FactorisedGaussian(VariationalFamily):
    """Independent Gaussians; phi stacks means and logarithms of standard deviations, kept between two public limits."""

    first_deviation: float = 0.05

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=_DEVIATIONS)

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
        return jnp.concatenate([mean, jnp.clip(log_deviation, *map(math.log, (_DEVIATIONS.low, _DEVIATIONS.high)))])

    def covariance(self, phi: Array, dim: int) -> Array:
        return jnp.diag(jnp.exp(2.0 * phi[dim:]))

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        mean, log_deviation = np.split(np.asarray(phi, np.float64), 2)
        return FactorisedPosterior(model, mean, np.exp(log_deviation))

    def _moved(self, phi: Array, standard: Array) -> Array:
        """d theta / d log deviation."""
        return jnp.exp(jnp.split(phi, 2)[1]) * standard


# The words for guides, and the names of NumPyro's automatic ones.
_GUIDES: dict[str, type[VariationalFamily]] = {"point": PointMass, "diagonal": FactorisedGaussian}
_GUIDES |= {"AutoDelta": PointMass, "AutoNormal": FactorisedGaussian, "AutoDiagonalNormal": FactorisedGaussian}


def guide_for(given: Any) -> VariationalFamily:
    """The guide for a word, or for a class or object of NumPyro's automatic guides."""
    if isinstance(given, VariationalFamily):
        return given
    name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    return _GUIDES[one_of("guide", name, tuple(_GUIDES))]()
