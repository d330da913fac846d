"""What every batch scheme answers: the records of a block of steps, as one flat list with a start and a count each.

Batches are drawn on the host, a block of steps at a time: inside a compiled step a Poisson mask costs as much as
touching every record, on the host it costs as much as the batch. One flat list serves batches of any size without
padding each of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import Scheme

Indices = NDArray[np.int32]


class BatchBlock(NamedTuple):
    """The batches of a block of steps: batch (k, g) is `records[starts[k, g] : starts[k, g] + counts[k, g]]`.

    There is one group g for each chain, or a single group that all chains share because nothing in it is random.
    Behind the last batch the list goes on for at least `capacity` entries, so that a slice of that fixed length is
    always inside it.
    """

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
    @abstractmethod
    def capacity(self) -> int:
        """A number of records that no batch drawn so far exceeds, public in all but the rarest runs."""

    @abstractmethod
    def take(self, steps: int) -> BatchBlock:
        """The batches of the next `steps` steps."""

    @abstractmethod
    def state(self) -> BatchState:
        """What the batches to come depend on, besides the sampling."""

    @abstractmethod
    def restore(self, state: BatchState, step: int) -> None:
        """Go on as the stream that gave `state` after `step` steps; `ValueError` for one that cannot have."""


_SCHEMES: dict[Scheme, Callable[[Sampling], Batches]] = {}


def scheme(name: Scheme) -> Callable[[type[Batches]], type[Batches]]:
    """Class decorator: use this stream for a scheme of a spec."""

    def registered(batches: type[Batches]) -> type[Batches]:
        _SCHEMES[name] = batches
        return batches

    return registered


def batches_for(name: Scheme, sampling: Sampling) -> Batches | None:
    """The stream of a scheme; None when every step uses every record and nothing is drawn."""
    return None if name == Scheme.FULL else _SCHEMES[name](sampling)


def equal_batches(records: Indices, counts: Indices, capacity: int) -> BatchBlock:
    """A block from batches of one padded length: `records` has shape (steps, groups, capacity)."""
    starts = np.arange(counts.size, dtype=np.int32).reshape(counts.shape) * np.int32(capacity)
    return BatchBlock(records.reshape(-1), starts, counts)
