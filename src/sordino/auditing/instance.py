"""From the `instance` of a spec to a model and pairs of neighbouring datasets, and to the audit that fits it.

DeepFool canaries (Moosavi-Dezfooli, Fawzi & Frossard 2016, Algorithm 2): a record of D pushed to the nearest boundary,
by linearised scores, until an ensemble of D's models gets it wrong, its label kept. A model that has seen it learns it
(Heller & Fetaya 2023, Section V). The ensemble is never part of the fleet that is attacked.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from sordino.auditing.fleet import NETWORKS, plan_of, train_fleet
from sordino.core import spec as specs
from sordino.core.bound import Relation
from sordino.core.spec import Spec
from sordino.core.validate import InputError, one_of, refuse
from sordino.data import Category, Schema, clip_rows, encode, read_schema, read_table
from sordino.data.example_tables import GENERATORS
from sordino.data.neighbours import Dataset, EncodedRecord, NeighbourPair, neighbours, worst_records
from sordino.models.base import Model
from sordino.models.families.classification import Logistic
from sordino.models.registry import MODELS, build_model


@dataclass(frozen=True, eq=False)
class AuditInstance:
    """A model, and pairs of neighbours to distinguish, the most promising first."""

    model: Model
    schema: Schema
    pairs: Callable[[], Iterator[NeighbourPair]]
    description: str

    @property
    def pair(self) -> NeighbourPair:
        """The pair an audit that can only afford one trains on."""
        return next(self.pairs())


_GIVEN = "the table that was given"  # what stands for the path of rows that are given and lie in no file


def on_table(spec: Spec, table: Any) -> Spec:
    """The same run, audited on these rows in place of those of the file that its instance names."""
    instance = spec.instance
    if instance is None or not isinstance(instance.dataset, specs.FileDataset):
        raise InputError("To audit a given table, the spec needs a dataset of kind file with a schema.")
    own = specs.FileDataset(_GIVEN, instance.dataset.schema)
    # Rows are no part of a description. A copy that is made of it has none, and no file of that name either.
    object.__setattr__(own, "table", table)
    return replace(spec, instance=replace(instance, dataset=own))


def audit_instance(spec: Spec) -> AuditInstance:
    """Resolve the instance of a spec; refused when there is none or when it does not fit the spec."""
    instance = spec.instance
    if instance is None:
        raise InputError("The spec has no instance. Add one with model, dataset and neighbour.")
    schema, data, source = _load(instance.dataset, spec.relation)
    model = build_model(instance.model, "instance.model")
    if spec.problem is not None and spec.problem.n not in (None, len(data)):
        raise refuse("the instance's dataset", f"to have problem.n = {spec.problem.n} records", len(data))
    dim = None if spec.problem is None else model.dim(data.features.shape[1])
    if spec.problem is not None and spec.problem.dim not in (None, dim):
        raise refuse("the instance's model", f"to have problem.dim = {spec.problem.dim} parameters", dim)
    choice = instance.neighbour
    if isinstance(choice, specs.DeepFoolNeighbour):
        pairs = partial(deepfool_pairs, spec, model, schema, data, choice)
    else:
        pairs = partial(_pairs, choice, data, schema, spec.relation)
    word, position = type(instance.neighbour).__name__.removesuffix("Neighbour").lower(), instance.neighbour.position
    where = "" if position is None else f" at record {position}"
    return AuditInstance(model, schema, pairs, f"{instance.model.name} on {source}, {word} neighbour{where}")


def usual_method(spec: Spec) -> str:
    """The audit of a person who names none: a fleet for a network, whose law is not known, else the exact one."""
    kind = None if spec.instance is None else MODELS.get(spec.instance.model.name)
    return "fleet" if kind in NETWORKS else "exact"


def _load(source: specs.DatasetSource, relation: Relation) -> tuple[Schema, Dataset, str]:
    match source:
        case specs.SyntheticDataset():
            word = one_of("instance.dataset.generator", source.generator, GENERATORS)
            make, given = GENERATORS[word], dict(source.parameters)
            leading = np.random.Generator(np.random.PCG64DXSM(source.seed)), source.records, source.features
            known = [name for name in inspect.signature(make).parameters if not name.startswith("_")][len(leading) :]
            for name in given:
                one_of("a setting of instance.dataset.parameters", name, known)
            try:
                drawn = make(*leading, **given)
            except TypeError as error:
                words = f"got {given!r:.80} ({error})."
                raise InputError(f"Expected settings that make the instance's dataset, {words}") from None
            return drawn.schema, Dataset(drawn.features, drawn.target), f"{source.records} drawn records ({word})"
        case specs.FileDataset():
            schema = read_schema(source.schema)
            given = getattr(source, "table", source.path)
            encoded = encode(schema, read_table(schema.source(given)), relation)
            kind = "file" if given is source.path else "table"
            return schema, Dataset(encoded.features, encoded.target), f"{len(encoded.target)} records of a {kind}"
    raise refuse("instance.dataset", "to be synthetic or a file", type(source).__name__)


def _pairs(choice: specs.NeighbourChoice, data: Dataset, schema: Schema, relation: Relation) -> Iterator[NeighbourPair]:
    match choice:
        case specs.WorstNeighbour():
            # Both hold an extreme record; without a position, the middle, the last and the first are tried.
            records, last = worst_records(schema), len(data) - 1
            removed = relation is Relation.ADD_REMOVE
            exchanges = [(record, None) for record in records] if removed else list(combinations(records, 2))
            for place in dict.fromkeys((last // 2, last, 0)) if choice.position is None else [choice.position]:
                for record, replacement in exchanges:
                    base = neighbours(data, Relation.REPLACE_ONE, place, record).second
                    yield neighbours(base, relation, place, replacement)
        case specs.ZeroNeighbour():
            yield neighbours(data, relation, choice.position, EncodedRecord(np.zeros(data.features.shape[1]), 0.0))
        case specs.RemovedNeighbour() if relation is Relation.ADD_REMOVE:
            yield neighbours(data, relation, choice.position, None)
        case specs.RemovedNeighbour():
            allowed, remedy = "other than removed under replace-one", "use worst, zero or given"
            raise refuse("instance.neighbour", allowed, "removed", remedy)
        case specs.GivenNeighbour():
            yield neighbours(data, relation, choice.position, EncodedRecord(np.array(choice.features), choice.target))
        case _:
            raise refuse("instance.neighbour", "to be worst, zero, removed, given or deepfool", type(choice).__name__)


def class_targets(model: Model) -> tuple[float, ...]:
    """The target that stands for each class."""
    if isinstance(model, Logistic):
        return (-1.0, 1.0)
    classes = getattr(model, "classes", None)
    if classes is None:
        remedy = "use the neighbour 'worst'"
        raise refuse("instance.model", "of the neighbour 'deepfool' to have classes", type(model).__name__, remedy)
    return tuple(float(code) for code in range(classes))


def class_scores(model: Model, theta: Array, x: Array) -> Array:
    """Log probabilities of all classes for one row, shape (classes,); the largest decides."""
    return -jax.vmap(lambda y: model.loss(theta, x, y))(jnp.asarray(class_targets(model), x.dtype))


_OVERSHOOT, _STEPS = 0.02, 50  # a push is made a little longer than needed, in so many steps at most


def deepfool(model: Model, ensemble: ArrayLike, record: EncodedRecord, movable: ArrayLike = 1.0) -> EncodedRecord:
    """A canary near `record`: pushed over the ensemble's boundary, target kept as the class it was pushed out of.

    `ensemble` holds one parameter vector a row. Where `movable` is 0, a coordinate stays as it is.
    """
    dtype = jnp.zeros(()).dtype
    thetas = jnp.atleast_2d(jnp.asarray(ensemble, dtype))
    row = jnp.asarray(record.features, dtype)
    if thetas.shape[1] != model.dim(len(row)):
        raise InputError(f"Expected {model.dim(len(row))} parameters in each model, got {thetas.shape[1]}.")
    targets = class_targets(model)
    pushed, decided = _pushed(model, thetas, row, jnp.asarray(movable, dtype))
    return EncodedRecord(np.asarray(pushed, float), targets[int(decided)])


@partial(jax.jit, static_argnums=0)
def _pushed(model: Model, thetas: Array, row: Array, movable: Array) -> tuple[Array, Array]:
    def scores(x: Array) -> Array:
        return jax.vmap(lambda theta: class_scores(model, theta, x))(thetas).mean(axis=0)

    decided = jnp.argmax(scores(row))

    def undecided(state: tuple[Array, Array]) -> Array:
        push, step = state
        return (step < _STEPS) & (jnp.argmax(scores(row + (1 + _OVERSHOOT) * push)) == decided)

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
    return row + (1 + _OVERSHOOT) * push, decided


# Models of D that a canary has to fool, records that are tried, and how far a push is prolonged until all are fooled.
_ENSEMBLE, _TRIES = 8, 16
_LENGTHS = np.linspace(1.0, 4.0, 31)
# The seed of the ensemble's starts, batches and noise. No audited fleet has it, because their seeds are drawn.
_SEED = 20_281


def deepfool_pairs(
    spec: Spec, model: Model, schema: Schema, data: Dataset, choice: specs.DeepFoolNeighbour
) -> Iterator[NeighbourPair]:
    """D and D with one record pushed over the boundary, inside the bounds of its columns; the hardest pull first."""
    labels = np.asarray(model.as_labels(jnp.asarray(data.target, jnp.float32)))
    codes = np.searchsorted(class_targets(model), labels)
    rows = data.features.astype(np.float32)
    plan = plan_of(spec, model, _SEED)
    thetas = jnp.asarray(train_fleet(model, rows, labels, plan, _ENSEMBLE))
    right = np.flatnonzero((_decisions(model, thetas, jnp.asarray(rows)) == codes).all(axis=0))
    # Which encoded columns hold a number, and how large each column may become; an intercept and words stay.
    movable, limits = np.zeros(len(schema.feature_names)), np.ones(len(schema.feature_names))
    for feature, block in schema.blocks:
        limits[block] = feature.kind.block_norm
        movable[block.start] = 0.0 if isinstance(feature.kind, Category) else 1.0
    found: list[tuple[float, int, NDArray[np.float64]]] = []
    for place in right[:_TRIES] if choice.position is None else set(right) & {choice.position}:
        row = data.features[place]
        push = deepfool(model, thetas, EncodedRecord(row, float(labels[place])), movable).features - row
        longer = np.clip(row + _LENGTHS[:, None] * push, -limits, limits)
        if schema.clip_length is not None:
            clip_rows(longer[:, int(schema.intercept) :], schema.clip_length)
        fooled = (_decisions(model, thetas, jnp.asarray(longer, jnp.float32)) != codes[place]).all(axis=0)
        if fooled.any():
            canary = longer[int(np.argmax(fooled))]
            pulled = visit(model, plan.clip_norm, thetas, jnp.asarray(canary, jnp.float32), jnp.float32(labels[place]))
            gained, odds = map(np.asarray, pulled)
            found.append((float(gained.mean() / (odds.std() + 1e-6)), int(place), canary))
    if not found:
        wanted = "of kind deepfool to find a record that all models of D get right and that a push makes all get wrong"
        raise refuse("instance.neighbour", wanted, "none", "train longer, or use the neighbour 'worst'")
    for _, place, canary in sorted(found, key=lambda one: -one[0]):
        yield neighbours(data, spec.relation, place, EncodedRecord(canary, float(data.target[place])))


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
