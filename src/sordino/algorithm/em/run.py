"""Run a described expectation-maximisation spec on private rows: the spec that runs is the spec that is certified."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from sordino.algorithm.em.kernel import Constants, Program, State, advance
from sordino.algorithm.em.options import EmOptions
from sordino.algorithm.em.release import EmRelease
from sordino.algorithm.exact_sums import checked_bound, in_doubles, in_precision
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.algorithm.records import checked_rows
from sordino.algorithm.rounds.feed import RoundFeed
from sordino.algorithm.rounds.rows import load_table
from sordino.core.spec import ExpectationMaximisation, Spec
from sordino.core.validate import instance_of, refuse
from sordino.core.view import View
from sordino.model.mixture import GaussianMixture


def run_em(
    spec: Spec, model: GaussianMixture, features: Any, randomness: Randomness, *, options: EmOptions
) -> EmRelease:
    """Fit the means of a mixture, and its weights where asked, by noised expected statistics. Options are public."""
    instance_of("spec", spec, Spec)
    instance_of("model", model, GaussianMixture)
    instance_of("randomness", randomness, Randomness)
    algorithm = instance_of("spec.algorithm", spec.algorithm, ExpectationMaximisation)
    components = len(model.weights)
    if algorithm.components != components:
        raise refuse("algorithm.components", f"to be the {components} of the model", algorithm.components)
    X, y = checked_rows(features, np.zeros(len(np.asarray(features))))
    checked_bound("algorithm.clip", algorithm.clip)
    growth = algorithm.records / algorithm.batch_size
    keep, kept = spec.view == View.ALL_ITERATES, list[np.ndarray]()
    with in_doubles() as dtype:
        feed = RoundFeed(spec, algorithm, len(X), randomness, dtype)
        constants = Constants(*(jnp.asarray(value, float) for value in (algorithm.clip, growth, algorithm.records)))
        state = _first(model, options, X.shape[1], randomness, dtype)
        table = load_table(X, y, dtype)
        for access, block in feed.blocks(components * (1 + X.shape[1])):
            program = Program(model, options, access, keep, randomness.port)
            state, means = advance(program, table, constants, state, block)
            if keep:
                kept.append(in_precision(means, dtype)[: int(block.number)])
    return EmRelease(
        spec,
        model,
        options,
        in_precision(state.means, dtype),
        in_precision(state.weights, dtype),
        np.clip(in_precision(state.counts, dtype), options.least_count, algorithm.records),
        _noise_left(feed.sum_noise * growth, options.rate),
        np.concatenate(kept) if keep else None,
    )


def _first(model: GaussianMixture, options: EmOptions, features: int, randomness: Randomness, dtype: Any) -> State:
    components = len(model.weights)
    drawn = randomness.gaussians(Purpose.START, 0, 1, (components, features), dtype)[0].astype(jnp.float64)
    zeros = jnp.zeros(components)
    return State(
        options.start_scale * drawn, jnp.asarray(model.weights, float), zeros, jnp.zeros((components, features))
    )


def _noise_left(scales: np.ndarray, rate: float) -> float:
    """The standard deviation of the noise in the running statistics after the last round."""
    shares = rate * (1.0 - rate) ** np.arange(len(scales) - 1, -1, -1, dtype=np.float64)
    shares[0] = (1.0 - rate) ** (len(scales) - 1)
    return float(np.sqrt(np.sum((shares * scales) ** 2)))
