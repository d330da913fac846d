"""Each way a spec can be wrong is refused with the key that is wrong; each default means what the contract says."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from sordino.core import bound as constants
from sordino.core import spec as specs
from sordino.core.bound import Certificate, Evidence, Relation, View
from sordino.core.validate import InputError

SPECS = Path(__file__).parents[3] / "examples" / "specs"


def example(name: str) -> specs.Spec:
    return specs.Spec.from_json((SPECS / f"{name}.json").read_text(encoding="utf-8"))


# Changes of the named example (" | " between values, " & " between keys), and the key that is refused: the changed one,
# one below it, or another.
REFUSED = r"""
[golden-poisson]
algorithm=null
relation=null | "replace-two"
view=null | "one-sample"
delta=0.0 | 1 | true | "1e-5"
problem=null -> .n
problem.n=null | 10000.0 | 9007199254740993
problem.dim=null
problem.n=99 -> algorithm.batch.size
problem.gradient_bound=-1 | NaN | Infinity
problem.gradient_bound={"value":1.0} | {"value":1.0,"evidence":"guessed","reason":"r"} -> .evidence
problem.gradient_bound={"value":1.0,"evidence":"proved"} -> .reason
problem.gradient_bound={"value":1.0,"evidence":"proved","reason":"two\nlines"} -> .reason
problem.gradient_bound={"value":-1.0,"evidence":"proved","reason":"r"} -> .value
problem.gradient_bound={"value":1,"evidence":"proved","reason":"r","reads_private_data":1} -> .reads_private_data
problem.regulariser={"strong_convexity":1.0} -> .smoothness
problem.regulariser={"strong_convexity":1.0,"smoothness":0.5} -> .strong_convexity
problem.strong_convexity=2.0 & problem.smoothness=1.0 -> problem.strong_convexity
problem.ergodicity={"C":1.0,"rho":1.0} -> .rho
problem.convergence={"zeta":1.0,"rate":1.0,"bias":0.0} -> .rate
algorithm.kind=null | "noisy-gradients"
algorithm.steps=0 | true
algorithm.step_size=0 | [1.0]
algorithm.step_size={"kind":"list","values":[1.0]} | {"kind":"list","values":[]} -> .values
algorithm.step_size={"kind":"list","values":[1.0,0.0]} -> .values.1
algorithm.step_size={"kind":"constant","value":1.0} -> .kind
algorithm.noise.scale={"kind":"polynomial","initial":1.0,"offset":1.0,"power":900.0} | 0.0
algorithm.noise.scale={"kind":"polynomial","initial":1.0,"offset":1.0,"power":-1.0} -> .power
algorithm.noise.alpha=1.5
algorithm.noise.kind="stable" -> algorithm.noise.alpha
algorithm.batch="poisson"
algorithm.batch.size=null
algorithm.batch.rate=0.0 | 1.1
algorithm.clipping.classes=1
algorithm.clipping.kind="value"
algorithm.projection={"kind":"ball","radius":0} -> .radius
algorithm.projection={"kind":"box","radius":1} -> .kind
algorithm.start={"kind":"prior"} -> .kind
algorithm.start={"kind":"point","values":[0.0]} -> .values
algorithm.chains=0
algorithm.keep="some"
algorithm.keep={"burn_in":1000,"thin":1} -> .burn_in
algorithm.keep={"burn_in":0,"thin":0} | {"burn_in":0} -> .thin
algorithm.steps.value=3 -> algorithm.steps
[heavy-tail-ridge]
algorithm.noise.alpha=1.0
[cyclic-last-iterate]
algorithm.batch.rate=0.1
algorithm.keep="all" | {"burn_in":0,"thin":1}
[full-last-iterate]
algorithm.batch.size=100
[average-gaussian]
average=null
view="all-iterates" -> average
average.noise.kind="cauchy"
[posterior-linear-regression]
problem=null -> .n
algorithm.potential.beta=0.5
algorithm.potential.x_low=1.8 -> algorithm.potential.x_high
algorithm.potential.gamma1=0.5
view="last-iterate"
[posterior-strongly-log-concave]
algorithm.potential.strong_convexity=0
[posterior-bounded]
algorithm.potential.diameter=0
algorithm.draws=0
[propose-test-sample]
algorithm.delta=0.5
algorithm.rho1=1.5
algorithm.rho2=0.46 -> algorithm.gamma1
algorithm.beta=0.74
algorithm.sampler=null
[message-passing-passes]
algorithm.sampling.size=null | 7374
problem.n=7372
algorithm.unit={"column":"patient","most_records":3} -> algorithm.sampling.scheme
[message-passing-rounds]
algorithm.sampling.size=7372
algorithm.options.damping={"kind":"list","values":[1]} | {"kind":"list"} -> .values
algorithm.options={"no name":1}
algorithm.noise_multiplier=0
algorithm.query=""
algorithm.contribution=0
algorithm.shape="matrix"
algorithm.sampling="full"
algorithm.unit="patient"
algorithm.unit={"column":"patient"} -> .most_records
[em]
view="last-iterate"
[composite]
algorithm.parts=[]
problem={"n":3}
algorithm.parts.0.problem.n=10 -> algorithm.parts.0.algorithm.batch.size
algorithm.parts.1.view=null
algorithm.parts.0.relation="add-remove"
algorithm.parts.0.algorithm={"kind":"composite","parts":[]} -> .kind
algorithm.parts.0.view="all-iterates" & view="posterior-parameters" -> view
algorithm.parts.7.view="all-iterates" -> algorithm.parts
"""


def refusals() -> list[tuple[str, dict[str, Any], str]]:
    name, rows = "", [("golden-poisson", {"problem.n": 10**5000}, "problem.n")]
    for line in REFUSED.split("\n")[1:-1]:
        if line.startswith("["):
            name = line[1:-1]
            continue
        changes, _, key = line.partition(" -> ")
        (path, values), *others = (change.split("=", 1) for change in changes.split(" & "))
        refused = path + key if key[:1] in ("", ".") else key
        more = {place: json.loads(value) for place, value in others}
        rows += [(name, {path: json.loads(value), **more}, refused) for value in values.split(" | ")]
    return rows


@pytest.mark.parametrize(("name", "change", "key"), refusals())
def test_a_wrong_spec_is_refused_by_its_key(name: str, change: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as refusal:
        example(name).with_values(change)
    message = str(refusal.value)
    assert any(f" {key}{end}" in f" {message}" for end in " ,;")
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
    assert specs.Spec.from_dict(spelled_out) == specs.Spec.from_dict(document)
    assert specs.Spec.from_dict(spelled_out).to_dict() == document


def test_defaults() -> None:
    chain = example("golden-poisson").algorithm
    assert isinstance(chain, specs.NoisyGradient)
    assert (chain.start, chain.chains, chain.keep) == (specs.PointStart(), 1, None)
    assert chain.clipping == specs.Clipping(specs.ClippingKind.NORM, 1.0, None)


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
    assert {"reads_private_data": False} | spec.to_dict()["problem"]["gradient_bound"] == stated


def test_a_spec_built_in_python_equals_the_one_read() -> None:
    step, noise = specs.ConstantSchedule(0.02), specs.GaussianNoise(specs.ConstantSchedule(0.004))
    batch = specs.Batch(specs.Scheme.CYCLIC, 100)
    built = specs.Spec(
        algorithm=specs.NoisyGradient(steps=1000, step_size=step, noise=noise, batch=batch),
        problem=example("cyclic-last-iterate").problem,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
        delta=1e-5,
    )
    assert built == example("cyclic-last-iterate")
    assert hash(built) == hash(example("cyclic-last-iterate"))


def test_a_section_built_in_python_is_checked_too() -> None:
    with pytest.raises(InputError, match="size"):
        specs.Batch(specs.Scheme.CYCLIC)
    with pytest.raises(InputError, match="alpha"):
        specs.StableNoise(2.5, specs.ConstantSchedule(1.0))
    with pytest.raises(InputError, match=r"certificate of gradient_bound"):
        specs.Problem(gradient_bound=Certificate(constants.SMOOTHNESS, 1.0, Evidence.PROVED, "r"))
    with pytest.raises(InputError, match=r"smoothness\.reason"):
        specs.Problem(smoothness=Certificate(constants.SMOOTHNESS, 1.0, Evidence.PROVED, "two\nlines"))


def test_a_composite_gives_its_runs() -> None:
    spec = example("composite")
    chain, draw = spec.runs()
    assert isinstance(spec.algorithm, specs.Composite)
    assert (chain.view, draw.view) == (View.LAST_ITERATE, View.ONE_SAMPLE)
    assert chain == example("cyclic-last-iterate")
    assert chain.runs() == (chain,)


def test_with_values_leaves_the_original_alone() -> None:
    spec = example("golden-poisson")
    before = spec.to_json()
    changed = spec.with_values({"algorithm.noise.scale": 0.3, "problem.strong_convexity": 0.1})
    assert isinstance(changed.algorithm, specs.NoisyGradient)
    assert changed.algorithm.noise == specs.GaussianNoise(specs.ConstantSchedule(0.3))
    assert spec.to_json() == before
    assert changed.with_values({"algorithm.noise.scale": 0.01, "problem.strong_convexity": None}) == spec


def test_a_contradiction_survives_pickling() -> None:
    with pytest.raises(InputError) as refusal:
        example("golden-poisson").with_values({"problem.n": 5})
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)
