"""In which coordinates a record's message is clipped, summed and noised, and how a noised sum is read again.

Both ways use the record once, inside `parts`, and the kernel bounds what it contributes. `decode` sees only the noised
sum and the cavity, which is a function of released values, so it is post-processing.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sordino.algorithm.chain.kernel import SomeRows
from sordino.core.validate import POSITIVE, check_numbers
from sordino.model.contributions import Parts, Plain
from sordino.model.sites.families import BlockGaussian, Family, Moments, Natural, Site, Slopes

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
        check_numbers(self, weight=POSITIVE)

    def parts(self, site: Site, family: Family, moments: Moments, rows: SomeRows, clamp: Clamp) -> Parts:
        return site.centred_parts(moments, rows.features, rows.target, self.weight, rows.sizes)

    def decode(self, family: Family, moments: Moments, noised: Array, count: Array, clamp: Clamp) -> Array:
        parts = family.unpack(noised)
        return family.site(moments, Slopes(parts.linear, parts.precision / self.weight, parts.gamma), count, clamp)


# A Gamma message passes through rate / (shape - 1), so a shape stays above 1 by this much.
_SMALLEST_SHAPE_EXCESS = 1e-3
_SMALLEST_RATE = 1e-6


class Repaired(NamedTuple):
    """The repaired vector, and how many of its eigenvalues, shapes and rates were repaired."""

    theta: Array
    number: Array


@dataclass(frozen=True)
class Repair(ABC):
    """A way to make every eigenvalue of the precision at least `floor`, a public constant."""

    floor: float

    def __post_init__(self) -> None:
        check_numbers(self, floor=POSITIVE)

    def __call__(self, family: Family, theta: Array, before: Array) -> Repaired:
        """Repair `theta`; `before` is the vector of the round before, which needs none."""
        parts = family.unpack(theta)
        gamma, low_gammas = self._gammas(family, parts.gamma)
        if isinstance(family, BlockGaussian):
            values, vectors = jnp.linalg.eigh(parts.precision)
            fixed = self._values(values)
            rebuilt = jnp.einsum("bij,bj,bkj->bik", vectors, fixed, vectors)
            precision = jnp.where(jnp.any(values < self.floor, axis=1)[:, None, None], rebuilt, parts.precision)
            low = jnp.sum(values < self.floor)
        else:
            precision = self._values(parts.precision[:, None])[:, 0]
            low = jnp.sum(parts.precision < self.floor)
        repaired = family.pack(Natural(parts.linear, precision, gamma))
        return self._chosen(Repaired(repaired, low + low_gammas), theta, before)

    @abstractmethod
    def _values(self, values: Array) -> Array:
        """Repaired eigenvalues; the last axis holds those of one block."""

    def _chosen(self, repaired: Repaired, theta: Array, before: Array) -> Repaired:
        # Where nothing was low nothing changes, not even in the last bit.
        return Repaired(jnp.where(repaired.number > 0, repaired.theta, theta), repaired.number)

    def _gammas(self, family: Family, gamma: Array) -> tuple[Array, Array]:
        half = family.gammas
        excess, rate = gamma[:half], -gamma[half:]
        low = jnp.sum(excess < _SMALLEST_SHAPE_EXCESS) + jnp.sum(rate < _SMALLEST_RATE)
        fixed = [jnp.maximum(excess, _SMALLEST_SHAPE_EXCESS), -jnp.maximum(rate, _SMALLEST_RATE)]
        return jnp.concatenate(fixed), low


@dataclass(frozen=True)
class RaiseEigenvalues(Repair):
    """Eigenvalues below the floor are raised to it (Vinaroz & Park, Section 3.1, steps 9-11)."""

    def _values(self, values: Array) -> Array:
        return jnp.maximum(values, self.floor)
