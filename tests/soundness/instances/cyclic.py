"""Cyclic batches: the record at the first place, at the last, and at random ones; partial last batches and epochs."""

from functools import partial

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme
from sordino.models.exact import Quadratics
from tests.models.exact.laws import passes
from tests.soundness.chains import Facts, Shape, chain_instance, facts_of
from tests.soundness.pieces import VIEWS, log_uniform
from tests.soundness.records import Pair, Universe, mixed_pairs, replace_one_pairs, universe
from tests.soundness.registry import Instance, instance


def _shape(rng: np.random.Generator, view: View) -> Shape:
    n = int(rng.integers(2, 13))
    size = int(rng.integers(1, n + 1))
    steps = int(rng.integers(1, 4 * -(-n // size) + 2))
    dim = int(rng.integers(1, 4))
    return Shape(Scheme.CYCLIC, Relation.REPLACE_ONE, view, n, dim, size, steps, most_chains=2)


def _positions(rng: np.random.Generator, shape: Shape) -> list[int]:
    """First, last, the last one used by the last step, and another."""
    used_last = min(shape.n, ((shape.steps - 1) * shape.size) % (-(-shape.n // shape.size) * shape.size) + 1) - 1
    return [0, shape.n - 1, used_last, int(rng.integers(shape.n))]


def _cyclic(rng: np.random.Generator, view: View) -> Instance:
    shape = _shape(rng, view)
    records = universe(rng, shape.dim, log_uniform(rng, 0.01, 100), curved=bool(rng.integers(2)))
    pairs = replace_one_pairs(rng, records, shape.n, _positions(rng, shape))
    return chain_instance(rng, shape, pairs, facts_of(shape, records))


@instance("cyclic-mixed-curvature")
def _mixed(rng: np.random.Generator) -> Instance:
    """Every record has a curvature of its own, so every batch contracts differently."""
    shape = _shape(rng, View.LAST_ITERATE)
    unit = log_uniform(rng, 0.01, 100)
    pairs, decay, curvatures = mixed_pairs(rng, shape.dim, unit, shape.n, _positions(rng, shape))
    batches = np.split(curvatures, range(shape.size, shape.n, shape.size))
    values = [np.linalg.eigvalsh(batch.sum(axis=0) / shape.size) + decay for batch in batches]
    lowest, highest = min(v.min() for v in values), max(v.max() for v in values)
    return chain_instance(rng, shape, pairs, Facts(max(0.0, float(lowest)), float(highest), 2 * unit))


@instance("cyclic-add-remove")
def _add_remove(rng: np.random.Generator) -> Instance:
    """Batches of one record whose gradients alternate: without the first, all batches change. No theorem may apply."""
    n, epochs = int(rng.integers(4, 21)), int(rng.integers(1, 3))
    shape = Shape(Scheme.CYCLIC, Relation.ADD_REMOVE, View.ALL_ITERATES, n, 1, 1, n * epochs)
    records = Universe(1, float(rng.uniform(0.02, 1.0)), np.zeros((1, 1)), log_uniform(rng, 0.01, 100), np.ones(1))
    pulls = records.radius * np.where(np.arange(n) % 2 == 0, 1.0, -1.0)[:, None]
    pair = Pair("alternating, the first leaves", records.dataset(pulls), records.dataset(pulls[1:]))

    def batches(data: Quadratics) -> list[np.ndarray]:
        return passes(data.n, 1, [np.arange(data.n)], shape.steps)

    return chain_instance(rng, shape, [pair], facts_of(shape, records), batches)


for _view in VIEWS:
    instance(f"cyclic-{_view}")(partial(_cyclic, view=_view))
