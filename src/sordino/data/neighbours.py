"""Neighbouring datasets under a relation: the two tables that an audit tries to distinguish."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Relation
from sordino.core.validate import InputError, Interval, instance_of, whole_number
from sordino.data.encode import encode
from sordino.data.schema import Schema
from sordino.data.sources.in_memory import from_arrays


@dataclass(frozen=True, eq=False)
class EncodedRecord:
    """One encoded record: a row of features and its target."""

    features: NDArray[np.float64]
    target: float


@dataclass(frozen=True, eq=False)
class Dataset:
    """Encoded records, one row each."""

    features: NDArray[np.float64]
    target: np.ndarray

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.target.shape != (len(self.features),):
            shapes = f"{self.features.shape} and {self.target.shape}"
            raise InputError(f"Expected features (n, d) and target (n,), got shapes {shapes}.")

    def __len__(self) -> int:
        return len(self.target)


@dataclass(frozen=True, eq=False)
class NeighbourPair:
    """Two datasets that differ in one record, the relation they satisfy, and the position of the difference."""

    first: Dataset
    second: Dataset
    relation: Relation
    position: int


def neighbours(data: Dataset, relation: Relation, position: int, record: EncodedRecord | None) -> NeighbourPair:
    """A neighbour of `data`: its record at `position` is replaced; or one is inserted there, or removed for None."""
    adds = instance_of("relation", relation, Relation) is Relation.ADD_REMOVE and record is not None
    if relation is Relation.REPLACE_ONE and record is None:
        raise InputError("Under replace-one a record must take the place of the old one. Give it.")
    if not (adds or len(data)):
        raise InputError("The dataset is empty. It needs at least one record.")
    whole_number("position", position, Interval(0, len(data) - (not adds)), "count records from 0")
    features, target, rest = data.features, data.target, position + (not adds)
    rows, targets = features[:0], target[:0]
    if record is not None:
        row = np.asarray(record.features, dtype=np.float64)
        if row.shape != features.shape[1:] or not np.all(np.isfinite(row)) or not np.isfinite(record.target):
            got = f"features of shape {row.shape} and target {record.target}"
            raise InputError(f"A neighbour has {features.shape[1]} finite numbers and its target to be one, got {got}.")
        rows, targets = row[None], np.array([record.target], target.dtype)
    parts = ((one[:position], own, one[rest:]) for one, own in ((features, rows), (target, targets)))
    second = Dataset(*map(np.concatenate, parts))
    return NeighbourPair(data, second, relation, position)


def worst_records(schema: Schema) -> tuple[EncodedRecord, ...]:
    """Records at the edge of the public domain, where audits start: four corner rows with the most distant targets."""
    # The first two records share the longest corner of the declared bounds, clipped to the cap, and have opposite
    # targets: the pair that attains the gradient sensitivity of residual losses.
    target = schema.declared_target()
    patterns = (lambda _: 0, lambda _: 1, lambda index: index % 2, lambda index: (index + 1) % 2)
    sides = tuple(pattern for pattern in patterns for _ in range(2))
    plain = [(index, one) for index, one in enumerate(schema.features) if one.kind.reads is None]
    columns = {one.name: [one.kind.extremes()[side(index)] for side in sides] for index, one in plain}
    for index, part in enumerate(part for one in schema.features for part in getattr(one.kind, "of", ())):
        columns.setdefault(part.column, [part.kind.extremes()[side(index)] for side in sides])
    columns[target.name] = [target.kind.target_extremes()[row % 2] for row in range(len(sides))]
    # A bound may be a missing token; values next to it are not, so the corner belongs to the domain all the same.
    # The number of records is a property of the dataset, not of these eight rows: add-remove does not ask for it.
    encoded = encode(replace(schema, missing_tokens=()), from_arrays(columns), Relation.ADD_REMOVE)
    return tuple(EncodedRecord(row, label.item()) for row, label in zip(encoded.features, encoded.target, strict=True))
