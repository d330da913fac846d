"""Full batches, both relations: Gaussian laws of any dimension."""

from functools import partial

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from tests.soundness.chains import Facts, Shape, chain_instance, facts_of
from tests.soundness.pieces import VIEWS, log_uniform
from tests.soundness.records import add_remove_pairs, mixed_pairs, replace_one_pairs, universe
from tests.soundness.registry import Instance, instance


def _shape(rng: np.random.Generator, relation: Relation, view: View) -> Shape:
    n, steps = int(rng.integers(1, 30)), int(rng.integers(1, 30))
    return Shape(Scheme.FULL, relation, view, n, int(rng.integers(1, 4)), n, steps, most_chains=2)


def _replace_one(rng: np.random.Generator, view: View) -> Instance:
    shape = _shape(rng, Relation.REPLACE_ONE, view)
    records = universe(rng, shape.dim, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    pairs = replace_one_pairs(rng, records, shape.n, [0])
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


def _add_remove(rng: np.random.Generator, view: View) -> Instance:
    shape = _shape(rng, Relation.ADD_REMOVE, view)
    records = universe(rng, shape.dim, log_uniform(rng, 0.01, 100), curved=False)
    return chain_instance(rng, shape, add_remove_pairs(rng, records, shape.n), facts_of(shape, records))


@instance("full-mixed-curvature")
def _mixed(rng: np.random.Generator) -> Instance:
    """Every record has a curvature of its own; the update has their mean."""
    shape = _shape(rng, Relation.REPLACE_ONE, View.LAST_ITERATE)
    unit = log_uniform(rng, 0.01, 100)
    pairs, decay, curvatures = mixed_pairs(rng, shape.dim, unit, shape.n, [0, int(rng.integers(shape.n))])
    values = np.linalg.eigvalsh(curvatures.mean(axis=0)) + decay
    return chain_instance(rng, shape, pairs, Facts(max(0.0, values.min()), values.max(), 2 * unit))


for _view in VIEWS:
    instance(f"full-replace-one-{_view}")(partial(_replace_one, view=_view))
    instance(f"full-add-remove-{_view}")(partial(_add_remove, view=_view))
