"""A fleet makes the canonical chain's steps, and any part of it comes out the same bit for bit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino import InputError, Relation, View
from sordino.auditing import fleet as engine
from sordino.auditing.fleet import FleetPlan, KeyPurpose, member_keys, plan_of, train_fleet
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
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(N, FEATURES)).astype(np.float32)
Y = GENERATOR.integers(0, 3, N).astype(np.float32)


def test_what_a_model_draws_depends_on_its_number_and_never_on_its_company() -> None:
    plan = FleetPlan(0.3, 0.05, Batch(Scheme.RESHUFFLED, 4), 3, seed=5, clip_norm=1.0, start=GaussianStart(0.5))
    many = train_fleet(MODEL, X, Y, plan, 70)  # two groups
    assert many.shape == (70, MODEL.dim(FEATURES))
    assert np.array_equal(train_fleet(MODEL, X, Y, plan, 3), many[:3])
    assert len(np.unique(many, axis=0)) == 70


@pytest.mark.parametrize("wrong", [(X[:3], Y), (X[0], Y[:1]), (X * np.nan, Y), (X[:0], Y[:0])])
def test_rows_that_are_no_table_are_refused(wrong) -> None:
    plan = FleetPlan(0.3, 0.05, Batch(Scheme.CYCLIC, 4), 1, seed=5)
    with pytest.raises(InputError, match="one row for each"):
        train_fleet(MODEL, *wrong, plan, 1)
    with pytest.raises(InputError, match="2\\^32"):
        train_fleet(MODEL, X, Y, replace(plan, epochs=2**31), 1)


@pytest.mark.every(2)
@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_a_fleet_makes_the_steps_of_the_canonical_chain(clip_norm) -> None:
    plan = FleetPlan(0.3, 0.05, Batch(Scheme.CYCLIC, 4), 2, seed=5, clip_norm=clip_norm, start=GaussianStart(0.5))
    found, numbers = train_fleet(MODEL, X, Y, plan, 2), jnp.arange(2, dtype=jnp.uint32)
    noise = member_keys(5, numbers, KeyPurpose.NOISE)
    thetas = 0.5 * gaussians(member_keys(5, numbers, KeyPurpose.START), jnp.uint32(0), MODEL.dim(FEATURES))
    clipping = None if clip_norm is None else Clipping(ClippingKind.NORM, clip_norm)
    gradient = jax.jit(lambda *given: MODEL.batch_gradient(*given, clipping))
    for theta, keys, given in zip(thetas, zip(*noise, strict=True), found, strict=True):
        for step in range(6):
            batch = slice(4 * (step % 3), 4 * (step % 3) + 4)
            total = gradient(theta, jnp.asarray(X[batch]), jnp.asarray(Y[batch]), jnp.ones(len(Y[batch])))
            xi = gaussians((keys[0][None], keys[1][None]), jnp.uint32(step), theta.size)[0]
            theta = theta - 0.3 * (total / 4 + MODEL.penalty_gradient(theta)) + 0.05 * xi  # noqa: PLW2901
        np.testing.assert_allclose(given, theta, atol=3e-6)


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
