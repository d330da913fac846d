"""Repairs of a precision that noise made indefinite: post-processing, counted and reported, never silent."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, number
from sordino.model.sites.families import BlockGaussian, Family, Natural

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
        object.__setattr__(self, "floor", number("floor", self.floor, POSITIVE))

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


@dataclass(frozen=True)
class ShiftSpectrum(Repair):
    """A block that is not definite gets a multiple of the identity added (Vinaroz & Park, Definition 4.2).

    The definition shifts every time; here only a block whose smallest eigenvalue is below the floor is shifted.
    """

    def _values(self, values: Array) -> Array:
        return values + jnp.maximum(self.floor - jnp.min(values, axis=-1, keepdims=True), 0.0)


@dataclass(frozen=True)
class SkipRound(Repair):
    """A round that leaves any eigenvalue below the floor is taken back as a whole; its cost stays."""

    def _values(self, values: Array) -> Array:
        return values

    def _chosen(self, repaired: Repaired, theta: Array, before: Array) -> Repaired:
        return Repaired(jnp.where(repaired.number > 0, before, theta), repaired.number)
