"""Whatever is thrown at the reader, it answers with an exact spec or with one line that names a key."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sordino.core.spec import Spec, json_schema
from sordino.core.spec.fields import keys_of
from sordino.core.validate import InputError

EXAMPLES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[3] / "examples" / "specs").glob("*.json"))
}
VALIDATOR = Draft202012Validator(json_schema())
FIXED = settings(deadline=None, derandomize=True)
POSITIVE = st.floats(1e-6, 1e6)
CURVATURE = st.floats(0.0, 1e3)
SMALL = st.integers(1, 40)


def constant(value: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    stated = st.fixed_dictionaries(
        {
            "value": value,
            "evidence": st.sampled_from(["estimated", "declared", "by-construction", "proved"]),
            "reason": st.sampled_from(["a proof", "given in the spec", "Satz 3, β ≤ 1"]),
        },
        optional={"reads_private_data": st.one_of(st.booleans(), st.none())},
    )
    return st.one_of(value, stated)


def schedule(steps: int) -> st.SearchStrategy[Any]:
    return st.one_of(
        POSITIVE,
        st.integers(1, 9),
        st.fixed_dictionaries({"kind": st.just("list"), "values": st.lists(POSITIVE, min_size=steps, max_size=steps)}),
        st.fixed_dictionaries(
            {"kind": st.just("polynomial"), "initial": POSITIVE, "offset": POSITIVE, "power": st.floats(0.0, 2.0)}
        ),
    )


@st.composite
def batches(draw: st.DrawFn, n: int) -> dict[str, Any]:
    scheme = draw(st.sampled_from(["full", "cyclic", "shuffle-once", "reshuffled", "without-replacement", "poisson"]))
    if scheme == "full":
        return {"scheme": scheme, "size": draw(st.sampled_from([None, n]))}
    rate = draw(st.one_of(st.none(), st.floats(1e-6, 1.0))) if scheme == "poisson" else None
    return {"scheme": scheme, "size": draw(st.integers(1, n)), "rate": rate}


@st.composite
def problems(draw: st.DrawFn, n: int, dim: int) -> dict[str, Any]:
    strong, smooth = sorted(draw(st.tuples(CURVATURE, CURVATURE)))
    unit = st.floats(0.01, 0.99)
    names = ("K1", "K2", "m", "K", "B", "D")
    optional = {
        "gradient_sensitivity": constant(CURVATURE),
        "gradient_bound": constant(CURVATURE),
        "strong_convexity": constant(st.just(strong)),
        "smoothness": constant(st.just(smooth)),
        "unclipped_smoothness": constant(CURVATURE),
        "regulariser": st.just({"strong_convexity": strong, "smoothness": smooth}),
        "drift_bound": constant(CURVATURE),
        "hoelder": st.fixed_dictionaries({"constant": constant(CURVATURE), "exponent": st.just(0.5)}),
        "gradient_growth": st.fixed_dictionaries({key: constant(CURVATURE) for key in ("g0", "g1", "at_zero")}),
        "dissipativity": st.fixed_dictionaries({key: constant(CURVATURE) for key in names}),
        "ergodicity": st.fixed_dictionaries({"C": constant(POSITIVE), "rho": constant(unit)}),
        "convergence": st.fixed_dictionaries({"zeta": CURVATURE, "rate": constant(unit), "bias": CURVATURE}),
    }
    return {"n": n, "dim": dim} | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def chains(draw: st.DrawFn) -> dict[str, Any]:
    n, dim, steps = draw(SMALL), draw(SMALL), draw(SMALL)
    view = draw(st.sampled_from(["last-iterate", "all-iterates", "average"]))
    thinning = st.fixed_dictionaries({"burn_in": st.integers(0, steps - 1), "thin": SMALL})
    free = st.one_of(st.sampled_from(["last", "all", None]), thinning)
    noise = st.one_of(
        st.fixed_dictionaries({"kind": st.just("gaussian"), "scale": schedule(steps)}),
        st.fixed_dictionaries({"kind": st.just("stable"), "alpha": st.floats(1.01, 2.0), "scale": schedule(steps)}),
    )
    coordinates = st.lists(st.floats(-1e6, 1e6), min_size=dim, max_size=dim)
    clipping = st.fixed_dictionaries(
        {"kind": st.sampled_from(["norm", "residual", "feature"]), "bound": POSITIVE},
        optional={"classes": st.integers(2, 10)},
    )
    optional = {
        "clipping": clipping,
        "projection": st.fixed_dictionaries({"kind": st.just("ball"), "radius": POSITIVE}),
        "start": st.one_of(
            st.fixed_dictionaries({"kind": st.just("point")}, optional={"values": coordinates}),
            st.fixed_dictionaries({"kind": st.just("gaussian"), "scale": POSITIVE}),
        ),
        "chains": SMALL,
        "keep": st.sampled_from(["last", None]) if view == "last-iterate" else free,
    }
    required = {
        "kind": st.just("noisy-gradient"),
        "steps": st.just(steps),
        "step_size": schedule(steps),
        "noise": noise,
        "batch": batches(n),
    }
    average = {
        "lipschitz": draw(constant(CURVATURE)),
        "dim": dim,
        "noise": {"kind": draw(st.sampled_from(["laplace", "gaussian"])), "scale": draw(POSITIVE)},
    }
    return {
        "algorithm": draw(st.fixed_dictionaries(required, optional=optional)),
        "problem": draw(problems(n, dim)),
        "view": view,
    } | ({"average": average} if view == "average" else {})


@st.composite
def rounds(draw: st.DrawFn) -> dict[str, Any]:
    records, number = draw(SMALL), draw(SMALL)
    scheme = draw(st.sampled_from(["full", "without-replacement", "poisson", "reshuffled"]))
    size = draw(st.sampled_from([None, records]) if scheme == "full" else st.integers(1, records))
    algorithm = {
        "kind": "noised-sums",
        "query": "what is summed",
        "records": records,
        "rounds": number,
        "sampling": {"scheme": scheme, "size": size},
        "contribution": draw(POSITIVE),
        "noise_multiplier": draw(schedule(number)),
        "options": {"damping": draw(schedule(number)), "components": draw(SMALL)},
    }
    problem = draw(st.sampled_from([None, {"n": records}]))
    return {
        "algorithm": algorithm,
        "problem": problem,
        "view": draw(st.sampled_from(["posterior-parameters", "all-iterates"])),
    }


@st.composite
def samples(draw: st.DrawFn) -> dict[str, Any]:
    low, gap, alpha, spread = (draw(st.floats(0.1, 10.0)) for _ in range(4))
    rho2, gamma1 = draw(st.floats(0.01, 0.2)), draw(st.floats(0.21, 0.49))
    regression = {"alpha": alpha, "beta": 4.0 / (low + gap) ** 2, "gamma1": gamma1, "x_low": low, "x_high": low + gap}
    tested = {
        "epsilon": spread,
        "delta": draw(st.floats(1e-9, 0.49)),
        "rho1": draw(st.floats(1.01, 1.49)),
        "rho2": rho2,
    }
    lipschitz = draw(constant(CURVATURE))
    algorithm = draw(
        st.sampled_from(
            [
                {"kind": "posterior-sample", "potential": {"kind": "linear-regression", **regression, "c": spread}},
                {
                    "kind": "posterior-sample",
                    "draws": 3,
                    "potential": {"kind": "bounded", "lipschitz": lipschitz, "diameter": gap},
                },
                {
                    "kind": "posterior-sample",
                    "draws": None,
                    "potential": {"kind": "strongly-log-concave", "lipschitz": lipschitz, "strong_convexity": gap},
                },
                {"kind": "propose-test-sample", **regression, **tested, "sampler": "exact"},
            ]
        )
    )
    return {"algorithm": algorithm, "problem": {"n": draw(SMALL)}, "view": "one-sample"}


@st.composite
def valid_specs(draw: st.DrawFn) -> dict[str, Any]:
    runs = st.one_of(chains(), rounds(), samples())
    run = draw(runs)
    if draw(st.integers(0, 4)) == 0:
        parts = [run, *draw(st.lists(runs, max_size=2))]
        view = run["view"] if draw(st.booleans()) else draw(st.sampled_from([part["view"] for part in parts]))
        parts = [{key: value for key, value in part.items() if (key, value) != ("view", view)} for part in parts]
        run = {"algorithm": {"kind": "composite", "parts": parts}, "view": view}
    return run | {
        "relation": draw(st.sampled_from(["replace-one", "add-remove"])),
        "delta": draw(st.one_of(st.none(), st.floats(1e-12, 0.999))),
    }


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from([10**400, 1e308, 2**53 + 1, -1, 0, 1.5, "last", "full", "poisson", "a\nb"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=4), st.sampled_from(["kind", "n", "value", "steps"])), inner, max_size=3
        ),
    ),
    max_leaves=6,
)


@st.composite
def mutated_specs(draw: st.DrawFn) -> Any:
    """An example with one to three places replaced, deleted or joined by a key that does not belong there."""
    document = json.loads(json.dumps(EXAMPLES[draw(st.sampled_from(sorted(EXAMPLES)))]))
    for _ in range(draw(st.integers(1, 3))):
        place = document
        while isinstance(place, dict | list) and place:
            keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            inner: Any = place[key]
            if isinstance(inner, dict | list) and inner and draw(st.booleans()):
                place = inner
                continue
            if isinstance(place, dict) and draw(st.integers(0, 3)) == 0:
                del place[key]
            elif isinstance(place, dict) and draw(st.integers(0, 3)) == 0:
                place[draw(st.text(max_size=6))] = inner
            else:
                place[key] = draw(JSON)
            break
    return document


def known_words() -> set[str]:
    words = {"the spec"}
    for definition in json_schema()["$defs"].values():
        words |= set(definition["properties"])
    return words


def accepted_exactly_or_refused(document: Any) -> None:
    try:
        spec = Spec.from_dict(document)
    except InputError as refusal:
        message = str(refusal)
        assert message.isprintable(), message
        assert message.startswith("Expected ")
        assert message.endswith(".")
        assert len(message) < 1500
        assert any(word in message for word in known_words())
    else:
        assert Spec.from_dict(spec.to_dict()) == spec
        VALIDATOR.validate(document)


@FIXED
@given(valid_specs())
def test_a_valid_spec_round_trips_exactly(document: dict[str, Any]) -> None:
    spec = Spec.from_dict(document)
    written = spec.to_dict()
    assert Spec.from_dict(written) == spec
    assert hash(Spec.from_dict(written)) == hash(spec)
    assert Spec.from_dict(written).to_dict() == written
    assert Spec.from_json(spec.to_json()) == spec
    assert spec.to_json().encode("utf-8")


@FIXED
@given(valid_specs())
def test_the_written_form_is_minimal(document: dict[str, Any]) -> None:
    written = Spec.from_dict(document).to_dict()
    assert "null" not in json.dumps(written)
    assert written.keys() <= {key.name for key in keys_of(Spec)}
    assert written["algorithm"].get("chains") != 1
    assert written["algorithm"].get("start") != {"kind": "point"}


@FIXED
@given(valid_specs())
def test_the_schema_accepts_what_the_reader_accepts_and_what_the_writer_writes(document: dict[str, Any]) -> None:
    VALIDATOR.validate(document)
    VALIDATOR.validate(Spec.from_dict(document).to_dict())


@FIXED
@given(valid_specs())
def test_every_run_of_a_valid_spec_is_a_valid_spec(document: dict[str, Any]) -> None:
    spec = Spec.from_dict(document)
    for run in spec.runs():
        assert Spec.from_dict(run.to_dict()) == run
        assert (run.relation, run.delta) == (spec.relation, spec.delta)


@FIXED
@given(JSON)
def test_arbitrary_json_is_refused_in_one_line(document: Any) -> None:
    accepted_exactly_or_refused(document)


@settings(FIXED, max_examples=100)
@given(mutated_specs())
def test_a_mutated_spec_is_read_exactly_or_refused_in_one_line(document: Any) -> None:
    accepted_exactly_or_refused(document)


@settings(FIXED, max_examples=100)
@given(st.sampled_from(sorted(EXAMPLES)), st.integers(0, 10**6), st.text(max_size=2))
def test_mutated_text_is_read_or_refused_in_one_line(name: str, place: int, inserted: str) -> None:
    text = json.dumps(EXAMPLES[name])
    place %= len(text)
    changed = text[:place] + inserted + text[place + 1 :]
    try:
        answer = Spec.from_json(changed).to_json()
    except InputError as refusal:
        answer = f"{refusal}\n"
    assert answer.endswith("}\n") or answer[:-1].isprintable()


@pytest.mark.every(4)
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_unknown_key_anywhere_is_named(name: str) -> None:
    def objects(place: Any, path: str) -> list[tuple[dict[str, Any], str]]:
        if isinstance(place, list):
            return [found for at, entry in enumerate(place) for found in objects(entry, f"{path}{at}.")]
        if not isinstance(place, dict):
            return []
        return [(place, path), *(found for key in place for found in objects(place[key], f"{path}{key}."))]

    document = json.loads(json.dumps(EXAMPLES[name]))
    for place, path in objects(document, ""):
        if path.endswith((".parameters.", ".options.")):
            continue  # settings of a model, a generator or a query, which alone knows their names
        place["surprise"] = 1
        with pytest.raises(InputError) as refusal:
            Spec.from_dict(document)
        assert f" {path}surprise;" in str(refusal.value)
        del place["surprise"]
    Spec.from_dict(document)
