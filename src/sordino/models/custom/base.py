"""What a fit needs of a custom model: a loss of one unit, a prior, named sites, and records as rows of numbers.

A fit sums over units. The records of a unit stand side by side in one row of a table, with a mask that says which
places are taken. Empty places repeat the unit's first record, so that functions of them are defined as on the unit.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.core.validate import InputError, refuse

Data = Mapping[str, Any]  # arrays by name, with the records along the first axis
Options = Mapping[str, Any]  # settings of a fit besides the model and the data
UserModel = Any  # a function or a module, as its author wrote it
Tried = TypeVar("Tried")

# Models get whole numbers in 32 bits, and may get floats in single precision.
_LARGEST_WHOLE = 2**31 - 1
_LARGEST = float(np.finfo(np.float32).max)
_KINDS = {"f": False, "i": True, "u": True, "b": True}


@dataclass(frozen=True)
class Leaf:
    """A named array of a record: its shape in one record, and whether its numbers are whole."""

    name: str
    shape: tuple[int, ...]
    whole: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class RecordLayout:
    """The arrays of a record in the order of their columns; `rows` is the most records of a unit."""

    leaves: tuple[Leaf, ...]
    rows: int = 1

    @property
    def width(self) -> int:
        return sum(leaf.size for leaf in self.leaves)

    @property
    def columns(self) -> int:
        """Columns of one unit: those of its records, and the mask where there may be several."""
        return self.rows * self.width + (self.rows if self.rows > 1 else 0)

    @property
    def places(self) -> Iterator[tuple[Leaf, slice]]:
        ends = accumulate(leaf.size for leaf in self.leaves)
        return ((leaf, slice(end - leaf.size, end)) for leaf, end in zip(self.leaves, ends, strict=True))

    def unpack(self, row: Array) -> tuple[dict[str, Array], Array]:
        """The arrays of one unit, each with its records along the first axis, and which records are there."""
        there = row[self.rows * self.width :] > 0.0 if self.rows > 1 else jnp.ones(1, bool)
        return self.arrays(row[: self.rows * self.width].reshape(self.rows, self.width)), there

    def replaced(self, row: Array, values: Mapping[str, Array]) -> Array:
        """The row with some of its arrays replaced, for all records of the unit."""
        table = row[: self.rows * self.width].reshape(self.rows, self.width)
        for leaf, place in self.places:
            if leaf.name in values:
                table = table.at[:, place].set(values[leaf.name].astype(row.dtype).reshape(self.rows, leaf.size))
        return jnp.concatenate([table.ravel(), row[self.rows * self.width :]])

    def arrays(self, table: Array) -> dict[str, Array]:
        """The arrays of records that are stored in the rows of a table."""
        parts = ((leaf, table[:, place].reshape(len(table), *leaf.shape)) for leaf, place in self.places)
        return {leaf.name: part.astype(jnp.int32) if leaf.whole else part for leaf, part in parts}


def read_layout(data: Data, rows: int = 1) -> RecordLayout:
    """The layout of named arrays, from their shapes and types alone: no number is read."""
    leaves, lengths = [], {}
    for name, values in data.items():
        given = values if hasattr(values, "dtype") and hasattr(values, "shape") else np.asarray(values)
        kind, shape = np.dtype(given.dtype).kind, tuple(given.shape)
        if kind not in _KINDS or not shape:
            raise refuse(f"data[{name!r}]", "to be numbers with the records along the first axis", f"{kind} {shape}")
        if 0 in shape[1:]:
            raise refuse(f"data[{name!r}]", "to have at least one number in a record", f"shape {shape}")
        lengths[name] = shape[0]
        leaves.append(Leaf(name, shape[1:], _KINDS[kind]))
    if not leaves:
        raise InputError("The data need at least one named array.")
    if len(set(lengths.values())) > 1:
        raise InputError(f"Expected arrays of one length, got arrays of several: {', '.join(lengths)}.")
    return RecordLayout(tuple(leaves), rows)


def pack(layout: RecordLayout, data: Data, units: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """One row of numbers for each unit; `units` numbers the unit of each record, and further records are left out."""
    arrays = ((leaf, np.asarray(finite(data[leaf.name]), np.float64)) for leaf in layout.leaves)
    table = np.concatenate([values.reshape(len(values), leaf.size) for leaf, values in arrays], axis=1)
    if units is None:
        return table
    number, rows = int(units.max(initial=-1)) + 1, layout.rows
    sizes = np.bincount(units, minlength=number)
    order = np.argsort(units, kind="stable")
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept, place = order[place < rows], place[place < rows]
    firsts = table[order[np.cumsum(sizes) - sizes]] if number else np.zeros((0, layout.width))
    if rows == 1:
        return firsts
    packed = np.repeat(firsts[:, None], rows, axis=1)
    packed[units[kept], place] = table[kept]
    mask = (np.arange(rows) < np.minimum(sizes, rows)[:, None]).astype(np.float64)
    return np.concatenate([packed.reshape(number, rows * layout.width), mask], axis=1)


def finite(values: Any) -> NDArray[Any]:
    """Numbers that every model can compute with, each by itself: NaN as 0, what is too large as the largest there is.

    A refusal would reveal that one record holds such a number.
    """
    array = np.asarray(values)
    if array.dtype.kind == "f":
        largest = min(_LARGEST, float(np.finfo(array.dtype).max))
        return np.clip(np.nan_to_num(array, nan=0.0), -largest, largest)
    if array.dtype.kind == "b":
        return array
    ends = np.iinfo(array.dtype)
    return np.clip(array, max(ends.min, -_LARGEST_WHOLE), min(ends.max, _LARGEST_WHOLE))


def key_of(row: Array) -> Array:
    """A public random key that follows from the numbers of a row: what is drawn with it depends on that row alone."""
    words = lax.bitcast_convert_type(row.astype(jnp.float64), jnp.uint32).ravel()
    odd = np.random.default_rng(0).integers(0, 2**31, len(words), dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return jax.random.fold_in(jax.random.key(0), jnp.sum((words ^ (words >> 16)) * odd, dtype=jnp.uint32))


def blank(layout: RecordLayout, rows: int, seed: int | None = None) -> dict[str, NDArray[Any]]:
    """Public records to try a model on: zeros, or with a seed numbers that most likelihoods are defined for."""
    generator = np.random.default_rng(seed)

    def values(leaf: Leaf) -> NDArray[Any]:
        shape = (rows, *leaf.shape)
        if seed is None:
            return np.zeros(shape, np.int32 if leaf.whole else np.float64)
        return generator.integers(0, 2, shape, np.int32) if leaf.whole else generator.uniform(0.2, 0.8, shape)

    return {leaf.name: values(leaf) for leaf in layout.leaves}


def tried(words: str, call: Callable[[], Tried]) -> Tried:
    """What a call of a user's code on made-up records answers, or a refusal with the error that it raised."""
    try:
        return call()
    except InputError:
        raise
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        raise InputError(f"{words}, it raised {type(error).__name__}: {str(error)[:200]}") from None


class ReleasedParameter(NamedTuple):
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
        """The row of one unit with what is observed drawn anew, by random numbers that follow from row and number."""
        raise InputError(f"Expected a model that can be simulated, got {type(self).__name__}.")

    def predict(self, theta: Array, data: Data, key: Array) -> dict[str, Array]:
        """Draws of what the model observes, for new records and a flat vector for each draw, shape (draws, records)."""
        raise InputError(f"Expected a model that predicts, got {type(self).__name__}, which has a loss only.")

    def log_likelihood(self, theta: Array, data: Data) -> dict[str, Array]:
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
    def takes(self, model: UserModel, options: Options) -> bool:
        """Whether this is such a model; no import of a package that is not loaded."""

    @abstractmethod
    def names(self, model: UserModel, options: Options) -> tuple[str, ...]:
        """The names of the arrays that the model reads, in their order."""

    @abstractmethod
    def build(self, model: UserModel, layout: RecordLayout, options: Options) -> CustomModel:
        """The model on records of this layout; refused, with the site or layer named, where it is none."""


FRONT_ENDS: dict[str, FrontEnd] = {}


def front_end(name: str) -> Callable[[Kind], Kind]:
    """Class decorator: register a front end under a word."""

    def registered(kind: Kind) -> Kind:
        if name in FRONT_ENDS and type(FRONT_ENDS[name]).__qualname__ != kind.__qualname__:
            raise InputError(f"The front end {name!r} is already registered.")
        kind.name = name
        FRONT_ENDS[name] = cast(FrontEnd, kind())
        return kind

    return registered


def front_end_for(model: UserModel, options: Options) -> FrontEnd:
    """The first registered front end that takes a model."""
    if chosen := next((one for one in FRONT_ENDS.values() if one.takes(model, options)), None):
        return chosen
    raise InputError(
        "Expected a NumPyro model, a module of Equinox or Flax, or a loss(params, ...) of one record with params=, got "
        f"a {type(model).__name__}; registered front ends are {', '.join(FRONT_ENDS)}."
    )
