"""A fleet makes the canonical chain's steps, and any part of it comes out the same bit for bit."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino import InputError, Relation, View
from sordino.auditing.fleet import engine
from sordino.auditing.fleet.engine import KeyPurpose, member_keys, train_fleet
from sordino.auditing.fleet.plan import FleetPlan, FleetRecords, Members, Replacement, forward, plan_of
from sordino.core.spec import (
    Ball,
    Batch,
    Clipping,
    ClippingKind,
    ConstantSchedule,
    GaussianNoise,
    GaussianStart,
    NoisyGradient,
    PolynomialSchedule,
    Scheme,
    Spec,
    StableNoise,
)
from sordino.models.facts import Domain
from sordino.models.families.networks import MLPClassification

gaussians = jax.jit(engine.gaussians, static_argnums=2)
MODEL = MLPClassification((5,), classes=3, weight_decay=0.1)
N, FEATURES = 10, 4
PLAN = FleetPlan(0.3, 0.05, Batch(Scheme.RESHUFFLED, 4), 3, seed=5, clip_norm=1.0)
EVERYONE = Members(tuple(range(70)), tuple(number % 2 == 1 for number in range(70)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scores:
    """Every output of the network at every point, flattened."""

    points: jax.Array

    def __call__(self, network, parts):
        points = jnp.broadcast_to(self.points, (len(parts[0]), *self.points.shape))
        return forward(parts, points, network.model.activation)[1].reshape(len(parts[0]), -1)


def _records(row: int | None = 3) -> FleetRecords:
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(N, FEATURES)), generator.integers(0, 3, N)
    if row is None:
        return FleetRecords(X, y)
    return FleetRecords(X, y, (Replacement(row, -2.0 * np.ones(FEATURES), 2.0),))


RECORDS = _records()
PROBES = {"scores": Scores(jnp.asarray(RECORDS.features[:2]))}


@pytest.fixture(scope="module")
def everyone():
    return train_fleet(MODEL, RECORDS, PLAN, EVERYONE, PROBES)


def test_any_subset_comes_out_the_same_bit_for_bit(everyone) -> None:
    chosen = [68, 3, 12]
    members = Members(tuple(chosen), tuple(EVERYONE.neighbour[number] for number in chosen))
    found = train_fleet(MODEL, RECORDS, PLAN, members, PROBES)
    assert np.array_equal(found.theta, everyone.theta[chosen])
    assert np.array_equal(found.readings["scores"], everyone.readings["scores"][:, chosen])


def test_models_of_several_neighbours_in_one_fleet_come_out_as_in_fleets_of_their_own() -> None:
    others = tuple(Replacement(row, np.full(FEATURES, float(row), np.float32), 1.0) for row in (3, 7, 3))
    together = FleetRecords(RECORDS.features, RECORDS.target, others)
    which = (0, 1, 2, 3, 2, 0)
    found = train_fleet(MODEL, together, PLAN, Members(tuple(range(6)), which), PROBES)
    for number, place in enumerate(which):
        alone = FleetRecords(RECORDS.features, RECORDS.target, others[place - 1 : place])
        member = Members((number,), (int(place > 0),))
        assert np.array_equal(found.theta[number], train_fleet(MODEL, alone, PLAN, member, PROBES).theta[0])
    with pytest.raises(InputError, match="neighbour"):
        train_fleet(MODEL, together, PLAN, Members((0,), (4,)), PROBES)


@pytest.mark.every(2)
@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_a_fleet_makes_the_steps_of_the_canonical_chain(clip_norm) -> None:
    plan = FleetPlan(0.3, 0.05, Batch(Scheme.CYCLIC, 4), 2, seed=5, clip_norm=clip_norm, start=GaussianStart(0.5))
    members = Members((8, 2), (False, True))
    found = train_fleet(MODEL, RECORDS, plan, members).theta
    numbers = jnp.asarray(members.numbers, jnp.uint32)
    noise = member_keys(5, numbers, KeyPurpose.NOISE)
    thetas = 0.5 * gaussians(member_keys(5, numbers, KeyPurpose.START), jnp.uint32(0), MODEL.dim(FEATURES))
    clipping = None if clip_norm is None else Clipping(ClippingKind.NORM, clip_norm)
    gradient = jax.jit(lambda *given: MODEL.batch_gradient(*given, clipping))
    for start, keys, neighbour, given in zip(thetas, zip(*noise, strict=True), members.neighbour, found, strict=True):
        theta, X, y = start, RECORDS.features.copy(), RECORDS.target.copy()
        if neighbour:
            [replacement] = RECORDS.replacements
            X[3], y[3] = replacement.features, replacement.target
        for step in range(6):
            batch = slice(4 * (step % 3), 4 * (step % 3) + 4)
            ones = jnp.ones(len(y[batch]))
            total = gradient(theta, jnp.asarray(X[batch]), jnp.asarray(y[batch]), ones)
            xi = gaussians((keys[0][None], keys[1][None]), jnp.uint32(step), theta.size)[0]
            theta = theta - 0.3 * (total / 4 + MODEL.penalty_gradient(theta)) + 0.05 * xi
        np.testing.assert_allclose(given, theta, atol=3e-6)


def test_a_watched_fleet_ends_when_it_is_told_to_with_the_numbers_of_a_shorter_one(everyone) -> None:
    told: list[tuple[int, tuple[int, ...]]] = []

    def watch(epoch: int, readings) -> bool:
        told.append((epoch, readings["scores"].shape))
        return epoch < 2

    watched = train_fleet(MODEL, RECORDS, PLAN, EVERYONE, PROBES, watch=watch)
    assert told == [(1, (70, 6)), (2, (70, 6))]
    assert np.array_equal(watched.readings["scores"], everyone.readings["scores"][:2])
    shorter = train_fleet(MODEL, RECORDS, replace(PLAN, epochs=2), EVERYONE, PROBES)
    assert np.array_equal(watched.theta, shorter.theta)


def _spec(relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE, **changed) -> Spec:
    given = {
        "steps": 6,
        "step_size": ConstantSchedule(0.3),
        "noise": GaussianNoise(ConstantSchedule(0.05)),
        "batch": Batch(Scheme.RESHUFFLED, 4),
        "clipping": Clipping(ClippingKind.NORM, 1.0),
        "start": GaussianStart(0.5),
    }
    problem = MODEL.problem(N, Domain(FEATURES, 10.0, classes=3), given["clipping"])
    return Spec(algorithm=NoisyGradient(**(given | changed)), problem=problem, relation=relation, view=view)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"steps": 7}, "whole epochs of 3 steps"),
        ({"projection": Ball(1.0)}, "projection"),
        ({"clipping": Clipping(ClippingKind.FEATURE, 1.0)}, "norm"),
        ({"step_size": PolynomialSchedule(0.1, 1.0, 0.5)}, "the same at every step"),
        ({"batch": Batch(Scheme.POISSON, 4)}, "fixed size"),
        ({"noise": StableNoise(1.5, ConstantSchedule(0.05))}, "gaussian"),
        ({"chains": 2}, "chains to be 1"),
        ({"relation": Relation.ADD_REMOVE}, "replace-one"),
        ({"view": View.ALL_ITERATES}, "last-iterate"),
    ],
)
def test_a_spec_no_fleet_can_train_is_refused_in_one_sentence(changed, words) -> None:
    with pytest.raises(InputError, match=words) as refused:
        plan_of(_spec(**changed), MODEL, 9)
    assert "attack method" in str(refused.value)
    assert str(refused.value).count(". ") == 0
    expected = FleetPlan(0.3, 0.05, Batch(Scheme.RESHUFFLED, 4), 2, 9, clip_norm=1.0, start=GaussianStart(0.5))
    assert plan_of(_spec(), MODEL, 9) == expected


def test_a_spec_that_claims_another_weight_decay_than_the_model_has_is_refused() -> None:
    spec = _spec()
    claimed = replace(MODEL, weight_decay=0.5).problem(N, Domain(FEATURES, 10.0, classes=3), spec.algorithm.clipping)
    with pytest.raises(InputError, match="regulariser"):
        plan_of(replace(spec, problem=claimed), MODEL, 9)
