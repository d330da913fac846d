"""Private rows as a kernel in rounds reads them, and sums over the rows of one round."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.buckets import bucket
from sordino.algorithm.exact_sums import GROUP, Total, no_total

# Rows, targets, and weights 0 or 1.
Rows = tuple[Array, Array, Array]


class Table(NamedTuple):
    """Padded private rows, and how many are real."""

    features: Array
    target: Array
    rows: Array


class Batch(NamedTuple):
    """Which rows one round uses: a slice of a flat list of row numbers."""

    indices: Array
    start: Array
    length: Array


@dataclass(frozen=True)
class RowAccess:
    """How a round reaches its rows; `capacity` is the largest batch, or None where every round uses every row."""

    capacity: int | None

    def total(self, table: Table, batch: Batch, size: int, of_rows: Callable[[Rows], Total]) -> Total:
        """The sum over the round's rows of a function that sums over the rows it is given, in double precision."""
        if self.capacity is None:
            return _every_row(table, size, of_rows)
        chosen = lax.dynamic_slice_in_dim(batch.indices, batch.start, self.capacity)
        present = (jnp.arange(self.capacity) < batch.length).astype(jnp.float64)
        X, y = (column.at[chosen].get(mode="promise_in_bounds").astype(jnp.float64) for column in table[:2])
        return of_rows((X, y, present))


def _every_row(table: Table, size: int, of_rows: Callable[[Rows], Total]) -> Total:
    """A block of rows at a time, so that memory does not grow with their number."""
    length = min(GROUP, table.features.shape[0])

    def block_sum(j: Array) -> Total:
        first = j * length
        X, y = (lax.dynamic_slice_in_dim(column, first, length).astype(jnp.float64) for column in table[:2])
        return of_rows((X, y, (first + jnp.arange(length) < table.rows).astype(jnp.float64)))

    blocks = (table.rows + length - 1) // length
    return lax.fori_loop(0, blocks, lambda j, summed: summed.plus(block_sum(j)), no_total((size,)))


def load_table(X: NDArray[Any], y: NDArray[Any], dtype: Any) -> Table:
    """Rows on the device, padded so that nearby numbers of rows share one compiled kernel."""
    padded = bucket(len(X))
    if padded > GROUP:
        padded = -(-padded // GROUP) * GROUP
    features, target = np.zeros((padded, X.shape[1]), dtype), np.zeros(padded, dtype)
    features[: len(X)], target[: len(y)] = X, y
    return Table(jax.device_put(features), jax.device_put(target), jnp.asarray(len(X), jnp.int32))
