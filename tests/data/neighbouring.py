"""Whether two datasets are neighbours, decided from their rows alone."""

import numpy as np

from sordino.core.bound import Relation
from sordino.data.neighbours import Dataset


def are_neighbours(first: Dataset, second: Dataset, relation: Relation) -> bool:
    """Whether two datasets, in their given order, satisfy the relation; equal datasets count as neighbours."""
    if first.features.shape[1] != second.features.shape[1]:
        return False
    if relation is Relation.ADD_REMOVE:
        return _one_inserted(first, second)
    return len(first) == len(second) and int(_unequal(first, second).sum()) <= 1


def _one_inserted(first: Dataset, second: Dataset) -> bool:
    short, long = sorted((first, second), key=len)
    if len(short) == len(long):
        return not _unequal(short, long).any()
    if len(long) - len(short) != 1:
        return False
    unequal = _unequal(short, Dataset(long.features[:-1], long.target[:-1]))
    position = int(np.argmax(unequal)) if unequal.any() else len(short)
    return not _unequal(short, Dataset(*(np.delete(one, position, 0) for one in (long.features, long.target)))).any()


def _unequal(first: Dataset, second: Dataset):
    return np.any(first.features != second.features, axis=1) | (first.target != second.target)
