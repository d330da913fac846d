"""DeepFool canaries: a record of D pushed until a whole ensemble of its models gets it wrong, its label kept.

DeepFool (Moosavi-Dezfooli, Fawzi & Frossard 2016, Algorithm 2) linearises the scores of an ensemble, steps to the
nearest boundary and repeats: the smallest push of a row that changes what the ensemble decides. A model that has not
seen such a record misclassifies it; one that has learns it, as nothing else in the data asks for the same (Heller &
Fetaya 2023, Section V). The ensemble is never part of the fleet that is attacked.
"""

from collections.abc import Callable, Iterator
from functools import partial, singledispatch

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from sordino.auditing.attack.experiment import chain_of
from sordino.auditing.fleet.engine import train_fleet
from sordino.auditing.fleet.plan import FleetRecords, Members, plan_of
from sordino.core.spec import DeepFoolNeighbour, Spec
from sordino.core.validate import POSITIVE, InputError, number, refuse, whole_number
from sordino.data import Category, Dataset, EncodedRecord, NeighbourPair, Schema, clip_rows, neighbours
from sordino.models.base import Model
from sordino.models.facts import Domain
from sordino.models.families.classification import Logistic, Probit, Softmax
from sordino.models.families.networks import MLPClassification

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


@class_scores.register
def _(model: MLPClassification, theta: Array, x: Array) -> Array:
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


@class_targets.register(Logistic)
@class_targets.register(Probit)
def _(model: Logistic | Probit) -> tuple[float, ...]:
    del model
    return (-1.0, 1.0)


def inside_domain(record: EncodedRecord, domain: Domain) -> EncodedRecord:
    """The nearest record of the public domain: what encoding makes of a record that lies outside of it."""
    row = np.asarray(record.features, float)
    if row.shape != (domain.features,) or not np.isfinite(row).all() or not np.isfinite(record.target):
        raise InputError(f"Expected {domain.features} finite features and a finite target, got shape {row.shape}.")
    length = float(np.linalg.norm(row))
    cap = domain.row_norm.value
    shortened = row if length <= cap else row * (cap / length) * (1 - 1e-12)
    return EncodedRecord(shortened, _target_inside(record.target, domain))


def _target_inside(target: float, domain: Domain) -> float:
    if domain.target_bound is None:
        codes = np.arange(domain.classes) if domain.classes is not None else np.array([target])
        return float(codes[np.argmin(np.abs(codes - target))])
    bound = domain.target_bound.value
    inside = float(np.clip(target, -bound, bound))
    return inside if domain.classes is None else bound * (1.0 if inside >= 0 else -1.0)


def deepfool(
    model: Model,
    ensemble: ArrayLike,
    record: EncodedRecord,
    domain: Domain,
    *,
    overshoot: float = 0.02,
    steps: int = 50,
    movable: ArrayLike = 1.0,
) -> EncodedRecord:
    """A canary near `record`: pushed over the ensemble's boundary, target kept as the class it was pushed out of.

    `ensemble` holds one parameter vector a row. The push is made a little longer than needed by `overshoot`, and the
    row is brought back into the public domain afterwards. Where `movable` is 0, a coordinate stays as it is.
    """
    dtype = jnp.zeros(()).dtype
    thetas = jnp.atleast_2d(jnp.asarray(ensemble, dtype))
    row = jnp.asarray(record.features, dtype)
    if thetas.shape[1] != model.dim(len(row)):
        raise InputError(f"Expected {model.dim(len(row))} parameters in each model, got {thetas.shape[1]}.")
    targets = class_targets(model)
    settings = number("overshoot", overshoot, POSITIVE), whole_number("steps", steps)
    pushed, decided = _pushed(
        model, thetas, row, jnp.asarray(settings[0], dtype), settings[1], jnp.asarray(movable, dtype)
    )
    return inside_domain(EncodedRecord(np.asarray(pushed, float), targets[int(decided)]), domain)


def ensemble_decision(model: Model, ensemble: ArrayLike, row: ArrayLike) -> int:
    """The class, by its place in `class_targets`, that the mean score of an ensemble decides for."""
    dtype = jnp.zeros(()).dtype
    scores = _mean_scores(model, jnp.atleast_2d(jnp.asarray(ensemble, dtype)))
    return int(jnp.argmax(scores(jnp.asarray(row, dtype))))


def _mean_scores(model: Model, thetas: Array) -> Scores:
    return lambda x: jax.vmap(lambda theta: class_scores(model, theta, x))(thetas).mean(axis=0)


@partial(jax.jit, static_argnums=(0, 4))
def _pushed(
    model: Model, thetas: Array, row: Array, overshoot: Array, steps: int, movable: Array
) -> tuple[Array, Array]:
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
        slopes = movable * (slopes - slopes[decided])
        squares = jnp.sum(slopes * slopes, axis=1)
        distance = jnp.where(squares > 0, jnp.abs(gaps) / jnp.sqrt(jnp.maximum(squares, 1e-30)), jnp.inf)
        nearest = jnp.argmin(distance.at[decided].set(jnp.inf))
        # A hair more than the linear distance, so that a boundary reached exactly is crossed.
        length = (jnp.abs(gaps[nearest]) + 1e-4) / jnp.maximum(squares[nearest], 1e-30)
        return push + length * slopes[nearest], step + 1

    push, _ = lax.while_loop(undecided, further, (jnp.zeros_like(row), jnp.asarray(0)))
    return row + (1 + overshoot) * push, decided


# Models of D that a canary has to fool, records that are tried, and how far a push is prolonged until all are fooled.
_ENSEMBLE, _TRIES = 8, 16
_LENGTHS = np.linspace(1.0, 4.0, 31)
# Of the ensemble's own starts, batches and noise: no fleet of an audit has this seed, whose own are drawn.
_SEED = 20_281


def deepfool_pairs(
    spec: Spec, model: Model, schema: Schema, data: Dataset, choice: DeepFoolNeighbour
) -> Iterator[NeighbourPair]:
    """D and D with one record pushed over the boundary, inside the bounds of its columns; the hardest pull first."""
    targets = class_targets(model)
    labels = np.asarray(model.as_labels(jnp.asarray(data.target, jnp.float32)))
    records = FleetRecords(data.features.astype(np.float32), labels)
    theta = train_fleet(model, records, plan_of(spec, model, _SEED), Members.of_one(_ENSEMBLE)).theta
    thetas = jnp.asarray(np.asarray(theta), jnp.float32)
    movable, limits = _bounds(schema)
    clipping = chain_of(spec).clipping
    cap = None if clipping is None else clipping.bound
    found: list[tuple[float, int, NDArray[np.float64]]] = []
    places = range(len(data)) if choice.position is None else [choice.position]
    tried = 0
    for place in places:
        row, code = data.features[place], targets.index(float(labels[place]))
        if tried == _TRIES or not (_decisions(model, thetas, jnp.asarray(row[None], jnp.float32)) == code).all():
            continue
        tried += 1
        wide = Domain(len(row), 1e30, classes=len(targets))
        push = deepfool(model, thetas, EncodedRecord(row, float(code)), wide, movable=movable).features - row
        longer = np.clip(row + _LENGTHS[:, None] * push, -limits, limits)
        if schema.clip_length is not None:
            clip_rows(longer[:, int(schema.intercept) :], schema.clip_length)
        fooled = (_decisions(model, thetas, jnp.asarray(longer, jnp.float32)) != code).all(axis=0)
        if fooled.any():
            canary = longer[int(np.argmax(fooled))]
            arguments = thetas, jnp.asarray(canary, jnp.float32), jnp.float32(labels[place])
            gained, odds = (np.asarray(one) for one in visit(model, cap, *arguments))
            found.append((float(gained.mean() / (odds.std() + 1e-6)), place, canary))
    if not found:
        raise refuse(
            "instance.neighbour",
            "of kind deepfool to find a record that all models of D get right and that a push makes all get wrong",
            "none",
            "train longer, or use the neighbour worst",
        )
    for _, place, canary in sorted(found, key=lambda one: -one[0]):
        yield neighbours(data, spec.relation, place, EncodedRecord(canary, float(data.target[place])))


def _bounds(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Which encoded columns hold a number, and how large each column may become; an intercept and words stay."""
    movable = np.zeros(len(schema.feature_names))
    limits = np.ones(len(movable))
    for feature, block in schema.blocks():
        limits[block] = feature.kind.block_norm
        if not isinstance(feature.kind, Category):
            movable[block.start] = 1.0
    return movable, limits


@partial(jax.jit, static_argnums=0)
def _decisions(model: Model, thetas: Array, rows: Array) -> Array:
    """The class, by its place, that every model decides for every row, shape (models, rows)."""
    return jax.vmap(lambda theta: jax.vmap(lambda x: jnp.argmax(class_scores(model, theta, x)))(rows))(thetas)


@partial(jax.jit, static_argnums=(0, 1))
def visit(model: Model, clip_norm: float | None, thetas: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """What one step of length one on this record adds to its own log-odds, to first order; and these log-odds."""

    def of_one(theta: Array) -> tuple[Array, Array]:
        loss, gradient = jax.value_and_grad(model.loss)(theta, x, y)
        length = jnp.linalg.norm(gradient)
        clipped = length if clip_norm is None else jnp.minimum(length, clip_norm)
        wrong = -jnp.expm1(-loss)
        return length * clipped / jnp.maximum(wrong, 1e-6), -loss - jnp.log(jnp.maximum(wrong, 1e-30))

    return jax.lax.map(of_one, thetas)
