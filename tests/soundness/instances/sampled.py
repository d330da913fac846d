"""Random allocation and batches drawn with replacement: mixtures with one component per pattern of uses."""

from functools import partial
from math import comb

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from tests.soundness.chains import Shape, chain_instance, facts_of
from tests.soundness.instances.poisson import PAIRS
from tests.soundness.pieces import VIEWS, log_uniform
from tests.soundness.records import Pair, Universe, replace_one_pairs, universe
from tests.soundness.registry import Instance, instance

_MOST_PATTERNS = 2000


def _allocated(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    """Rounds of two to five steps, up to two uses in each, a last round that may be cut short."""
    length = int(rng.integers(2, 6))
    n, uses = length * int(rng.integers(1, 20)), int(rng.integers(1, 3))
    in_space = view is View.ALL_ITERATES
    steps = int(rng.integers(1, 6 if in_space else 9))
    size, most_kept = n // length, 3 if in_space else 10**6
    shape = Shape(Scheme.RANDOM_ALLOCATION, relation, view, n, 1, size, steps, None, most_kept, uses=uses)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=False)
    pairs = [pair for pair in PAIRS[relation](rng, records) if _patterns(pair, shape, length) <= _MOST_PATTERNS]
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


def _patterns(pair: Pair, shape: Shape, length: int) -> int:
    rounds = -(-shape.steps // length)
    return comb(length, shape.uses or 1) ** (rounds * max(pair.first.n, pair.second.n))


def _with_replacement(rng: np.random.Generator, view: View) -> Instance:
    n = int(rng.integers(2, 8))
    size = int(rng.integers(1, min(n, 4) + 1))
    in_space = view is View.ALL_ITERATES
    steps = int(rng.integers(1, 4 if in_space else 6))
    most_kept = 3 if in_space else 10**6
    shape = Shape(Scheme.WITH_REPLACEMENT, Relation.REPLACE_ONE, view, n, 1, size, steps, most_kept=most_kept)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    return chain_instance(rng, shape, replace_one_pairs(rng, records, n, [0]), facts_of(shape, records))


def _truncated(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    """Two to four records, caps that are often met; the odd record first, last, or between."""
    n = int(rng.integers(2, 5))
    size = int(rng.integers(1, n + 1))
    rate = float(rng.uniform(0.05, 0.95))
    cap = int(rng.integers(max(1, int(np.ceil(rate * n))), n + 1))
    steps = int(rng.integers(1, 4))
    most_kept = 3 if view is View.ALL_ITERATES else 10**6
    shape = Shape(Scheme.TRUNCATED_POISSON, relation, view, n, 1, size, steps, rate, most_kept, cap=cap)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=False)
    if relation is Relation.REPLACE_ONE:
        pairs = replace_one_pairs(rng, records, n, [0, n - 1])
    else:
        pairs = [
            _inserted(records.radius * records.axis, records, n, place, sign)
            for place in (0, n - 1)
            for sign in (-1, 1)
        ]
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


def _apart(rng: np.random.Generator, relation: Relation, view: View) -> Instance:
    """One or two records, uses two or three steps apart, rates up to 1."""
    n, separation = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    rate = float(rng.choice([rng.uniform(0.05, 0.95), 1.0], p=[0.8, 0.2]))
    steps = int(rng.integers(1, 6))
    most_kept = 3 if view is View.ALL_ITERATES else 10**6
    shape = Shape(Scheme.MIN_SEPARATION, relation, view, n, 1, 1, steps, rate, most_kept, separation=separation)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=False)
    up = records.radius * records.axis
    others = np.tile(up, (n - 1, 1))
    if relation is Relation.REPLACE_ONE:
        pairs = replace_one_pairs(rng, records, n, [0])
    else:
        pairs = [
            Pair(f"leaves, {sign}", records.dataset(np.concatenate([[sign * up], others])), records.dataset(others))
            for sign in (-1, 1)
        ]
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


def _inserted(up: np.ndarray, records: Universe, n: int, place: int, sign: int) -> Pair:
    """Others pull one way, the record that leaves the other way, or the same."""
    others = np.tile(up, (n - 1, 1))
    return Pair(
        f"leaves {place} of {n}, {sign}",
        records.dataset(np.insert(others, place, sign * up, axis=0)),
        records.dataset(others),
    )


for _view in VIEWS:
    instance(f"with-replacement-{_view}")(partial(_with_replacement, view=_view))
    for _relation in Relation:
        instance(f"truncated-poisson-{_relation}-{_view}")(partial(_truncated, relation=_relation, view=_view))
        instance(f"min-separation-{_relation}-{_view}")(partial(_apart, relation=_relation, view=_view))
        instance(f"random-allocation-{_relation}-{_view}")(partial(_allocated, relation=_relation, view=_view))
