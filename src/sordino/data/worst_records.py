"""Extreme records of the public domain, found from the schema alone; audits start from them."""

from collections.abc import Sequence
from dataclasses import replace

from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.data.encode import encode
from sordino.data.kinds import RawValue
from sordino.data.neighbours import Record
from sordino.data.schema import Feature, Schema, Target
from sordino.data.sources.numpy_arrays import from_arrays


def worst_records(schema: Schema) -> tuple[Record, ...]:
    """Records at the edge of the domain: four corner rows, each with the two most distant targets.

    The first two records share the longest corner of the declared bounds, clipped to the cap, and have opposite
    targets: the pair that attains the gradient sensitivity of residual losses. Every record is the encoding of raw
    values that the schema admits.
    """
    if schema.target is None:
        raise InputError("Expected a schema with a target, got one without; declare the target.")
    patterns = (lambda _: 0, lambda _: 1, lambda index: index % 2, lambda index: (index + 1) % 2)
    sides = tuple(pattern for pattern in patterns for _ in range(2))
    columns = {
        feature.name: _chosen(feature, [side(index) for side in sides]) for index, feature in enumerate(schema.features)
    }
    columns[schema.target.name] = _chosen(schema.target, [row % 2 for row in range(len(sides))])
    # A bound may be a missing token; values next to it are not, so the corner belongs to the domain all the same.
    # The number of records is a property of the dataset, not of these eight rows: add-remove does not ask for it.
    encoded = encode(replace(schema, missing_tokens=()), from_arrays(columns), Relation.ADD_REMOVE)
    return tuple(Record(row, target.item()) for row, target in zip(encoded.features, encoded.target, strict=True))


def _chosen(declared: Feature | Target, sides: Sequence[int]) -> list[RawValue]:
    extremes = declared.kind.extremes()
    return [extremes[side] for side in sides]
