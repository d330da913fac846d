"""Whatever is thrown at the reader, it answers with an exact spec or with one line that names a key."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sordino.core.spec import Spec, json_schema
from sordino.core.validate import InputError
from tests.fuzz.random_specs import random_spec

EXAMPLES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[3] / "examples" / "specs").glob("*.json"))
}
VALIDATOR = Draft202012Validator(json_schema())
FIXED = settings(deadline=None, derandomize=True)
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


KNOWN = {"the spec"}.union(*(definition["properties"] for definition in json_schema()["$defs"].values()))


def accepted_exactly_or_refused(document: Any) -> Spec | None:
    try:
        spec = Spec.from_dict(document)
    except InputError as refusal:
        message = str(refusal)
        assert message.isprintable(), message
        assert message.endswith(".")
        assert len(message) < 1500
        assert any(word in message for word in KNOWN)
        return None
    assert Spec.from_dict(spec.to_dict()) == spec
    VALIDATOR.validate(document)
    return spec


def test_random_specs_round_trip_exactly_and_the_schema_accepts_them() -> None:
    """Over the whole grammar; what is refused is refused in one line."""
    generator, accepted = np.random.default_rng(20261101), 0
    for _ in range(250):
        spec = accepted_exactly_or_refused(random_spec(generator))
        if spec is None:
            continue
        accepted += 1
        written = spec.to_dict()
        assert hash(Spec.from_dict(written)) == hash(spec)
        assert Spec.from_dict(written).to_dict() == written
        assert Spec.from_json(spec.to_json()) == spec
        assert "null" not in json.dumps(written)
        assert written["algorithm"].get("chains") != 1
        assert written["algorithm"].get("start") != {"kind": "point"}
        VALIDATOR.validate(written)
        for run in spec.runs():
            assert Spec.from_dict(run.to_dict()) == run
            assert (run.relation, run.delta) == (spec.relation, spec.delta)
    assert accepted > 60


@settings(FIXED, max_examples=40)
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
