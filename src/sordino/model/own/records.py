"""Records of any named arrays as rows of one table of numbers, and back: what a private sum is taken over.

A fit sums over units. A unit is one record, or all records of a person; then the records of a unit stand side by side
in one row, with a mask that says which places are taken. Empty places repeat the unit's first record, so that no
function of them is undefined where it is defined on the unit itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.core.validate import InputError, refuse

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
        """Numbers in one record."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class RecordLayout:
    """The arrays of a record in the order of their columns; `rows` is the most records of a unit."""

    leaves: tuple[Leaf, ...]
    rows: int = 1

    @property
    def width(self) -> int:
        """Columns of one record."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def columns(self) -> int:
        """Columns of one unit: those of its records, and the mask where there may be several."""
        return self.rows * self.width + (self.rows if self.rows > 1 else 0)

    def unpack(self, row: Array) -> tuple[dict[str, Array], Array]:
        """The arrays of one unit, each with its records along the first axis, and which records are there."""
        return self.arrays(row[: self.rows * self.width].reshape(self.rows, self.width)), self._mask(row)

    def replaced(self, row: Array, values: Mapping[str, Array]) -> Array:
        """The row with some of its arrays replaced, for all records of the unit."""
        table = row[: self.rows * self.width].reshape(self.rows, self.width)
        start = 0
        for leaf in self.leaves:
            if leaf.name in values:
                new = values[leaf.name].astype(row.dtype).reshape(self.rows, leaf.size)
                table = table.at[:, start : start + leaf.size].set(new)
            start += leaf.size
        return jnp.concatenate([table.ravel(), row[self.rows * self.width :]])

    def arrays(self, table: Array) -> dict[str, Array]:
        """The arrays of records that stand in the rows of a table."""
        found, start = {}, 0
        for leaf in self.leaves:
            part = table[:, start : start + leaf.size].reshape(len(table), *leaf.shape)
            found[leaf.name] = part.astype(jnp.int32) if leaf.whole else part
            start += leaf.size
        return found

    def _mask(self, row: Array) -> Array:
        return row[self.rows * self.width :] > 0.0 if self.rows > 1 else jnp.ones(1, bool)


def read_layout(data: Mapping[str, Any], rows: int = 1) -> RecordLayout:
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
        raise InputError("Expected data with at least one named array, got none.")
    if len(set(lengths.values())) > 1:
        raise InputError(f"Expected arrays of one length, got arrays of several: {', '.join(lengths)}.")
    return RecordLayout(tuple(leaves), rows)


def pack(layout: RecordLayout, data: Mapping[str, Any], units: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """One row of numbers for each unit; `units` numbers the unit of each record, and further records are left out."""
    columns = []
    for leaf in layout.leaves:
        values = finite(data[leaf.name])
        columns.append(np.asarray(values, np.float64).reshape(len(values), leaf.size))
    table = np.concatenate(columns, axis=1)
    return table if units is None else _grouped(layout, table, units)


def finite(values: Any) -> NDArray[Any]:
    """Numbers that every model can compute with, each by itself: NaN as 0, what is too large as the largest there is.

    A refusal would tell that one record holds such a number.
    """
    array = np.asarray(values)
    if array.dtype.kind == "f":
        largest = min(_LARGEST, float(np.finfo(array.dtype).max))
        return np.clip(np.nan_to_num(array, nan=0.0), -largest, largest)
    if array.dtype.kind == "b":
        return array
    ends = np.iinfo(array.dtype)
    return np.clip(array, max(ends.min, -_LARGEST_WHOLE), min(ends.max, _LARGEST_WHOLE))


def _grouped(layout: RecordLayout, table: NDArray[Any], units: NDArray[Any]) -> NDArray[np.float64]:
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


def key_of(row: Array) -> Array:
    """A public random key that follows from the numbers of a row: what is drawn with it depends on that row alone."""
    words = lax.bitcast_convert_type(row.astype(jnp.float64), jnp.uint32).ravel()
    odd = np.random.default_rng(0).integers(0, 2**31, len(words), dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    mixed = jnp.sum((words ^ (words >> 16)) * odd, dtype=jnp.uint32)
    return jax.random.fold_in(jax.random.key(0), mixed)


def blank(layout: RecordLayout, rows: int, seed: int | None = None) -> dict[str, NDArray[Any]]:
    """Public records to try a model on: zeros, or with a seed numbers that most likelihoods are defined for."""
    # Floats lie inside (0, 1), whole numbers are 0 or 1.
    generator = np.random.default_rng(seed)
    found = {}
    for leaf in layout.leaves:
        shape = (rows, *leaf.shape)
        if seed is None:
            found[leaf.name] = np.zeros(shape, np.int32 if leaf.whole else np.float64)
        elif leaf.whole:
            found[leaf.name] = generator.integers(0, 2, shape, dtype=np.int32)
        else:
            found[leaf.name] = generator.uniform(0.2, 0.8, shape)
    return found
