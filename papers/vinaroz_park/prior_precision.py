"""Equations (14) and (16): the prior precision lambda of the weights, learned with a Gamma prior beside SEP.

Every weight has a prior factor N(w | 0, 1/lambda), which expectation propagation refines like a record's: take its two
messages out, match the moments of lambda, and put the new messages in. A pass over the records and a pass over the
prior factors take turns.
"""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from papers.framework.records import Record, keep
from papers.vinaroz_park import printed
from papers.vinaroz_park.record import (
    FLOOR,
    FOLDER,
    MARKS,
    PASSES,
    SETS,
    Problem,
    Recorded,
    network,
    predictions,
    problem,
    recorded,
    save,
    scores,
)
from papers.vinaroz_park.sets import SPLITS, regression_set
from sordino.models.message_passing.gaussians import GaussianFamily
from sordino.models.message_passing.sites import gamma_message

# Shape and rate of the prior of lambda, as of the noise precision: not published; those of probabilistic
# backpropagation.
HYPERPRIOR = (6.0, 6.0)
READING = "gamma = N, prior precision learned"
# Protein would take an hour.
LEARNED = tuple(name for name in SETS if name != "protein")
FILE = FOLDER / "prior-precision.json"


class PriorFactors(NamedTuple):
    """The messages of the weights' prior factors: to each weight a precision, to lambda (shape, minus rate)."""

    to_weights: Array
    to_lambda: Array

    @property
    def gamma(self) -> Array:
        """Shape and rate of the Gamma posterior of lambda."""
        shape, minus_rate = self.to_lambda.sum(axis=0)
        return jnp.stack([HYPERPRIOR[0] + shape, HYPERPRIOR[1] - minus_rate])


def first_factors(weights: int) -> PriorFactors:
    """Factors N(0, 1) that say nothing of lambda: where the fixed precision of 1 begins too."""
    return PriorFactors(jnp.ones(weights), jnp.zeros((weights, 2)))


@partial(jax.jit, static_argnums=(0,))
def refined(family: GaussianFamily, theta: Array, factors: PriorFactors) -> tuple[Array, PriorFactors]:
    """The posterior and the factors after every prior factor was refined once, weight by weight."""
    linear, precision = theta[: family.dim], theta[family.dim : 2 * family.dim]

    def visit(gamma: Array, one: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        pull, whole, to_weight, to_lambda = one
        cavity = whole - to_weight
        shape, rate = gamma[0] - to_lambda[0], gamma[1] + to_lambda[1]
        message = gamma_message(shape, rate, pull / cavity, 1.0 / cavity)
        proper = (cavity > 0.0) & (shape > 1.0) & (rate > 0.0) & jnp.all(jnp.isfinite(message))
        proper &= (shape + message[0] > 1.0) & (rate > message[1])
        message = jnp.where(proper, message, to_lambda)
        moved = gamma + jnp.where(proper, message - to_lambda, 0.0) * jnp.array([1.0, -1.0])
        return moved, (jnp.where(proper, (shape - 1.0) / rate, to_weight), message)

    _, (to_weights, to_lambda) = lax.scan(visit, factors.gamma, (linear, precision, *factors))
    moved = theta.at[family.dim : 2 * family.dim].add(to_weights - factors.to_weights)
    return moved, PriorFactors(to_weights, to_lambda)


def run_learned(asked: Problem, passes: int = PASSES, seed: int = 0) -> Recorded:
    """SEP from the starts and orders of the row with the precision fixed at 1; `prior_precision` is lambda's mean."""
    chosen = (printed.Setting(printed.SEP, 1.0),)
    found: dict[int, dict[str, np.ndarray]] = {}
    with jax.enable_x64(True):
        site, family, prior = network(asked)
        first = printed.start_vectors(family, prior, len(asked.X), 1.0, seed)
        lanes, state = printed.started(chosen, first, jnp.asarray(asked.X), jnp.asarray(asked.y))
        factors = jax.vmap(lambda _: first_factors(family.dim))(first)
        priors = jnp.broadcast_to(prior, state.theta.shape)
        for number in range(1, passes + 1):
            key = jax.random.fold_in(jax.random.key(seed), number)
            orders = printed.shuffled(np.random.default_rng([seed, number]), asked.records, len(asked.X))
            state = printed.one_pass(site, family, FLOOR, lanes, priors, state, orders, key)
            theta, factors = jax.vmap(partial(refined, family))(state.theta[0], factors)
            priors = priors.at[0, :, family.dim : 2 * family.dim].set(factors.to_weights)
            state = state._replace(theta=theta[None])
            if number in MARKS or number == passes:
                answer = predictions(site, family, state.theta, jnp.asarray(asked.test_rows))
                found[number] = scores(asked, *map(np.asarray, answer))
                shape, rate = jax.vmap(lambda one: one.gamma)(factors).T
                found[number]["prior_precision"] = np.asarray(shape / rate)[None]
    return recorded(asked, printed.SEP, READING, 0, found)


def _made(data_dir: Path | None, folder: Path) -> None:
    if data_dir is not None:
        rows = [run_learned(problem(regression_set(name, data_dir), SPLITS)) for name in LEARNED]
        save(folder / FILE.name, rows, "a processor")


keep(
    Record(
        f"vinaroz_park/recorded/{FILE.name}",
        ("vinaroz-park-regression",),
        _made,
        reads=tuple(file for name in LEARNED for file in (f"{name}.parquet", f"splits/{name}.npz")),
    )
)
