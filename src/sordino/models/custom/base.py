"""What a fit needs of a model of one's own: a loss of one unit, a prior, and named sites.

A front end turns what a user has (a NumPyro model, a loss on a pytree, a module) into an `CustomModel`; it registers
itself under a word and is asked in the order of registration whether it takes the model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.validate import InputError
from sordino.models.custom.records import RecordLayout


@dataclass(frozen=True)
class ReleasedParameter:
    """A named parameter as it is released: its shape in the model's own space."""

    name: str
    shape: tuple[int, ...]


class CustomModel(ABC):
    """A model on a flat vector of unconstrained parameters. Two are equal only if they are one object."""

    layout: RecordLayout

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of the flat vector."""

    @property
    @abstractmethod
    def sites(self) -> tuple[ReleasedParameter, ...]:
        """What is released, in the order of the model."""

    @abstractmethod
    def unit_loss(self, theta: Array, row: Array) -> Array:
        """Minus the log-likelihood of one unit, given as a row of the packed table."""

    @abstractmethod
    def penalty(self, theta: Array) -> Array:
        """Minus the log-density of the prior, in the unconstrained space; it reads no row."""

    @abstractmethod
    def constrained(self, theta: Array) -> dict[str, Array]:
        """The value of every site."""

    def start(self) -> Array:
        """Where a fit begins: public."""
        return jnp.zeros(self.size)

    def unit_gradients(self, theta: Array, rows: Array) -> Array:
        """The gradient of every unit's loss, each from that unit's row alone."""
        return jax.vmap(jax.grad(self.unit_loss), in_axes=(None, 0))(theta, rows)

    @property
    def simulates(self) -> bool:
        """Whether `simulated` can draw what a unit is observed to be."""
        return False

    def simulated(self, theta: Array, row: Array, number: Any = 0) -> Array:
        """The row of one unit with what is observed drawn anew from the model, for the so-manieth time.

        Random numbers follow from the row and the number.
        """
        raise InputError(f"Expected a model that can be simulated, got {type(self).__name__}.")

    def predict(self, theta: Array, data: Mapping[str, Any], key: Array) -> dict[str, Array]:
        """Draws of what the model observes, for new records and a flat vector for each draw, shape (draws, records)."""
        raise InputError(f"Expected a model that predicts, got {type(self).__name__}, which has a loss only.")

    def log_likelihood(self, theta: Array, data: Mapping[str, Any]) -> dict[str, Array]:
        """The log-density of what is observed, for public records, shape (draws, records)."""
        raise InputError(f"Expected a model with a likelihood, got {type(self).__name__}, which has a loss only.")


# Products of gradients have as many numbers as the square of the parameters.
MOST_NATURAL = 150
Kind = TypeVar("Kind", bound="type[FrontEnd]")


class FrontEnd(ABC):
    """Recognises what a user gives as a model and builds an `CustomModel` of it."""

    name: str

    def method(self, model: CustomModel) -> str:
        """The method that suits such a model, by its public size alone."""
        return "natural" if model.size <= MOST_NATURAL else "variational"

    @abstractmethod
    def takes(self, model: Any, options: Mapping[str, Any]) -> bool:
        """Whether this is such a model; no import of a package that is not loaded."""

    @abstractmethod
    def names(self, model: Any, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the arrays that the model reads, in their order."""

    @abstractmethod
    def build(self, model: Any, layout: RecordLayout, options: Mapping[str, Any]) -> CustomModel:
        """The model on records of this layout; refused, with the site or layer named, where it is none."""


FRONT_ENDS: dict[str, FrontEnd] = {}


def front_end(name: str) -> Callable[[Kind], Kind]:
    """Class decorator: register a front end under a word."""

    def registered(kind: Kind) -> Kind:
        if name in FRONT_ENDS and type(FRONT_ENDS[name]).__qualname__ != kind.__qualname__:
            raise InputError(f"Expected a new front end, got {name!r}, which is already registered.")
        kind.name = name
        FRONT_ENDS[name] = cast(FrontEnd, kind())
        return kind

    return registered


def front_end_for(model: Any, options: Mapping[str, Any]) -> FrontEnd:
    """The first registered front end that takes a model."""
    for one in FRONT_ENDS.values():
        if one.takes(model, options):
            return one
    raise InputError(
        "Expected a NumPyro model, a module of Equinox or Flax, or a loss(params, ...) of one record with params=, got "
        f"a {type(model).__name__}; registered front ends are {', '.join(FRONT_ENDS)}."
    )
