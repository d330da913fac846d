"""Records whose objectives share one constant curvature, declared as m = M: steps are affine, on any random batches."""

from functools import partial

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from tests.soundness.chains import Shape, chain_instance, facts_of
from tests.soundness.instances.poisson import poisson_pairs
from tests.soundness.pieces import VIEWS, chance, log_uniform
from tests.soundness.records import replace_one_pairs, universe
from tests.soundness.registry import Instance, instance

_MOST_STEPS = {1: 6, 2: 14, 3: 12, 4: 12, 5: 10, 6: 12}


def _affine(rng: np.random.Generator, scheme: Scheme, relation: Relation, view: View) -> Instance:
    in_space = view is View.ALL_ITERATES
    n = int(rng.integers(2, 7))
    size = int(rng.choice([one for one in range(1, n + 1) if n % one == 0]))
    most = _MOST_STEPS[n // size] if scheme is Scheme.RESHUFFLED else 9
    rate = float(rng.uniform(0.02, 1.0)) if scheme is Scheme.POISSON and chance(rng, 0.5) else None
    steps = int(rng.integers(1, (6 if in_space else most) + 1))
    kept = 3 if in_space else 10**6
    shape = Shape(scheme, relation, view, n, 1, size, steps, rate, kept, plain=True, affine=True)
    records = universe(rng, 1, log_uniform(rng, 0.01, 100), curved=False)
    pairs = (
        poisson_pairs(rng, records, relation, steps)
        if scheme is Scheme.POISSON
        else replace_one_pairs(rng, records, n, [0])
    )
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


for _view in VIEWS:
    for _scheme in (Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT):
        instance(f"affine-{_scheme}-{_view}")(
            partial(_affine, scheme=_scheme, relation=Relation.REPLACE_ONE, view=_view)
        )
# Poisson batches have no other curvature in their own generators; here the curvature is declared to the last digit.
instance("affine-poisson-last-iterate")(
    partial(_affine, scheme=Scheme.POISSON, relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE)
)
instance("affine-poisson-add-remove-all-iterates")(
    partial(_affine, scheme=Scheme.POISSON, relation=Relation.ADD_REMOVE, view=View.ALL_ITERATES)
)
