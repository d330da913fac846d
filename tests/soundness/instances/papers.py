"""The papers' setting: constant schedules, whole epochs, contracting steps, the last iterate, replace-one.

The same with steps that forget everything, c = 0, where powers of the contraction have an edge.
"""

from functools import partial

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from tests.soundness.chains import Shape, chain_instance, facts_of
from tests.soundness.pieces import log_uniform
from tests.soundness.records import Universe, replace_one_pairs, universe
from tests.soundness.registry import Instance, instance

# The most batches an epoch and the most steps; random orders are enumerated.
_LIMITS = {
    Scheme.FULL: (1, 40),
    Scheme.CYCLIC: (8, 40),
    Scheme.SHUFFLE_ONCE: (6, 24),
    Scheme.RESHUFFLED: (4, 12),
    Scheme.WITHOUT_REPLACEMENT: (6, 8),
}


def _paper(rng: np.random.Generator, scheme: Scheme, *, forgetting: bool = False) -> Instance:
    most_batches, most_steps = _LIMITS[scheme]
    batches = int(rng.integers(1, most_batches + 1))
    size = int(rng.integers(1, 4))
    steps = batches * int(rng.integers(1, max(2, most_steps // batches + 1)))
    n = batches * size
    shape = Shape(scheme, Relation.REPLACE_ONE, View.LAST_ITERATE, n, 1, size, steps, plain=True, forgetting=forgetting)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    if forgetting:
        records = Universe(1, 2.0 ** int(rng.integers(-3, 4)), np.zeros((1, 1)), records.radius, records.axis)
    pairs = replace_one_pairs(rng, records, n, [0, n - 1] if scheme is Scheme.CYCLIC else [0])
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


for _scheme in _LIMITS:
    instance(f"paper-{_scheme}")(partial(_paper, scheme=_scheme))
    instance(f"forgetting-{_scheme}")(partial(_paper, scheme=_scheme, forgetting=True))
