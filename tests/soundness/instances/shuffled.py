"""Batches in a random order, drawn once or every epoch: mixtures with one component per order."""

from functools import partial

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from tests.soundness.chains import Shape, chain_instance, facts_of
from tests.soundness.pieces import VIEWS, log_uniform
from tests.soundness.records import replace_one_pairs, universe
from tests.soundness.registry import Instance, instance

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


for _scheme in (Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED):
    for _view in VIEWS:
        instance(f"{_scheme}-{_view}")(partial(_shuffled, scheme=_scheme, view=_view))
