"""The one compiled kernel of private expectation maximisation: a block of rounds.

A record contributes (w gamma, gamma x): its responsibilities gamma, which sum to 1, and their products with the row.
The stacked vector is shortened to the clip, summed over the round's rows, and noised; counts and sums of the
components follow from the noised vector, and so does everything else.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array, lax

from sordino.algorithm.em.options import EmOptions
from sordino.algorithm.exact_sums import Total, clipped_total
from sordino.algorithm.noise_port import ADDED, NoisePort
from sordino.algorithm.records import Records, SomeRows
from sordino.algorithm.rounds.feed import RoundBlock
from sordino.algorithm.rounds.rows import RowAccess
from sordino.model.contributions import Parts, Plain, WholeRows, outer, products, whole_rows
from sordino.model.mixture import GaussianMixture


@dataclass(frozen=True)
class Program:
    """What is compiled in."""

    model: GaussianMixture
    options: EmOptions
    access: RowAccess
    keep: bool
    port: NoisePort = ADDED


class Constants(NamedTuple):
    """The numbers that hold for a whole run; `growth` is N over the expected size of a round."""

    clip: Array
    growth: Array
    records: Array


class State(NamedTuple):
    """Means, mixing weights, and the running statistics for all N records: counts and sums."""

    means: Array
    weights: Array
    counts: Array
    sums: Array


@partial(jax.jit, static_argnums=0)
def advance(
    program: Program, table: Records, constants: Constants, state: State, block: RoundBlock
) -> tuple[State, Array]:
    """Make the rounds of a block; also the means after each round where they are kept."""
    length = block.scales.shape[0] if program.keep else 0
    kept = jnp.zeros((length, state.means.size), state.means.dtype)

    def one(k: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, kept = carry
        state = _round(program, table, constants, state, block, k)
        return state, lax.dynamic_update_index_in_dim(kept, state.means.ravel(), k, 0) if program.keep else kept

    return cast(tuple[State, Array], lax.fori_loop(0, block.number, one, (state, kept)))


def contributions(program: Program, state: State, rows: WholeRows) -> Parts:
    """What each row contributes, unclipped: weighted responsibilities, then their products with the row."""
    precision = 1.0 / program.model.spread**2
    # |x - m|^2 without |x|^2, which all components share.
    likely = (products(rows, state.means.T) - 0.5 * jnp.sum(state.means**2, axis=1)) * precision
    shares = jax.nn.softmax(jnp.log(state.weights) + likely, axis=-1)
    return Plain(program.options.count_weight * shares), outer(rows, shares, transposed=True)


def statistics(program: Program, state: State, clip: Array, rows: SomeRows) -> Total:
    """The sum of the clipped contributions of some rows, flat: weighted counts, then sums of each component."""
    return clipped_total(contributions(program, state, whole_rows(rows.features, rows.sizes)), rows.present, clip)


def _round(program: Program, table: Records, constants: Constants, state: State, block: RoundBlock, k: Array) -> State:
    options, components = program.options, state.weights.size
    size = components * (1 + state.means.shape[1])
    total = program.access.total(table, block.batch(k), size, partial(statistics, program, state, constants.clip))
    noised = constants.growth * program.port.added(total, block.scales[k], block.gaussians[k])
    # The first round has nothing to average with.
    rate = jnp.where(block.first + k == 0, 1.0, options.rate)
    counts = (1.0 - rate) * state.counts + rate * noised[:components] / options.count_weight
    sums = (1.0 - rate) * state.sums + rate * noised[components:].reshape(components, -1)
    held = jnp.clip(counts, options.least_count, constants.records)
    pull = options.prior_precision * program.model.spread**2
    means = sums / (held + pull)[:, None]
    weights = held / jnp.sum(held) if options.learn_weights else state.weights
    return State(means, weights, counts, sums)
