"""Each way a spec can be wrong is refused with the key that is wrong; each default means what the contract says."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from sordino.core import bound as constants
from sordino.core.bound import Certificate, Evidence, Relation, View
from sordino.core.spec import (
    Batch,
    Clipping,
    ClippingKind,
    Composite,
    ConstantSchedule,
    GaussianNoise,
    NoisyGradient,
    PointStart,
    Problem,
    Scheme,
    Spec,
    StableNoise,
)
from sordino.core.validate import InputError

SPECS = Path(__file__).parents[3] / "examples" / "specs"


def example(name: str) -> Spec:
    return Spec.from_json((SPECS / f"{name}.json").read_text(encoding="utf-8"))


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("golden-poisson", {"algorithm": None}, "algorithm"),
    ("golden-poisson", {"relation": None}, "relation"),
    ("golden-poisson", {"relation": "replace-two"}, "relation"),
    ("golden-poisson", {"view": None}, "view"),
    ("golden-poisson", {"view": "one-sample"}, "view"),
    ("golden-poisson", {"delta": 0.0}, "delta"),
    ("golden-poisson", {"delta": 1}, "delta"),
    ("golden-poisson", {"delta": True}, "delta"),
    ("golden-poisson", {"delta": "1e-5"}, "delta"),
    ("golden-poisson", {"problem": None}, "problem.n"),
    ("golden-poisson", {"problem.n": None}, "problem.n"),
    ("golden-poisson", {"problem.dim": None}, "problem.dim"),
    ("golden-poisson", {"problem.n": 10000.0}, "problem.n"),
    ("golden-poisson", {"problem.n": 2**53 + 1}, "problem.n"),
    ("golden-poisson", {"problem.n": 10**5000}, "problem.n"),
    ("golden-poisson", {"problem.n": 99}, "algorithm.batch.size"),
    ("golden-poisson", {"problem.gradient_bound": -1}, "problem.gradient_bound"),
    ("golden-poisson", {"problem.gradient_bound": float("nan")}, "problem.gradient_bound"),
    ("golden-poisson", {"problem.gradient_bound": float("inf")}, "problem.gradient_bound"),
    ("golden-poisson", {"problem.gradient_bound": {"value": 1.0}}, "problem.gradient_bound.evidence"),
    (
        "golden-poisson",
        {"problem.gradient_bound": {"value": 1.0, "evidence": "proved"}},
        "problem.gradient_bound.reason",
    ),
    (
        "golden-poisson",
        {"problem.gradient_bound": {"value": -1.0, "evidence": "proved", "reason": "r"}},
        "problem.gradient_bound.value",
    ),
    (
        "golden-poisson",
        {"problem.gradient_bound": {"value": 1.0, "evidence": "guessed", "reason": "r"}},
        "problem.gradient_bound.evidence",
    ),
    (
        "golden-poisson",
        {"problem.gradient_bound": {"value": 1.0, "evidence": "proved", "reason": "two\nlines"}},
        "problem.gradient_bound.reason",
    ),
    (
        "golden-poisson",
        {"problem.gradient_bound": {"value": 1, "evidence": "proved", "reason": "r", "reads_private_data": 1}},
        "problem.gradient_bound.reads_private_data",
    ),
    ("golden-poisson", {"problem.regulariser": {"strong_convexity": 1.0}}, "problem.regulariser.smoothness"),
    (
        "golden-poisson",
        {"problem.regulariser": {"strong_convexity": 1.0, "smoothness": 0.5}},
        "problem.regulariser.strong_convexity",
    ),
    ("golden-poisson", {"problem.strong_convexity": 2.0, "problem.smoothness": 1.0}, "problem.strong_convexity"),
    ("golden-poisson", {"problem.ergodicity": {"C": 1.0, "rho": 1.0}}, "problem.ergodicity.rho"),
    ("golden-poisson", {"problem.convergence": {"zeta": 1.0, "rate": 1.0, "bias": 0.0}}, "problem.convergence.rate"),
    ("golden-poisson", {"algorithm.kind": None}, "algorithm.kind"),
    ("golden-poisson", {"algorithm.kind": "noisy-gradients"}, "algorithm.kind"),
    ("golden-poisson", {"algorithm.steps": 0}, "algorithm.steps"),
    ("golden-poisson", {"algorithm.steps": True}, "algorithm.steps"),
    ("golden-poisson", {"algorithm.step_size": 0}, "algorithm.step_size"),
    ("golden-poisson", {"algorithm.step_size": [1.0]}, "algorithm.step_size"),
    ("golden-poisson", {"algorithm.step_size": {"kind": "list", "values": [1.0]}}, "algorithm.step_size.values"),
    ("golden-poisson", {"algorithm.step_size": {"kind": "list", "values": []}}, "algorithm.step_size.values"),
    ("golden-poisson", {"algorithm.step_size": {"kind": "list", "values": [1.0, 0.0]}}, "algorithm.step_size.values.1"),
    ("golden-poisson", {"algorithm.step_size": {"kind": "constant", "value": 1.0}}, "algorithm.step_size.kind"),
    (
        "golden-poisson",
        {"algorithm.noise.scale": {"kind": "polynomial", "initial": 1.0, "offset": 1.0, "power": 900.0}},
        "algorithm.noise.scale",
    ),
    (
        "golden-poisson",
        {"algorithm.noise.scale": {"kind": "polynomial", "initial": 1.0, "offset": 1.0, "power": -1.0}},
        "algorithm.noise.scale.power",
    ),
    ("golden-poisson", {"algorithm.noise.scale": 0.0}, "algorithm.noise.scale"),
    ("golden-poisson", {"algorithm.noise.alpha": 1.5}, "algorithm.noise.alpha"),
    ("golden-poisson", {"algorithm.noise.kind": "stable"}, "algorithm.noise.alpha"),
    ("heavy-tail-ridge", {"algorithm.noise.alpha": 1.0}, "algorithm.noise.alpha"),
    ("golden-poisson", {"algorithm.batch": "poisson"}, "algorithm.batch"),
    ("golden-poisson", {"algorithm.batch.size": None}, "algorithm.batch.size"),
    ("golden-poisson", {"algorithm.batch.rate": 0.0}, "algorithm.batch.rate"),
    ("golden-poisson", {"algorithm.batch.rate": 1.1}, "algorithm.batch.rate"),
    ("cyclic-last-iterate", {"algorithm.batch.rate": 0.1}, "algorithm.batch.rate"),
    ("full-last-iterate", {"algorithm.batch.size": 100}, "algorithm.batch.size"),
    ("golden-poisson", {"algorithm.clipping.classes": 1}, "algorithm.clipping.classes"),
    ("golden-poisson", {"algorithm.clipping.kind": "value"}, "algorithm.clipping.kind"),
    ("golden-poisson", {"algorithm.projection": {"kind": "ball", "radius": 0}}, "algorithm.projection.radius"),
    ("golden-poisson", {"algorithm.projection": {"kind": "box", "radius": 1}}, "algorithm.projection.kind"),
    ("golden-poisson", {"algorithm.start": {"kind": "prior"}}, "algorithm.start.kind"),
    ("golden-poisson", {"algorithm.start": {"kind": "point", "values": [0.0]}}, "algorithm.start.values"),
    ("golden-poisson", {"algorithm.chains": 0}, "algorithm.chains"),
    ("golden-poisson", {"algorithm.keep": "some"}, "algorithm.keep"),
    ("golden-poisson", {"algorithm.keep": {"burn_in": 1000, "thin": 1}}, "algorithm.keep.burn_in"),
    ("golden-poisson", {"algorithm.keep": {"burn_in": 0, "thin": 0}}, "algorithm.keep.thin"),
    ("golden-poisson", {"algorithm.keep": {"burn_in": 0}}, "algorithm.keep.thin"),
    ("cyclic-last-iterate", {"algorithm.keep": "all"}, "algorithm.keep"),
    ("cyclic-last-iterate", {"algorithm.keep": {"burn_in": 0, "thin": 1}}, "algorithm.keep"),
    ("average-gaussian", {"average": None}, "average"),
    ("average-gaussian", {"view": "all-iterates"}, "average"),
    ("average-gaussian", {"average.noise.kind": "cauchy"}, "average.noise.kind"),
    ("posterior-linear-regression", {"problem": None}, "problem.n"),
    ("posterior-linear-regression", {"algorithm.potential.beta": 0.5}, "algorithm.potential.beta"),
    ("posterior-linear-regression", {"algorithm.potential.x_low": 1.8}, "algorithm.potential.x_high"),
    ("posterior-linear-regression", {"algorithm.potential.gamma1": 0.5}, "algorithm.potential.gamma1"),
    ("posterior-linear-regression", {"view": "last-iterate"}, "view"),
    (
        "posterior-strongly-log-concave",
        {"algorithm.potential.strong_convexity": 0},
        "algorithm.potential.strong_convexity",
    ),
    ("posterior-bounded", {"algorithm.potential.diameter": 0}, "algorithm.potential.diameter"),
    ("posterior-bounded", {"algorithm.draws": 0}, "algorithm.draws"),
    ("propose-test-sample", {"algorithm.delta": 0.5}, "algorithm.delta"),
    ("propose-test-sample", {"algorithm.rho1": 1.5}, "algorithm.rho1"),
    ("propose-test-sample", {"algorithm.rho2": 0.46}, "algorithm.gamma1"),
    ("propose-test-sample", {"algorithm.beta": 0.74}, "algorithm.beta"),
    ("propose-test-sample", {"algorithm.sampler": None}, "algorithm.sampler"),
    ("message-passing-passes", {"algorithm.sampling.size": None}, "algorithm.sampling.size"),
    ("message-passing-passes", {"algorithm.sampling.size": 7374}, "algorithm.sampling.size"),
    ("message-passing-passes", {"problem.n": 7372}, "problem.n"),
    ("message-passing-rounds", {"algorithm.sampling.size": 7372}, "algorithm.sampling.size"),
    (
        "message-passing-rounds",
        {"algorithm.options.damping": {"kind": "list", "values": [1]}},
        "algorithm.options.damping.values",
    ),
    ("message-passing-rounds", {"algorithm.options.damping": {"kind": "list"}}, "algorithm.options.damping.values"),
    ("message-passing-rounds", {"algorithm.options": {"no name": 1}}, "algorithm.options"),
    ("message-passing-rounds", {"algorithm.noise_multiplier": 0}, "algorithm.noise_multiplier"),
    ("message-passing-rounds", {"algorithm.query": ""}, "algorithm.query"),
    ("message-passing-rounds", {"algorithm.contribution": 0}, "algorithm.contribution"),
    ("message-passing-rounds", {"algorithm.shape": "matrix"}, "algorithm.shape"),
    ("message-passing-rounds", {"algorithm.sampling": "full"}, "algorithm.sampling"),
    ("message-passing-rounds", {"algorithm.unit": "patient"}, "algorithm.unit"),
    ("message-passing-rounds", {"algorithm.unit": {"column": "patient"}}, "algorithm.unit.most_records"),
    (
        "message-passing-passes",
        {"algorithm.unit": {"column": "patient", "most_records": 3}},
        "algorithm.sampling.scheme",
    ),
    ("em", {"view": "last-iterate"}, "view"),
    ("composite", {"algorithm.parts": []}, "algorithm.parts"),
    ("composite", {"problem": {"n": 3}}, "problem"),
    ("composite", {"algorithm.parts.0.problem.n": 10}, "algorithm.parts.0.algorithm.batch.size"),
    ("composite", {"algorithm.parts.1.view": None}, "algorithm.parts.1.view"),
    ("composite", {"algorithm.parts.0.relation": "add-remove"}, "algorithm.parts.0.relation"),
    (
        "composite",
        {"algorithm.parts.0.algorithm": {"kind": "composite", "parts": []}},
        "algorithm.parts.0.algorithm.kind",
    ),
    ("composite", {"algorithm.parts.0.view": "all-iterates", "view": "posterior-parameters"}, "view"),
    ("composite", {"algorithm.parts.7.view": "all-iterates"}, "algorithm.parts"),
    ("golden-poisson", {"algorithm.steps.value": 3}, "algorithm.steps"),
]


@pytest.mark.parametrize(("name", "change", "key"), REFUSALS)
def test_a_wrong_spec_is_refused_by_its_key(name: str, change: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as refusal:
        example(name).with_values(change)
    message = str(refusal.value)
    assert f" {key} " in message or f" {key}," in message or f" {key};" in message
    assert message.isprintable()


def test_an_unknown_key_is_named_with_the_allowed_ones_and_the_likeliest() -> None:
    with pytest.raises(
        InputError, match=r"algorithm\.batch\.sise; .* scheme, size, rate, cap, uses, separation; did you mean size\."
    ):
        example("golden-poisson").with_values({"algorithm.batch.sise": 3})


def test_null_and_absent_mean_the_same() -> None:
    document = example("golden-poisson").to_dict()
    spelled_out = json.loads(json.dumps(document))
    spelled_out["average"] = None
    spelled_out["algorithm"] |= {"projection": None, "start": None, "chains": None, "keep": None}
    spelled_out["algorithm"]["batch"]["rate"] = None
    spelled_out["problem"] |= {"regulariser": None, "drift_bound": None}
    assert Spec.from_dict(spelled_out) == Spec.from_dict(document)
    assert Spec.from_dict(spelled_out).to_dict() == document


def test_defaults() -> None:
    chain = example("golden-poisson").algorithm
    assert isinstance(chain, NoisyGradient)
    assert (chain.start, chain.chains, chain.keep) == (PointStart(), 1, None)
    assert chain.clipping == Clipping(ClippingKind.NORM, 1.0, None)


def test_a_plain_number_is_declared_and_written_back_plain() -> None:
    spec = example("golden-poisson")
    assert spec.problem is not None
    assert spec.problem.gradient_bound == Certificate(
        constants.GRADIENT_BOUND, 1.0, Evidence.DECLARED, "given in the spec"
    )
    assert spec.to_dict()["problem"]["gradient_bound"] == 1.0


@pytest.mark.parametrize("private", [True, False])
def test_a_stated_constant_keeps_its_evidence(private: bool) -> None:
    stated = {"value": 1.0, "evidence": "by-construction", "reason": "clipped", "reads_private_data": private}
    spec = example("golden-poisson").with_values({"problem.gradient_bound": stated})
    assert spec.problem is not None
    assert spec.problem.gradient_bound == Certificate(
        constants.GRADIENT_BOUND, 1.0, Evidence.BY_CONSTRUCTION, "clipped", private
    )
    written = spec.to_dict()["problem"]["gradient_bound"]
    assert {"reads_private_data": False} | written == stated


def test_a_spec_built_in_python_equals_the_one_read() -> None:
    built = Spec(
        algorithm=NoisyGradient(
            steps=1000,
            step_size=ConstantSchedule(0.02),
            noise=GaussianNoise(ConstantSchedule(0.004)),
            batch=Batch(Scheme.CYCLIC, 100),
        ),
        problem=example("cyclic-last-iterate").problem,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
        delta=1e-5,
    )
    assert built == example("cyclic-last-iterate")
    assert hash(built) == hash(example("cyclic-last-iterate"))


def test_a_section_built_in_python_is_checked_too() -> None:
    with pytest.raises(InputError, match="size"):
        Batch(Scheme.CYCLIC)
    with pytest.raises(InputError, match="alpha"):
        StableNoise(2.5, ConstantSchedule(1.0))
    with pytest.raises(InputError, match=r"certificate of gradient_bound"):
        Problem(gradient_bound=Certificate(constants.SMOOTHNESS, 1.0, Evidence.PROVED, "r"))
    with pytest.raises(InputError, match=r"smoothness\.reason"):
        Problem(smoothness=Certificate(constants.SMOOTHNESS, 1.0, Evidence.PROVED, "two\nlines"))


def test_a_composite_gives_its_runs() -> None:
    spec = example("composite")
    chain, draw = spec.runs()
    assert isinstance(spec.algorithm, Composite)
    assert (chain.view, draw.view) == (View.LAST_ITERATE, View.ONE_SAMPLE)
    assert chain == example("cyclic-last-iterate")
    assert chain.runs() == (chain,)


def test_with_values_leaves_the_original_alone() -> None:
    spec = example("golden-poisson")
    before = spec.to_json()
    changed = spec.with_values({"algorithm.noise.scale": 0.3, "problem.strong_convexity": 0.1})
    assert isinstance(changed.algorithm, NoisyGradient)
    assert changed.algorithm.noise == GaussianNoise(ConstantSchedule(0.3))
    assert spec.to_json() == before
    assert changed.with_values({"algorithm.noise.scale": 0.01, "problem.strong_convexity": None}) == spec


def test_a_contradiction_survives_pickling() -> None:
    with pytest.raises(InputError) as refusal:
        example("golden-poisson").with_values({"problem.n": 5})
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)
