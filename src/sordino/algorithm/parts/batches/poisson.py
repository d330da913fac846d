"""Poisson batches: every record enters every batch independently, so batches have truly variable size."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.buckets import bucket, power_of_two
from sordino.algorithm.generator_state import generator_text, set_generator
from sordino.algorithm.parts.batches.base import BatchBlock, Batches, BatchState, Indices, Sampling, scheme
from sordino.core.spec import Scheme

OVERFLOW_PROBABILITY = 1e-12
_LONGEST_GAP = 2.0**53
_SPARE_DRAWS = 64
_DRAWS_AT_ONCE = 2**14  # few enough to stay in the cache, many enough for the work to be in NumPy
_SMALLEST_MEAN = 1e-300


@scheme(Scheme.POISSON)
class Poisson(Batches):
    """Each record with probability `rate`, independently in every step and chain.

    The steps' records are laid end to end and successes found by their geometric gaps, which costs time in proportion
    to the batches, not to the records. A batch larger than the planned capacity raises the capacity: no record is
    ever dropped.
    """

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._mean = sampling.rate * sampling.rows
        self._failure_rate = -math.log1p(-sampling.rate) if sampling.rate < 1.0 else math.inf
        self._capacity = planned_capacity(self._mean, power_of_two(sampling.steps * sampling.chains))
        self._waiting = np.zeros(0, np.int64)  # successes behind the last block, counted from its end

    @property
    def capacity(self) -> int:
        return min(self._capacity, bucket(self.sampling.rows))

    def take(self, steps: int) -> BatchBlock:
        batches = steps * self.groups
        at_once = max(1, int(_DRAWS_AT_ONCE / max(1.0, self._mean)))
        parts = [self._some(min(at_once, batches - begin)) for begin in range(0, batches, at_once)]
        counts = np.concatenate([part.counts for part in parts])
        if counts.max() > self._capacity:
            self._capacity = power_of_two(int(counts.max()))
        starts = np.cumsum(counts) - counts
        shape = (steps, self.groups)
        records = self._padded([part.records for part in parts], batches)
        return BatchBlock(records, starts.astype(np.int32).reshape(shape), counts.astype(np.int32).reshape(shape))

    def state(self) -> BatchState:
        return BatchState(generator_text(self.sampling.generator), self._capacity, self._waiting)

    def restore(self, state: BatchState, step: int) -> None:
        del step
        capacity, waiting = state.number, state.waiting
        if not isinstance(capacity, int) or not self._capacity <= capacity <= max(
            self._capacity, power_of_two(self.sampling.rows)
        ):
            raise ValueError(capacity)
        if waiting.dtype != np.int64 or waiting.ndim != 1 or (waiting < 0).any() or (np.diff(waiting) <= 0).any():
            raise ValueError("records that wait in no order")
        set_generator(self.sampling.generator, state.generator)
        self._capacity, self._waiting = capacity, waiting

    def _some(self, batches: int) -> "_Drawn":
        rows = self.sampling.rows
        first = np.arange(batches + 1) * rows
        successes = self._successes(batches * rows)
        edges = np.searchsorted(successes, first)
        counts = np.diff(edges)
        self._waiting = successes[edges[-1] :] - first[-1]
        return _Drawn((successes[: edges[-1]] - np.repeat(first[:-1], counts)).astype(np.int32), counts)

    def _successes(self, trials: int) -> NDArray[np.int64]:
        found = [self._waiting]
        last = int(self._waiting[-1]) if self._waiting.size else -1
        while last < trials:
            wanted = int((trials - last) * self.sampling.rate) + _SPARE_DRAWS
            # The number of failures before a success is the integer part of an exponential of this mean.
            failures = self.sampling.generator.standard_exponential(wanted)
            failures /= self._failure_rate
            gaps = np.minimum(failures, _LONGEST_GAP, out=failures).astype(np.int64)
            gaps += 1
            found.append(np.cumsum(gaps, out=gaps) + last)
            last = int(found[-1][-1])
        return np.concatenate(found)

    def _padded(self, parts: list[Indices], batches: int) -> Indices:
        planned = planned_capacity(self._mean * batches, 1) + self.capacity
        drawn = sum(part.size for part in parts)
        needed = drawn + self.capacity
        padding = np.zeros((planned if needed <= planned else power_of_two(needed)) - drawn, np.int32)
        return np.concatenate([*parts, padding])


class _Drawn(NamedTuple):
    records: Indices
    counts: NDArray[np.int64]


def planned_capacity(mean: float, batches: int) -> int:
    """A size that all of `batches` Poisson batches of this mean size stay within, but for a probability of 1e-12.

    Chernoff's bound for a sum of independent indicators, P(size >= c) <= exp(c - mean - c log(c / mean)), with a union
    over the batches; rounded up to a multiple of 16, so that nearby runs share a compiled kernel.
    """
    needed = math.log(batches / OVERFLOW_PROBABILITY)
    mean = max(mean, _SMALLEST_MEAN)
    low, high = math.ceil(mean), math.ceil(mean + 2.0 * math.sqrt(mean * needed) + 2.0 * needed) + 1
    while low < high:
        middle = (low + high) // 2
        exponent = middle * math.log(middle / mean) - middle + mean if middle > 0 else 0.0
        low, high = (low, middle) if exponent >= needed else (middle + 1, high)
    return -(-low // 16) * 16
