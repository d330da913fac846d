"""The one compiled kernel: a block of steps of the canonical chain, for all chains at once.

    theta <- Proj[theta - eta * ((sum of batch gradients - scale * gaussian) / b + grad r(theta))]

The noise of a step, tau * gaussian, is written as noise on the sum, with scale = b tau / eta, because there it can be
added without rounding the sum first (`exact_sums`). Iterates and sums are in double precision.

Everything that may change from run to run without changing the amount of work (step sizes, noise, divisor, clipping
bound, radius, number of rows, number of steps) is an argument; only what shapes the work is compiled in.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.algorithm.exact_sums import Total, grid_total, plain_total
from sordino.algorithm.gradient_sum import GradientSum, RowSum, SomeRows, StepBatch
from sordino.algorithm.noise_port import ADDED, NoisePort
from sordino.algorithm.parts.projection import on_ball
from sordino.algorithm.records import Records
from sordino.model.base import Model
from sordino.model.contributions import shortened


@dataclass(frozen=True)
class Program:
    """What is compiled in: the model, how its gradients are summed, and how many iterates are kept.

    Where gradients are bounded, `clipped` or by what the spec certifies, each is kept within `Constants.reach`.
    """

    model: Model
    bounded: bool
    clipped: bool
    gradient_sum: GradientSum
    projected: bool
    slots: int
    port: NoisePort = ADDED


class Constants(NamedTuple):
    """The numbers that hold for a whole run."""

    divisor: Array
    reach: Array
    radius: Array


class StepBlock(NamedTuple):
    """The inputs of a block of steps, one leading entry for each; only the first `steps` are made.

    `scales` is the noise on the sum, one column for each chain; `gaussians` has shape (steps, chains, dim); `slots`
    says where an iterate is kept; `records`, `starts` and `counts` are a `BatchBlock`.
    """

    steps: Array
    step_sizes: Array
    scales: Array
    gaussians: Array
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

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, kept = state
        batch = StepBatch(block.records, block.starts[k], block.counts[k])
        total = program.gradient_sum(summed, records, theta, batch)
        return moved(program, constants, theta, total, block, k, kept)

    theta, kept = lax.fori_loop(0, block.steps, step, (theta, kept_buffer(program, theta)))
    return theta, kept[: program.slots]


def kept_buffer(program: Program, theta: Array) -> Array:
    """Room for the iterates a block keeps, and one slot for all the others; nothing where none is kept."""
    return jnp.zeros((program.slots + 1 if program.slots else 0, *theta.shape), theta.dtype)


def moved(
    program: Program, constants: Constants, theta: Array, total: Total, block: StepBlock, k: Array, kept: Array
) -> tuple[Array, Array]:
    """The iterates after step k of the block, given the sums of its gradients, and the buffer with them in it."""
    noised = program.port.added(total, block.scales[k][:, None], -block.gaussians[k])
    drift = noised / constants.divisor + jax.vmap(program.model.penalty_gradient)(theta)
    after = theta - block.step_sizes[k] * drift
    if program.projected:
        after = on_ball(after, constants.radius)
    return after, kept.at[block.slots[k]].set(after) if program.slots else kept


def row_sum(program: Program, constants: Constants) -> RowSum:
    """How one chain's gradients over given rows are summed."""

    def summed(theta: Array, rows: SomeRows) -> Total:
        parts = program.model.record_gradients(theta, rows.features, rows.target, rows.sizes)
        if not program.bounded:
            return plain_total(parts, rows.present)
        within = shortened(parts, constants.reach)
        return grid_total(within, rows.present, constants.reach, cut=not program.clipped)

    return summed
