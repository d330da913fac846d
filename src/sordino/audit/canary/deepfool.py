"""DeepFool against an ensemble: the smallest push of a row that changes what the ensemble decides.

Moosavi-Dezfooli, Fawzi & Frossard 2016, Algorithm 2: linearise the scores, step to the nearest boundary, repeat. Such a
row, with the target the ensemble has just given up, is fitted by a model only if the model has seen it.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from sordino.audit.canary.class_scores import class_scores, class_targets
from sordino.audit.canary.records import inside_domain
from sordino.core.errors import InputError
from sordino.core.validate import POSITIVE, number, whole_number
from sordino.data.neighbours import Record
from sordino.model.base import Model
from sordino.model.domain import Domain

Scores = Callable[[Array], Array]


def deepfool(
    model: Model, ensemble: ArrayLike, record: Record, domain: Domain, *, overshoot: float = 0.02, steps: int = 50
) -> Record:
    """A canary near `record`: pushed over the ensemble's boundary, target kept as the class it was pushed out of.

    `ensemble` holds one parameter vector a row. The push is made a little longer than needed by `overshoot`, and the
    row is brought back into the public domain afterwards.
    """
    dtype = jnp.zeros(()).dtype
    thetas = jnp.atleast_2d(jnp.asarray(ensemble, dtype))
    row = jnp.asarray(record.features, dtype)
    if thetas.shape[1] != model.dim(len(row)):
        raise InputError(f"Expected {model.dim(len(row))} parameters in each model, got {thetas.shape[1]}.")
    targets = class_targets(model)
    settings = number("overshoot", overshoot, POSITIVE), whole_number("steps", steps)
    pushed, decided = _pushed(model, thetas, row, jnp.asarray(settings[0], dtype), settings[1])
    return inside_domain(Record(np.asarray(pushed, float), targets[int(decided)]), domain)


def ensemble_decision(model: Model, ensemble: ArrayLike, row: ArrayLike) -> int:
    """The class, by its place in `class_targets`, that the mean score of an ensemble decides for."""
    dtype = jnp.zeros(()).dtype
    scores = _mean_scores(model, jnp.atleast_2d(jnp.asarray(ensemble, dtype)))
    return int(jnp.argmax(scores(jnp.asarray(row, dtype))))


def _mean_scores(model: Model, thetas: Array) -> Scores:
    return lambda x: jax.vmap(lambda theta: class_scores(model, theta, x))(thetas).mean(axis=0)


@partial(jax.jit, static_argnums=(0, 4))
def _pushed(model: Model, thetas: Array, row: Array, overshoot: Array, steps: int) -> tuple[Array, Array]:
    scores = _mean_scores(model, thetas)
    decided = jnp.argmax(scores(row))

    def undecided(state: tuple[Array, Array]) -> Array:
        push, step = state
        return (step < steps) & (jnp.argmax(scores(row + (1 + overshoot) * push)) == decided)

    def further(state: tuple[Array, Array]) -> tuple[Array, Array]:
        push, step = state
        at = row + push
        gaps = scores(at) - scores(at)[decided]
        slopes = jax.jacrev(scores)(at)
        slopes = slopes - slopes[decided]
        squares = jnp.sum(slopes * slopes, axis=1)
        distance = jnp.where(squares > 0, jnp.abs(gaps) / jnp.sqrt(jnp.maximum(squares, 1e-30)), jnp.inf)
        nearest = jnp.argmin(distance.at[decided].set(jnp.inf))
        # A hair more than the linear distance, so that a boundary reached exactly is crossed.
        length = (jnp.abs(gaps[nearest]) + 1e-4) / jnp.maximum(squares[nearest], 1e-30)
        return push + length * slopes[nearest], step + 1

    push, _ = lax.while_loop(undecided, further, (jnp.zeros_like(row), jnp.asarray(0)))
    return row + (1 + overshoot) * push, decided
