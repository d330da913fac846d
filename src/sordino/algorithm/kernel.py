"""The one compiled kernel: a block of steps of the canonical chain, for all chains at once.

    theta <- Proj[theta - eta * (sum of batch gradients / b + grad r(theta)) + scale * gaussian]

Everything that may change from run to run without changing the amount of work (step sizes, noise, divisor, clipping
bound, radius, number of rows, number of steps) is an argument; only what shapes the work is compiled in.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.algorithm.gradient_sum import GradientSum, RowSum, StepBatch
from sordino.algorithm.noise_port import ADDED, NoisePort
from sordino.algorithm.parts.projection import on_ball
from sordino.algorithm.records import Records
from sordino.core.spec import Clipping, ClippingKind
from sordino.model.base import Model


@dataclass(frozen=True)
class Program:
    """What is compiled in: the model, how its gradients are clipped and summed, and how many iterates are kept."""

    model: Model
    clipping: ClippingKind | None
    gradient_sum: GradientSum
    projected: bool
    slots: int
    port: NoisePort = ADDED


class Constants(NamedTuple):
    """The numbers that hold for a whole run."""

    divisor: Array
    clip_bound: Array
    radius: Array


class StepBlock(NamedTuple):
    """The inputs of a block of steps, one leading entry for each; only the first `steps` are made.

    `scales` has one column for each chain; `gaussians` has shape (steps, chains, dim); `slots` says where an iterate is
    kept; `records`, `starts` and `counts` are a `BatchBlock`.
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
    program: Program, constants: Constants, theta: Array, total: Array, block: StepBlock, k: Array, kept: Array
) -> tuple[Array, Array]:
    """The iterates after step k of the block, given the sums of its gradients, and the buffer with them in it."""
    drift = total / constants.divisor + jax.vmap(program.model.penalty_gradient)(theta)
    after = program.port.added(theta - block.step_sizes[k] * drift, block.scales[k][:, None], block.gaussians[k])
    if program.projected:
        after = on_ball(after, constants.radius)
    return after, kept.at[block.slots[k]].set(after) if program.slots else kept


class _ClippingAsRun(NamedTuple):
    """A clipping whose bound is an argument of the kernel, so that another bound does not compile it again."""

    kind: ClippingKind
    bound: Array


def row_sum(program: Program, constants: Constants) -> RowSum:
    """How one chain's gradients over given rows are summed."""
    kind = program.clipping
    as_run = None if kind is None else _ClippingAsRun(kind, constants.clip_bound)
    # A model reads nothing but the kind and the bound of a clipping; a `Clipping` itself holds plain numbers only.
    clipping = cast("Clipping | None", as_run)
    batch_gradient = program.model.batch_gradient
    return lambda theta, X, y, weights, norms: batch_gradient(theta, X, y, weights, clipping, norms)
