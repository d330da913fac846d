"""Private rows as a kernel in rounds reads them, and sums over the rows of one round."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.chain.batches import Batches, batches_for, power_of_two, power_of_two_within
from sordino.algorithm.chain.batches import Sampling as Drawn
from sordino.algorithm.chain.kernel import Records, RowLimits, SomeRows, chosen_from, load, slice_of
from sordino.algorithm.noise.exact_sums import GROUP, Total, no_total
from sordino.algorithm.noise.randomness import Purpose, Randomness
from sordino.core.bound import Relation
from sordino.core.spec import Rounds, Sampling, Scheme, Spec
from sordino.core.validate import refuse


class Batch(NamedTuple):
    """Which rows one round uses: a slice of a flat list of row numbers."""

    indices: Array
    start: Array
    length: Array


@dataclass(frozen=True)
class RowAccess:
    """How a round reaches its rows; `capacity` is the largest batch, or None where every round uses every row."""

    capacity: int | None

    def total(self, table: Records, batch: Batch, size: int, of_rows: Callable[[SomeRows], Total]) -> Total:
        """The sum over the round's rows of a function that sums over the rows it is given."""
        if self.capacity is not None:
            chosen = lax.dynamic_slice_in_dim(batch.indices, batch.start, self.capacity)
            return of_rows(chosen_from(table, chosen, batch.length))
        # A block of rows at a time, so that memory does not grow with their number.
        length = min(GROUP, table.features.shape[0])
        blocks = (table.rows + length - 1) // length
        return lax.fori_loop(
            0, blocks, lambda j, total: total.plus(of_rows(slice_of(table, j * length, length))), no_total((size,))
        )


def load_table(X: NDArray[Any], y: NDArray[Any], dtype: np.dtype, *, cut: bool = True) -> Records:
    """Rows on the device, padded so that nearby numbers of rows share one compiled kernel; targets are numbers.

    Rows are `cut` to whole numbers where their contributions are clipped and summed exactly.
    """
    return load(X, y.astype(dtype), GROUP, dtype, RowLimits(cut=cut))


# The inputs of a kernel in rounds, one block of rounds after another: noise, batches, and schedules.

_SCHEMES = {
    Sampling.FULL: Scheme.FULL,
    Sampling.WITHOUT_REPLACEMENT: Scheme.WITHOUT_REPLACEMENT,
    Sampling.POISSON: Scheme.POISSON,
    Sampling.PASSES: Scheme.RESHUFFLED,
}
# One record moves a clipped sum by two clips when it is replaced, by one when it appears or vanishes.
_CLIPS = {Relation.REPLACE_ONE: 2.0, Relation.ADD_REMOVE: 1.0}
_BLOCK_BYTES = 4 * 2**20
_LONGEST_BLOCK = 4096


class RoundBlock(NamedTuple):
    """A block of rounds: its first round, how many are made, and noise, its scale and the batch of each."""

    first: Array
    number: Array
    scales: Array
    gaussians: Array
    indices: Array
    starts: Array
    counts: Array

    def batch(self, k: Array) -> Batch:
        """The batch of the block's round k."""
        return Batch(self.indices, self.starts[k, 0], self.counts[k, 0])


@dataclass(frozen=True, eq=False)
class RoundSource:
    """Blocks of rounds for so many rows, with this much noise on each round's sum; no noise, no draws of it.

    Gaussians are drawn in `dtype` and added to sums in double precision.
    """

    algorithm: Rounds
    rows: int
    sum_noise: NDArray[np.float64]
    randomness: Randomness
    dtype: Any

    def batches(self) -> Batches | None:
        """The run's batches; None where every round uses every row."""
        drawn = Drawn(
            rows=self.rows,
            size=self.algorithm.batch_size,
            rate=self.algorithm.rate,
            chains=1,
            steps=self.algorithm.steps,
            generator=self.randomness.generator(Purpose.BATCHES),
        )
        return batches_for(_SCHEMES[self.algorithm.sampling], drawn)

    def block_length(self, size: int) -> int:
        """Rounds in a block whose noise has this many entries a round."""
        by_memory = power_of_two_within(max(1, _BLOCK_BYTES // (4 * size)))
        return min(_LONGEST_BLOCK, by_memory, power_of_two(self.algorithm.steps))

    def blocks(self, size: int) -> Iterator[tuple[RowAccess, RoundBlock]]:
        """The blocks in order; all have the same shapes, and of the last one only the first rounds are made."""
        batches, length = self.batches(), self.block_length(size)
        for first in range(0, self.algorithm.steps, length):
            drawn = (np.zeros((1, 1), np.int32),) * 3 if batches is None else batches.take(length)
            block = RoundBlock(
                jnp.asarray(first, jnp.int32),
                jnp.asarray(min(length, self.algorithm.steps - first), jnp.int32),
                jnp.asarray(part(self.sum_noise, first, length), float),
                self._gaussians(first, length, size),
                *map(jnp.asarray, drawn),
            )
            # Batches of random size may need more room from one block to the next.
            yield RowAccess(None if batches is None else batches.capacity), block

    def _gaussians(self, first: int, length: int, size: int) -> Array:
        if self.sum_noise.any():
            return self.randomness.gaussians(Purpose.NOISE, first, length, (size,), self.dtype)
        return jnp.zeros((length, size), self.dtype)


@dataclass(frozen=True, eq=False)
class RoundFeed:
    """Everything a described run in rounds draws, for rows that fit its spec."""

    spec: Spec
    algorithm: Rounds
    rows: int
    randomness: Randomness
    dtype: Any

    def __post_init__(self) -> None:
        check_rows_fit(self.spec, self.algorithm, self.rows)

    @property
    def sum_noise(self) -> NDArray[np.float64]:
        """The standard deviation of the noise on each round's clipped sum: multiplier times sensitivity."""
        return sum_noise(self.algorithm, self.spec.relation)

    def blocks(self, size: int) -> Iterator[tuple[RowAccess, RoundBlock]]:
        """The blocks of the run, with noise of so many entries a round."""
        source = RoundSource(self.algorithm, self.rows, self.sum_noise, self.randomness, self.dtype)
        return source.blocks(size)


def check_rows_fit(spec: Spec, algorithm: Rounds, rows: int) -> None:
    """Refuse a number of rows that is not the spec's, where that number is public."""
    if spec.relation == Relation.REPLACE_ONE and rows != algorithm.records:
        raise refuse("the number of rows", f"to be algorithm.records = {algorithm.records} under replace-one", rows)


def sum_sensitivity(algorithm: Rounds, relation: Relation) -> float:
    """How far one record moves a round's sum of clipped contributions."""
    return _CLIPS[relation] * algorithm.clip


def sum_noise(algorithm: Rounds, relation: Relation) -> NDArray[np.float64]:
    """The standard deviation of the noise on each round's sum: multiplier times sensitivity."""
    return algorithm.noise_multiplier.values(algorithm.steps) * sum_sensitivity(algorithm, relation)


def part(values: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
    """So many entries of a schedule, padded with zeros behind its end."""
    padded = np.zeros(length)
    given = values[first : first + length]
    padded[: len(given)] = given
    return padded
