"""Batches on the host: passes, Poisson batches, uniform subsets, and records that draw their own steps.

The last batch of a pass is smaller when the batch size does not divide the number of records; the divisor stays. Sizes
are padded, so that nearby runs share one compiled kernel. A stream is a function of its generator's key, the same
however it is cut into blocks, so a run that resumes draws its earlier batches again (`Batches.skip`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.gaussian import least_whole
from sordino.core.spec import Batch, Scheme
from sordino.core.validate import refuse

_SMALLEST_BUCKET = 16
_GROWTH = 1.25


def power_of_two(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()


def power_of_two_within(number: int) -> int:
    """The largest power of two that is at most `number`, which is at least 1."""
    return 1 << (number.bit_length() - 1)


def bucket(rows: int) -> int:
    """The padded number of rows: the next in a sequence of multiples of 16 that grow by a quarter."""
    size = _SMALLEST_BUCKET
    while size < rows:
        size = 16 * math.ceil(_GROWTH * size / 16)
    return size


def part_of(values: NDArray[Any], first: int, length: int) -> NDArray[Any]:
    """So many entries of what is given for every step, padded with zeros behind its end."""
    return np.pad(values[first : first + length], (0, max(0, first + length - len(values))))


Indices = NDArray[np.int32]
Counts = NDArray[np.int64]


class BatchBlock(NamedTuple):
    """The batches of a block of steps: batch (k, g) is `records[starts[k, g] : starts[k, g] + counts[k, g]]`."""

    # One group g for each chain, or a single one that all chains share because nothing in it is random. Behind the last
    # batch the list goes on for at least `capacity` entries, so that a slice of that length is always inside it.
    records: Indices
    starts: Indices
    counts: Indices

    def batch(self) -> Indices:
        """The records of the first step of the first group."""
        return self.records[self.starts[0, 0] :][: self.counts[0, 0]]


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


class Batches(ABC):
    """The stream of a run's batches; drawn from in order, and the same however it is cut into blocks."""

    shared: bool = False  # whether all chains have the same batches

    def __init__(self, sampling: Sampling, mean: float | None = None) -> None:
        """Batches of the public size, or of random size with this mean."""
        self.sampling, self._mean, self._capacity = sampling, mean, sampling.size
        if mean is not None:
            self._capacity = planned_capacity(mean, power_of_two(sampling.steps * sampling.chains))

    @property
    def groups(self) -> int:
        """How many batches a step has: one for each chain, or one for all."""
        return 1 if self.shared else self.sampling.chains

    @property
    def capacity(self) -> int:
        """A number of records that no batch drawn so far exceeds, public in all but the rarest runs."""
        return self._capacity if self._mean is None else min(self._capacity, bucket(self.sampling.rows))

    @abstractmethod
    def take(self, steps: int) -> BatchBlock:
        """The batches of the next `steps` steps."""

    def skip(self, steps: int, at_once: int = 1) -> None:
        """Draw the batches of so many steps, and leave them."""
        for first in range(0, steps, at_once):
            self.take(min(at_once, steps - first))

    def block(self, parts: Sequence[Indices], starts: NDArray[np.integer], counts: NDArray[np.integer]) -> BatchBlock:
        """A block of batches that lie in `parts` laid end to end; a batch of random size is never cut."""
        if counts.max(initial=0) > self._capacity:
            self._capacity = power_of_two(int(counts.max()))
        drawn, mean = sum(part.size for part in parts), self._mean
        expected = counts.size * self.sampling.size if mean is None else planned_capacity(mean * counts.size, 1)
        planned, needed = expected + self.capacity, drawn + self.capacity
        padding = np.zeros((planned if needed <= planned else power_of_two(needed)) - drawn, np.int32)
        return BatchBlock(np.concatenate([*parts, padding]), starts.astype(np.int32), counts.astype(np.int32))


def taken(batches: Batches | None, steps: int) -> BatchBlock:
    """The batches of the next steps; nothing where every step uses every record."""
    none = np.zeros((steps, 1), np.int32)
    return BatchBlock(none[0], none, none) if batches is None else batches.take(steps)


class Rounds(Batches):
    """Batches drawn a round of steps at a time: for each group a list of records, cut at the steps of the round."""

    def __init__(self, sampling: Sampling, length: int, mean: float | None = None) -> None:
        super().__init__(sampling, mean)
        self.length, self._taken, self._round = length, 0, -1
        self.lists: list[tuple[Indices, Counts]] = []

    @abstractmethod
    def drawn(self) -> list[tuple[Indices, Counts]]:
        """The records of the next round for each group, in the order of its steps, and where each step's begin."""

    def take(self, steps: int) -> BatchBlock:
        first, stop, at = self._taken, self._taken + steps, 0
        starts, counts = np.zeros((2, steps, self.groups), np.int64)
        parts: list[Indices] = []
        for number in range(first // self.length, (stop - 1) // self.length + 1):
            while self._round < number:
                self.lists, self._round = self.drawn(), self._round + 1
            begun = number * self.length
            begin, end = max(first, begun), min(stop, begun + self.length)
            for group, (records, edges) in enumerate(self.lists):
                cut = edges[begin - begun : end - begun + 1]
                parts.append(records[cut[0] : cut[-1]])
                starts[begin - first : end - first, group] = at + cut[:-1] - cut[0]
                counts[begin - first : end - first, group] = np.diff(cut)
                at += parts[-1].size
        self._taken = stop
        return self.block(parts, starts, counts)

    def by_step(self, steps: NDArray[np.integer]) -> tuple[Indices, Counts]:
        """Which entries have which step of a round: those of step 0, then of step 1, and where each step's begin."""
        order = np.argsort(steps, kind="stable")
        return order.astype(np.int32), np.searchsorted(steps[order], np.arange(self.length + 1))


class Passes(Rounds):
    """Batches cut one after the other from one order of the records, that of the file or a uniform one for each chain.

    It is kept for the whole run, or drawn for every pass.
    """

    def __init__(self, sampling: Sampling, *, in_file_order: bool = False, redrawn: bool = False) -> None:
        self.shared, self._redrawn = in_file_order, redrawn
        super().__init__(sampling, max(1, -(-sampling.rows // sampling.size)))

    def drawn(self) -> list[tuple[Indices, Counts]]:
        if self.lists and not self._redrawn:
            return self.lists
        orders = np.tile(np.arange(self.sampling.rows, dtype=np.int32), (self.groups, 1))
        if not self.shared:
            orders = self.sampling.generator.permuted(orders, axis=1)
        edges = np.minimum(np.arange(self.length + 1) * self.sampling.size, self.sampling.rows)
        return [(order, edges) for order in orders]


OVERFLOW_PROBABILITY = 1e-12
_LONGEST_GAP = 2.0**53
_SPARE_DRAWS = 64
_DRAWS_AT_ONCE = 2**14  # few enough to stay in the cache, many enough for the work to be in NumPy
_SMALLEST_MEAN = 1e-300


class Poisson(Batches):
    """Each record with probability `rate`, independently in every step and chain."""

    # The steps' records are laid end to end and successes found by their geometric gaps, which costs time in proportion
    # to the batches, not to the records.
    def __init__(self, sampling: Sampling) -> None:
        self._expected = sampling.rate * sampling.rows
        super().__init__(sampling, self._expected)
        self._failure_rate = -math.log1p(-sampling.rate) if sampling.rate < 1.0 else math.inf
        self._waiting = np.zeros(0, np.int64)  # successes behind the last block, counted from its end

    def take(self, steps: int) -> BatchBlock:
        batches = steps * self.groups
        at_once = max(1, int(_DRAWS_AT_ONCE / max(1.0, self._expected)))
        drawn = [self._some(min(at_once, batches - begin)) for begin in range(0, batches, at_once)]
        counts, shape = np.concatenate([each for _, each in drawn]), (steps, self.groups)
        starts = np.cumsum(counts) - counts
        return self.block([records for records, _ in drawn], starts.reshape(shape), counts.reshape(shape))

    def _some(self, batches: int) -> tuple[Indices, Counts]:
        """The records of so many batches, end to end, and how many each has."""
        rows = self.sampling.rows
        first = np.arange(batches + 1) * rows
        successes = self._successes(batches * rows)
        edges = np.searchsorted(successes, first)
        counts = np.diff(edges)
        self._waiting = successes[edges[-1] :] - first[-1]
        return (successes[: edges[-1]] - np.repeat(first[:-1], counts)).astype(np.int32), counts

    def _successes(self, trials: int) -> Counts:
        successes = [self._waiting]
        last = int(self._waiting[-1]) if self._waiting.size else -1
        while last < trials:
            wanted = int((trials - last) * self.sampling.rate) + _SPARE_DRAWS
            # The number of failures before a success is the integer part of an exponential of this mean.
            failures = self.sampling.generator.standard_exponential(wanted)
            failures /= self._failure_rate
            gaps = np.minimum(failures, _LONGEST_GAP, out=failures).astype(np.int64) + 1
            successes.append(np.cumsum(gaps) + last)
            last = int(successes[-1][-1])
        return np.concatenate(successes)


class TruncatedPoisson(Poisson):
    """Poisson batches of which only the first `cap` records, in the order of the table, are used."""

    def _some(self, batches: int) -> tuple[Indices, Counts]:
        records, counts = super()._some(batches)
        places = np.arange(records.size) - np.repeat(np.cumsum(counts) - counts, counts)
        cap = self.sampling.rows if self.sampling.cap is None else self.sampling.cap
        return records[places < cap], np.minimum(counts, cap)


def planned_capacity(mean: float, batches: int) -> int:
    """A size that all of `batches` Poisson batches of this mean size stay within, but for a probability of 1e-12."""
    # Chernoff's bound for a sum of independent indicators, P(size >= c) <= exp(c - mean - c log(c / mean)), with a
    # union over the batches; rounded up to a multiple of 16, so that nearby runs share a compiled kernel.
    needed = math.log(batches / OVERFLOW_PROBABILITY)
    mean = max(mean, _SMALLEST_MEAN)
    low, high = math.ceil(mean), math.ceil(mean + 2.0 * math.sqrt(mean * needed) + 2.0 * needed) + 1
    least = least_whole(lambda size: size * math.log(size / mean) - size + mean >= needed, low - 1, high)
    return -(-least // 16) * 16


_SUBSETS_AT_ONCE = 2**16  # few enough to stay in the cache, many enough for the work to be in NumPy
_DENSE = 4


class Subsets(Batches):
    """A uniform subset of `size` records, or as many drawn one by one, afresh for every step and chain."""

    def __init__(self, sampling: Sampling, *, replaced: bool = False) -> None:
        super().__init__(sampling)
        self._replaced = replaced
        if sampling.size > sampling.rows:
            raise refuse("algorithm.batch.size", "to be at most the number of rows given", sampling.size)
        self._waiting = np.zeros((0, sampling.size), np.int32)

    def take(self, steps: int) -> BatchBlock:
        needed, size, shape = steps * self.groups, self.sampling.size, (steps, self.groups)
        # Always the same number at once, so that a run does not depend on how it is cut into blocks.
        at_once = max(1, _SUBSETS_AT_ONCE // size)
        times = -(-(needed - len(self._waiting)) // at_once)
        subsets = np.concatenate([self._waiting, *(self._draw(at_once) for _ in range(times))])
        self._waiting, starts = subsets[needed:], np.arange(needed).reshape(shape) * size
        return self.block([subsets[:needed].ravel()], starts, np.full(shape, size, np.int32))

    def _draw(self, number: int) -> Indices:
        generator, rows, size = self.sampling.generator, self.sampling.rows, self.sampling.size
        if self._replaced:
            return generator.integers(0, rows, (number, size), dtype=np.int32)
        return uniform_subsets(generator, rows, size, number)


def uniform_subsets(generator: np.random.Generator, rows: int, size: int, number: int) -> Indices:
    """Draw `number` independent uniform subsets of `size` of the records 0, ..., rows - 1, as rows of an array."""
    if rows <= _DENSE * size:
        return generator.permuted(np.tile(np.arange(rows, dtype=np.int32), (number, 1)), axis=1)[:, :size]
    # Draw with replacement and draw again whatever was drawn twice, until nothing is. No record is treated unlike
    # another on the way, so every subset is equally likely.
    subsets = np.sort(generator.integers(0, rows, (number, size), dtype=np.int32), axis=1)
    unsettled = np.arange(number)
    while unsettled.size:
        open_subsets = subsets[unsettled]
        repeated = open_subsets[:, 1:] == open_subsets[:, :-1]
        again = repeated.any(axis=1)
        unsettled, open_subsets, repeated = unsettled[again], open_subsets[again], repeated[again]
        open_subsets[:, 1:][repeated] = generator.integers(0, rows, int(repeated.sum()), dtype=np.int32)
        subsets[unsettled] = np.sort(open_subsets, axis=1)
    return subsets


class RandomAllocation(Rounds):
    """Every record in `uses` steps of each round, drawn uniformly for it alone."""

    def __init__(self, sampling: Sampling) -> None:
        length = sampling.round or max(1, -(-sampling.rows // sampling.size))
        super().__init__(sampling, length, sampling.rows * sampling.uses / length)

    def drawn(self) -> list[tuple[Indices, Counts]]:
        generator, rows, uses = self.sampling.generator, self.sampling.rows, self.sampling.uses
        places = (uniform_subsets(generator, self.length, uses, rows).reshape(-1) for _ in range(self.groups))
        return [(order // np.int32(uses), edges) for order, edges in map(self.by_step, places)]


class MinSeparation(Rounds):
    """Each record that was not used in the last `separation` - 1 steps, with probability `rate`, on its own."""

    # In a round of `separation` steps a record is used once or not at all. What is kept of it is how many steps of the
    # next round it waits; it starts as if steps had been made before, so that every step expects as many records.
    def __init__(self, sampling: Sampling) -> None:
        longest, rate, generator = sampling.separation - 1, sampling.rate, sampling.generator
        super().__init__(sampling, sampling.separation, sampling.rows * (rate / (1 + longest * rate)))
        shape = (self.groups, sampling.rows)
        blocked = generator.random(shape) < longest * rate / (1 + longest * rate)
        wait = generator.integers(1, max(1, longest) + 1, shape)
        self._wait = np.where(blocked, wait, 0) + self._failures(shape)

    def _failures(self, shape: tuple[int, ...]) -> Counts:
        """How often in a row a free record is not drawn."""
        if self.sampling.rate >= 1.0:
            return np.zeros(shape, np.int64)
        draws = self.sampling.generator.standard_exponential(shape) / -math.log1p(-self.sampling.rate)
        return np.minimum(draws, _LONGEST_GAP).astype(np.int64)

    def drawn(self) -> list[tuple[Indices, Counts]]:
        lists, used = [self.by_step(waits) for waits in self._wait], self._wait < self.length
        # The next use is `separation` steps after this one, or later.
        self._wait = np.where(used, self._wait + self._failures(used.shape), self._wait - self.length)
        return lists


_SCHEMES: dict[Scheme, Callable[[Sampling], Batches]] = {
    Scheme.CYCLIC: partial(Passes, in_file_order=True),
    Scheme.SHUFFLE_ONCE: Passes,
    Scheme.RESHUFFLED: partial(Passes, redrawn=True),
    Scheme.POISSON: Poisson,
    Scheme.WITHOUT_REPLACEMENT: Subsets,
    Scheme.WITH_REPLACEMENT: partial(Subsets, replaced=True),
    Scheme.TRUNCATED_POISSON: TruncatedPoisson,
    Scheme.RANDOM_ALLOCATION: RandomAllocation,
    Scheme.MIN_SEPARATION: MinSeparation,
}


def batches_for(name: Scheme, sampling: Sampling) -> Batches | None:
    """The stream of a scheme; None when every step uses every record and nothing is drawn."""
    return None if name == Scheme.FULL else _SCHEMES[name](sampling)


def described_batches(
    batch: Batch, records: int, rows: int, steps: int, generator: np.random.Generator, chains: int = 1
) -> Batches | None:
    """The stream that a spec describes: sizes and chances follow from the declared records, never from the rows."""
    often = batch.per_epoch(records), batch.uses or 1, batch.most, batch.apart(records)
    sampling = Sampling(rows, batch.divisor(records), batch.chance(records), chains, steps, generator, *often)
    return batches_for(batch.scheme, sampling)
