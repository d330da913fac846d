"""The one compiled kernel: a block of steps of the canonical chain, for all chains at once, and the rows it reads.

    theta <- Proj[theta - eta * ((sum of batch gradients + noise) / b + grad r(theta))]

The noise of a step, of scale tau, is written as noise on the sum, of scale b tau / eta, because there it is added to
whole numbers without rounding (`lattice`). Iterates and sums are in double precision. Everything that may
change from run to run without changing the amount of work (step sizes, noise, divisor, clipping bound, radius, number
of rows, number of steps) is an argument; only what shapes the work is compiled in. Rows are padded, so that the kernel
does not depend on how many there are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.core.bound import Relation
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import refuse
from sordino.mechanisms.chain.batches import bucket
from sordino.models.base import Model
from sordino.models.clip import row_lengths
from sordino.models.contributions import RowSizes, shortened, whole_rows
from sordino.noise.lattice import LatticeNoise, Total, grid_total, no_total, plain_total
from sordino.noise.port import ADDED, NoisePort


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


def slice_of(records: Records, first: Array, length: int) -> SomeRows:
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


def check_shape(spec: Spec, model: Model, rows: int, features: int) -> None:
    """Refuse rows whose number or width does not fit the spec and the model."""
    # Under replace-one the number of rows is public and has to be the spec's n. Under add-remove it is private: the
    # spec's n stays the public constant, and any number of rows runs.
    if spec.relation == Relation.REPLACE_ONE and rows != spec.n:
        raise refuse("the number of rows", f"to be problem.n = {spec.n} under replace-one", rows)
    # How far a step is off by rounding grows with the records it adds up, and is counted for one more than n.
    chain, most = spec.algorithm, spec.n + 1
    if rows > most and isinstance(chain, NoisyGradient) and chain.rounding is not None:
        allowed = f"to be at most {most}, problem.n and one, where algorithm.rounding is stated"
        raise refuse("the number of rows", allowed, "more")
    # How often a truncated batch is full follows from how many records there are, and its certificate from that.
    if rows > most and isinstance(chain, NoisyGradient) and chain.batch.scheme is Scheme.TRUNCATED_POISSON:
        raise refuse("the number of rows", f"to be at most {most}, problem.n and one, for truncated batches", "more")
    if model.dim(features) != spec.dim:
        raise refuse(f"problem.dim for rows of {features} features", f"to be {model.dim(features)}", spec.dim)


class RowLimits(NamedTuple):
    """What every record is brought within before a chain reads it: the length of a row, the size of a target."""

    # `labels` makes a target one that the model knows. Rows are `cut` to whole numbers wherever sums are to be exact.
    row_norm: float = math.inf
    target: float = math.inf
    labels: Callable[[Array], Array] = lambda target: target
    cut: bool = True


def load(X: NDArray[Any], y: NDArray[Any], rows_per_block: int | None, dtype: Any, limits: RowLimits) -> Records:
    """Put rows on the device, padded to a bucket, and to whole blocks of rows where they are worked on in blocks."""
    padded = padded_rows(X, y, padded_number(len(X), rows_per_block), dtype)
    features, target = (jax.device_put(column) for column in padded)
    return prepared(features, target, jnp.asarray(len(X), jnp.int32), limits)


def padded_number(rows: int, rows_per_block: int | None) -> int:
    """The number of rows that are stored for so many real ones."""
    padded, block = bucket(rows), rows_per_block
    return padded if block is None or padded <= block else -(-padded // block) * block


def padded_rows(X: NDArray[Any], y: NDArray[Any], padded: int, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Arrays of `padded` rows in the run's precision; whole targets stay whole, and what fits is not copied."""

    def filled(column: NDArray[Any], dtype: Any) -> NDArray[Any]:
        if len(column) == padded and column.dtype == dtype:
            return column
        longer = np.zeros((padded, *column.shape[1:]), dtype)
        longer[: len(column)] = column
        return longer

    return filled(X, dtype), filled(y, dtype if y.dtype.kind == "f" else np.int32)


def prepared(features: Array, target: Array, rows: Array, limits: RowLimits) -> Records:
    """Records on the devices where the columns are, as they are used."""
    if limits.row_norm < math.inf:
        features = _rows_within(features, limits.row_norm)
    if limits.target < math.inf:
        target = jnp.clip(target, -limits.target, limits.target)
    features, sizes = (_cut if limits.cut else _uncut)(features)
    return Records(features, limits.labels(target), sizes, rows)


@jax.jit
def _cut(features: Array) -> tuple[Array, RowSizes]:
    """Rows cut to whole numbers, which the precision they are stored in holds, and their sizes."""
    whole = whole_rows(features)
    return whole.rows.astype(features.dtype), RowSizes(whole.exponents.astype(jnp.int16), whole.lengths)


@jax.jit
def _uncut(features: Array) -> tuple[Array, RowSizes]:
    """Rows as they are, and their lengths."""
    lengths = row_lengths(features.astype(jnp.float64))
    return features, RowSizes(jnp.zeros(lengths.shape, jnp.int16), lengths)


@jax.jit
def _rows_within(features: Array, limit: float) -> Array:
    """Rows longer than the limit become a little shorter than it: by more than what rounding them can add."""
    lengths = row_lengths(features.astype(jnp.float64))
    factors = limit * (1.0 - 4.0 * jnp.finfo(features.dtype).eps) / jnp.maximum(lengths, limit)
    return jnp.where((lengths > limit)[:, None], features * factors[:, None], features).astype(features.dtype)


# The sum of one chain's gradients over given rows.
RowSum = Callable[[Array, SomeRows], Total]


class StepBatch(NamedTuple):
    """The batches of one step: where each group's begins in the list of records, and how many it has."""

    records: Array
    starts: Array
    counts: Array


# A way to sum the gradients of all chains, shape (chains, dim); a frozen value, because it is compiled in.
GradientSum = Callable[[RowSum, Records, Array, StepBatch], Total]


@dataclass(frozen=True)
class EveryRow:
    """Every row, a cache-sized block of rows at a time, so that memory is read once and not once per product."""

    # How many blocks there are is known only when the kernel runs: padding costs memory, not time.
    block: int

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        length = min(self.block, records.features.shape[0])

        def with_block(j: Array, total: Total) -> Total:
            return total.plus(_over_chains(row_sum, theta, slice_of(records, j * length, length)))

        return lax.fori_loop(0, (records.rows + length - 1) // length, with_block, no_total(theta.shape))


@dataclass(frozen=True)
class GatheredRows:
    """The rows of each chain's batch, or of the one batch that all chains share; `at_once` chains at a time."""

    capacity: int
    at_once: int

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        def gathered(start: Array, count: Array) -> SomeRows:
            return chosen_from(records, lax.dynamic_slice_in_dim(batch.records, start, self.capacity), count)

        if batch.starts.shape[0] == 1:
            return _over_chains(row_sum, theta, gathered(batch.starts[0], batch.counts[0]))

        def chain_sum(each: tuple[Array, Array, Array]) -> Total:
            point, start, count = each
            return row_sum(point, gathered(start, count))

        each = (theta, batch.starts, batch.counts)
        few = self.at_once >= theta.shape[0]
        return jax.vmap(chain_sum)(each) if few else lax.map(chain_sum, each, batch_size=self.at_once)


@dataclass(frozen=True)
class ListedRows:
    """The rows of one list that all chains share, `block` at a time: as many blocks as the batch turns out to need."""

    block: int

    def __call__(self, row_sum: RowSum, records: Records, theta: Array, batch: StepBatch) -> Total:
        count = batch.counts[0]

        def with_block(j: Array, total: Total) -> Total:
            listed = lax.dynamic_slice_in_dim(batch.records, batch.starts[0] + j * self.block, self.block)
            return total.plus(_over_chains(row_sum, theta, chosen_from(records, listed, count - j * self.block)))

        return lax.fori_loop(0, (count + self.block - 1) // self.block, with_block, no_total(theta.shape))


def _over_chains(row_sum: RowSum, theta: Array, rows: SomeRows) -> Total:
    return jax.vmap(lambda point: row_sum(point, rows))(theta)


def on_ball(theta: Array, radius: Array) -> Array:
    """The nearest point of the ball for each row of theta."""
    # Dividing by the largest entry first keeps the squares of a far-flung iterate from overflowing.
    largest = jnp.maximum(jnp.max(jnp.abs(theta), axis=1, keepdims=True), 1.0)
    norm = largest * jnp.sqrt(jnp.sum((theta / largest) ** 2, axis=1, keepdims=True))
    return theta * jnp.minimum(1.0, radius / norm)


@dataclass(frozen=True)
class Program:
    """What is compiled in: the model, how its gradients are summed, and how many iterates are kept."""

    # Where gradients are bounded, `clipped` or by what the spec certifies, each is kept within `Constants.reach`.
    model: Model
    bounded: bool
    clipped: bool
    gradient_sum: GradientSum
    projected: bool
    slots: int
    port: NoisePort = ADDED
    hidden: bool = False  # noise is on iterates, and the spec states their rounding


class Constants(NamedTuple):
    """The numbers that hold for a whole run."""

    divisor: Array
    reach: Array
    radius: Array


class StepBlock(NamedTuple):
    """The inputs of a block of steps, one leading entry for each; only the first `steps` are made."""

    # `scales` is that of the noise, one column for each chain: on the sum, or on hidden iterates. `noise` has the shape
    # (steps, chains, dim), and is on a lattice or, where sums have none, standard Gaussians. `slots` says where an
    # iterate is kept; `records`, `starts` and `counts` are a `BatchBlock`.
    steps: Array
    step_sizes: Array
    scales: Array
    noise: Any
    slots: Array
    records: Array
    starts: Array
    counts: Array


@partial(jax.jit, static_argnums=0)
def advance(
    program: Program, records: Records, constants: Constants, theta: Array, block: StepBlock
) -> tuple[Array, Array]:
    """Make the block's steps from theta, shape (chains, dim); answer the last iterates and the kept ones."""
    summed = row_sum(program, constants)
    # One slot more than a block keeps, for all the other iterates; nothing where none is kept.
    buffer = jnp.zeros((program.slots + 1 if program.slots else 0, *theta.shape), theta.dtype)

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, kept = state
        batch = StepBatch(block.records, block.starts[k], block.counts[k])
        total = program.gradient_sum(summed, records, theta, batch)
        noise = block.noise.at(k) if isinstance(block.noise, LatticeNoise) else block.noise[k]
        if program.hidden:
            after = _hidden_step(program, constants, theta, total, block.step_sizes[k], block.scales[k], noise)
        else:
            after = theta - block.step_sizes[k] * noised_drift(program, constants, theta, total, block.scales[k], noise)
        after = projected(program, constants, after)
        return after, kept.at[block.slots[k]].set(after) if program.slots else kept

    theta, kept = lax.fori_loop(0, block.steps, step, (theta, buffer))
    return theta, kept[: program.slots]


def _hidden_step(
    program: Program, constants: Constants, theta: Array, total: Total, step_size: Array, scales: Array, noise: Any
) -> Array:
    """The step of a chain whose iterates stay hidden: floored to a lattice, plus noise there, cut at its ends.

    Its error is a shift, which the spec states (`chain.rounding`): sums need no lattice, and the noised iterate is a
    function of the floored one plus the noise alone.
    """
    drift = (total.high + total.low) / constants.divisor + jax.vmap(program.model.penalty_gradient)(theta)
    mean = theta - step_size * drift
    noised = program.port.added(Total(jnp.zeros_like(mean), mean), scales[:, None], noise)
    end = noise.rest / 2.0
    return jnp.clip(noised, -end, end)


def noised_drift(
    program: Program, constants: Constants, theta: Array, total: Total, scales: Array, noise: Array | LatticeNoise
) -> Array:
    """The noised sum of each chain over the public divisor, and the gradient of the penalty."""
    noised = program.port.added(total, scales[:, None], noise if isinstance(noise, LatticeNoise) else -noise)
    # A number for every entry: by one number for all, some programs would multiply with its inverse, others divide.
    divisor = jnp.where(jnp.isnan(noised), jnp.nan, constants.divisor)
    return noised / divisor + jax.vmap(program.model.penalty_gradient)(theta)


def projected(program: Program, constants: Constants, theta: Array) -> Array:
    """The iterates, each brought back into the ball where the spec has one."""
    return on_ball(theta, constants.radius) if program.projected else theta


def row_sum(program: Program, constants: Constants) -> RowSum:
    """How one chain's gradients over given rows are summed."""

    def summed(theta: Array, rows: SomeRows) -> Total:
        parts = program.model.record_gradients(theta, rows.features, rows.target, rows.sizes)
        if not program.bounded:
            return plain_total(parts, rows.present)
        within = shortened(parts, constants.reach)
        if program.hidden:
            return plain_total(within, rows.present)
        return grid_total(within, rows.present, constants.reach, cut=not program.clipped)

    return summed
