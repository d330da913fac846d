"""Neighbouring datasets under a relation: two worlds that a guarantee hides and an audit tries to tell apart."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Relation
from sordino.core.validate import InputError, Interval, instance_of, whole_number
from sordino.data.encode import encode
from sordino.data.schema import Schema
from sordino.data.sources.in_memory import from_arrays


@dataclass(frozen=True, eq=False)
class Record:
    """One encoded record: a row of features and its target."""

    features: NDArray[np.float64]
    target: float


@dataclass(frozen=True, eq=False)
class Dataset:
    """Encoded records, one row each."""

    features: NDArray[np.float64]
    target: NDArray[Any]

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.target.shape != (len(self.features),):
            raise InputError(
                f"Expected features (n, d) and target (n,), got shapes {self.features.shape} and {self.target.shape}."
            )

    def __len__(self) -> int:
        return len(self.target)


@dataclass(frozen=True, eq=False)
class NeighbourPair:
    """Two datasets that differ in one record, the relation they satisfy, and the position of the difference."""

    first: Dataset
    second: Dataset
    relation: Relation
    position: int


def neighbours(data: Dataset, relation: Relation, position: int, record: Record | None) -> NeighbourPair:
    """Build a neighbour of `data`.

    | relation | record given | record None |
    | --- | --- | --- |
    | replace-one | record `position` becomes `record` | `InputError` |
    | add-remove | `record` is inserted before `position` | record `position` is removed |
    """
    instance_of("relation", relation, Relation)
    if relation is Relation.ADD_REMOVE:
        second = remove_record(data, position) if record is None else add_record(data, position, record)
    elif record is None:
        raise InputError("Expected a record to put in place under replace-one, got none; give one.")
    else:
        second = replace_record(data, position, record)
    return NeighbourPair(data, second, relation, position)


def replace_record(data: Dataset, position: int, record: Record) -> Dataset:
    """The dataset with one record exchanged."""
    row, target = _checked(data, record)
    _position(position, len(data) - 1)
    features, targets = data.features.copy(), data.target.copy()
    features[position], targets[position] = row, target
    return Dataset(features, targets)


def add_record(data: Dataset, position: int, record: Record) -> Dataset:
    """The dataset with one record more, inserted before `position`; `len(data)` appends."""
    row, target = _checked(data, record)
    _position(position, len(data))
    return Dataset(np.insert(data.features, position, row, axis=0), np.insert(data.target, position, target))


def remove_record(data: Dataset, position: int) -> Dataset:
    """The dataset with one record less."""
    _position(position, len(data) - 1)
    return Dataset(np.delete(data.features, position, axis=0), np.delete(data.target, position))


def _checked(data: Dataset, record: Record) -> tuple[NDArray[np.float64], float]:
    row = np.asarray(record.features, dtype=np.float64)
    if row.shape != data.features.shape[1:] or not np.all(np.isfinite(row)) or not np.isfinite(record.target):
        raise InputError(
            f"Expected a record with {data.features.shape[1]} finite features and a finite target, "
            f"got shape {row.shape} and target {record.target}."
        )
    return row, record.target


def _position(position: int, last: int) -> None:
    if last < 0:
        raise InputError("Expected a dataset with at least one record, got an empty one.")
    whole_number("position", position, Interval(0, last), "count records from 0")


def worst_records(schema: Schema) -> tuple[Record, ...]:
    """Records at the edge of the public domain, where audits start: four corner rows with the most distant targets."""
    # The first two records share the longest corner of the declared bounds, clipped to the cap, and have opposite
    # targets: the pair that attains the gradient sensitivity of residual losses. Every record is the encoding of raw
    # values that the schema admits.
    target = schema.declared_target()
    patterns = (lambda _: 0, lambda _: 1, lambda index: index % 2, lambda index: (index + 1) % 2)
    sides = tuple(pattern for pattern in patterns for _ in range(2))
    columns = {
        feature.name: [feature.kind.extremes()[side(index)] for side in sides]
        for index, feature in enumerate(schema.features)
        if feature.kind.reads is None
    }
    for index, part in enumerate(part for one in schema.features for part in getattr(one.kind, "of", ())):
        columns.setdefault(part.column, [part.kind.extremes()[side(index)] for side in sides])
    columns[target.name] = [target.kind.target_extremes()[row % 2] for row in range(len(sides))]
    # A bound may be a missing token; values next to it are not, so the corner belongs to the domain all the same.
    # The number of records is a property of the dataset, not of these eight rows: add-remove does not ask for it.
    encoded = encode(replace(schema, missing_tokens=()), from_arrays(columns), Relation.ADD_REMOVE)
    return tuple(Record(row, label.item()) for row, label in zip(encoded.features, encoded.target, strict=True))
