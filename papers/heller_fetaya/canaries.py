"""Canaries for classifiers: rows pushed over a boundary, rows at the edge of the domain, rows that pull hardest.

DeepFool (Moosavi-Dezfooli, Fawzi & Frossard 2016, Algorithm 2) linearises the scores of an ensemble, steps to the
nearest boundary and repeats: the smallest push of a row that changes what the ensemble decides. Such a row, with the
target the ensemble has just given up, is fitted by a model only if the model has seen it.
"""

from collections.abc import Callable, Sequence
from functools import partial, singledispatch

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from sordino.core.spec import Clipping
from sordino.core.validate import POSITIVE, InputError, number, refuse, whole_number
from sordino.data.neighbours import Record
from sordino.models.base import Model
from sordino.models.facts import Domain
from sordino.models.families.classification import Logistic, Probit, Softmax
from sordino.models.families.networks import CLASSES, LeNet5, MLPClassification

Scores = Callable[[Array], Array]


@singledispatch
def class_scores(model: Model, theta: Array, x: Array) -> Array:
    """Scores of all classes for one row, shape (classes,); the largest decides."""
    del theta, x
    raise refuse("the model", "to be a classifier", type(model).__name__)


@singledispatch
def class_targets(model: Model) -> tuple[float, ...]:
    """The target that stands for each class, in the order of the scores."""
    raise refuse("the model", "to be a classifier", type(model).__name__)


@class_scores.register
def _(model: Softmax, theta: Array, x: Array) -> Array:
    return x @ theta.reshape(-1, model.classes)


@class_scores.register(LeNet5)
@class_scores.register(MLPClassification)
def _(model: LeNet5 | MLPClassification, theta: Array, x: Array) -> Array:
    return model.predict(theta, x)


@class_scores.register(Logistic)
@class_scores.register(Probit)
def _(model: Logistic | Probit, theta: Array, x: Array) -> Array:
    del model
    return jnp.array([-0.5, 0.5], x.dtype) * jnp.vdot(x, theta)


@class_targets.register(Softmax)
@class_targets.register(MLPClassification)
def _(model: Softmax | MLPClassification) -> tuple[float, ...]:
    return tuple(float(code) for code in range(model.classes))


@class_targets.register
def _(model: LeNet5) -> tuple[float, ...]:
    del model
    return tuple(float(code) for code in range(CLASSES))


@class_targets.register(Logistic)
@class_targets.register(Probit)
def _(model: Logistic | Probit) -> tuple[float, ...]:
    del model
    return (-1.0, 1.0)


def inside_domain(record: Record, domain: Domain) -> Record:
    """The nearest record of the public domain: what encoding makes of a record that lies outside of it."""
    row = np.asarray(record.features, float)
    if row.shape != (domain.features,) or not np.isfinite(row).all() or not np.isfinite(record.target):
        raise InputError(f"Expected {domain.features} finite features and a finite target, got shape {row.shape}.")
    length = float(np.linalg.norm(row))
    cap = domain.row_norm.value
    shortened = row if length <= cap else row * (cap / length) * (1 - 1e-12)
    return Record(shortened, _target_inside(record.target, domain))


def out_of_range(domain: Domain, directions: ArrayLike, targets: Sequence[float]) -> tuple[Record, ...]:
    """Records far outside the domain along each direction, with each target, brought back to its edge."""
    rows = np.atleast_2d(np.asarray(directions, float))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if (lengths == 0).any():
        raise InputError("Expected directions that are not zero, got one that is.")
    far: NDArray[np.float64] = 1e6 * domain.row_norm.value * rows / lengths
    return tuple(inside_domain(Record(row, target), domain) for row in far for target in targets)


def _target_inside(target: float, domain: Domain) -> float:
    if domain.target_bound is None:
        codes = np.arange(domain.classes) if domain.classes is not None else np.array([target])
        return float(codes[np.argmin(np.abs(codes - target))])
    bound = domain.target_bound.value
    inside = float(np.clip(target, -bound, bound))
    return inside if domain.classes is None else bound * (1.0 if inside >= 0 else -1.0)


def gradients_as_run(
    model: Model, thetas: ArrayLike, records: tuple[Record, ...], clipping: Clipping | None
) -> NDArray[np.float64]:
    """The gradients that the kernel would add up, clipped as it clips them, shape (records, thetas, dim)."""
    if not records:
        raise InputError("Expected at least one record, got none.")
    dtype = jnp.zeros(()).dtype
    rows = jnp.asarray(np.stack([record.features for record in records]), dtype)
    targets = jnp.asarray([record.target for record in records], dtype)
    points = jnp.atleast_2d(jnp.asarray(thetas, dtype))
    return np.asarray(_gradients(model, clipping, points, rows, targets), float)


def longest_gradient(model: Model, thetas: ArrayLike, records: tuple[Record, ...], clipping: Clipping | None) -> Record:
    """The record that pulls hardest on average over some public points: the canary for add-remove."""
    pulls = np.linalg.norm(gradients_as_run(model, thetas, records, clipping), axis=-1).mean(axis=1)
    return records[int(np.argmax(pulls))]


def most_distant_gradients(
    model: Model, thetas: ArrayLike, records: tuple[Record, ...], clipping: Clipping | None
) -> tuple[Record, Record]:
    """The two records whose pulls differ most on average over some public points: the canaries for replace-one."""
    gradients = gradients_as_run(model, thetas, records, clipping)
    distances = np.linalg.norm(gradients[:, None] - gradients[None], axis=-1).mean(axis=-1)
    first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
    return records[int(first)], records[int(second)]


@partial(jax.jit, static_argnums=(0, 1))
def _gradients(model: Model, clipping: Clipping | None, points: Array, rows: Array, targets: Array) -> Array:
    def gradient(x: Array, y: Array, theta: Array) -> Array:
        return model.batch_gradient(theta, x[None], y[None], jnp.ones(1, x.dtype), clipping)

    over_points = jax.vmap(gradient, in_axes=(None, None, 0))
    return jax.vmap(over_points, in_axes=(0, 0, None))(rows, targets, points)


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
