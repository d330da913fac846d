"""Poisson batches, both relations: bounded gradients are constants, so all curvature is in the weight decay.

Records whose gradient is 0 change no batch sum; they are left out of the datasets, which keeps the patterns few.
"""

from functools import partial

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from sordino.models.exact import Quadratics
from tests.soundness.chains import Shape, chain_instance, facts_of
from tests.soundness.pieces import VIEWS, chance, log_uniform
from tests.soundness.records import Pair, Universe, universe
from tests.soundness.registry import Instance, instance


def _shape(rng: np.random.Generator, relation: Relation, view: View) -> Shape:
    n = int(rng.integers(4, 200))
    size = int(rng.integers(1, n + 1))
    in_space = view is View.ALL_ITERATES
    rate = None if chance(rng, 0.5) else float(rng.uniform(0.02, 1.0))
    most_kept = 3 if in_space else 10**6
    steps = int(rng.integers(1, 6 if in_space else 10))
    return Shape(Scheme.POISSON, relation, view, n, 1, size, steps, rate, most_kept)


def _dataset(records: Universe, *pulls: np.ndarray) -> Quadratics:
    return records.dataset(np.array(pulls).reshape(-1, 1))


def _add_remove(rng: np.random.Generator, records: Universe) -> list[Pair]:
    up, other = records.radius * records.axis, records.pull(rng)
    return [
        Pair("one leaves", _dataset(records, up), _dataset(records)),
        Pair("one leaves another", _dataset(records, up, -up), _dataset(records, -up)),
        Pair("random one joins", _dataset(records, other), _dataset(records, other, up)),
    ]


def _replace_one(rng: np.random.Generator, records: Universe) -> list[Pair]:
    up, other, first, second = records.radius * records.axis, *(records.pull(rng) for _ in range(3))
    return [
        Pair("opposite", _dataset(records, up), _dataset(records, -up)),
        Pair("replaced by a record that does not pull", _dataset(records, up), _dataset(records)),
        Pair("random", _dataset(records, other, first), _dataset(records, other, second)),
    ]


_MOST_PATTERNS = 1024
PAIRS = {Relation.ADD_REMOVE: _add_remove, Relation.REPLACE_ONE: _replace_one}


def _poisson(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    shape = _shape(rng, relation, view)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=False)
    return chain_instance(rng, shape, poisson_pairs(rng, records, relation, shape.steps), facts_of(shape, records))


def poisson_pairs(rng: np.random.Generator, records: Universe, relation: Relation, steps: int) -> list[Pair]:
    """Neighbours whose patterns of uses are few enough to list."""
    return [pair for pair in PAIRS[relation](rng, records) if _patterns(pair, steps) <= _MOST_PATTERNS]


def _patterns(pair: Pair, steps: int) -> int:
    """How many patterns of uses the larger dataset has."""
    return 2 ** (steps * max(pair.first.n, pair.second.n))


for _relation in Relation:
    for _view in VIEWS:
        instance(f"poisson-{_relation}-{_view}")(partial(_poisson, relation=_relation, view=_view))
