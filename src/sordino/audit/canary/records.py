"""Records made to be noticed: with a wrong target, or as far out as the public domain allows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import InputError
from sordino.data.neighbours import Record
from sordino.model.domain import Domain


def mislabelled(record: Record, targets: ArrayLike) -> Record:
    """The record with the target, of those given, that is farthest from its own."""
    values = np.unique(np.asarray(targets, float))
    farthest = float(values[np.argmax(np.abs(values - record.target))]) if len(values) else record.target
    if farthest == record.target:
        raise InputError(
            f"Expected a target other than {record.target!r} to mislabel with, got {values.tolist()!r:.60}."
        )
    return Record(record.features, farthest)


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
