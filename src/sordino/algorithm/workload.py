"""How a run is cut into pieces that fit into memory: blocks of steps, blocks of rows, groups of chains."""

from dataclasses import dataclass

from sordino.algorithm.buckets import SMALLEST_BUCKET, bucket, power_of_two, power_of_two_within
from sordino.algorithm.exact_sums import GROUP
from sordino.algorithm.gradient_sum import EveryRow, GatheredRows, GradientSum
from sordino.algorithm.parts.batches import Batches

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
