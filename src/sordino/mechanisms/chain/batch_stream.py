"""What every stream of batches answers: blocks of steps, a state to go on from, sizes that share compiled kernels."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

SMALLEST_BUCKET = 16
_GROWTH = 1.25


def power_of_two(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()


def power_of_two_within(number: int) -> int:
    """The largest power of two that is at most `number`, which is at least 1."""
    return 1 << (number.bit_length() - 1)


def bucket(rows: int) -> int:
    """The padded number of rows: the next in a sequence of multiples of 16 that grow by a quarter."""
    size = SMALLEST_BUCKET
    while size < rows:
        size = 16 * math.ceil(_GROWTH * size / 16)
    return size


Indices = NDArray[np.int32]


class BatchBlock(NamedTuple):
    """The batches of a block of steps: batch (k, g) is `records[starts[k, g] : starts[k, g] + counts[k, g]]`."""

    # There is one group g for each chain, or a single group that all chains share because nothing in it is random.
    # Behind the last batch the list goes on for at least `capacity` entries, so that a slice of that fixed length is
    # always inside it.
    records: Indices
    starts: Indices
    counts: Indices


@dataclass(frozen=True)
class Sampling:
    """What a scheme needs to know: the rows there are, the public batch size and rate, and the length of the run."""

    rows: int
    size: int
    rate: float
    chains: int
    steps: int
    generator: np.random.Generator
    round: int | None = None  # steps of a round of random allocation, from the declared number of records
    uses: int = 1
    cap: int | None = None
    separation: int = 1


class BatchState(NamedTuple):
    """Where a stream is: its generator, a count or capacity, and records drawn but not used yet."""

    generator: str
    number: int
    waiting: NDArray[Any]


class Batches(ABC):
    """The stream of a run's batches; drawn from in order, and the same however it is cut into blocks."""

    shared: ClassVar[bool] = False

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling

    @property
    def groups(self) -> int:
        """How many batches a step has: one for each chain, or one for all."""
        return 1 if self.shared else self.sampling.chains

    @property
    def capacity(self) -> int:
        """A number of records that no batch drawn so far exceeds, public in all but the rarest runs."""
        return self.sampling.size

    @abstractmethod
    def take(self, steps: int) -> BatchBlock:
        """The batches of the next `steps` steps."""

    @abstractmethod
    def state(self) -> BatchState:
        """What the batches to come depend on, besides the sampling."""

    @abstractmethod
    def restore(self, state: BatchState, step: int) -> None:
        """Go on as the stream that gave `state` after `step` steps; `ValueError` for one that cannot have."""


def equal_batches(records: Indices, counts: Indices, capacity: int) -> BatchBlock:
    """A block from batches of one padded length: `records` has shape (steps, groups, capacity)."""
    starts = np.arange(counts.size, dtype=np.int32).reshape(counts.shape) * np.int32(capacity)
    return BatchBlock(records.reshape(-1), starts, counts)
