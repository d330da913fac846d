"""How a step sums the gradients of its batch, for all chains: one pass over every row, or over gathered rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax
from jax import Array, lax

from sordino.algorithm.exact_sums import Total, no_total
from sordino.algorithm.records import Records, SomeRows, chosen_from, slice_of

# The sum of one chain's gradients over given rows.
RowSum = Callable[[Array, SomeRows], Total]


class StepBatch(NamedTuple):
    """The batches of one step: where each group's begins in the list of records, and how many it has."""

    records: Array
    starts: Array
    counts: Array


class GradientSum(Protocol):
    """A way to sum; a frozen value, because it is compiled in."""

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        """The sums of all chains, shape (chains, dim)."""
        ...


@dataclass(frozen=True)
class EveryRow:
    """Every row, a cache-sized block of rows at a time, so that memory is read once and not once per product.

    How many blocks there are is known only when the kernel runs: padding costs memory, not time.
    """

    block: int

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        return self.added(row_sum, records, theta, no_total(theta.shape))

    def added(self, row_sum: RowSum, records: Records, theta: Array, total: Total) -> Total:
        """The sums over these rows added to `total`, block by block: rows that come in pieces add up alike."""
        length = min(self.block, records.features.shape[0])

        def with_block(j: Array, total: Total) -> Total:
            return total.plus(_over_chains(row_sum, theta, slice_of(records, j * length, length)))

        return lax.fori_loop(0, (records.rows + length - 1) // length, with_block, total)


@dataclass(frozen=True)
class GatheredRows:
    """The rows of each chain's batch, or of the one batch that all chains share; `at_once` chains at a time."""

    capacity: int
    at_once: int

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        def gathered(start: Array, count: Array) -> SomeRows:
            return chosen_from(records, lax.dynamic_slice_in_dim(batch.records, start, self.capacity), count)

        if batch.starts.shape[0] == 1:
            return _over_chains(row_sum, theta, gathered(batch.starts[0], batch.counts[0]))

        def chain_sum(each: tuple[Array, Array, Array]) -> Total:
            point, start, count = each
            return row_sum(point, gathered(start, count))

        each = (theta, batch.starts, batch.counts)
        if self.at_once >= theta.shape[0]:
            return jax.vmap(chain_sum)(each)
        return lax.map(chain_sum, each, batch_size=self.at_once)


def _over_chains(row_sum: RowSum, theta: Array, rows: SomeRows) -> Total:
    return jax.vmap(lambda point: row_sum(point, rows))(theta)
