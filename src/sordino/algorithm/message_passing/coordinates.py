"""In which coordinates a record's message is clipped, summed and noised, and how a noised sum is read again.

Both ways use the record once, inside `total`, and bound its contribution there. `decode` sees only the noised sum and
the cavity, which is a function of released values, so it is post-processing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, number
from sordino.model.sites.base import Site, shortening
from sordino.model.sites.families import Family, Moments, Natural, Slopes

Clamp = tuple[float, float]


@dataclass(frozen=True)
class Coordinates(ABC):
    """A way to write messages as vectors of the family's size."""

    bounds_factor: ClassVar[bool] = False
    """Whether the average message is kept below the clip too, as published (Algorithm 3, line 12)."""
    usual_clamp: ClassVar[Clamp] = (1e-4, 1e4)
    """The range of 1 - v k where none is given: wide where one record's exact message is wanted."""

    @abstractmethod
    def total(
        self, site: Site, family: Family, moments: Moments, rows: tuple[Array, Array, Array], bound: Array, clamp: Clamp
    ) -> Array:
        """The sum over rows (features, targets, weights 0 or 1) of messages no longer than `bound` each."""

    @abstractmethod
    def decode(self, family: Family, moments: Moments, noised: Array, count: Array, clamp: Clamp) -> Array:
        """The sum of natural parameters that a noised sum over about `count` records stands for."""


@dataclass(frozen=True)
class NaturalCoordinates(Coordinates):
    """The published way: the natural parameters of each record's message (Vinaroz & Park, Algorithm 3, line 7)."""

    bounds_factor: ClassVar[bool] = True

    def total(
        self, site: Site, family: Family, moments: Moments, rows: tuple[Array, Array, Array], bound: Array, clamp: Clamp
    ) -> Array:
        def message(x: Array, y: Array) -> Array:
            return family.site(moments, site.slopes(moments, x, y), 1.0, clamp)

        X, y, weights = rows
        messages = jax.vmap(message)(X, y)
        factors = weights * shortening(jnp.sum(messages * messages, axis=1), bound, messages.shape[1])
        return factors @ jnp.where(factors[:, None] > 0.0, messages, 0.0)

    def decode(self, family: Family, moments: Moments, noised: Array, count: Array, clamp: Clamp) -> Array:
        return noised


@dataclass(frozen=True)
class CentredCoordinates(Coordinates):
    """(g, weight k): how the record moves mean and precision, seen from the present mean instead of from zero.

    A message's Lambda mu grows with the mean, its g does not, so the same clip keeps far more of it.
    """

    usual_clamp: ClassVar[Clamp] = (0.05, 20.0)  # what is divided by is a noised sum

    weight: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", number("weight", self.weight, POSITIVE))

    def total(
        self, site: Site, family: Family, moments: Moments, rows: tuple[Array, Array, Array], bound: Array, clamp: Clamp
    ) -> Array:
        X, y, weights = rows
        summed = site.centred_sum(moments, X, y, weights, self.weight, bound)
        return family.pack(Natural(summed.g, self.weight * summed.k, summed.gamma))

    def decode(self, family: Family, moments: Moments, noised: Array, count: Array, clamp: Clamp) -> Array:
        parts = family.unpack(noised)
        return family.site(moments, Slopes(parts.linear, parts.precision / self.weight, parts.gamma), count, clamp)
