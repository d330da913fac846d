"""The one compiled kernel of private variational inference: a block of rounds.

    phi <- phi - step * optimiser((sum of clipped gradients + scale * gaussian) / b + penalty part - entropy / n)

Private rows enter through the clipped sum and nowhere else; the optimiser, the limits of the family and the running
average act on what the noise already protects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.algorithm.exact_sums import Total, clipped_total
from sordino.algorithm.noise_port import ADDED, NoisePort
from sordino.algorithm.records import Records, SomeRows
from sordino.algorithm.rounds.feed import RoundBlock
from sordino.algorithm.rounds.rows import RowAccess
from sordino.algorithm.variational.optimiser import State as OptimiserState
from sordino.algorithm.variational.options import VariationalOptions
from sordino.model.base import Model
from sordino.model.contributions import Plain


@dataclass(frozen=True)
class Program:
    """What is compiled in."""

    model: Model
    options: VariationalOptions
    access: RowAccess
    keep: bool
    port: NoisePort = ADDED


class Constants(NamedTuple):
    """The numbers that hold for a whole run; rounds from `averaged_from` on enter the average."""

    clip: Array
    divisor: Array
    records: Array
    averaged_from: Array


class State(NamedTuple):
    """phi, the optimiser's memory, and the sum of the phi that are averaged."""

    phi: Array
    optimiser: OptimiserState
    summed: Array


class VariationalBlock(NamedTuple):
    """A block of rounds with the step size of each and the standard normals its draws are made of."""

    rounds: RoundBlock
    step_sizes: Array
    standards: Array


@partial(jax.jit, static_argnums=0)
def advance(
    program: Program, table: Records, constants: Constants, state: State, block: VariationalBlock
) -> tuple[State, Array]:
    """Make the rounds of a block; also phi after each round where it is kept."""
    length = block.step_sizes.shape[0] if program.keep else 0
    kept = jnp.zeros((length, state.phi.size), state.phi.dtype)

    def one(k: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, kept = carry
        state = _round(program, table, constants, state, block, k)
        return state, lax.dynamic_update_index_in_dim(kept, state.phi, k, 0) if program.keep else kept

    return cast(tuple[State, Array], lax.fori_loop(0, block.rounds.number, one, (state, kept)))


def _round(
    program: Program, table: Records, constants: Constants, state: State, block: VariationalBlock, k: Array
) -> State:
    family, optimiser = program.options.family, program.options.optimiser
    phi, standards = state.phi, block.standards[k]
    step = block.rounds.first + k
    summed = partial(program.access.total, table, block.rounds.batch(k))
    total = clipped_sum(program, phi, standards, constants.clip, summed)
    noised = program.port.added(total, block.rounds.scales[k], block.rounds.gaussians[k])
    drift = noised / constants.divisor + _prior_part(program, phi, standards)
    drift -= family.entropy_gradient(phi) / constants.records
    memory, direction = optimiser.direction(state.optimiser, drift, step)
    moved = family.restrained(phi - block.step_sizes[k] * direction)
    summed = state.summed + jnp.where(step >= constants.averaged_from, moved, 0.0)
    return State(moved, memory, summed)


# The total over a round's rows, of a given size, of a function that sums over some of them.
Summed = Callable[[int, Callable[[SomeRows], Total]], Total]


def clipped_sum(program: Program, phi: Array, standards: Array, clip: Array, summed: Summed) -> Total:
    """The sum over rows of gradients in phi, each averaged over the draws and then shortened to the clip.

    With one draw the gradients in theta are summed, and the sum is lifted. That rounds by 2^-53 of it: for up to 2^29
    records less than what the working bound leaves of the clip.
    """
    family, model = program.options.family, program.model
    if len(standards) == 1:
        standard = standards[0]
        theta, squares = family.theta(phi, standard), family.squares(phi, standard)

        def of_rows(rows: SomeRows) -> Total:
            parts = model.record_gradients(theta, rows.features, rows.target, rows.sizes)
            return clipped_total(parts, rows.present, clip, weights=squares)

        return Total(*(family.lift(phi, standard, part) for part in summed(theta.size, of_rows)))

    def averaged(rows: SomeRows) -> Total:
        def lifted(standard: Array) -> Array:
            gradient = jax.vmap(model.gradient, in_axes=(None, 0, 0))
            found = gradient(family.theta(phi, standard), rows.features, rows.target)
            return jax.vmap(lambda one: family.lift(phi, standard, one))(found)

        return clipped_total((Plain(jnp.mean(jax.vmap(lifted)(standards), axis=0)),), rows.present, clip)

    return summed(phi.size, averaged)


def _prior_part(program: Program, phi: Array, standards: Array) -> Array:
    """The gradient in phi of the expected penalty, at the same draws; no row is read."""
    family = program.options.family

    def at(standard: Array) -> Array:
        return family.lift(phi, standard, program.model.penalty_gradient(family.theta(phi, standard)))

    return jnp.mean(jax.vmap(at)(standards), axis=0)
