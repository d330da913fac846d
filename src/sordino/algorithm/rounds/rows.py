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
from sordino.core.validate import refuse

ROWS_PER_BLOCK = 512

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

    def total(self, table: Table, batch: Batch, size: int, of_rows: Callable[[Rows], Array]) -> Array:
        """The sum over the round's rows of a function that sums over the rows it is given."""
        if self.capacity is None:
            return _every_row(table, size, of_rows)
        chosen = lax.dynamic_slice_in_dim(batch.indices, batch.start, self.capacity)
        weights = (jnp.arange(self.capacity) < batch.length).astype(table.features.dtype)
        X, y = (column.at[chosen].get(mode="promise_in_bounds") for column in table[:2])
        return of_rows((X, y, weights))


def _every_row(table: Table, size: int, of_rows: Callable[[Rows], Array]) -> Array:
    """A block of rows at a time, so that memory does not grow with their number."""
    length = min(ROWS_PER_BLOCK, table.features.shape[0])

    def block_sum(j: Array) -> Array:
        first = j * length
        X, y = (lax.dynamic_slice_in_dim(column, first, length) for column in table[:2])
        return of_rows((X, y, (first + jnp.arange(length) < table.rows).astype(X.dtype)))

    blocks = (table.rows + length - 1) // length
    start = jnp.zeros(size, table.features.dtype)
    return lax.fori_loop(0, blocks, lambda j, summed: summed + block_sum(j), start)


def checked_rows(features: Any, target: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows as arrays of finite numbers, one target for each."""
    X, y = np.asarray(features), np.asarray(target)
    if X.ndim != 2 or X.dtype.kind not in "fiub" or len(X) == 0:
        raise refuse("features", "to be a table of numbers, one row for each record", f"{X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub":
        raise refuse("target", f"to hold one number for each of the {len(X)} rows", f"{y.dtype} of shape {y.shape}")
    if not np.isfinite(X).all() or not np.isfinite(y).all():
        raise refuse("features and target", "to be finite", "NaN or infinity", "encode the table with a schema first")
    return X, y


def load_table(X: NDArray[Any], y: NDArray[Any], dtype: Any) -> Table:
    """Rows on the device, padded so that nearby numbers of rows share one compiled kernel."""
    padded = bucket(len(X))
    if padded > ROWS_PER_BLOCK:
        padded = -(-padded // ROWS_PER_BLOCK) * ROWS_PER_BLOCK
    features, target = np.zeros((padded, X.shape[1]), dtype), np.zeros(padded, dtype)
    features[: len(X)], target[: len(y)] = X, y
    return Table(jax.device_put(features), jax.device_put(target), jnp.asarray(len(X), jnp.int32))
