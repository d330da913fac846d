"""What a site is: one record's likelihood, seen as a tilt of a Gaussian cavity.

A site is a frozen, hashable value, so that it can be a static argument of a compiled function.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sordino.model.clip import row_lengths, working_bound
from sordino.model.contributions import Parts, Plain, RowSizes
from sordino.model.sites.families import Family, Moments, Natural, Slopes


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

    def centred_parts(
        self, moments: Moments, X: Array, y: Array, weight: float, sizes: RowSizes | None = None
    ) -> Parts:
        """Every record's slopes (g, weight k, gamma) as parts whose flat sum is packed as the family packs them.

        Packing counts k with its Frobenius norm. Each record's parts come from that record and the moments alone;
        `sizes` are those of the rows where the caller has them.
        """
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
