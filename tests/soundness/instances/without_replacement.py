"""Batches drawn without replacement at every step: mixtures with one component per pattern of uses."""

from functools import partial

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from tests.soundness.chains import Shape, chain_instance, facts_of
from tests.soundness.pieces import VIEWS, log_uniform
from tests.soundness.records import replace_one_pairs, universe
from tests.soundness.registry import Instance, instance


def _without_replacement(rng: np.random.Generator, view: View) -> Instance:
    n = int(rng.integers(2, 30))
    size = int(rng.integers(1, n + 1))
    in_space = view is View.ALL_ITERATES
    steps = int(rng.integers(1, 6 if in_space else 9))
    shape = Shape(
        Scheme.WITHOUT_REPLACEMENT, Relation.REPLACE_ONE, view, n, 1, size, steps, most_kept=3 if in_space else 10**6
    )
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    return chain_instance(rng, shape, replace_one_pairs(rng, records, n, [0]), facts_of(shape, records))


for _view in VIEWS:
    instance(f"without-replacement-{_view}")(partial(_without_replacement, view=_view))
