"""A few rows in memory, out of many that are not."""

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.chain.batches import BatchBlock, Batches
from sordino.algorithm.chain.feed import Fed
from sordino.algorithm.chain.kernel import (
    Constants,
    EveryRow,
    Program,
    Records,
    advance,
    kept_buffer,
    moved,
    on_device,
    row_sum,
)
from sordino.algorithm.chain.rows import Reader, Reading, Rows, Workload
from sordino.algorithm.noise.exact_sums import Total, no_total
from sordino.core.validate import InputError, instance_of, refuse

# How many bytes of rows are brought into memory at once; a run holds about four pieces.
PIECE_BYTES = 32 * 2**20


class Piece(NamedTuple):
    """Features and targets of a few rows."""

    features: NDArray[Any]
    target: NDArray[Any]


def _in_batches(
    source: "StreamedRows", reading: Reading, program: Program, constants: Constants, theta: Array, fed: Fed
) -> tuple[Array, Array]:
    """Put the rows of a block's batches side by side, in the order in which the block names them, and no others."""
    if fed.batches is None:
        raise InputError("Expected batches for streamed rows, got a block without any.")
    places = _used_places(fed.batches, int(fed.block.steps))
    fetched, listed = source.at(fed.batches.records[places]), len(fed.batches.records)
    features = np.zeros((listed, source.width), fetched.features.dtype)
    target = np.zeros(listed, fetched.target.dtype)
    features[places], target[places] = fetched
    records = on_device(features, target, listed, *reading)
    return advance(program, records, constants, theta, fed.block._replace(records=jnp.arange(listed, dtype=jnp.int32)))


def _used_places(batches: BatchBlock, steps: int) -> NDArray[np.int64]:
    """The places of the flat list that belong to a batch of the first `steps` steps; the rest of it is padding."""
    starts, counts = batches.starts[:steps].ravel().astype(np.int64), batches.counts[:steps].ravel()
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


# How many pieces may be on their way to the device; the next is read while the last is worked on.
_AHEAD = 2


@dataclass(frozen=True, eq=False)
class _EveryPiece:
    """Adds the gradients of one piece after the other, in the blocks in which a run in memory adds them."""

    source: "StreamedRows"
    length: int
    reading: Reading

    def __call__(self, program: Program, constants: Constants, theta: Array, fed: Fed) -> tuple[Array, Array]:
        kept = kept_buffer(program, theta)
        for k in range(int(fed.block.steps)):
            total = self._total(program, constants, theta)
            theta, kept = _moved(program, constants, theta, total, fed.block, jnp.asarray(k, jnp.int32), kept)
        return theta, kept[: program.slots]

    def _total(self, program: Program, constants: Constants, theta: Array) -> Total:
        total, under_way = no_total(theta.shape), deque[Array]()
        for first in range(0, self.source.count, self.length):
            piece = self.source.between(first, min(first + self.length, self.source.count))
            total = _added(program, constants, theta, on_device(*piece, self.length, *self.reading), total)
            under_way.append(total.high)
            if len(under_way) == _AHEAD:  # otherwise the host would read the whole file into a queue
                under_way.popleft().block_until_ready()
        return total


@partial(jax.jit, static_argnums=0)
def _added(program: Program, constants: Constants, theta: Array, records: Records, total: Total) -> Total:
    every_row = instance_of("the gradient sum", program.gradient_sum, EveryRow)
    return every_row.added(row_sum(program, constants), records, theta, total)


_moved = jax.jit(moved, static_argnums=0)


class StreamedRows(Rows):
    """Rows that are read piece by piece; `anywhere` says whether single rows can be reached.

    Where gradients are bounded their sums are whole numbers, the same as in memory (`exact_sums`).
    """

    anywhere: ClassVar[bool]
    placement = "streamed"

    @abstractmethod
    def between(self, first: int, stop: int) -> Piece:
        """The rows `first`, ..., `stop - 1`."""

    @abstractmethod
    def at(self, positions: NDArray[np.integer]) -> Piece:
        """The rows at these positions, in this order."""

    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        if batches is None:
            block = workload.rows_per_block
            length = block * max(1, PIECE_BYTES // (block * self.width * reading.dtype.itemsize))
            return _EveryPiece(self, length, reading)
        if not (self.anywhere or batches.shared):
            raise refuse(
                "algorithm.batch.scheme",
                "to be full or cyclic for rows read from Parquet",
                "random batches",
                "write the rows to a memory map first, with MappedRows.write",
            )
        return partial(_in_batches, self, reading)

    def steps_per_block(self, workload: Workload, steps: int, batches: Batches | None) -> int:
        planned = workload.steps_per_block(steps, batches)
        if batches is None:
            return planned
        step_bytes = batches.groups * batches.capacity * self.width * workload.itemsize
        return max(1, min(planned, PIECE_BYTES // step_bytes))
