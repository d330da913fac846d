"""What is known of a fit before a row is read: its declaration, task, budget and randomness; and encoded rows."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import largest_mu
from sordino.core.validate import OPEN_UNIT, Declared, InputError, Interval, refuse, whole_number
from sordino.data import Schema, Table, encode, encode_features, from_arrays, from_matrix, read_schema
from sordino.data.encode import as_table, cells_of, check_number, check_parts, check_types
from sordino.data.sources.registry import parts_of
from sordino.fitting.array_schema import PUBLIC_LABELS, WEIGHT, ArrayBounds, Bare, bare_target, numbers_of
from sordino.fitting.tasks.base import Task
from sordino.models.base import Model
from sordino.models.clip import check_sums
from sordino.models.registry import build_model
from sordino.noise.randomness import Randomness, SeededRandomness
from sordino.noise.secure import SecureRandomness

_SEEDS = Interval(0, 2**128 - 1)
MOST_COLUMNS = 1024  # the largest number of encoded columns for which sums of products are kept
# Less says nothing of any table that fits into a machine, and its noise is more than whole numbers hold.
_BUDGETS = Interval(1e-9)


@dataclass(frozen=True)
class FitProblem(Declared):
    """A task on declared data under a budget; `settings` are public options of the task, `labels` its classes."""

    task: Task
    schema: Schema
    epsilon: Annotated[float, _BUDGETS]
    delta: Annotated[float, OPEN_UNIT]
    relation: Relation
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[Any, ...] | None = None
    records: int = field(init=False)  # declared, or units where a unit column is declared
    unit: str = field(init=False)
    features: int = field(init=False)  # encoded columns
    classes: int | None = field(init=False)  # of the target; None for numbers, and without a target

    def __post_init__(self) -> None:
        super().__post_init__()
        task, schema = self.task, self.schema
        unit = "record" if schema.unit_column is None else "unit"
        known = {"records": schema.records, "unit": unit, "features": len(schema.feature_names)}
        known["classes"] = schema.declared_target().kind.classes if task.classifies else None
        for name, value in {"settings": MappingProxyType(task.settings(**self.settings)), **known}.items():
            object.__setattr__(self, name, value)

    @cached_property
    def row_norm(self) -> float:
        """The certified length of an encoded row."""
        return self.schema.norm_bound

    @cached_property
    def mu(self) -> float:
        """The largest Gaussian privacy parameter that the budget affords."""
        return largest_mu(self.epsilon, self.delta)

    @property
    def clips(self) -> float:
        """How many clips one record moves a clipped sum by."""
        return 2.0 if self.relation is Relation.REPLACE_ONE else 1.0

    @property
    def outputs(self) -> int:
        """How many scores a row has: two classes have one."""
        return 1 if (self.classes or 2) == 2 else self.classes or 1

    @property
    def budget_of_coefficient(self) -> float:
        """Records times the privacy parameter for each coefficient; halved where a record counts twice."""
        return self.records * self.mu / self.clips / (self.features * self.outputs)


class DeltaWarning(UserWarning):
    """Delta is so large that a run could publish a whole record and keep its promise."""


def delta_cautions(records: int, delta: float, thing: str) -> tuple[str, ...]:
    """A sentence, said as a warning too, where delta is at least one over the declared number of records or units."""
    if records * delta < 1.0:
        return ()
    sentence = f"delta {delta:g} is not below 1 / {records}, one over the number of {thing}s: a run that publishes one "
    sentence += f"{thing} picked at random would keep this promise; choose a delta far below that"
    sentence += f", such as {0.01 / records:.1g}."
    warnings.warn(sentence, DeltaWarning, stacklevel=4)
    return (sentence,)


@dataclass
class Sources:
    """Gives every part of a fit a source of its own, so that no noise is used twice; `replayed` replaces both kinds."""

    seed: int | None
    replayed: Callable[[], Randomness] | None = None
    _given: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.seed is not None:
            self.seed = whole_number("random_state", self.seed, _SEEDS)

    @property
    def private(self) -> bool:
        """Whether the noise is secret."""
        return self.seed is None and self.replayed is None

    def ready(self) -> None:
        """Refuse before the debit where there is no secure source, or where compiled programs add up wrongly."""
        check_sums()
        if self.private:
            SecureRandomness()

    def fresh(self) -> Randomness:
        if self.replayed is not None:
            return self.replayed()
        self._given += 1
        if self.seed is None:
            return SecureRandomness()
        words = np.random.SeedSequence(self.seed, spawn_key=(self._given,)).generate_state(2, np.uint64)
        return SeededRandomness(int(words[0]) << 64 | int(words[1]))


def model_for(problem: FitProblem, residual_variance: float) -> Model:
    """The model of a problem; the variance of residuals matters to numbers only."""
    return build_model(problem.task.model(problem, residual_variance))


def class_codes(y: Array, classes: int) -> NDArray[np.int64]:
    """Codes 0, 1, ... of encoded labels, which are signs where there are two classes."""
    return ((y + 1) / 2 if classes == 2 else y).astype(np.int64)


@dataclass(frozen=True, eq=False)
class FitDeclaration:
    """A task, a full schema that it can learn from, and the labels behind the codes of its target."""

    task: Task
    schema: Schema
    labels: tuple[Any, ...] | None


class EncodedRows(NamedTuple):
    """Encoded features and targets; the unit and the weight of each record where the schema has columns for them."""

    X: Array
    y: Array
    units: NDArray[np.intp] | None = None
    weights: Array | None = None


def declared(given: object, task: Task, relation: Relation, X: object, y: object) -> FitDeclaration:
    """The declaration of a fit. Of X and y only their shape is looked at, and labels that are declared public."""
    if isinstance(given, ArrayBounds):
        return _of_arrays(given, task, relation, X, y)
    schema = read_schema(given) if isinstance(given, str | Path) else given
    if not isinstance(schema, Schema):
        raise refuse("schema", "to be a Schema, the path of one, or ArrayBounds", given)
    if schema.unit_column is not None and isinstance(X, np.ndarray) and X.dtype.names is None:
        why = f"The unit column {schema.unit_column!r} needs a table with named columns"
        raise InputError(f"{why}, and this is an array without names; give a data frame.")
    found = declared_columns(schema, task)
    schema, target = found.schema, None if y is None else found.schema.target
    # Names and types are public, those of every file of a family, so both are looked at before any debit.
    if isinstance(X, np.ndarray) and X.dtype.names is None:
        check_types(schema, as_table(schema, X[:0]))
    else:
        check_parts(schema, parts_of(schema.source(X)), apart=() if target is None else (target.name,))
    given = None if target is None else parts_of({target.name: y})[0].empty()
    if given is not None:
        check_types(schema, given)
    return found


def declared_columns(schema: Schema, task: Task) -> FitDeclaration:
    """What a schema declares for a task; looks at no row."""
    if schema.reads_private_data:
        raise InputError("The bounds of this schema were taken from private rows. Declare them from public knowledge.")
    read = task.declared(schema)
    return FitDeclaration(task, read, read.declared_target().kind.labels if task.classifies else None)


def encoded_rows(declaration: FitDeclaration, relation: Relation, X: object, y: object) -> EncodedRows:
    """Encode private rows: features and targets; labels as signs where there are two, as codes where there are more."""
    schema = declaration.schema
    table = as_table(schema, X)
    if schema.target is None:
        features = encode_features(schema, table)
        check_number(schema, relation, len(features))
        return EncodedRows(features, np.zeros(len(features)))
    if y is not None:
        table = Table({**table.columns, **from_arrays({schema.target.name: y}).columns})
    encoded = encode(schema, table, relation)
    target = declaration.task.encoded(schema.target.kind, np.asarray(encoded.target, np.float64))
    return EncodedRows(encoded.features, target, encoded.units, encoded.weights)


def encoded_arrays(
    declaration: FitDeclaration, relation: Relation, bounds: ArrayBounds, X: Bare, y: Bare | None, weights: Bare | None
) -> EncodedRows:
    """The same for arrays without names, whose types were looked at before."""
    schema = declaration.schema
    columns = dict(from_matrix(numbers_of(X, bounds), [feature.name for feature in schema.features]).columns)
    if y is not None and schema.target is not None:
        if declaration.labels is None:
            target: Any = numbers_of(y, bounds)
        else:
            target = label_codes(declaration.labels, y.labels()).astype(str)
        columns |= from_arrays({schema.target.name: target}).columns
    if schema.weight is not None:
        known = np.ones(X.shape[0]) if weights is None else numbers_of(weights, bounds)
        columns |= from_arrays({schema.weight.column: known}).columns
    return encoded_rows(declaration, relation, Table(columns), None)


def bare_weights(sample_weight: object, bounds: ArrayBounds, rows: int) -> Bare | None:
    """One weight for each record, by type and shape; None where every record has weight 1."""
    if sample_weight is None:
        if bounds.weight is not None and not bounds.weight[0] <= 1.0 <= bounds.weight[1]:
            raise InputError(f"The bounds of {WEIGHT} exclude 1, so the weights cannot be omitted. Give them.")
        return None
    if bounds.weight is None:
        why = f"{WEIGHT} has no declared bounds, so one record could count without limit"
        raise InputError(f"{why}. Write ArrayBounds(..., weight=(low, high)).")
    found = bare_target(sample_weight, labels=False, name=WEIGHT)
    if found.shape != (rows,):
        raise InputError(f"Expected {WEIGHT} to hold one weight for each of {rows} records, got shape {found.shape}.")
    return found


def target_codes(schema: Schema, y: object) -> NDArray[np.int64]:
    """The codes of targets of a classification, in any spelling that the schema declares."""
    target = schema.declared_target()
    name, kind = target.name, target.kind
    encoded = kind.encode_target(cells_of(schema, target, from_arrays({name: y})))
    return (encoded > 0).astype(np.int64) if kind.word == "boolean" else encoded.astype(np.int64)


def label_codes(labels: Sequence[object], cells: Sequence[object]) -> NDArray[np.int64]:
    """The place of each label among those declared; another one is refused."""
    known = {label: code for code, label in enumerate(labels)}
    codes = np.array([_code(known, cell) for cell in cells], np.int64)
    if (codes < 0).any():
        raise InputError("Some labels are not declared in ArrayBounds; list every class.")
    return codes


def _code(known: dict[Any, int], cell: object) -> int:
    try:
        return known.get(cell, -1)
    except Exception:  # what cannot be hashed is no label
        return -1


def _of_arrays(given: ArrayBounds, task: Task, relation: Relation, X: Any, y: Any) -> FitDeclaration:
    rows, width = np.shape(X)
    records = given.records
    if records is None:
        if relation is not Relation.REPLACE_ONE:
            raise InputError("Under add-remove ArrayBounds need records. Declare the number.")
        records = rows
    labels = _declared_labels(given, y) if task.classifies else None
    if task.outcome and not task.classifies and given.target is None:
        raise InputError("ArrayBounds need a target for regression. Declare target=(low, high).")
    schema = given.schema(width, records, labels, X.names if isinstance(X, Bare) else None)
    return FitDeclaration(task, task.declared(schema), labels)


def _declared_labels(given: ArrayBounds, y: Any) -> tuple[Any, ...]:
    if given.classes is None:
        raise InputError(f"ArrayBounds need classes for classification. List them, or declare {PUBLIC_LABELS!r}.")
    try:
        labels = np.unique(y.cells() if isinstance(given.classes, str) else np.asarray(given.classes))
    except Exception:  # labels of several kinds cannot be put in order
        labels = None
    if labels is None or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        raise InputError("Labels must be all text or all numbers; list them as classes.")
    if len(labels) < 2:
        raise InputError(f"Expected at least two classes, got {len(labels)} class: nothing can be learned from one.")
    # Text where numbers are declared, or the reverse, is seen from the type of the targets, before any debit.
    kind, text = labels.dtype.kind, "UT"
    if isinstance(y, Bare) and y.kind != "O" and kind != "O" and (y.kind in text) != (kind in text):
        words = ("text", "numbers") if kind in text else ("numbers", "text")
        raise InputError(f"Expected y to hold {words[0]} like the classes of ArrayBounds, got {words[1]}.")
    return tuple(labels.tolist())
