"""The step of the canonical chain, a pure function for all chains at once, and the rows it reads.

    theta <- Proj[theta - eta * ((sum of batch gradients + noise) / b + grad r(theta))]

The noise of a step, of scale tau, is written as noise on the sum, of scale b tau / eta, because there it is added to
whole numbers without rounding (`lattice`). Only what shapes the work is compiled in; everything else is an argument.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import DTypeLike, NDArray

from sordino.mechanisms.chain.batches import bucket
from sordino.models.base import Model
from sordino.models.clip import row_lengths
from sordino.models.contributions import RowSizes, shortened, whole_rows
from sordino.noise.lattice import Total, grid_total, plain_total
from sordino.noise.randomness import ADDED, NoisePort


class Records(NamedTuple):
    """Padded features and targets, the sizes of the rows, and how many rows are real."""

    features: Array
    target: Array
    sizes: RowSizes
    rows: Array


class SomeRows(NamedTuple):
    """Rows in double precision, their targets and sizes, and which of them are there: 1, or 0 for padding."""

    features: Array
    target: Array
    sizes: RowSizes
    present: Array


def slice_of(records: Records, first: Array | int, length: int) -> SomeRows:
    """So many rows from one on, padding behind the last one included."""
    cut = jax.tree.map(lambda column: lax.dynamic_slice_in_dim(column, first, length), records[:3])
    return _some_rows(cut, first + jnp.arange(length) < records.rows)


def chosen_from(records: Records, chosen: Array, count: Array) -> SomeRows:
    """The rows at these places, of which the first `count` are there."""
    taken = jax.tree.map(lambda column: column.at[chosen].get(mode="promise_in_bounds"), records[:3])
    return _some_rows(taken, jnp.arange(len(chosen)) < count)


def _some_rows(columns: tuple[Array, Array, RowSizes], present: Array) -> SomeRows:
    features, target, sizes = columns
    # Whole targets stay whole: a loss may use them to choose.
    numbers = target.astype(jnp.float64) if jnp.issubdtype(target.dtype, jnp.floating) else target
    return SomeRows(features.astype(jnp.float64), numbers, sizes, present.astype(jnp.float64))


class RowLimits(NamedTuple):
    """What every record is brought within before a chain reads it: the length of a row, the size of a target."""

    # `labels` makes a target one that the model knows. Rows are `cut` to whole numbers wherever sums are to be exact.
    row_norm: float = math.inf
    target: float = math.inf
    labels: Callable[[Array], Array] = lambda target: target
    cut: bool = True


def load(X: NDArray[Any], y: NDArray[Any], block: int | None, dtype: DTypeLike, limits: RowLimits) -> Records:
    """Put rows on the device in the run's precision, padded to a bucket, and to whole blocks where they are read so."""
    padded = bucket(len(X))
    padded = padded if block is None or padded <= block else -(-padded // block) * block

    def filled(column: NDArray[Any], dtype: DTypeLike) -> Array:
        if len(column) != padded or column.dtype != dtype:
            shorter, column = column, np.zeros((padded, *column.shape[1:]), dtype)
            column[: len(shorter)] = shorter
        return jax.device_put(column)

    # Whole targets stay whole: a loss may use them to choose.
    targets = filled(y, dtype if y.dtype.kind == "f" else np.int32)
    return prepared(filled(X, dtype), targets, jnp.asarray(len(X), jnp.int32), limits)


def prepared(features: Array, target: Array, rows: Array, limits: RowLimits) -> Records:
    """Records on the devices where the columns are, as they are used."""
    if limits.row_norm < math.inf:
        features = _rows_within(features, limits.row_norm)
    if limits.target < math.inf:
        target = jnp.clip(target, -limits.target, limits.target)
    features, sizes = _stored(features, limits.cut)
    return Records(features, limits.labels(target), sizes, rows)


@partial(jax.jit, static_argnums=1)
def _stored(features: Array, cut: bool) -> tuple[Array, RowSizes]:
    """Rows and their sizes; if `cut`, as whole numbers, which the precision they are stored in holds."""
    if not cut:
        lengths = row_lengths(features.astype(jnp.float64))
        return features, RowSizes(jnp.zeros(lengths.shape, jnp.int16), lengths)
    whole = whole_rows(features)
    return whole.rows.astype(features.dtype), RowSizes(whole.exponents.astype(jnp.int16), whole.lengths)


@jax.jit
def _rows_within(features: Array, limit: float) -> Array:
    """Rows longer than the limit become a little shorter than it: by more than what rounding them can add."""
    lengths = row_lengths(features.astype(jnp.float64))
    factors = limit * (1.0 - 4.0 * jnp.finfo(features.dtype).eps) / jnp.maximum(lengths, limit)
    return jnp.where((lengths > limit)[:, None], features * factors[:, None], features).astype(features.dtype)


# The sum of one chain's gradients over given rows.
RowSum = Callable[[Array, SomeRows], Total]


class StepBatch(NamedTuple):
    """The batches of one step: where each chain's begins in a list of records, and how many it has.

    A single start and count stand for a batch that all chains share.
    """

    records: Array
    starts: Array
    counts: Array


@dataclass(frozen=True)
class RowReader:
    """Which rows the chains of a step use, `block` at a time: all of them, or those that a list names."""

    # How many blocks there are is known only when the kernel runs: padding costs memory, not time.
    block: int
    listed: bool
    once: bool = False  # whether a list is never longer than a block
    chains: int | None = None  # how many run together, where each has a list; absent: all

    def total(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        """The sum of the gradients of all chains, shape (chains, dim)."""

        def over_chains(rows: SomeRows) -> Total:
            return jax.vmap(lambda point: row_sum(point, rows))(theta)

        def of_list(act: Callable[[SomeRows], Total], start: Array, count: Array, shape: tuple[int, ...]) -> Total:
            def some(first: Array | int) -> Total:
                listed = lax.dynamic_slice_in_dim(batch.records, start + first, self.block)
                return act(chosen_from(records, listed, count - first))

            return some(0) if self.once else in_blocks(some, count, self.block, shape)

        def of_chain(each: tuple[Array, Array, Array]) -> Total:
            point, start, count = each
            return of_list(lambda rows: row_sum(point, rows), start, count, point.shape)

        if not self.listed:
            block = min(self.block, records.features.shape[0])
            every = lambda first: over_chains(slice_of(records, first, block))  # noqa: E731
            return in_blocks(every, records.rows, block, theta.shape)
        if batch.starts.shape[0] == 1:
            return of_list(over_chains, batch.starts[0], batch.counts[0], theta.shape)
        each = (theta, batch.starts, batch.counts)
        together = self.chains is None or self.chains >= len(theta)
        return jax.vmap(of_chain)(each) if together else lax.map(of_chain, each, batch_size=self.chains)


def in_blocks(some: Callable[[Array | int], Total], count: Array, block: int, shape: tuple[int, ...]) -> Total:
    """The sum over so many rows of what is summed over each block of them, given its first row."""
    blocks = (count + block - 1) // block
    return lax.fori_loop(
        0, blocks, lambda j, total: total.plus(some(j * block)), Total(*(jnp.zeros(shape, jnp.float64),) * 2)
    )


class Constants(NamedTuple):
    """The numbers that hold for a whole run."""

    divisor: Array
    reach: Array
    radius: Array


class StepInputs(NamedTuple):
    """What a step needs besides its batch; in a block of steps, with one leading entry for each.

    `scale` is that of the noise of each chain: on the sum, or on hidden iterates. `noise` is on a lattice or, where
    sums have none, standard Gaussians.
    """

    step_size: Array
    scale: Array
    noise: Any


def total(program: "Program", constants: Constants, records: Records, theta: Array, batch: StepBatch) -> Total:
    """The sum of each chain's gradients over its batch, every gradient within its bound."""

    def row_sum(point: Array, rows: SomeRows) -> Total:
        parts = program.model.record_gradients(point, rows.features, rows.target, rows.sizes)
        if not program.bounded:
            return plain_total(parts, rows.present)
        within = shortened(parts, constants.reach)
        if program.hidden:
            return plain_total(within, rows.present)
        return grid_total(within, rows.present, constants.reach, cut=not program.clipped)

    return program.reader.total(row_sum, records, theta, batch)


def noised(program: "Program", statistic: Total, inputs: StepInputs) -> Array:
    """The statistic of each chain with its noise: the one place where a chain's noise is added."""
    return program.port.added(statistic, inputs.scale[:, None], inputs.noise)


def drift(program: "Program", constants: Constants, theta: Array, gradients: Array) -> Array:
    """What a step goes against: the sum of gradients over the public divisor, and the gradient of the penalty."""
    # A number for every entry: by one number for all, some programs would multiply with its inverse, others divide.
    divisor = jnp.where(jnp.isnan(gradients), jnp.nan, constants.divisor)
    return gradients / divisor + jax.vmap(program.model.penalty_gradient)(theta)


def projected(program: "Program", constants: Constants, theta: Array) -> Array:
    """The iterates, each brought back into the ball where the spec has one."""
    return on_ball(theta, constants.radius) if program.projected else theta


def on_ball(theta: Array, radius: Array) -> Array:
    """The nearest point of the ball for each row of theta."""
    # Dividing by the largest entry first keeps the squares of a far-flung iterate from overflowing.
    largest = jnp.maximum(jnp.max(jnp.abs(theta), axis=1, keepdims=True), 1.0)
    norm = largest * jnp.sqrt(jnp.sum((theta / largest) ** 2, axis=1, keepdims=True))
    return theta * jnp.minimum(1.0, radius / norm)


def step(
    program: "Program", constants: Constants, records: Records, theta: Array, batch: StepBatch, inputs: StepInputs
) -> Array:
    """The iterates after a step from theta, shape (chains, dim)."""
    gradients = total(program, constants, records, theta, batch)
    if program.hidden:
        # Floored to a lattice, plus noise there, cut at its ends. The error is a shift, which the spec states
        # (`claims`), so sums need no lattice: what follows is a function of the floored iterate and the noise.
        mean = theta - inputs.step_size * drift(program, constants, theta, gradients.high + gradients.low)
        end = inputs.noise.rest / 2.0
        after = jnp.clip(noised(program, Total(jnp.zeros_like(mean), mean), inputs), -end, end)
    else:
        after = theta - inputs.step_size * drift(program, constants, theta, noised(program, gradients, inputs))
    return projected(program, constants, after)


# The compiled loop of chains and of rounds.


class StepBlock(NamedTuple):
    """A block of steps, the first one's number and how many are made: what each needs, and a `BatchBlock`."""

    first: Array
    steps: Array
    inputs: Any
    records: Array
    starts: Array
    counts: Array


class Compiled(ABC):
    """What is compiled in, as a frozen dataclass: a step from a state, and what of the state may be kept."""

    keeps: bool

    @abstractmethod
    def made(self, constants: Any, records: Records, state: Any, batch: StepBatch, inputs: Any, number: Array) -> Any:
        """The state after the step of this number."""

    @abstractmethod
    def kept(self, state: Any) -> Array:
        """What is kept of each state."""


@partial(jax.jit, static_argnums=0)
def advance(program: Compiled, constants: Any, records: Records, state: Any, block: StepBlock) -> tuple[Any, Array]:
    """Make the block's steps; answer the last state, and what is kept after each step if anything is."""
    kept = program.kept(state)
    room = jnp.zeros((block.starts.shape[0] if program.keeps else 0, *kept.shape), kept.dtype)

    def one(k: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
        before, room = carry
        batch = StepBatch(block.records, block.starts[k], block.counts[k])
        inputs = jax.tree.map(lambda values: values[k], block.inputs)
        after = program.made(constants, records, before, batch, inputs, block.first + k)
        return after, lax.dynamic_update_index_in_dim(room, program.kept(after), k, 0) if program.keeps else room

    return cast(tuple[Any, Array], lax.fori_loop(0, block.steps, one, (state, room)))


@dataclass(frozen=True)
class Program(Compiled):
    """The step of a chain: the model, how its gradients are summed, and whether iterates are kept."""

    # Where gradients are bounded, `clipped` or by what the spec certifies, each is kept within `Constants.reach`.
    model: Model
    bounded: bool
    clipped: bool
    reader: RowReader
    projected: bool
    keeps: bool = False
    port: NoisePort = ADDED
    hidden: bool = False  # noise is on iterates, and the spec states their rounding

    def made(
        self, constants: Constants, records: Records, state: Array, batch: StepBatch, inputs: StepInputs, number: Array
    ) -> Array:
        return step(self, constants, records, state, batch, inputs)

    def kept(self, state: Array) -> Array:
        return state
