"""Batches in a random order, drawn once or every epoch: mixtures with one component per order."""

import math
from collections import Counter
from functools import partial
from itertools import permutations

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from sordino.models.exact import GaussianMixtureLaw
from tests.soundness.cells import CellTruth
from tests.soundness.chains import Shape, chain_instance, facts_of
from tests.soundness.long_runs import chain
from tests.soundness.pieces import VIEWS, log_uniform
from tests.soundness.records import replace_one_pairs, universe
from tests.soundness.registry import Instance, Neighbours, instance

# The most batches of all epochs together whose orders are enumerated, by the number of batches in an epoch.
_MOST_STEPS = {1: 6, 2: 14, 3: 15, 4: 16, 5: 15, 6: 18}


def _shuffled(rng: np.random.Generator, scheme: Scheme, view: View) -> Instance:
    n = int(rng.integers(2, 7))
    size = int(rng.integers(1, n + 1))
    in_space = view is View.ALL_ITERATES
    steps = int(rng.integers(1, (6 if in_space else _MOST_STEPS[-(-n // size)]) + 1))
    shape = Shape(scheme, Relation.REPLACE_ONE, view, n, 1, size, steps, most_kept=3 if in_space else 10**6)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    return chain_instance(rng, shape, replace_one_pairs(rng, records, n, [0]), facts_of(shape, records))


def pass_of(moves: tuple[float, ...], size: int = 1) -> GaussianMixtureLaw:
    """What a pass shows: given the iterate before, a batch's move plus a unit normal, in uniformly random order."""
    cuts = list(range(0, len(moves), size))
    counted = Counter(
        tuple(round(math.fsum(order[cut : cut + size]), 12) for cut in cuts) for order in permutations(moves)
    )
    orders = np.array(sorted(counted))
    weights = np.array([counted[tuple(order)] for order in orders.tolist()]) / math.factorial(len(moves))
    return GaussianMixtureLaw(weights, orders, np.tile(np.eye(len(cuts)), (len(orders), 1, 1)))


def _one_pass(rng: np.random.Generator, n: int, size: int) -> Instance:
    ratio, steps = log_uniform(rng, 0.05, 0.5), -(-n // size)
    scheme = str(rng.choice(["reshuffled", "shuffle-once"]))
    delta = float(rng.choice([1e-4, 1e-2, 0.1]))
    spec = chain(steps, size, n, float(rng.uniform(0.1, 1.0)), ratio, scheme=scheme, view="all-iterates", delta=delta)
    found = []
    for label, others in (("at the ends", rng.integers(0, 2, n - 1)), ("between", rng.random(n - 1))):
        near = tuple((ratio * others * (1 - 1e-9)).tolist())
        laws = (pass_of((own, *near), size) for own in (0.0, ratio * (1 - 1e-9)))
        found.append(Neighbours(label, CellTruth.between(*laws)))
    return Instance(spec, tuple(found))


@instance("shuffled-single-records")
def _single_records(rng: np.random.Generator) -> Instance:
    """One pass over two or three records, one a step, every iterate seen; the others anywhere between the two."""
    return _one_pass(rng, int(rng.integers(2, 4)), 1)


@instance("shuffled-batches")
def _batches(rng: np.random.Generator) -> Instance:
    """The same with two or three batches of two or three records, of which the last may not be full."""
    n, size = ((4, 2), (5, 2), (6, 3), (5, 3))[int(rng.integers(4))]
    return _one_pass(rng, n, size)


for _scheme in (Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED):
    for _view in VIEWS:
        instance(f"{_scheme}-{_view}")(partial(_shuffled, scheme=_scheme, view=_view))
