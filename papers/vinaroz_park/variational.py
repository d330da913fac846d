"""VI and DP-VI of Appendix D with the settings of Tables 6 and 7, and the point estimates of Table 5, as lanes.

The network is y = w1 [relu(W0 [x, 1]), 1]. W0 is drawn L times a step; w1 is integrated out in closed form (equation
121). DP-VI shortens every record's gradient to C and adds noise of deviation sigma C to their sum. The paper prints
neither the optimiser, nor whether a batch's gradients are summed or averaged, nor where a run starts, so the optimiser
and the scale are readings of their own: every one is run.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

VI, DP_VI, DP_VI_CORRECTED, POINT = "VI", "DP-VI, printed sigma", "DP-VI, sigma for epsilon 1", "point estimate"
AVERAGED, SUMMED, ADAM = "gradient descent, averaged", "gradient descent, summed", "Adam"
READINGS = (AVERAGED, SUMMED, ADAM)
# Where runs start, which is not published: means of the size that keeps a layer's scale, and this deviation.
FIRST_DEVIATION = 0.05
_KEPT, _KEPT_SQUARES, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Reading:
    """One lane's choices: an algorithm, an optimiser with its step, and noise over the clip where it is private."""

    name: str
    optimiser: str
    step: float
    beta: float
    clip: float = math.inf
    noise: float = 0.0

    @property
    def spread(self) -> float:
        """1 where weights have a law, 0 for a point estimate."""
        return 0.0 if self.name == POINT else 1.0


class Weights(NamedTuple):
    """Means and log deviations of W0 (hidden, features + 1) and w1 (hidden + 1)."""

    inner: Array
    inner_log: Array
    outer: Array
    outer_log: Array


class Lanes(NamedTuple):
    """The numbers of every reading, shape (readings,)."""

    step: Array
    adam: Array
    beta: Array
    clip: Array
    noise: Array
    spread: Array


class State(NamedTuple):
    """Weights (readings, splits, ...), and Adam's two averages."""

    weights: Weights
    first: Weights
    second: Weights
    steps: Array


class Model(NamedTuple):
    """What all lanes share: the precision of the noise and of the prior."""

    noise_precision: Array | float
    prior_precision: Array | float


def started(
    chosen: tuple[Reading, ...], batch: int, splits: int, hidden: int, features: int, seed: int
) -> tuple[Lanes, State]:
    """Lanes and their first state."""
    generator = np.random.default_rng([seed, 29])
    inner = generator.standard_normal((splits, hidden, features + 1)) / math.sqrt(features + 1)
    outer = generator.standard_normal((splits, hidden + 1)) / math.sqrt(hidden + 1)
    logs = [np.full_like(part, math.log(FIRST_DEVIATION)) for part in (inner, outer)]
    parts = (inner, logs[0], outer, logs[1])
    weights = Weights(*(jnp.asarray(np.broadcast_to(part, (len(chosen), *part.shape)), jnp.float32) for part in parts))
    none = jax.tree.map(jnp.zeros_like, weights)
    rows = [
        (
            one.step * (batch if one.optimiser == SUMMED else 1.0),
            float(one.optimiser == ADAM),
            one.beta,
            one.clip,
            one.noise,
            one.spread,
        )
        for one in chosen
    ]
    lanes = Lanes(*(jnp.asarray(column, jnp.float32) for column in zip(*rows, strict=True)))
    return lanes, State(weights, none, none, jnp.zeros((), jnp.float32))


@partial(jax.jit, static_argnums=0)
def one_pass(
    draws: int, model: Model, lanes: Lanes, X: Array, y: Array, orders: Array, state: State, key: Array
) -> State:
    """One pass; X (splits, records, features), y (splits, records), and the batches' rows (rounds, splits, batch).

    Draws of weights and noise are shared by the readings of a split.
    """
    splits, records = y.shape
    shape = state.weights.inner.shape[2:]
    size = 2 * (math.prod(shape) + state.weights.outer.shape[2])

    def round_of(state: State, given: tuple[Array, Array]) -> tuple[State, None]:
        order, key = given
        rows = jax.vmap(lambda values, chosen: values[chosen])(X, order)
        targets = jax.vmap(lambda values, chosen: values[chosen])(y, order)
        drawn = jax.random.normal(key, (splits, draws * math.prod(shape) + size))
        gradient = partial(_gradient, draws, model, records)
        over_splits = jax.vmap(gradient, (None, 0, 0, 0, 0))
        found = jax.vmap(over_splits, (0, 0, None, None, None))(lanes, state.weights, rows, targets, drawn)
        return _moved(lanes, state, found), None

    return lax.scan(round_of, state, (orders, jax.random.split(key, len(orders))))[0]


def batches(generator: np.random.Generator, records: int, splits: int, batch: int) -> Array:
    """A shuffled pass of every split in whole batches, (rounds, splits, batch); a last short batch is left out."""
    rounds = records // batch
    orders = np.stack([generator.permutation(records)[: rounds * batch] for _ in range(splits)])
    return jnp.asarray(orders.reshape(splits, rounds, batch).swapaxes(0, 1))


def _gradient(
    draws: int, model: Model, records: int, lane: Lanes, weights: Weights, X: Array, y: Array, drawn: Array
) -> Weights:
    """The average over a batch of shortened gradients, with noise, and the share of beta KL that a record has."""
    inner, added = jnp.split(drawn, [draws * weights.inner.size])
    per_record = record_gradients(model, weights, X, y, inner.reshape(draws, *weights.inner.shape), lane.spread)
    lengths = jnp.sqrt(sum(jnp.sum(part**2, axis=tuple(range(1, part.ndim))) for part in per_record))
    kept = jnp.minimum(1.0, lane.clip / jnp.maximum(lengths, jnp.finfo(jnp.float32).tiny))
    scale = jnp.where(lane.noise > 0.0, lane.noise * lane.clip, 0.0)
    ends = np.cumsum([part.size for part in weights])[:-1].tolist()
    noise = jnp.split(added, ends)
    noised = [
        jnp.tensordot(kept, part, 1) + scale * one.reshape(part.shape[1:])
        for part, one in zip(per_record, noise, strict=True)
    ]
    # The Kullback-Leibler divergence from the prior, equation (117): lambda m, and lambda v - 1 in a log deviation.
    share, known = lane.beta / records, model.prior_precision
    prior = (
        known * weights.inner,
        known * jnp.exp(2.0 * weights.inner_log) - 1.0,
        known * weights.outer,
        known * jnp.exp(2.0 * weights.outer_log) - 1.0,
    )
    return Weights(*(part / len(y) + share * pull for part, pull in zip(noised, prior, strict=True)))


def record_gradients(
    model: Model, weights: Weights, X: Array, y: Array, draws: Array, spread: Array | float
) -> Weights:
    """Every record's gradient of minus the expected log-likelihood (121), records in front."""
    rows = _with_one(X)
    deviation, variance = spread * jnp.exp(weights.inner_log), spread * jnp.exp(2.0 * weights.outer_log)
    inputs = jnp.einsum("bd,lhd->lbh", rows, weights.inner + deviation * draws)
    units = _with_one(jnp.maximum(inputs, 0.0))
    left = y - units @ weights.outer
    precision = model.noise_precision
    by_input = precision * (-left[..., None] * weights.outer[:-1] + units[..., :-1] * variance[:-1]) * (inputs > 0.0)
    inner = jnp.mean(by_input, axis=0)[:, :, None] * rows[:, None, :]
    inner_log = jnp.einsum("lbh,lhd->bhd", by_input, draws) / len(draws) * rows[:, None, :] * deviation
    outer = -precision * jnp.mean(left[..., None] * units, axis=0)
    outer_log = precision * jnp.mean(units**2, axis=0) * variance
    return Weights(inner, inner_log, outer, outer_log)


def _moved(lanes: Lanes, state: State, found: Weights) -> State:
    steps = state.steps + 1.0
    first = jax.tree.map(lambda old, new: _KEPT * old + (1.0 - _KEPT) * new, state.first, found)
    second = jax.tree.map(lambda old, new: _KEPT_SQUARES * old + (1.0 - _KEPT_SQUARES) * new**2, state.second, found)

    def moved(value: Array, plain: Array, mean: Array, square: Array) -> Array:
        wide = (-1, *(1,) * (value.ndim - 1))
        mean, square = mean / (1.0 - _KEPT**steps), square / (1.0 - _KEPT_SQUARES**steps)
        scaled = mean / (jnp.sqrt(square) + _TINY)
        direction = jnp.where(lanes.adam.reshape(wide) > 0.0, scaled, plain)
        return value - lanes.step.reshape(wide) * direction

    return State(jax.tree.map(moved, state.weights, found, first, second), first, second, steps)


@jax.jit
def predicted(model: Model, lanes: Lanes, weights: Weights, X: Array, draws: Array) -> tuple[Array, Array]:
    """Mean and variance of every test target, (readings, splits, rows), the noise of an observation included."""

    def one(lane: Lanes, weights: Weights, X: Array) -> tuple[Array, Array]:
        inner = weights.inner + lane.spread * jnp.exp(weights.inner_log) * draws
        units = _with_one(jnp.maximum(jnp.einsum("bd,lhd->lbh", _with_one(X), inner), 0.0))
        means = units @ weights.outer
        inside = jnp.mean(units**2 @ (lane.spread * jnp.exp(2.0 * weights.outer_log)), axis=0)
        return jnp.mean(means, axis=0), inside + jnp.var(means, axis=0) + 1.0 / model.noise_precision

    over_splits = jax.vmap(one, (None, 0, 0))
    return lax.map(lambda given: over_splits(given[0], given[1], X), (lanes, weights))


def _with_one(rows: Array) -> Array:
    return jnp.concatenate([rows, jnp.ones((*rows.shape[:-1], 1), rows.dtype)], axis=-1)
