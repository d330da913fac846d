"""Batches on the host: passes, Poisson batches, uniform subsets, and records that draw their own steps.

Batches are drawn a block of steps at a time: inside a compiled step a Poisson mask costs as much as touching every
record, on the host it costs as much as the batch. One flat list, with a start and a count for each batch, serves
batches of any size without padding each of them. The last batch of a pass is smaller when the batch size does not
divide the number of records; the divisor stays. Sizes are padded, so that nearby runs share one compiled kernel.

A stream is a function of its generator's key, the same however it is cut into blocks. So a run that resumes draws its
earlier batches again (`Batches.skip`), and a checkpoint holds none of them.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.gaussian import least_whole
from sordino.core.spec import Batch, Scheme
from sordino.core.validate import refuse

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

    def skip(self, steps: int, at_once: int = 1) -> None:
        """Draw the batches of so many steps, and leave them."""
        for first in range(0, steps, at_once):
            self.take(min(at_once, steps - first))


def equal_batches(records: Indices, counts: Indices, capacity: int) -> BatchBlock:
    """A block from batches of one padded length: `records` has shape (steps, groups, capacity)."""
    starts = np.arange(counts.size, dtype=np.int32).reshape(counts.shape) * np.int32(capacity)
    return BatchBlock(records.reshape(-1), starts, counts)


class Passes(Batches):
    """Batches cut one after the other from an order of the records, that of the file unless they are `shuffled`."""

    # `redrawn` says whether every pass draws its order, or the first one at most.
    shuffled: ClassVar[bool] = True
    redrawn: ClassVar[bool] = False

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._taken, self._pass = 0, -1
        self._cut = np.zeros((self.groups, 0, sampling.size), np.int32)

    @property
    def batches_per_pass(self) -> int:
        """How many batches one pass takes, a partial last one included."""
        return max(1, -(-self.sampling.rows // self.sampling.size))

    def order(self, earlier: Indices | None) -> Indices:
        """The order of the next pass for each group, shape (groups, rows), given that of the pass before."""
        if earlier is not None and not self.redrawn:
            return earlier
        in_file = np.tile(np.arange(self.sampling.rows, dtype=np.int32), (self.groups, 1))
        return self.sampling.generator.permuted(in_file, axis=1) if self.shuffled else in_file

    def take(self, steps: int) -> BatchBlock:
        pieces: list[Indices] = []
        first, stop, per_pass = self._taken, self._taken + steps, self.batches_per_pass
        for number in range(first // per_pass, (stop - 1) // per_pass + 1):
            begin = number * per_pass
            pieces.append(self._batches_of(number)[:, max(first - begin, 0) : stop - begin])
        self._taken = stop
        records = np.concatenate(pieces, axis=1).transpose(1, 0, 2)
        remainder = self.sampling.rows - (per_pass - 1) * self.sampling.size
        is_last = np.arange(first, stop) % per_pass == per_pass - 1
        counts = np.where(is_last, remainder, self.sampling.size).astype(np.int32)
        return equal_batches(records, np.tile(counts[:, None], self.groups), self.capacity)

    def _batches_of(self, number: int) -> Indices:
        while self._pass < number:
            earlier = None if self._pass < 0 else self._cut.reshape(self.groups, -1)[:, : self.sampling.rows]
            padded = np.zeros((self.groups, self.batches_per_pass * self.sampling.size), np.int32)
            padded[:, : self.sampling.rows] = self.order(earlier)
            self._cut = padded.reshape(self.groups, self.batches_per_pass, self.sampling.size)
            self._pass += 1
        return self._cut


class Cyclic(Passes):
    """File order, the same batches in every pass and for every chain."""

    shared, shuffled = True, False


class ShuffleOnce(Passes):
    """One uniform order for each chain, kept for the whole run."""


class Reshuffled(Passes):
    """A new uniform order for every pass of every chain."""

    redrawn = True


OVERFLOW_PROBABILITY = 1e-12
_LONGEST_GAP = 2.0**53
_SPARE_DRAWS = 64
_DRAWS_AT_ONCE = 2**14  # few enough to stay in the cache, many enough for the work to be in NumPy
_SMALLEST_MEAN = 1e-300


class _AnySize(Batches):
    """Batches of random size: one that is larger than the planned capacity raises it, so no record is ever dropped."""

    _capacity: int

    @property
    def capacity(self) -> int:
        return min(self._capacity, bucket(self.sampling.rows))

    def _block(self, steps: int, parts: list[Indices], counts: NDArray[np.int64], mean: float) -> BatchBlock:
        """The batches of some steps, laid end to end in `parts`, of which `mean` records are expected."""
        if counts.max(initial=0) > self._capacity:
            self._capacity = power_of_two(int(counts.max()))
        drawn, shape = int(counts.sum()), (steps, self.groups)
        planned, needed = (size + self.capacity for size in (planned_capacity(mean, 1), drawn))
        padding = np.zeros((planned if needed <= planned else power_of_two(needed)) - drawn, np.int32)
        starts = (np.cumsum(counts) - counts).astype(np.int32)
        records = np.concatenate([*parts, padding])
        return BatchBlock(records, starts.reshape(shape), counts.astype(np.int32).reshape(shape))


class Poisson(_AnySize):
    """Each record with probability `rate`, independently in every step and chain."""

    # The steps' records are laid end to end and successes found by their geometric gaps, which costs time in proportion
    # to the batches, not to the records.
    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._mean = sampling.rate * sampling.rows
        self._failure_rate = -math.log1p(-sampling.rate) if sampling.rate < 1.0 else math.inf
        self._capacity = planned_capacity(self._mean, power_of_two(sampling.steps * sampling.chains))
        self._waiting = np.zeros(0, np.int64)  # successes behind the last block, counted from its end

    def take(self, steps: int) -> BatchBlock:
        batches = steps * self.groups
        at_once = max(1, int(_DRAWS_AT_ONCE / max(1.0, self._mean)))
        parts = [self._some(min(at_once, batches - begin)) for begin in range(0, batches, at_once)]
        records, counts = zip(*parts, strict=True)
        return self._block(steps, list(records), np.concatenate(counts), self._mean * batches)

    def _some(self, batches: int) -> tuple[Indices, NDArray[np.int64]]:
        """The records of so many batches, end to end, and how many each has."""
        rows = self.sampling.rows
        first = np.arange(batches + 1) * rows
        successes = self._successes(batches * rows)
        edges = np.searchsorted(successes, first)
        counts = np.diff(edges)
        self._waiting = successes[edges[-1] :] - first[-1]
        return (successes[: edges[-1]] - np.repeat(first[:-1], counts)).astype(np.int32), counts

    def _successes(self, trials: int) -> NDArray[np.int64]:
        successes = [self._waiting]
        last = int(self._waiting[-1]) if self._waiting.size else -1
        while last < trials:
            wanted = int((trials - last) * self.sampling.rate) + _SPARE_DRAWS
            # The number of failures before a success is the integer part of an exponential of this mean.
            failures = self.sampling.generator.standard_exponential(wanted)
            failures /= self._failure_rate
            gaps = np.minimum(failures, _LONGEST_GAP, out=failures).astype(np.int64)
            gaps += 1
            successes.append(np.cumsum(gaps, out=gaps) + last)
            last = int(successes[-1][-1])
        return np.concatenate(successes)


class TruncatedPoisson(Poisson):
    """Poisson batches of which only the first `cap` records, in the order of the table, are used."""

    def _some(self, batches: int) -> tuple[Indices, NDArray[np.int64]]:
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


class WithoutReplacement(Batches):
    """A uniform subset of `size` records, drawn afresh for every step and chain."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        if sampling.size > sampling.rows:
            raise refuse("algorithm.batch.size", "to be at most the number of rows given", sampling.size)
        self._waiting = np.zeros((0, sampling.size), np.int32)

    def take(self, steps: int) -> BatchBlock:
        needed = steps * self.groups
        size = self.sampling.size
        # Always the same number at once, so that a run does not depend on how it is cut into blocks.
        at_once = max(1, _SUBSETS_AT_ONCE // size)
        times = -(-(needed - len(self._waiting)) // at_once)
        fresh = [self._draw(at_once) for _ in range(times)]
        subsets = np.concatenate([self._waiting, *fresh])
        self._waiting = subsets[needed:]
        counts = np.full((steps, self.groups), self.sampling.size, np.int32)
        return equal_batches(subsets[:needed], counts, self.capacity)

    def _draw(self, number: int) -> Indices:
        return uniform_subsets(self.sampling.generator, self.sampling.rows, self.sampling.size, number)


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


class WithReplacement(WithoutReplacement):
    """Records drawn one by one, each uniformly from all, `size` of them for every step and chain."""

    def _draw(self, number: int) -> Indices:
        return self.sampling.generator.integers(0, self.sampling.rows, (number, self.sampling.size), dtype=np.int32)


class RandomAllocation(_AnySize):
    """Every record in `uses` steps of each round, drawn uniformly for it alone."""

    # A round's records stand sorted by step.
    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._length = sampling.round or max(1, -(-sampling.rows // sampling.size))
        self._capacity = planned_capacity(
            sampling.rows * sampling.uses / self._length, power_of_two(sampling.steps * sampling.chains)
        )
        self._taken, self._round = 0, -1
        self._lists: list[tuple[Indices, NDArray[np.int64]]] = []

    def take(self, steps: int) -> BatchBlock:
        parts: list[Indices] = []
        for step in range(self._taken, self._taken + steps):
            number, place = divmod(step, self._length)
            for records, edges in self._lists_of(number):
                parts.append(records[edges[place] : edges[place + 1]])
        self._taken += steps
        counts = np.array([part.size for part in parts], dtype=np.int64)
        mean = self.sampling.rows * self.sampling.uses / self._length * len(parts)
        return self._block(steps, parts, counts, mean)

    def _lists_of(self, number: int) -> list[tuple[Indices, NDArray[np.int64]]]:
        while self._round < number:
            self._lists = self._drawn()
            self._round += 1
        return self._lists

    def _drawn(self) -> list[tuple[Indices, NDArray[np.int64]]]:
        """The records of the next round for each group, sorted by step, and where each step's begin."""
        rows, uses = self.sampling.rows, self.sampling.uses
        made = []
        for _ in range(self.groups):
            steps = uniform_subsets(self.sampling.generator, self._length, uses, rows).reshape(-1)
            order, edges = self._by_step(steps)
            made.append(((order // uses).astype(np.int32), edges))
        return made

    def _by_step(self, steps: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        order = np.argsort(steps, kind="stable")
        return order, np.searchsorted(steps[order], np.arange(self._length + 1))


class MinSeparation(RandomAllocation):
    """Each record that was not used in the last `separation` - 1 steps, with probability `rate`, on its own."""

    # Drawn in rounds of `separation` steps, in which a record is used once or not at all. What is kept of a record is
    # how many steps of the next round it waits; it starts as if steps had been made before, so that every step expects
    # as many records.
    def __init__(self, sampling: Sampling) -> None:
        super().__init__(replace(sampling, round=sampling.separation))
        self._capacity = planned_capacity(
            sampling.rows * sampling.rate / (1 + (sampling.separation - 1) * sampling.rate),
            power_of_two(sampling.steps * sampling.chains),
        )
        shape, longest = (self.groups, sampling.rows), sampling.separation - 1
        blocked = sampling.generator.random(shape) < longest * sampling.rate / (1 + longest * sampling.rate)
        wait = sampling.generator.integers(1, max(1, longest) + 1, shape)
        self._wait = np.where(blocked, wait, 0) + self._failures(shape)

    def _failures(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """How often in a row a free record is not drawn."""
        if self.sampling.rate >= 1.0:
            return np.zeros(shape, np.int64)
        draws = self.sampling.generator.standard_exponential(shape) / -math.log1p(-self.sampling.rate)
        return np.minimum(draws, _LONGEST_GAP).astype(np.int64)

    def _drawn(self) -> list[tuple[Indices, NDArray[np.int64]]]:
        sorted_waits = [self._by_step(waits) for waits in self._wait]
        used = self._wait < self._length
        # The next use is `separation` steps after this one, or later.
        self._wait = np.where(used, self._wait + self._failures(used.shape), self._wait - self._length)
        return [(order[: edges[-1]].astype(np.int32), edges) for order, edges in sorted_waits]


_SCHEMES: dict[Scheme, type[Batches]] = {
    Scheme.CYCLIC: Cyclic,
    Scheme.SHUFFLE_ONCE: ShuffleOnce,
    Scheme.RESHUFFLED: Reshuffled,
    Scheme.POISSON: Poisson,
    Scheme.WITHOUT_REPLACEMENT: WithoutReplacement,
    Scheme.WITH_REPLACEMENT: WithReplacement,
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
    sampling = Sampling(
        rows=rows,
        size=batch.divisor(records),
        rate=batch.chance(records),
        chains=chains,
        steps=steps,
        generator=generator,
        round=batch.per_epoch(records),
        uses=batch.uses or 1,
        cap=batch.most,
        separation=batch.apart(records),
    )
    return batches_for(batch.scheme, sampling)
