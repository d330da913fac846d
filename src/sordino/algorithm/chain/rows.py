"""Where a run's rows are, and how a run is cut into pieces that fit into memory.

Pieces are blocks of steps, blocks of rows and groups of chains; rows are in memory, on several devices, or in a file.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.chain.batches import SMALLEST_BUCKET, Batches, bucket, power_of_two, power_of_two_within
from sordino.algorithm.chain.feed import Fed
from sordino.algorithm.chain.kernel import (
    Constants,
    EveryRow,
    GatheredRows,
    GradientSum,
    Program,
    Records,
    RowLimits,
    advance,
    load,
)
from sordino.algorithm.io.checkpoint import content_digest
from sordino.algorithm.noise.exact_sums import GROUP
from sordino.algorithm.noise.sums import checked_rows

LONGEST_BLOCK = 1024
_BLOCK_PRODUCTS = 2**31  # about a second of one core
_GRADIENT_BYTES = 64 * 2**20
_ACCELERATOR_BYTES = 256 * 2**20
# Rows are read twice, for the scores and for the gradients, so on a processor they should still be in its cache the
# second time: the shared one for a full batch, one core's own for gathered batches. The noise of a block of steps is
# written once and read once, and should not leave the cache in between either.
_BLOCK_BYTES = 8 * 2**20
_CORE_CACHE_BYTES = 2**20
# Rows are stored as they come and worked on in double precision.
_DOUBLE_BYTES = 8


@dataclass(frozen=True)
class Workload:
    """The sizes of a run's arrays; pieces are as large as their share of memory allows."""

    rows: int
    chains: int
    dim: int
    features: int
    itemsize: int
    on_processor: bool

    def steps_per_block(self, steps: int, batches: Batches | None) -> int:
        """How many steps one call of the kernel makes.

        Their noise, batches and kept iterates are in memory at once, and a call cannot be interrupted.
        """
        indices = 0 if batches is None else 4 * batches.groups * batches.capacity
        by_memory = self._fast_bytes(_BLOCK_BYTES) // (2 * self.chains * self.dim * self.itemsize + indices)
        used = bucket(self.rows) if batches is None else batches.capacity
        by_work = _BLOCK_PRODUCTS // (self.chains * used * max(self.features, self.dim))
        return min(LONGEST_BLOCK, power_of_two(steps), power_of_two_within(max(1, min(by_memory, by_work))))

    def gradient_sum(self, batches: Batches | None) -> GradientSum:
        """How gradients are summed; asked again before every block, because a Poisson batch may outgrow its plan."""
        if batches is None:
            return EveryRow(self.rows_per_block)
        return GatheredRows(batches.capacity, self._chains_at_once(batches.capacity))

    @property
    def rows_per_block(self) -> int:
        """How many rows of a full batch are worked on at once: their gradients stay in memory.

        On a processor they are one group of exact sums, which stays in its cache; an accelerator is kept busy.
        """
        by_rows = _ACCELERATOR_BYTES // (self.features * _DOUBLE_BYTES)
        by_gradients = _GRADIENT_BYTES // (self.dim * self.chains * _DOUBLE_BYTES)
        most = min(by_rows, by_gradients, GROUP) if self.on_processor else min(by_rows, by_gradients)
        return power_of_two_within(max(SMALLEST_BUCKET, most))

    def _chains_at_once(self, capacity: int) -> int:
        per_chain = capacity * max(self.features, self.dim) * _DOUBLE_BYTES
        return min(self.chains, max(1, self._fast_bytes(_CORE_CACHE_BYTES) // per_chain))

    def _fast_bytes(self, cache: int) -> int:
        return cache if self.on_processor else _ACCELERATOR_BYTES


class Reading(NamedTuple):
    """How rows are put on a device: the precision they are stored in, and what each is brought within."""

    dtype: np.dtype
    limits: RowLimits


# Makes the steps of a block from theta, shape (chains, dim); answers the last iterates and the kept ones.
Reader = Callable[[Program, Constants, Array, Fed], tuple[Array, Array]]


class Rows(ABC):
    """Private rows of a fixed number and width, one target for each."""

    placement: str
    """A text that is the same exactly where results are, bit for bit."""

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width = count, width

    @abstractmethod
    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        """What reads these rows during a run; `batches` is None where every step uses every row."""

    def identity(self, salt: bytes) -> dict[str, Any]:
        """What ties a checkpoint to these rows: `rows` (number and width), a keyed `content`, and `placement`."""
        return {"rows": [self.count, self.width], "content": self.content(salt), "placement": self.placement}

    @abstractmethod
    def content(self, salt: bytes) -> str:
        """A keyed digest that changes when the rows do."""

    def steps_per_block(self, workload: Workload, steps: int, batches: Batches | None) -> int:
        """How many steps one block has."""
        return workload.steps_per_block(steps, batches)


class Placement(ABC):
    """On which devices rows in memory lie, and which device does what."""

    @abstractmethod
    def records(
        self, X: NDArray[Any], y: NDArray[Any], workload: Workload, batches: Batches | None, reading: Reading
    ) -> Records:
        """The rows on the devices."""

    @abstractmethod
    def advance(
        self, records: Records, program: Program, constants: Constants, theta: Array, fed: Fed
    ) -> tuple[Array, Array]:
        """Make the block's steps."""

    @abstractmethod
    def described(self) -> str:
        """A text that is the same exactly where results are, bit for bit."""


class OneDevice(Placement):
    """Everything on the default device."""

    def records(
        self, X: NDArray[Any], y: NDArray[Any], workload: Workload, batches: Batches | None, reading: Reading
    ) -> Records:
        return load(X, y, workload.rows_per_block if batches is None else None, *reading)

    def advance(
        self, records: Records, program: Program, constants: Constants, theta: Array, fed: Fed
    ) -> tuple[Array, Array]:
        return advance(program, records, constants, theta, fed.block)

    def described(self) -> str:
        return "one device"


class ArrayRows(Rows):
    """Rows in memory: `features` has one row for each record, `target` one number."""

    def __init__(self, features: Any, target: Any, placement: Placement | None = None) -> None:
        self._X, self._y = checked_rows(features, target)
        super().__init__(*self._X.shape)
        self._placement = OneDevice() if placement is None else placement
        self.placement = self._placement.described()

    def reader(self, workload: Workload, batches: Batches | None, reading: Reading) -> Reader:
        return partial(self._placement.advance, self._placement.records(self._X, self._y, workload, batches, reading))

    def content(self, salt: bytes) -> str:
        return content_digest(salt, self._X, self._y)
