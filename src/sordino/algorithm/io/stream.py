"""A few rows in memory, out of many that are not."""

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

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
    StepBlock,
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


class PieceSource(Protocol):
    """What a reader needs of the rows it reads."""

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    @property
    def width(self) -> int:
        """The number of features of a row."""
        ...

    def between(self, first: int, stop: int) -> Piece:
        """The rows `first`, ..., `stop - 1`."""
        ...

    def at(self, positions: NDArray[np.integer]) -> Piece:
        """The rows at these positions, in this order."""
        ...


# Batches of streamed rows: the rows that a block of steps uses are fetched, and the kernel sees no others.


class BatchReader(Reader):
    """Puts the rows of a block's batches side by side, in the order in which the block names them."""

    def __init__(self, source: PieceSource, reading: Reading) -> None:
        self._source, self._reading = source, reading

    def advance(self, program: Program, constants: Constants, theta: Array, fed: Fed) -> tuple[Array, Array]:
        if fed.batches is None:
            raise InputError("Expected batches for streamed rows, got a block without any.")
        steps = int(fed.block.steps)
        places = _used_places(fed.batches, steps)
        fetched = self._source.at(fed.batches.records[places])
        listed = len(fed.batches.records)
        records = on_device(*_spread(fetched, places, listed), listed, *self._reading)
        block = fed.block._replace(records=jnp.arange(listed, dtype=jnp.int32))
        return advance(program, records, constants, theta, block)


def _used_places(batches: BatchBlock, steps: int) -> NDArray[np.int64]:
    """The places of the flat list that belong to a batch of the first `steps` steps; the rest of it is padding."""
    starts, counts = batches.starts[:steps].ravel().astype(np.int64), batches.counts[:steps].ravel()
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


def _spread(fetched: Piece, places: NDArray[np.int64], listed: int) -> Piece:
    features = np.zeros((listed, fetched.features.shape[1]), fetched.features.dtype)
    target = np.zeros(listed, fetched.target.dtype)
    features[places], target[places] = fetched
    return Piece(features, target)


# Full batches of streamed rows: every step passes over all of them, piece by piece.

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


# Rows outside memory: what every such source answers, and how a run is cut so that only pieces are inside.


@dataclass(frozen=True)
class Stored:
    """How many rows there are, and how wide they are."""

    count: int
    width: int


class StreamedRows(Rows):
    """Rows that are read piece by piece; `anywhere` says whether single rows can be reached.

    Where gradients are bounded their sums are whole numbers, the same as in memory (`exact_sums`).
    """

    anywhere: ClassVar[bool]

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    @property
    def count(self) -> int:
        return self._stored.count

    @property
    def width(self) -> int:
        return self._stored.width

    @abstractmethod
    def between(self, first: int, stop: int) -> Piece:
        """The rows `first`, ..., `stop - 1`."""

    @abstractmethod
    def at(self, positions: NDArray[np.integer]) -> Piece:
        """The rows at these positions, in this order."""

    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        if batches is None:
            return FullReader(self, workload, reading)
        if not (self.anywhere or batches.shared):
            raise refuse(
                "algorithm.batch.scheme",
                "to be full or cyclic for rows read from Parquet",
                "random batches",
                "write the rows to a memory map first, with MappedRows.write",
            )
        return BatchReader(self, reading)

    def steps_per_block(self, workload: Workload, steps: int, batches: Batches | None) -> int:
        planned = workload.steps_per_block(steps, batches)
        if batches is None:
            return planned
        step_bytes = batches.groups * batches.capacity * self.width * workload.itemsize
        return max(1, min(planned, PIECE_BYTES // step_bytes))

    def identity(self, salt: bytes) -> dict[str, Any]:
        return {"rows": [self.count, self.width], "content": self._content(salt), "placement": "streamed"}

    @abstractmethod
    def _content(self, salt: bytes) -> str:
        """A keyed digest that changes when the rows do."""
