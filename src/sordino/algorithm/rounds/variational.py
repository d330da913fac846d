"""The one compiled kernel of private variational inference: a block of rounds.

    phi <- phi - step * optimiser((sum of clipped gradients + scale * gaussian) / b + penalty part - entropy / n)

Private rows enter through the clipped sum and nowhere else; the optimiser, the limits of the family and the running
average act on what the noise already protects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from sordino.algorithm.chain.kernel import Records, SomeRows, checked_rows
from sordino.algorithm.noise.exact_sums import Total, checked_bound, clipped_total, in_doubles, in_precision
from sordino.algorithm.noise.randomness import ADDED, NoisePort, Purpose, Randomness
from sordino.algorithm.posterior.base import Posterior
from sordino.algorithm.rounds.loop import RoundBlock, RoundFeed, RowAccess, load_table, part
from sordino.algorithm.rounds.variational_family import State as OptimiserState
from sordino.algorithm.rounds.variational_family import VariationalFamily, VariationalOptions
from sordino.core.bound import View
from sordino.core.spec import Spec, Variational
from sordino.core.validate import instance_of
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


# What leaves variational inference: the family's parameters and the spec that ran.

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class VariationalRelease:
    """A private posterior; `spec` is the very object that ran, and that is certified.

    `iterates` holds phi after every round where the view is all-iterates, and is None otherwise.
    """

    spec: Spec
    model: Model
    family: VariationalFamily
    phi: Values
    iterates: Values | None

    def __post_init__(self) -> None:
        for name in ("phi", "iterates"):
            values = getattr(self, name)
            if values is not None:
                own = np.array(values)
                own.setflags(write=False)
                object.__setattr__(self, name, own)

    @property
    def posterior(self) -> Posterior:
        """The approximate posterior."""
        return self.family.posterior(self.model, self.phi)


# Run a described variational spec on private rows: the spec that runs is the spec that is certified.


def run_variational(
    spec: Spec, model: Model, features: Any, target: Any, randomness: Randomness, *, options: VariationalOptions
) -> VariationalRelease:
    """Fit the family to the posterior of a model by clipped noisy gradients, and release its parameters.

    The objective is the mean loss plus the model's penalty, expected under the family, minus the family's entropy over
    the number of records: with a weight decay of prior precision / n, the evidence bound over n. Options are public.
    """
    instance_of("spec", spec, Spec)
    instance_of("model", model, Model)
    instance_of("randomness", randomness, Randomness)
    algorithm = instance_of("spec.algorithm", spec.algorithm, Variational)
    X, y = checked_rows(features, target)
    checked_bound("algorithm.clip", algorithm.clip)
    dim, keep = model.dim(X.shape[1]), spec.view == View.ALL_ITERATES
    averaged = int(options.averaged * algorithm.steps)
    step_sizes, kept = algorithm.step_size.values(algorithm.steps), list[np.ndarray]()
    with in_doubles() as dtype:
        feed = RoundFeed(spec, algorithm, len(X), randomness, dtype)
        constants = Constants(
            jnp.asarray(algorithm.clip, float),
            jnp.asarray(algorithm.batch_size, float),
            jnp.asarray(algorithm.records, float),
            jnp.asarray(algorithm.steps - averaged, jnp.int32),
        )
        state, table = _first(options, dim, randomness, dtype), load_table(X, y, dtype)
        for access, rounds in feed.blocks(options.family.size(dim)):
            first, length = int(rounds.first), len(rounds.scales)
            block = VariationalBlock(
                rounds,
                jnp.asarray(part(step_sizes, first, length), float),
                randomness.gaussians(Purpose.DRAWS, first, length, (options.draws, dim), dtype),
            )
            program = Program(model, options, access, keep, randomness.port)
            state, vectors = advance(program, table, constants, state, block)
            if keep:
                kept.append(in_precision(vectors, dtype)[: int(rounds.number)])
        phi = in_precision(state.summed / averaged if averaged else state.phi, dtype)
    return VariationalRelease(spec, model, options.family, phi, np.concatenate(kept) if keep else None)


def _first(options: VariationalOptions, dim: int, randomness: Randomness, dtype: Any) -> State:
    mean: Array = jnp.zeros(dim)
    if options.start_scale > 0.0:
        mean = options.start_scale * randomness.gaussians(Purpose.START, 0, 1, (dim,), dtype)[0].astype(jnp.float64)
    phi = options.family.first(mean)
    return State(phi, options.optimiser.first(phi), jnp.zeros_like(phi))
