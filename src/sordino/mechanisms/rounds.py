"""Rounds of noised sums: what a spec must say for them, exact rounds on the host, and the one compiled loop.

The specs of a query's runs begin with its name. A spec that says something else than what is about to run is refused
before a row is read. A query says what each record contributes and what follows from the noised sum; it never sees a
sum without noise.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from sordino.core.bound import Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import NoisedSums, Scheme, Spec, SumShape, Unit
from sordino.core.validate import instance_of, own_arrays, refuse
from sordino.mechanisms.chain.batches import (
    Batches,
    described_batches,
    part_of,
    power_of_two,
    power_of_two_within,
    taken,
)
from sordino.mechanisms.chain.kernel import (
    Compiled,
    Records,
    RowLimits,
    SomeRows,
    StepBatch,
    StepBlock,
    advance,
    chosen_from,
    in_blocks,
    load,
    slice_of,
)
from sordino.mechanisms.posterior.laws import Posterior
from sordino.models.clip import check_sums
from sordino.models.contributions import Parts
from sordino.noise.integer_sums import Contributions, checked_rows, tallies
from sordino.noise.lattice import (
    GROUP,
    Lattice,
    Total,
    checked_bound,
    clipped_total,
    in_doubles,
    in_precision,
    plain_total,
)
from sordino.noise.port import HAIR, CheckedSum, SumNoise, step_noise
from sordino.noise.randomness import ADDED, NoisePort, Purpose, Randomness


@dataclass(frozen=True, eq=False)
class SumsRelease(ABC):
    """The release of a run: `spec` is the very object that ran and was certified. Arrays are copies, not writable."""

    spec: Spec

    def __post_init__(self) -> None:
        own_arrays(self)

    @property
    @abstractmethod
    def posterior(self) -> Posterior:
        """What is known after the run."""


def described(spec: Spec, name: str, replacement: float | None = None, *, units: bool = False) -> NoisedSums:
    """The noised sums of a spec; refused if they are said to be of something else than what is about to run."""
    # Contributions are shortened as vectors, row by row, so a spec may claim neither another shape nor `units`, unless
    # a row holds all records of one, and no less for a replacement than what the caller proves.
    instance_of("spec", spec, Spec)
    algorithm = instance_of("spec.algorithm", spec.algorithm, NoisedSums)
    word = name.split(maxsplit=1)[0]
    if algorithm.query.split(maxsplit=1)[0] != word:
        raise refuse("algorithm.query", f"to begin with {word!r} for a run of {name}", algorithm.query)
    if algorithm.shape is not SumShape.VECTOR:
        raise refuse("algorithm.shape", "to be vector for a run: contributions are bounded as vectors", algorithm.shape)
    if algorithm.unit is not Unit.RECORD and not units:
        raise refuse("algorithm.unit", "to be record: no run keeps the records of a unit together", "a column")
    claimed = algorithm.replacement
    if claimed is not None and (replacement is None or claimed < replacement):
        proved = "left out" if replacement is None else f"at least {replacement:.6g}"
        raise refuse("algorithm.replacement", f"to be {proved} for a run of {name}", claimed)
    return algorithm


def check_rows_fit(spec: Spec, rows: int) -> None:
    """Refuse a number of rows that is not the spec's, where that number is public."""
    records = instance_of("spec.algorithm", spec.algorithm, NoisedSums).records
    if spec.relation is Relation.REPLACE_ONE and rows != records:
        raise refuse("the number of rows", f"to be algorithm.records = {records} under replace-one", rows)


class ExactRounds:
    """Rounds over all records whose sums are whole numbers on the host and whose noise is drawn without rounding."""

    # What is released is what is certified, rounded to a grid (`noise.port`).
    def __init__(
        self, spec: Spec, name: str, rows: int, size: int, randomness: Randomness, replacement: float | None = None
    ) -> None:
        self.algorithm = described(spec, name, replacement)
        instance_of("randomness", randomness, Randomness)
        if self.algorithm.sampling.scheme is not Scheme.FULL:
            word = self.algorithm.sampling.scheme.value
            raise refuse("algorithm.sampling.scheme", "to be full, all records every round", word)
        check_rows_fit(spec, rows)
        self.sum_noise, self._size = self.algorithm.sum_noise, size
        self._noise = SumNoise.of(randomness, self.algorithm.rounds * size)
        self._multipliers = self.algorithm.noise_multiplier.values(self.algorithm.rounds)
        self._times = self.algorithm.moves(spec.relation)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on every entry of the mean over records in the first round."""
        return self.scale(0) / self.algorithm.records

    def scale(self, k: int) -> float:
        """The standard deviation of the noise on every entry of round k, a hair more than the spec says."""
        return float(self.sum_noise[k] * HAIR)

    def noised(
        self, k: int, asked: Contributions, exponent: int, *, shares: ArrayLike = 1.0, length: float = 1.0
    ) -> NDArray[Any]:
        """The sum of round k, in units of 2^exponent, with noise; a round is asked for once, or its noise is reused.

        `length`: what the spec's contribution is multiplied by; `shares`: the noise of single numbers.
        """
        bound = self.algorithm.contribution * length
        sums = asked.total(bound, exponent)
        total = CheckedSum(sums, exponent, bound, float(self._multipliers[k]), shares, self._times)
        return self._noise.noised([total], place=k * self._size)


# Two records in different bins: one count less and one more.
REPLACED = up(math.sqrt(2.0))


def noised_counts(
    spec: Spec, name: str, bins: NDArray[np.int64], number: int, randomness: Randomness
) -> NDArray[np.float64]:
    """The noised numbers of records in each of several bins.

    A record is in one bin: adding or removing it moves the counts by 1, replacing it by at most sqrt 2.
    """
    rounds = ExactRounds(spec, name, len(bins), number, randomness, REPLACED)
    if rounds.algorithm.rounds != 1 or rounds.algorithm.contribution < 1.0:
        raise refuse("the spec", "to have one round of contributions of at least 1", "another")
    once = tallies(len(bins), None, bins, lambda part: np.ones(len(bins[part])), number)
    return rounds.noised(0, once, 0)


# The compiled loop: batches, blocks of rounds, bounded contributions and noise, whatever is summed.

_BLOCK_BYTES = 4 * 2**20
_LONGEST_BLOCK = 4096


class Public(NamedTuple):
    """The numbers that hold for a whole run: the contribution bound, the records, and the public size of a batch."""

    contribution: Array
    records: Array
    batch: Array


class RoundRows(NamedTuple):
    """The rows of one round, to be summed over; `clipped` is false where nothing private is meant."""

    features: int
    clipped: bool
    total: Callable[[int, Callable[[SomeRows], Total]], Total]
    """The total, of a given size, of a function that sums over some of the rows."""


@dataclass(frozen=True, eq=False)
class Run:
    """A described run on rows of so many features, before it is made; `sum_noise` is that on each round's sum."""

    # Without a clip nothing is private, and Gaussians are drawn in `dtype`, the precision of the program around.
    algorithm: NoisedSums
    rows: int
    features: int
    sum_noise: NDArray[np.float64]
    randomness: Randomness
    dtype: np.dtype
    clipped: bool = True

    def batches(self) -> Batches | None:
        """The run's batches; None where every round uses every row."""
        algorithm, generator = self.algorithm, self.randomness.generator(Purpose.BATCHES)
        return described_batches(algorithm.sampling, algorithm.records, self.rows, algorithm.rounds, generator)

    def blocks(self, query: "Query") -> Iterator[tuple[int | None, StepBlock]]:
        """The blocks in order, each with the largest batch; all have the same shapes."""
        # Of the last one only the first rounds are made.
        size, batches = query.size(self.features), self.batches()
        by_memory = power_of_two_within(max(1, _BLOCK_BYTES // (4 * size)))
        length = min(_LONGEST_BLOCK, by_memory, power_of_two(self.algorithm.rounds))
        for first in range(0, self.algorithm.rounds, length):
            drawn, number = taken(batches, length), jnp.int32(min(length, self.algorithm.rounds - first))
            scales, noise = self.part(self.sum_noise, first, length), self._noise(first, length, size)
            inputs = RoundInputs(scales, noise, query.inputs(self, first, length))
            # Batches of random size may need more room from one block to the next.
            capacity = None if batches is None else batches.capacity
            yield capacity, StepBlock(jnp.int32(first), number, inputs, *map(jnp.asarray, drawn))

    def part(self, values: NDArray[Any], first: int, length: int) -> Array:
        """So many entries of what is given for every round, padded with zeros behind its end."""
        return jnp.asarray(part_of(values, first, length), float)

    def start(self, shape: tuple[int, ...]) -> Array:
        """Standard Gaussians to begin from: random, and no data."""
        return self.randomness.gaussians(Purpose.START, 0, 1, shape, self.dtype)[0].astype(jnp.float64)

    def _noise(self, first: int, length: int, size: int) -> Any:
        """On the lattice of the sums; without a clip they have none, and without noise none is added."""
        if not self.sum_noise.any():
            return jnp.zeros((length, size), self.dtype)
        exactly = self.clipped and self.randomness.draws_exactly
        lattice = Lattice.of(self.algorithm.contribution, size, float(self.sum_noise.max())) if exactly else None
        return step_noise(self.randomness, lattice, self.sum_noise, first, (length, size), self.dtype)


class Query(ABC):
    """What a run sums, and what it does with noised sums. A subclass is a frozen dataclass of public choices.

    States are trees of arrays. All methods but `inputs`, `first` and `release` are compiled.
    """

    name: ClassVar[str]  # that specs of its runs begin with
    # How far replacing a unit moves a sum at most, where the query proves less than twice the contribution.
    replacement: ClassVar[float | None] = None
    keeps_units: ClassVar[bool] = False  # whether a row holds all records of a unit, so that a spec may state units

    @abstractmethod
    def size(self, features: int) -> int:
        """Entries of a sum, for rows of so many features."""

    def first(self, run: Run) -> Any:
        """The state before the first round; one of a custom model is given by its fit, which also makes the release."""
        raise NotImplementedError

    def inputs(self, run: Run, first: int, length: int) -> Any:
        """What rounds `first`, `first` + 1, ... need besides the state: a tree of arrays with an entry for each."""
        return ()

    def point(self, public: Public, state: Any, given: Any) -> Any:
        """What contributions are computed at, once a round: the state, unless a query needs more of it."""
        return state

    @abstractmethod
    def contributions(self, point: Any, given: Any, rows: SomeRows) -> Parts:
        """What each row contributes, as long as it is; the loop shortens it to the contribution bound."""

    def total(self, public: Public, state: Any, given: Any, rows: RoundRows) -> Total:
        """The sum of bounded contributions over the rows of a round."""
        point = self.point(public, state, given)

        def of_some(some: SomeRows) -> Total:
            parts = self.contributions(point, given, some)
            if not rows.clipped:
                return plain_total(parts, some.present)
            return clipped_total(parts, some.present, public.contribution)

        return rows.total(self.size(rows.features), of_some)

    @abstractmethod
    def moved(self, public: Public, state: Any, given: Any, noised: Array, number: Array) -> Any:
        """The next state, from the noised sum of round `number`, counted from 0: post-processing."""

    @abstractmethod
    def kept(self, state: Any) -> Array:
        """What is released of every round where the view is all-iterates: a vector."""

    def release(self, spec: Spec, run: Run, state: Any, iterates: NDArray[np.floating] | None) -> SumsRelease:
        """The release, from the last state."""
        raise NotImplementedError


def rows_total(
    capacity: int | None, table: Records, batch: StepBatch, size: int, of_rows: Callable[[SomeRows], Total]
) -> Total:
    """The sum over a round's rows of a function that sums over the rows it is given."""
    # `capacity` is the largest batch, or None where every round uses every row.
    if capacity is not None:
        chosen = lax.dynamic_slice_in_dim(batch.records, batch.starts, capacity)
        return of_rows(chosen_from(table, chosen, batch.counts))
    # A block of rows at a time, so that memory does not grow with their number.
    length = min(GROUP, table.features.shape[0])
    return in_blocks(lambda first: of_rows(slice_of(table, first, length)), table.rows, length, (size,))


class RoundInputs(NamedTuple):
    """What a round needs besides its batch: the scale of its noise, the noise, and the inputs of its query."""

    scale: Array
    noise: Any
    given: Any


@dataclass(frozen=True)
class RoundProgram(Compiled):
    """The round of a query."""

    query: Query
    capacity: int | None
    keeps: bool
    clipped: bool = True
    port: NoisePort = ADDED

    def made(
        self, constants: Public, records: Records, state: Any, batch: StepBatch, inputs: RoundInputs, number: Array
    ) -> Any:
        alone = batch._replace(starts=batch.starts[0], counts=batch.counts[0])
        rows = RoundRows(records.features.shape[1], self.clipped, partial(rows_total, self.capacity, records, alone))
        total = self.query.total(constants, state, inputs.given, rows)
        noised = self.port.added(total, inputs.scale, inputs.noise)
        return self.query.moved(constants, state, inputs.given, noised, number)

    def kept(self, state: Any) -> Array:
        return self.query.kept(state)


def execute(run: Run, asked: Query, X: NDArray[Any], y: NDArray[Any], *, keep: bool, clipped: bool = True) -> Any:
    """Make all rounds, inside `in_doubles`: the last state, and what is kept of every round or None."""
    # Without a clip nothing is private: the same kernel then runs the relatives that papers compare with.
    # Rows are cut to whole numbers where their contributions are clipped and summed exactly.
    table = load(X, y.astype(run.dtype), GROUP, run.dtype, RowLimits(cut=clipped))
    return make_rounds(run, asked, table, asked.first(run), keep=keep, clipped=clipped)


def make_rounds(run: Run, asked: Query, table: Records, state: Any, *, keep: bool, clipped: bool = True) -> Any:
    """The same on rows that are loaded, from any state."""
    algorithm, kept, run = run.algorithm, list[NDArray[Any]](), replace(run, clipped=clipped)
    bound = checked_bound("algorithm.contribution", algorithm.contribution) if clipped else math.inf
    public = Public(*(jnp.asarray(value, float) for value in (bound, algorithm.records, algorithm.batch_size)))
    for capacity, block in run.blocks(asked):
        program = RoundProgram(asked, capacity, keep, clipped, run.randomness.port)
        state, vectors = advance(program, public, table, state, block)
        if keep:
            kept.append(in_precision(vectors, run.dtype)[: int(block.steps)])
    return state, np.concatenate(kept) if keep else None


def check_noise(algorithm: NoisedSums, size: int) -> None:
    """Refuse, before a debit, more noise than the sums of a run, which have so many entries, can hold."""
    if algorithm.sum_noise.any():
        Lattice.of(algorithm.contribution, size, float(algorithm.sum_noise.max()))


def run_sums(spec: Spec, asked: Query, features: ArrayLike, target: ArrayLike, randomness: Randomness) -> Any:
    """The release of a described query on private rows: the spec that runs is the spec that is certified.

    `asked` has public choices that do not touch the guarantee. Queries without targets ignore `target`. What is
    released is in single precision, or double where JAX has 64-bit numbers enabled.
    """
    check_sums()
    algorithm = described(spec, asked.name, asked.replacement, units=asked.keeps_units)
    instance_of("randomness", randomness, Randomness)
    check_noise(algorithm, 1)  # refused before a row is read
    X, y = checked_rows(features, target)
    check_rows_fit(spec, len(X))
    with in_doubles() as dtype:
        run = Run(algorithm, len(X), X.shape[1], algorithm.sum_noise, randomness, dtype)
        state, iterates = execute(run, asked, X, y, keep=spec.view is View.ALL_ITERATES)
        return asked.release(spec, run, state, iterates)
