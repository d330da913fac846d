"""In which coordinates a record's message is clipped, summed and noised, and how a noised sum is read again.

Both ways use the record once, inside `parts`, and the kernel bounds what it contributes. `decode` sees only the noised
sum and the cavity, which is a function of released values, so it is post-processing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import jax
from jax import Array

from sordino.algorithm.records import SomeRows
from sordino.core.validate import POSITIVE, number
from sordino.model.contributions import Parts, Plain
from sordino.model.sites.base import Site
from sordino.model.sites.families import Family, Moments, Slopes

Clamp = tuple[float, float]


@dataclass(frozen=True)
class Coordinates(ABC):
    """A way to write messages as vectors of the family's size."""

    bounds_factor: ClassVar[bool] = False
    """Whether the average message is kept below the clip too, as published (Algorithm 3, line 12)."""
    usual_clamp: ClassVar[Clamp] = (1e-4, 1e4)
    """The range of 1 - v k where none is given: wide where one record's exact message is wanted."""

    @abstractmethod
    def parts(self, site: Site, family: Family, moments: Moments, rows: SomeRows, clamp: Clamp) -> Parts:
        """Every record's message, as long as it is, written in these coordinates."""

    @abstractmethod
    def decode(self, family: Family, moments: Moments, noised: Array, count: Array, clamp: Clamp) -> Array:
        """The sum of natural parameters that a noised sum over about `count` records stands for."""


@dataclass(frozen=True)
class NaturalCoordinates(Coordinates):
    """The published way: the natural parameters of each record's message (Vinaroz & Park, Algorithm 3, line 7)."""

    bounds_factor: ClassVar[bool] = True

    def parts(self, site: Site, family: Family, moments: Moments, rows: SomeRows, clamp: Clamp) -> Parts:
        def message(x: Array, y: Array) -> Array:
            return family.site(moments, site.slopes(moments, x, y), 1.0, clamp)

        return (Plain(jax.vmap(message)(rows.features, rows.target)),)

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

    def parts(self, site: Site, family: Family, moments: Moments, rows: SomeRows, clamp: Clamp) -> Parts:
        return site.centred_parts(moments, rows.features, rows.target, self.weight, rows.sizes)

    def decode(self, family: Family, moments: Moments, noised: Array, count: Array, clamp: Clamp) -> Array:
        parts = family.unpack(noised)
        return family.site(moments, Slopes(parts.linear, parts.precision / self.weight, parts.gamma), count, clamp)
