"""The one compiled kernel of stochastic expectation propagation: a block of rounds.

    s <- s + gain (decode(sum of clipped messages + scale * gaussian) - count s / N),   theta = theta_0 + s

s is the sum of all messages, N times the average one. Private rows enter through the clipped sum and nowhere else.
Sequential runs are batches of one. Additions to s are compensated (Kahan), because one step is far smaller than s.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.algorithm.exact_sums import Total, clipped_total, plain_total
from sordino.algorithm.message_passing.options import Refinement
from sordino.algorithm.noise_port import ADDED, NoisePort
from sordino.algorithm.records import Records, SomeRows
from sordino.algorithm.rounds.feed import RoundBlock
from sordino.algorithm.rounds.rows import RowAccess
from sordino.model.sites.base import Site, shortening
from sordino.model.sites.families import Family, Moments

# Posteriors are released in single precision, and means are parts of these over a small precision.
_LARGEST = 1e30


@dataclass(frozen=True)
class Program:
    """What is compiled in."""

    site: Site
    family: Family
    refinement: Refinement
    access: RowAccess
    keep: bool
    clipped: bool = True
    port: NoisePort = ADDED


class Constants(NamedTuple):
    """The numbers that hold for a whole run; the clip is infinite where none is wanted."""

    prior: Array
    records: Array
    clip: Array


class MessageBlock(NamedTuple):
    """A block of rounds, with what multiplies each round's sum and how many records it is expected to sum."""

    rounds: RoundBlock
    gains: Array
    expected: Array


class State(NamedTuple):
    """The sum of messages, what rounding lost of it, the velocity, and the repairs so far: rounds and eigenvalues."""

    messages: Array
    lost: Array
    velocity: Array
    repairs: Array


def first_state(messages: Array) -> State:
    """The state of a run that begins with this sum of messages."""
    return State(messages, jnp.zeros_like(messages), jnp.zeros_like(messages), jnp.zeros(2, jnp.int32))


@partial(jax.jit, static_argnums=0)
def advance(
    program: Program, table: Records, constants: Constants, state: State, block: MessageBlock
) -> tuple[State, Array]:
    """Make the rounds of a block; also the natural vectors after each round where they are kept."""
    length = block.gains.shape[0] if program.keep else 0
    kept = jnp.zeros((length, constants.prior.shape[0]), constants.prior.dtype)

    def one(k: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, kept = carry
        state = round_of(program, table, constants, state, block, k)
        if program.keep:
            kept = lax.dynamic_update_index_in_dim(kept, constants.prior + state.messages, k, 0)
        return state, kept

    return cast(tuple[State, Array], lax.fori_loop(0, block.rounds.number, one, (state, kept)))


def round_of(
    program: Program, table: Records, constants: Constants, state: State, block: MessageBlock, k: Array
) -> State:
    """One round."""
    family, refinement = program.family, program.refinement
    coordinates, repair = refinement.coordinates, refinement.repair
    before, count = state.messages, block.expected[k]
    cavity = family.moments(constants.prior + before * (1.0 - 1.0 / constants.records))
    total = program.access.total(
        table, block.rounds.batch(k), family.size, partial(_clipped_sum, program, cavity, constants.clip)
    )
    noised = program.port.added(total, block.rounds.scales[k], block.rounds.gaussians[k])
    target = coordinates.decode(family, cavity, noised, count, refinement.kept_range)
    velocity = refinement.momentum * state.velocity + (target - count / constants.records * before)
    step = block.gains[k] * velocity + state.lost
    moved = before + step
    lost = step - (moved - before)
    repaired, number = repair(family, constants.prior + moved, constants.prior + before)
    messages = jnp.where(number > 0, repaired - constants.prior, moved)
    # A round that overflowed, or is about to, is taken back, and counted like any other repair.
    finite = jnp.all(jnp.abs(messages) <= _LARGEST)
    messages, lost, velocity = (
        jnp.where(finite, value, kept)
        for value, kept in ((messages, before), (lost, jnp.zeros_like(lost)), (velocity, jnp.zeros_like(velocity)))
    )
    number = jnp.where(finite, number, family.size)
    if coordinates.bounds_factor:
        messages *= shortening(messages, constants.clip * constants.records)
    repairs = state.repairs + jnp.stack([number > 0, number]).astype(jnp.int32)
    return State(messages, lost, velocity, repairs)


def _clipped_sum(program: Program, cavity: Moments, clip: Array, rows: SomeRows) -> Total:
    refinement = program.refinement
    parts = refinement.coordinates.parts(program.site, program.family, cavity, rows, refinement.kept_range)
    return clipped_total(parts, rows.present, clip) if program.clipped else plain_total(parts, rows.present)
