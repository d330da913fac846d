"""From the `instance` of a spec to a model and pairs of neighbouring datasets, and to the audit that fits it."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from sordino.auditing.fleet.deepfool import deepfool_pairs
from sordino.auditing.fleet.network import NETWORKS
from sordino.core.bound import Relation
from sordino.core.spec import (
    DatasetSource,
    DeepFoolNeighbour,
    FileDataset,
    GivenNeighbour,
    NeighbourChoice,
    RemovedNeighbour,
    Spec,
    SyntheticDataset,
    WorstNeighbour,
    ZeroNeighbour,
)
from sordino.core.spec.instance import SettingValues
from sordino.core.validate import InputError, one_of, refuse
from sordino.data import Dataset, EncodedRecord, NeighbourPair, Schema, encode, neighbours, read_schema, read_table
from sordino.data.example_tables import GENERATORS
from sordino.data.neighbours import worst_records
from sordino.models.base import Model
from sordino.models.registry import MODELS, build_model


@dataclass(frozen=True, eq=False)
class AuditInstance:
    """A model, and pairs of neighbours to tell apart, the most promising first."""

    model: Model
    schema: Schema
    pairs: Callable[[], Iterator[NeighbourPair]]
    description: str

    @property
    def pair(self) -> NeighbourPair:
        """The pair an audit that can only afford one trains on."""
        return next(self.pairs())


# What stands for the path of rows that are given and lie in no file.
_GIVEN = "the table that was given"


def on_table(spec: Spec, table: Any) -> Spec:
    """The same run, audited on these rows in place of those of the file that its instance names."""
    instance = spec.instance
    if instance is None or not isinstance(instance.dataset, FileDataset):
        raise InputError(
            "To audit a given table, the spec's instance must name a dataset of kind file, for its schema. Omit the "
            "table or name a schema."
        )
    own = FileDataset(_GIVEN, instance.dataset.schema)
    # Rows are no part of a description. A copy that is made of it has none, and no file of that name either.
    object.__setattr__(own, "table", table)
    return replace(spec, instance=replace(instance, dataset=own))


def audit_instance(spec: Spec) -> AuditInstance:
    """Resolve the instance of a spec; refused when there is none or when it does not fit the spec."""
    instance = spec.instance
    if instance is None:
        raise InputError("Expected a spec with an instance (model, dataset, neighbour), got none; add one to the spec.")
    schema, data, source = _load(instance.dataset, spec.relation)
    model = build_model(instance.model, "instance.model")
    if spec.problem is not None and spec.problem.n not in (None, len(data)):
        raise refuse("the instance's dataset", f"to have problem.n = {spec.problem.n} records", len(data))
    dim = None if spec.problem is None else model.dim(data.features.shape[1])
    if spec.problem is not None and spec.problem.dim not in (None, dim):
        raise refuse("the instance's model", f"to have problem.dim = {spec.problem.dim} parameters", dim)
    choice = instance.neighbour
    if isinstance(choice, DeepFoolNeighbour):
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


def _load(source: DatasetSource, relation: Relation) -> tuple[Schema, Dataset, str]:
    match source:
        case SyntheticDataset():
            word = one_of("instance.dataset.generator", source.generator, GENERATORS)
            rng = np.random.Generator(np.random.PCG64DXSM(source.seed))
            drawn = _drawn(GENERATORS[word], source.parameters, rng, source.records, source.features)
            return drawn.schema, Dataset(drawn.features, drawn.target), f"{source.records} drawn records ({word})"
        case FileDataset():
            schema = read_schema(source.schema)
            given = getattr(source, "table", source.path)
            encoded = encode(schema, read_table(schema.source(given)), relation)
            kind = "file" if given is source.path else "table"
            return schema, Dataset(encoded.features, encoded.target), f"{len(encoded.target)} records of a {kind}"
    raise refuse("instance.dataset", "to be synthetic or a file", type(source).__name__)


def _drawn(make: Callable[..., Any], settings: SettingValues, *leading: Any) -> Any:
    """Call a registered generator; a setting it does not have is refused with those it has."""
    known = [name for name in inspect.signature(make).parameters if not name.startswith("_")][len(leading) :]
    given = dict(settings)
    for name in given:
        one_of("a setting of instance.dataset.parameters", name, known)
    try:
        return make(*leading, **given)
    except TypeError as error:
        raise InputError(f"Expected settings that make the instance's dataset, got {given!r:.80} ({error}).") from None


def _pairs(choice: NeighbourChoice, data: Dataset, schema: Schema, relation: Relation) -> Iterator[NeighbourPair]:
    match choice:
        case WorstNeighbour():
            yield from _worst_pairs(choice, data, schema, relation)
        case ZeroNeighbour():
            yield neighbours(data, relation, choice.position, EncodedRecord(np.zeros(data.features.shape[1]), 0.0))
        case RemovedNeighbour() if relation is Relation.ADD_REMOVE:
            yield neighbours(data, relation, choice.position, None)
        case RemovedNeighbour():
            allowed, remedy = "other than removed under replace-one", "use worst, zero or given"
            raise refuse("instance.neighbour", allowed, "removed", remedy)
        case GivenNeighbour():
            yield neighbours(data, relation, choice.position, EncodedRecord(np.array(choice.features), choice.target))
        case _:
            raise refuse("instance.neighbour", "to be worst, zero, removed, given or deepfool", type(choice).__name__)


def _worst_pairs(choice: WorstNeighbour, data: Dataset, schema: Schema, relation: Relation) -> Iterator[NeighbourPair]:
    """Both neighbours hold an extreme record; without a position, the middle, the last and the first are tried."""
    records, last = worst_records(schema), len(data) - 1
    removed = relation is Relation.ADD_REMOVE
    exchanges = [(record, None) for record in records] if removed else list(combinations(records, 2))
    for place in dict.fromkeys((last // 2, last, 0)) if choice.position is None else [choice.position]:
        for record, replacement in exchanges:
            base = neighbours(data, Relation.REPLACE_ONE, place, record).second
            yield neighbours(base, relation, place, replacement)
