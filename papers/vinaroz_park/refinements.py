"""Repairs and schedules that the paper states and nothing else uses."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.spec import ListSchedule
from sordino.core.validate import POSITIVE, number, whole_number
from sordino.mechanisms.messages import Repair, Repaired


def linear_decay(initial: float, final: float, steps: int) -> ListSchedule:
    """A schedule that goes from `initial` to `final` in equal steps."""
    number("initial", initial, POSITIVE)
    number("final", final, POSITIVE)
    return ListSchedule(tuple(np.linspace(initial, final, whole_number("steps", steps)).tolist()))


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
