"""The table of certificates, what clipping keeps, and what a certificate says about itself."""

import math

import pytest

from sordino import InputError, models
from sordino.core.bound import Evidence, Relation, View
from sordino.core.spec import Ball, Batch, ConstantSchedule, GaussianNoise, NoisyGradient, Scheme, Spec
from sordino.data import Boolean, Category, Feature, Number, RowNorm, Schema, Target
from tests.models.cases import feature, norm, residual

R, LAMBDA = 3.0, 0.25
ROWS = models.Domain(4, R, target_bound=2.0)
PLAIN = models.Domain(4, R)
UNBOUNDED = (None, None)
CLIPPED = [models.GaussianLinear(), models.Logistic(), models.Huber(1.0), models.PoissonRegression(2.0, 5.0)]


def values(model, domain=PLAIN, clipping=None, ball=None):
    return {name: certificate.value for name, certificate in model.certificates(domain, clipping, ball).items()}


@pytest.mark.parametrize(
    ("model", "domain", "bound", "sensitivity", "smoothness"),
    [
        (models.Logistic(weight_decay=LAMBDA), PLAIN, R, 2 * R, R * R / 4),
        (models.Softmax(4, weight_decay=LAMBDA), PLAIN, math.sqrt(2) * R, 2 * math.sqrt(2) * R, R * R / 2),
        (models.GaussianLinear(weight_decay=LAMBDA), ROWS, *UNBOUNDED, R * R),
        (models.Huber(0.5, weight_decay=LAMBDA), ROWS, 0.5 * R, R, R * R),
        (models.PoissonRegression(2.0, 5.0, weight_decay=LAMBDA), PLAIN, 5 * R, 10 * R, 2 * R * R),
    ],
)
def test_the_table(model, domain, bound, sensitivity, smoothness):
    held = values(model, domain)
    assert held.get("gradient_bound") == (None if bound is None else pytest.approx(bound, rel=1e-15))
    assert held.get("gradient_sensitivity") == (None if sensitivity is None else pytest.approx(sensitivity, rel=1e-15))
    assert held.get("drift_bound") == held.get("gradient_bound")
    assert held["strong_convexity"] == LAMBDA
    assert held["smoothness"] == pytest.approx(smoothness + LAMBDA, rel=1e-15)
    assert held["regulariser.strong_convexity"] == held["regulariser.smoothness"] == LAMBDA
    assert "unclipped_smoothness" not in held


@pytest.mark.parametrize("size", [0.1, 1 / 3, 0.7, 1.1, math.pi])
def test_constants_are_rounded_outward(size):
    from fractions import Fraction

    held = values(models.Logistic(weight_decay=0.1), models.Domain(2, size))
    exact = Fraction(size) ** 2 / 4 + Fraction(0.1)
    assert Fraction(held["smoothness"]) >= exact
    assert held["smoothness"] == pytest.approx(float(exact), rel=1e-15)
    assert Fraction(values(models.Softmax(3), models.Domain(2, size))["gradient_bound"]) ** 2 >= 2 * Fraction(size) ** 2


def test_growth_of_ridge_and_logistic_gradients():
    ridge = values(models.GaussianLinear(noise_precision=2.0), ROWS)
    assert [ridge[f"gradient_growth.{part}"] for part in ("g0", "g1", "at_zero")] == [24.0, 18.0, 12.0]
    logistic = values(models.Logistic())
    assert [logistic[f"gradient_growth.{part}"] for part in ("g0", "g1", "at_zero")] == [6.0, 0.0, 1.5]


def test_ridge_without_target_bounds_claims_no_growth():
    assert "gradient_growth.g0" not in values(models.GaussianLinear())


def test_a_ball_bounds_a_growing_gradient():
    held = values(models.GaussianLinear(), ROWS, ball=Ball(2.0))
    assert held["gradient_bound"] == 2 * R + 2 * R * R
    assert held["gradient_sensitivity"] == 4 * R + 2 * R * R


@pytest.mark.parametrize("clipping", [residual(1.0), norm(1.0)])
@pytest.mark.parametrize("model", CLIPPED)
def test_clipping_a_scalar_residual_keeps_curvature(model, clipping):
    clipped, plain = values(model, ROWS if model == models.GaussianLinear() else PLAIN, clipping), values(model)
    assert (clipped["gradient_bound"], clipped["gradient_sensitivity"], clipped["drift_bound"]) == (1.0, 2.0, 1.0)
    assert clipped["strong_convexity"] == plain["strong_convexity"]
    assert clipped["smoothness"] == plain["smoothness"]
    assert clipped["unclipped_smoothness"] == plain["smoothness"]


def test_clipping_two_classes_keeps_curvature_and_three_classes_do_not():
    assert values(models.Softmax(2, weight_decay=LAMBDA), clipping=norm(1.0))["strong_convexity"] == LAMBDA
    held = values(models.Softmax(3, weight_decay=LAMBDA), clipping=norm(1.0))
    assert "strong_convexity" not in held
    assert "smoothness" not in held
    assert held["unclipped_smoothness"] == R * R / 2
    assert held["gradient_sensitivity"] == 2.0


def test_a_clip_that_never_acts_keeps_everything():
    """The kernel shortens a little more than declared, so a clip at the bound itself still acts."""
    model = models.Softmax(3, weight_decay=LAMBDA)
    bound = values(model)["gradient_bound"]
    assert values(model, clipping=norm(bound * 1.001)) == values(model)
    assert models.working_bound(bound, 12) < bound
    assert "strong_convexity" not in values(model, clipping=norm(bound))


@pytest.mark.parametrize("model", [models.Softmax(3, weight_decay=LAMBDA), models.Logistic(weight_decay=LAMBDA)])
def test_feature_clipping_is_a_smaller_domain(model):
    assert values(model, clipping=feature(1.0)) == values(model, models.Domain(4, 1.0))
    assert values(model, clipping=feature(9.0)) == values(model)


def test_residual_clipping_of_a_vector_residual_is_refused():
    for model in (models.Softmax(3), models.MLPRegression((3,))):
        with pytest.raises(InputError, match='use clipping kind "norm"'):
            model.certificates(PLAIN, residual(1.0))


@pytest.mark.parametrize(
    "model", [models.MLPRegression((3,), weight_decay=0.1), models.GaussianMixture((0.5, 0.5), 1.0)]
)
def test_a_loss_that_is_not_convex_never_claims_curvature(model):
    for clipping in (None, norm(1.0), feature(1.0)):
        held = values(model, clipping=clipping)
        assert not {"strong_convexity", "smoothness", "unclipped_smoothness"} & set(held)


def test_a_users_loss_claims_what_clipping_gives_or_the_user_declares():
    assert set(values(models.JaxModel(abs, 3))) == {"regulariser.strong_convexity", "regulariser.smoothness"}
    declared = models.LossFacts(convex="stated", smoothness=models.LossFact(2.0, "stated"), evidence=Evidence.DECLARED)
    held = models.JaxModel(abs, 3, declared, weight_decay=1.0).certificates(PLAIN, None)
    assert held["smoothness"].value == 3.0
    assert held["smoothness"].evidence == held["strong_convexity"].evidence == Evidence.DECLARED
    with pytest.raises(InputError, match="at most declared"):
        models.JaxModel(abs, 3, models.LossFacts(convex="stated"))


def test_evidence_is_the_weakest_link():
    assert models.Logistic().certificates(PLAIN, None)["gradient_bound"].evidence == Evidence.DECLARED
    assert models.Logistic().certificates(PLAIN, norm(1.0))["gradient_bound"].evidence == Evidence.BY_CONSTRUCTION
    domain = models.Domain.from_schema(schema(Boolean()))
    assert models.Logistic().certificates(domain, None)["gradient_bound"].evidence == Evidence.BY_CONSTRUCTION
    assert models.Logistic().certificates(domain, None)["strong_convexity"].evidence == Evidence.PROVED


def test_reasons_name_their_source():
    assert "Proposition 12" in models.Logistic().certificates(PLAIN, None)["gradient_bound"].reason
    assert "clipped to 1" in models.Logistic().certificates(PLAIN, norm(1.0))["gradient_bound"].reason


def schema(target, reads_private_data=False):
    columns = (Feature("a", Number(-1.0, 1.0)), Feature("b", Number(0.0, 9.0)))
    return Schema(
        records=100,
        features=columns,
        target=Target("y", target),
        intercept=True,
        row_norm=RowNorm(2.0, includes_intercept=False),
        reads_private_data=reads_private_data,
    )


def test_the_domain_of_a_schema():
    domain = models.Domain.from_schema(schema(Number(-4.0, 4.0)))
    assert domain.features == 3
    assert domain.row_norm == schema(Number(-4.0, 4.0)).feature_norm_certificate()
    assert domain.target_bound is not None
    assert domain.target_bound.value == 1.0
    assert models.Domain.from_schema(schema(Category(("u", "v", "w")))).classes == 3


@pytest.mark.parametrize("clipping", [None, norm(0.5), feature(0.5)])
def test_private_domains_mark_every_certificate_of_the_loss(clipping):
    domain = models.Domain.from_schema(schema(Boolean(), reads_private_data=True))
    for name, certificate in models.Logistic().certificates(domain, clipping).items():
        assert certificate.reads_private_data is not name.startswith("regulariser.")


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (models.Logistic(), Category(("u", "v", "w"))),
        (models.Logistic(), Number(0.0, 5.0)),
        (models.Softmax(3), Category(("u", "v"))),
        (models.Softmax(2), Boolean()),
    ],
)
def test_a_target_coded_for_another_model_is_refused(model, target):
    with pytest.raises(InputError, match="the target of"):
        model.certificates(models.Domain.from_schema(schema(target)), None)


def test_the_problem_section_survives_a_spec_unchanged():
    problem = models.Softmax(3, weight_decay=0.1).problem(500, PLAIN, norm(1.0))
    assert (problem.n, problem.dim) == (500, 12)
    assert problem.strong_convexity is None
    noise = GaussianNoise(ConstantSchedule(1.0))
    algorithm = NoisyGradient(
        steps=3, step_size=ConstantSchedule(0.1), noise=noise, batch=Batch(Scheme.FULL), clipping=norm(1.0)
    )
    spec = Spec(algorithm=algorithm, problem=problem, relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE)
    assert spec.problem == problem
    assert Spec.from_dict(spec.to_dict()).problem == problem


def test_the_registry_names_every_family_once():
    assert len(set(models.MODELS.values())) == len(models.MODELS) >= 10


@pytest.mark.parametrize(
    "build",
    [
        lambda: models.Logistic(weight_decay=-1.0),
        lambda: models.Softmax(1),
        lambda: models.Huber(0.0),
        lambda: models.GaussianMixture((0.5, 0.6), 1.0),
        lambda: models.MLPRegression((3,), "sinus"),
        lambda: models.PoissonRegression(math.inf, 1.0),
        lambda: models.Domain(0, 1.0),
        lambda: models.Domain(3, -1.0),
    ],
)
def test_bad_input_is_refused(build):
    with pytest.raises(InputError):
        build()
