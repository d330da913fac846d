"""Replay of a described chain: the kernel that makes releases, on records as bad as the constants of the spec allow.

Without an instance the chain runs on the extremal quadratic of its constants, where a record pulls with a constant
gradient; with one, on the instance and its worst neighbours. Batches are the same in both runs of a pair, so under
add-remove a record of hidden batches is exchanged for one that pulls nowhere, which moves as far as leaving it out.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from sordino.algorithm import parameters
from sordino.algorithm.chain.run import run
from sordino.auditing.attack.chains import ConstantPull, on_first_axes
from sordino.auditing.attack.experiment import chain_of
from sordino.auditing.exact.extremal_chain import extremal_decay, extremal_gap
from sordino.auditing.instance import audit_instance
from sordino.auditing.replay.examine import Implementation, Trial, examine
from sordino.auditing.replay.plan import planned_calls
from sordino.auditing.replay.port import Recorder, Run
from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import refuse
from sordino.data.neighbours import Dataset
from sordino.model.base import Model

# Records whose steps are looked at where batches are hidden, pairs of an instance, and steps that a person waits for.
_RECORDS, _PAIRS, _MOST_STEPS = 8, 6, 20_000
_AXES = 4
# So much longer than the clip, where there is one: a record that is not clipped shows.
_LONGER = 50.0


def replay_chain(spec: Spec, *, confidence: float, seed: int) -> Implementation:
    """Test the kernel on a described noisy gradient chain; refused where its noise cannot be replayed."""
    chain = chain_of(spec)
    planned_calls(spec)
    if chain.steps > _MOST_STEPS:
        raise refuse("algorithm.steps", f"to be at most {_MOST_STEPS} for a replay", chain.steps, "audit a shorter run")
    recorder = Recorder()
    if spec.instance is not None:
        trials = islice(_of_instance(spec), _PAIRS)
    else:
        spec = spec if chain.projection is not None else on_first_axes(spec, min(spec.dim, _AXES))
        trials = _of_quadratic(spec)
    return examine(spec, trials, confidence=confidence, seed=seed, recorder=recorder)


def _run_on(spec: Spec, model: Model, data: Dataset) -> Run:
    def started(fresh: Any) -> dict[str, Any]:
        function = parameters(spec.dim) if spec.view is View.AVERAGE else None
        release = run(spec, model, data.features, data.target, fresh(), function=function)
        left = {name: getattr(release, name, None) for name in ("iterates", "averages")}
        return {name: np.asarray(values) for name, values in left.items() if values is not None}

    return started


def _of_instance(spec: Spec) -> Iterator[Trial]:
    instance = audit_instance(spec)
    bare = spec.with_values({"instance": None})
    for pair in instance.pairs():
        words = f"record {pair.position} of {instance.description}"
        tables = ("one", pair.first), ("its neighbour", pair.second)
        yield Trial(words, tuple((word, _run_on(bare, instance.model, table)) for word, table in tables))


def _of_quadratic(spec: Spec) -> Iterator[Trial]:
    chain, n = chain_of(spec), spec.n
    gap, _ = extremal_gap(spec)
    model = ConstantPull(weight_decay=extremal_decay(spec))
    replaced = spec.relation is Relation.REPLACE_ONE
    pull = gap / 2 if replaced else gap
    hidden = chain.batch.scheme is not Scheme.FULL
    generator = np.random.default_rng(n)
    base = generator.uniform(-1, 1, (n, spec.dim)) * pull / np.sqrt(spec.dim)

    def with_row(place: int, row: np.ndarray) -> Dataset:
        rows = base.copy()
        rows[place] = row
        return Dataset(rows, np.zeros(n))

    axis = np.eye(1, spec.dim)[0] * pull
    places = np.unique(np.linspace(0, n - 1, _RECORDS if hidden else 2).astype(int))
    lengths = (1.0, _LONGER) if chain.clipping is not None else (1.0,)
    for place in places:
        for length in lengths if place == places[0] else lengths[:1]:
            first = with_row(place, length * axis)
            if replaced:
                other, words = with_row(place, -length * axis), "it pulls the other way"
            elif hidden:
                other, words = with_row(place, 0.0 * axis), "it pulls nowhere"
            else:
                other, words = Dataset(np.delete(base, place, axis=0), np.zeros(n - 1)), "it is left out"
            long = "" if length == 1.0 else f", {length:g} times as long as the clip"
            yield Trial(
                f"record {place} pulls along one axis{long}",
                (("with it", _run_on(spec, model, first)), (words, _run_on(spec, model, other))),
            )
