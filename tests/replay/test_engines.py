"""Replay of runs below the estimators: every step against its own plan, with the same batches in both runs.

Chains that hide iterates are certified for less than their steps add up to; steps are never compared with that.
"""

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.auditing.replay.plan import compare
from sordino.auditing.replay.port import Recorder
from sordino.core.spec import NoisedSums
from sordino.mechanisms import SecureRandomness, SeededRandomness
from sordino.mechanisms.chain import batches
from sordino.mechanisms.networks.training import Descent, Training, train
from sordino.mechanisms.rounds import Run
from sordino.mechanisms.variational.evidence_bound import EvidenceGradients, PointMass, VariationalOptions
from sordino.models.families.regression import GaussianLinear
from tests.mechanisms.networks import test_training as trained
from tests.replay.engines import CLIP, ENGINES, RECORDS, WIDTH, records, small_run, table

PLACE = 5
# A record that appears moves all numbers of a batch, so only full batches are the same in both runs.
CASES = [(name, Relation.REPLACE_ONE) for name in ENGINES] + [
    (name, Relation.ADD_REMOVE) for name in ENGINES if not ENGINES[name].sampled
]


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.mark.parametrize(("name", "relation"), CASES, ids=str)
def test_no_step_moves_beyond_its_plan_and_some_reach_it(name, relation, recorder):
    engine = ENGINES[name].under(relation)
    known, (X, y) = records(engine), table(engine)
    reached, still = 0.0, 0
    for seed, (row, target) in enumerate(known[: engine.recorded]):
        with_it = _replaced(X, y, row, target)
        first = recorder.record(_started(engine, *with_it), seed)
        if relation is Relation.REPLACE_ONE:
            others = [_replaced(X, y, *other) for other in known]
        else:
            others = [(np.delete(X, PLACE, axis=0), np.delete(y, PLACE))]
            others += [tuple(np.concatenate([one, one[:1]]) for one in with_it)]
        for other in others:
            found = compare(engine.spec, first, recorder.replay(first, _started(engine, *other)))
            assert found.faults == ()
            assert found.excesses() == {}
            shifts = [shift for shift in found.shifts if shift.planned is not None]
            assert len(shifts) == engine.steps
            reached = max(reached, found.ratio)
            still += sum(shift.realised == 0.0 for shift in shifts) if other is not others[0] else 0
    assert reached >= engine.reached[relation is Relation.ADD_REMOVE]
    if engine.sampled:
        assert still > 0


def test_a_projected_chain_never_leaves_its_ball_and_meets_its_edge(recorder):
    """Bounds for projected chains hold inside the ball only."""
    engine = ENGINES["chain-cyclic-residual-clip-two-projected"]
    left = [recorder.record(_started(engine, *table(engine)), seed).left["left"] for seed in range(8)]
    lengths = np.linalg.norm(np.concatenate(left).astype(np.float64), axis=-1)
    radius = engine.spec.algorithm.projection.radius
    assert lengths.max() <= radius
    assert np.sum(lengths > 0.9999 * radius) >= 3


def test_every_round_has_noise_of_its_own():
    """Also in runs of several blocks, which only vectors of a megabyte need."""
    spec = ENGINES["variational-full"].spec
    size, scales = 2**19, np.arange(1.0, 7.0)
    run = Run(spec.algorithm, RECORDS, size, scales, SecureRandomness(), np.float32)
    asked = EvidenceGradients(GaussianLinear(), VariationalOptions(family=PointMass()))
    blocks = [block for _, block in run.blocks(asked)]
    assert len(blocks) == 3
    drawn = np.concatenate([np.asarray(block.inputs.noise.low)[:, :8] for block in blocks])
    # Of eight whole numbers of 27 bits at a time, those of two rounds never coincide.
    assert len(np.unique(drawn, axis=0)) == 6
    np.testing.assert_array_equal(np.concatenate([np.asarray(block.inputs.scale) for block in blocks]), scales)
    whole = np.concatenate([np.asarray(block.inputs.noise.high + block.inputs.noise.low) for block in blocks])
    np.testing.assert_allclose(whole.std(axis=1), scales, rtol=0.01)  # ten deviations


# What tells batch schemes apart: whether all batches are of one size, a record comes once a pass, and passes are alike.
SCHEMES = {
    "cyclic": (True, True, True),
    "shuffle-once": (True, True, True),
    "reshuffled": (True, True, False),
    "without-replacement": (True, False, False),
    "poisson": (False, False, False),
}
_FEW, _BATCH, _STEPS = 6, 2, 24


@pytest.mark.parametrize(("kind", "scheme"), [(kind, name) for kind in ("chain", "rounds") for name in SCHEMES])
def test_records_take_part_as_the_scheme_says(kind, scheme, recorder):
    """Where a record moves a step it was in the batch.

    The seed is fixed; over seeds a random order is that of the file once in 90, and anything else looks like another
    scheme once in 10^6.
    """
    spec, start = small_run(kind, scheme, _FEW, _BATCH, _STEPS)
    X, y = np.random.default_rng(31).uniform(0.5, 1, (_FEW, WIDTH)), np.ones(_FEW)
    first = recorder.record(lambda fresh: start(spec, X, y, fresh()), 6)
    taken = np.zeros((_FEW, _STEPS), bool)
    for record in range(_FEW):
        other = np.where(np.arange(_FEW) == record, -1.0, y)
        second = recorder.replay(first, lambda fresh, other=other: start(spec, X, other, fresh()))
        taken[record] = [shift.realised > 0.0 for shift in compare(spec, first, second).shifts]
    passes = taken.reshape(_FEW, -1, _FEW // _BATCH)
    seen = (
        bool(np.all(taken.sum(axis=0) == _BATCH)),
        bool(np.all(passes.sum(axis=2) == 1)),
        bool(np.all(passes == passes[:, :1])),
    )
    assert seen == SCHEMES[scheme]
    in_file_order = np.array_equal(passes[:, 0], np.repeat(np.eye(_FEW // _BATCH, dtype=bool), _BATCH, axis=0))
    assert in_file_order == (scheme == "cyclic")


class Drawn(Exception):
    """Holds what batches were asked for."""


@pytest.mark.parametrize("kind", ["chain", "rounds", "training"])
@pytest.mark.parametrize("scheme", ["poisson", "truncated-poisson"])
def test_the_chance_of_a_record_is_that_of_the_declared_number(kind, scheme, monkeypatch):
    """One from the rows that are there would tell how many they are, and is not the one that is certified."""

    def stop(_, sampling):
        raise Drawn(sampling.rate, sampling.size)

    monkeypatch.setattr(batches, "batches_for", stop)
    if kind == "training":
        spec = trained.described(sampling={"scheme": scheme, "size": _BATCH}).with_values({"algorithm.records": _FEW})

        def start(spec, X, y, randomness):
            train(spec, trained.loss, {"w": np.zeros(WIDTH, np.float32)}, (X, y), randomness, Training(Descent(0.1)))
    else:
        spec, start = small_run(kind, scheme, _FEW, _BATCH, _STEPS)
    asked = set()
    for rows in (_FEW, _FEW - 3):
        X = np.ones((rows, WIDTH), np.float32)
        with pytest.raises(Drawn) as drawn:
            start(spec.with_values({"relation": "add-remove"}), X, X[:, 0], SeededRandomness(0))
        asked.add(drawn.value.args)
    assert asked == {(_BATCH / _FEW, _BATCH)}


def _replaced(X, y, row, target):
    X, y = X.copy(), y.copy()
    X[PLACE], y[PLACE] = row, target
    return X, y


def _started(engine, X, y):
    assert abs(len(X) - RECORDS) <= 1
    return lambda fresh: engine.start(engine.spec, X, y, fresh())


_CLAIMS = {"shape": "rank-one", "replacement": 1.2 * CLIP, "unit": {"column": "patient", "most_records": 3}}
# With batches a unit of several records is refused by the spec itself.
_KEPT_AS_VECTORS = [
    (engine.name, key)
    for engine in ENGINES.values()
    for key in _CLAIMS
    if isinstance(engine.spec.algorithm, NoisedSums) and not (key == "unit" and engine.sampled)
]


@pytest.mark.parametrize(("name", "key"), _KEPT_AS_VECTORS, ids=str)
def test_a_run_refuses_claims_that_it_does_not_keep(name, key):
    """Contributions are bounded as vectors, record by record; less noise would not be private."""
    engine, value = ENGINES[name], _CLAIMS[key]
    X, y = table(engine)
    with pytest.raises(InputError, match=rf"algorithm\.{key} "):
        engine.start(engine.spec.with_values({f"algorithm.{key}": value}), X, y, SeededRandomness(0))
