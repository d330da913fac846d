"""What a site is: one record's likelihood, seen as a tilt of a Gaussian cavity.

A site is a frozen, hashable value, so that it can be a static argument of a compiled function.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sordino.model.clip import working_bound
from sordino.model.sites.families import Family, Moments, Slopes


class Predicted(NamedTuple):
    """Mean and variance of the target of each row, the spread of the observation included."""

    mean: Array
    variance: Array


@dataclass(frozen=True)
class Site(ABC):
    """The likelihood of one record under a Gaussian family."""

    @abstractmethod
    def family(self, features: int) -> Family:
        """The family of the approximate posterior when rows have this many features."""

    @abstractmethod
    def slopes(self, moments: Moments, x: Array, y: Array) -> Slopes:
        """How the record (x, y) tilts a cavity with these moments."""

    @abstractmethod
    def predict(self, moments: Moments, X: Array) -> Predicted:
        """The target of each row, averaged over the Gaussian."""

    @abstractmethod
    def log_predictive(self, moments: Moments, X: Array, y: Array) -> Array:
        """The log-density of each record, averaged over the Gaussian."""

    @abstractmethod
    def conditional(self, theta: Array, X: Array) -> Predicted:
        """The target of each row at one parameter vector."""

    @abstractmethod
    def log_likelihood(self, theta: Array, X: Array, y: Array) -> Array:
        """The log-density of each record at one parameter vector."""

    @property
    def gamma_prior(self) -> tuple[tuple[float, float], ...]:
        """Shape and rate of each unknown precision's prior."""
        return ()

    def centred_sum(self, moments: Moments, X: Array, y: Array, weights: Array, scale: float, bound: Array) -> Slopes:
        """The weighted sum of slopes (g, k, gamma), each record's (g, scale k, gamma) shortened to at most `bound`.

        The length counts k with its Frobenius norm. A record whose slopes are not finite contributes nothing.
        """
        each = jax.vmap(self.slopes, in_axes=(None, 0, 0))(moments, X, y)
        squares = _squares(each.g) + scale**2 * _squares(each.k) + _squares(each.gamma)
        kept = weights * shortening(squares, bound, sum(part[0].size for part in each))
        return Slopes(*(jnp.tensordot(kept, _finite(part, squares), 1) for part in each))


def shortening(squares: Array, bound: Array | float, entries: int) -> Array:
    """The factor that brings a vector of this squared length to at most `bound`; 0 where it is not finite."""
    target = working_bound(1.0, entries) * bound
    factor = jnp.minimum(1.0, target / jnp.sqrt(jnp.maximum(squares, jnp.finfo(squares.dtype).tiny)))
    return jnp.where(jnp.isfinite(squares), factor, 0.0)


def _squares(values: Array) -> Array:
    return jnp.sum(values * values, axis=tuple(range(1, values.ndim)))


def _finite(values: Array, squares: Array) -> Array:
    return jnp.where(jnp.isfinite(squares).reshape((-1,) + (1,) * (values.ndim - 1)), values, 0.0)
