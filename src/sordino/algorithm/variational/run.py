"""Run a described variational spec on private rows: the spec that runs is the spec that is certified."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.algorithm.exact_sums import checked_bound, in_doubles, in_precision
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.algorithm.records import checked_rows
from sordino.algorithm.rounds.feed import RoundFeed, part
from sordino.algorithm.rounds.rows import load_table
from sordino.algorithm.variational.kernel import Constants, Program, State, VariationalBlock, advance
from sordino.algorithm.variational.options import VariationalOptions
from sordino.algorithm.variational.release import VariationalRelease
from sordino.core.spec import Spec, Variational
from sordino.core.validate import instance_of
from sordino.core.view import View
from sordino.model.base import Model


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
