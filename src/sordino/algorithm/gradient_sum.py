"""How a step sums the gradients of its batch, for all chains: one pass over every row, or over gathered rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.algorithm.records import Records

# The sum of one chain's gradients over given rows: (theta, features, target, weights, row norms) -> (dim,).
RowSum = Callable[[Array, Array, Array, Array, Array], Array]


class StepBatch(NamedTuple):
    """The batches of one step: where each group's begins in the list of records, and how many it has."""

    records: Array
    starts: Array
    counts: Array


class GradientSum(Protocol):
    """A way to sum; a frozen value, because it is compiled in."""

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Array:
        """The sums of all chains, shape (chains, dim)."""
        ...


@dataclass(frozen=True)
class EveryRow:
    """Every row, a cache-sized block of rows at a time, so that memory is read once and not once per product.

    How many blocks there are is known only when the kernel runs: padding costs memory, not time.
    """

    block: int

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Array:
        if self._length(records) == records.features.shape[0]:
            return self._block_sum(row_sum, records, theta, 0)
        return self.added(row_sum, records, theta, jnp.zeros_like(theta))

    def added(self, row_sum: RowSum, records: Records, theta: Array, total: Array) -> Array:
        """The sums over these rows added to `total`, block by block: rows that come in pieces add up alike."""
        length = self._length(records)
        blocks = (records.rows + length - 1) // length
        return lax.fori_loop(
            0, blocks, lambda j, total: total + self._block_sum(row_sum, records, theta, j * length), total
        )

    def _length(self, records: Records) -> int:
        return min(self.block, records.features.shape[0])

    def _block_sum(self, row_sum: RowSum, records: Records, theta: Array, first: Array | int) -> Array:
        length = self._length(records)
        weights = (first + jnp.arange(length) < records.rows).astype(theta.dtype)
        X, y, norms = (
            lax.dynamic_slice_in_dim(column, first, length)
            for column in (records.features, records.target, records.norms)
        )
        return jax.vmap(row_sum, in_axes=(0, None, None, None, None))(theta, X, y, weights, norms)


@dataclass(frozen=True)
class GatheredRows:
    """The rows of each chain's batch, or of the one batch that all chains share; `at_once` chains at a time."""

    capacity: int
    at_once: int

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Array:
        def gathered(start: Array, count: Array) -> tuple[Array, Array, Array, Array]:
            chosen = lax.dynamic_slice_in_dim(batch.records, start, self.capacity)
            weights = (jnp.arange(self.capacity) < count).astype(theta.dtype)
            X, y, norms = (
                column.at[chosen].get(mode="promise_in_bounds")
                for column in (records.features, records.target, records.norms)
            )
            return X, y, weights, norms

        if batch.starts.shape[0] == 1:
            rows = gathered(batch.starts[0], batch.counts[0])
            return jax.vmap(row_sum, in_axes=(0, None, None, None, None))(theta, *rows)

        def chain_sum(each: tuple[Array, Array, Array]) -> Array:
            point, start, count = each
            return row_sum(point, *gathered(start, count))

        each = (theta, batch.starts, batch.counts)
        if self.at_once >= theta.shape[0]:
            return jax.vmap(chain_sum)(each)
        return lax.map(chain_sum, each, batch_size=self.at_once)
