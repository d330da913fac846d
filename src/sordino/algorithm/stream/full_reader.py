"""Full batches of streamed rows: every step passes over all of them, piece by piece."""

from collections import deque
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from sordino.algorithm.exact_sums import Total, no_total
from sordino.algorithm.feed import Fed
from sordino.algorithm.gradient_sum import EveryRow
from sordino.algorithm.kernel import Constants, Program, StepBlock, kept_buffer, moved, row_sum
from sordino.algorithm.records import Records, on_device
from sordino.algorithm.rows import Reader, Reading
from sordino.algorithm.stream.piece import PIECE_BYTES, PieceSource
from sordino.algorithm.workload import Workload
from sordino.core.validate import instance_of

# How many pieces may be on their way to the device; the next is read while the last is worked on.
_AHEAD = 2


class FullReader(Reader):
    """Adds the gradients of one piece after the other, in the blocks in which a run in memory adds them."""

    def __init__(self, source: PieceSource, workload: Workload, reading: Reading) -> None:
        self._source, self._reading = source, reading
        block = workload.rows_per_block
        self._length = block * max(1, PIECE_BYTES // (block * source.width * reading.dtype.itemsize))

    def advance(self, program: Program, constants: Constants, theta: Array, fed: Fed) -> tuple[Array, Array]:
        kept = kept_buffer(program, theta)
        for k in range(int(fed.block.steps)):
            total = self._total(program, constants, theta)
            theta, kept = _moved(program, constants, theta, total, fed.block, jnp.asarray(k, jnp.int32), kept)
        return theta, kept[: program.slots]

    def _total(self, program: Program, constants: Constants, theta: Array) -> Total:
        total, under_way = no_total(theta.shape), deque[Array]()
        for first in range(0, self._source.count, self._length):
            piece = self._source.between(first, min(first + self._length, self._source.count))
            total = _added(program, constants, theta, on_device(*piece, self._length, *self._reading), total)
            under_way.append(total.high)
            if len(under_way) == _AHEAD:  # otherwise the host would read the whole file into a queue
                under_way.popleft().block_until_ready()
        return total


@partial(jax.jit, static_argnums=0)
def _added(program: Program, constants: Constants, theta: Array, records: Records, total: Total) -> Total:
    every_row = instance_of("the gradient sum", program.gradient_sum, EveryRow)
    return every_row.added(row_sum(program, constants), records, theta, total)


@partial(jax.jit, static_argnums=0)
def _moved(
    program: Program, constants: Constants, theta: Array, total: Total, block: StepBlock, k: Array, kept: Array
) -> tuple[Array, Array]:
    return moved(program, constants, theta, total, block, k, kept)
