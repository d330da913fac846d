"""Noised sums say what ran; the three kinds before them are read as they were, and mean the same run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sordino.accounting.evaluate import current_id, explain, theorem_named, theorems
from sordino.core.bound import Relation
from sordino.core.spec import ColumnUnit, NoisedSums, Scheme, Spec, SumShape, Unit, json_schema, read_spec
from sordino.core.spec.sums import EarlierRounds
from sordino.core.validate import InputError

EXAMPLES = Path(__file__).parents[3] / "examples" / "specs"
EARLIER = {
    "message-passing": {"damping": 3.0},
    "variational": {"step_size": {"kind": "polynomial", "initial": 0.1, "offset": 2.0, "power": 0.5}},
    "em": {"components": 2},
}


def earlier(kind="message-passing", relation="replace-one", **changes):
    algorithm = {
        "kind": kind,
        "records": 40,
        "steps": 3,
        "sampling": "full",
        "clip": 0.5,
        "noise_multiplier": {"kind": "list", "values": [1.1, 1.3, 0.7]},
    }
    document = {"algorithm": algorithm | EARLIER[kind] | changes, "relation": relation, "view": "all-iterates"}
    return document | {"delta": 1e-5}


def sums(spec: Spec) -> NoisedSums:
    assert isinstance(spec.algorithm, NoisedSums)
    return spec.algorithm


@pytest.mark.parametrize("kind", EARLIER)
def test_an_earlier_kind_is_read_as_noised_sums_and_written_as_such(kind):
    spec = Spec.from_dict(earlier(kind))
    algorithm = sums(spec)
    assert (algorithm.records, algorithm.rounds, algorithm.contribution) == (40, 3, 0.5)
    assert algorithm.sampling.scheme is Scheme.FULL
    assert algorithm.query.endswith(f"(described as {kind})")
    assert dict(algorithm.options).keys() == EARLIER[kind].keys()
    assert spec.to_dict()["algorithm"]["kind"] == "noised-sums"
    assert Spec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(("relation", "factor"), [("replace-one", 2.0), ("add-remove", 1.0)])
def test_earlier_noise_was_relative_to_the_sensitivity(relation, factor):
    algorithm = sums(Spec.from_dict(earlier(relation=relation)))
    np.testing.assert_array_equal(algorithm.relative_noise(Relation(relation)), [1.1, 1.3, 0.7])
    np.testing.assert_array_equal(algorithm.sum_noise, factor * 0.5 * np.array([1.1, 1.3, 0.7]))
    assert algorithm.sensitivity(Relation(relation)) == factor * 0.5


@pytest.mark.parametrize(
    ("word", "scheme"),
    [("passes", Scheme.RESHUFFLED), ("poisson", Scheme.POISSON), ("without-replacement", Scheme.WITHOUT_REPLACEMENT)],
)
def test_earlier_sampling_is_one_of_the_batch_schemes(word, scheme):
    algorithm = sums(Spec.from_dict(earlier("variational", sampling=word, batch=7)))
    assert (algorithm.sampling.scheme, algorithm.sampling.size, algorithm.rate) == (scheme, 7, 7 / 40)


def test_a_part_of_a_composite_is_read_the_same_way():
    part = {"algorithm": earlier("em")["algorithm"], "view": "posterior-parameters"}
    document = {"algorithm": {"kind": "composite", "parts": [part]}, "relation": "replace-one", "view": "all-iterates"}
    (run,) = Spec.from_dict(document).runs()
    assert sums(run) == sums(Spec.from_dict(earlier("em")))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"batch": 41, "sampling": "poisson"}, "algorithm.batch"),
        ({"sampling": "poisson"}, "algorithm.batch"),
        ({"batch": 39}, "algorithm.batch"),
        ({"damping": {"kind": "list", "values": [1.0]}}, "algorithm.damping.values"),
        ({"noise_multiplier": {"kind": "list", "values": [1.0]}}, "algorithm.noise_multiplier.values"),
        ({"sampling": "reshuffled", "batch": 4}, "algorithm.sampling"),
        ({"clip": 0}, "algorithm.clip"),
        ({"damping": None}, "algorithm.damping"),
        ({"rounds": 3}, "algorithm.rounds"),
    ],
)
def test_a_wrong_earlier_spec_is_refused_by_the_keys_that_stand_in_it(change, key):
    with pytest.raises(InputError) as refusal:
        Spec.from_dict(earlier(**change))
    assert f" {key} " in str(refusal.value) or f" {key};" in str(refusal.value)


def test_the_passes_of_a_mixture_were_never_allowed():
    with pytest.raises(InputError, match=r"algorithm\.sampling"):
        Spec.from_dict(earlier("em", sampling="passes", batch=4))


@pytest.mark.parametrize(
    ("key", "value", "now"),
    [
        ("steps", 3, "algorithm.rounds"),
        ("clip", 1.0, "algorithm.contribution"),
        ("batch", 4, "algorithm.sampling.size"),
        ("damping", 1.0, "algorithm.options.damping"),
        ("step_size", 1.0, "algorithm.options.step_size"),
        ("components", 2, "algorithm.options.components"),
    ],
)
def test_a_key_that_was_renamed_is_refused_with_its_new_name(key, value, now):
    with pytest.raises(InputError) as refusal:
        read_spec(EXAMPLES / "message-passing-rounds.json").with_values({f"algorithm.{key}": value})
    assert str(refusal.value).endswith(f"got algorithm.{key}; it is called {now} now.")


def test_a_scheme_that_was_renamed_is_refused_with_its_new_name():
    with pytest.raises(InputError, match=r"got 'passes'; it is called 'reshuffled' now\."):
        read_spec(EXAMPLES / "message-passing-passes.json").with_values({"algorithm.sampling.scheme": "passes"})


def test_an_unknown_kind_is_refused_with_the_kinds_of_this_version():
    with pytest.raises(InputError) as refusal:
        Spec.from_dict(earlier() | {"algorithm": {"kind": "sep"}})
    assert "noised-sums" in str(refusal.value)
    assert "message-passing" not in str(refusal.value)


def test_the_schema_still_describes_earlier_kinds():
    kinds = {
        section["properties"]["kind"]["const"]
        for section in json_schema()["$defs"].values()
        if "const" in section["properties"].get("kind", {})
    }
    assert {"noised-sums", *EARLIER} <= kinds


def test_how_far_a_unit_moves_a_sum_depends_on_relation_and_shape():
    vector = sums(read_spec(EXAMPLES / "em.json"))
    assert vector.shape is SumShape.VECTOR
    assert (vector.moves(Relation.REPLACE_ONE), vector.moves(Relation.ADD_REMOVE)) == (2.0, 1.0)
    matrix = sums(read_spec(EXAMPLES / "em.json").with_values({"algorithm.shape": "rank-one"}))
    assert math.sqrt(2.0) <= matrix.moves(Relation.REPLACE_ONE) <= math.sqrt(2.0) * (1 + 1e-15)
    assert matrix.moves(Relation.ADD_REMOVE) == 1.0
    # No two matrices of rank one and length at most 1 are further apart; two at right angles are as far.
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 2, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True) / rng.uniform(0, 1, (2000, 2, 1))
    outer = np.einsum("nki,nkj->nkij", x, x)
    assert np.linalg.norm(outer[:, 0] - outer[:, 1], axis=(1, 2)).max() <= matrix.moves(Relation.REPLACE_ONE)


def test_rank_one_sums_cost_less_than_vectors_under_replace_one_only():
    spec = read_spec(EXAMPLES / "em.json")
    matrix = spec.with_values({"algorithm.shape": "rank-one"})
    wider = matrix.with_values({"algorithm.noise_multiplier": 30.0 / math.sqrt(2.0)})
    assert explain(matrix, 1e-5).epsilon < explain(spec, 1e-5).epsilon
    assert explain(wider, 1e-5).epsilon == pytest.approx(explain(spec, 1e-5).epsilon, rel=1e-9)
    both = [run.with_values({"relation": "add-remove"}) for run in (spec, matrix)]
    assert explain(both[0], 1e-5).epsilon == explain(both[1], 1e-5).epsilon


def test_a_proved_bound_on_replacements_counts_under_replace_one_only():
    spec = read_spec(EXAMPLES / "em.json")
    clip = sums(spec).contribution
    closer = spec.with_values({"algorithm.replacement": 1.25 * clip})
    assert sums(closer).sensitivity(Relation.REPLACE_ONE) == 1.25 * clip
    assert 1.25 <= sums(closer).moves(Relation.REPLACE_ONE) <= 1.25 * (1 + 1e-15)
    assert sums(closer).moves(Relation.ADD_REMOVE) == 1.0
    louder = spec.with_values({"algorithm.noise_multiplier": 30.0})
    as_loud = closer.with_values({"algorithm.noise_multiplier": 30.0 * 1.25 / 2.0})
    assert explain(as_loud, 1e-5).epsilon == pytest.approx(explain(louder, 1e-5).epsilon, rel=1e-9)
    assert f"a replacement moves it by at most {1.25 * clip:.6g}" in closer.ran[0]
    both = [run.with_values({"relation": "add-remove"}) for run in (spec, closer)]
    assert explain(both[0], 1e-5).epsilon == explain(both[1], 1e-5).epsilon


@pytest.mark.parametrize(("shape", "times"), [("vector", 0.99), ("vector", 2.01), ("rank-one", 1.42)])
def test_a_bound_on_replacements_that_cannot_be_or_says_nothing_is_refused(shape, times):
    spec = read_spec(EXAMPLES / "em.json")
    values = {"algorithm.shape": shape, "algorithm.replacement": times * sums(spec).contribution}
    with pytest.raises(InputError, match=r"algorithm\.replacement"):
        spec.with_values(values)


def test_a_unit_is_a_record_or_all_records_of_a_column():
    assert sums(read_spec(EXAMPLES / "em.json")).unit is Unit.RECORD
    spec = read_spec(EXAMPLES / "second-moments-and-gradients.json")
    assert [sums(run).unit for run in spec.runs()] == [ColumnUnit("patient", 12)] * 2
    assert spec.unit == ColumnUnit("patient", 12)
    assert read_spec(EXAMPLES / "em.json").unit is Unit.RECORD
    for line in spec.ran:
        assert line.endswith("one unit is all records with one value of 'patient', of which at most 12 are used")


@pytest.mark.parametrize("other", [None, {"column": "household", "most_records": 12}])
def test_parts_about_different_units_are_refused(other):
    document = read_spec(EXAMPLES / "second-moments-and-gradients.json").to_dict()
    document["algorithm"]["parts"][0]["algorithm"]["unit"] = other
    with pytest.raises(InputError, match=r"algorithm\.parts to be about one unit, got \['(household|patient)', '.*'\]"):
        Spec.from_dict(document)


def test_parts_may_use_different_numbers_of_a_units_records():
    spec = read_spec(EXAMPLES / "second-moments-and-gradients.json")
    fewer = spec.with_values({"algorithm.parts.0.algorithm.unit.most_records": 3})
    assert explain(fewer, 1e-6).epsilon == explain(spec, 1e-6).epsilon


def test_options_are_kept_and_no_theorem_reads_them():
    spec = read_spec(EXAMPLES / "em.json")
    more = spec.with_values({"algorithm.options": {"note": "text", "flag": True, "list": [1, 2.5], "components": 9}})
    assert json.loads(more.to_json())["algorithm"]["options"]["list"] == [1, 2.5]
    assert [epsilon for _, epsilon in explain(more, 1e-5).bounds] == [
        epsilon for _, epsilon in explain(spec, 1e-5).bounds
    ]


def test_a_spec_says_what_ran():
    first, second = read_spec(EXAMPLES / "second-moments-and-gradients.json").ran
    assert first.startswith("1 noised sum: second moments of rows and targets; all records each time")
    assert "rank-one" in first
    assert second.startswith("24 rounds of noised sums: gradients of the logistic loss")
    for path in EXAMPLES.glob("*.json"):
        assert all(line.isprintable() for line in read_spec(path).ran)


@pytest.mark.parametrize("name", ["passes", "rounds", "subsampled"])
def test_theorems_are_found_by_the_ids_they_had(name):
    assert current_id(f"sep.{name}") == f"noised-sums.{name}"
    assert theorem_named(f"sep.{name}").id == theorem_named(f"noised-sums.{name}").id == f"noised-sums.{name}"
    assert all(not theorem.id.startswith("sep.") for theorem in theorems())


def test_an_id_that_no_version_has_is_refused_in_one_line():
    with pytest.raises(InputError, match=r"got 'noised-sums\.pases'; did you mean noised-sums\.passes\."):
        theorem_named("noised-sums.pases")
    assert current_id("mine.own") == "mine.own"


def test_no_earlier_kind_stays_in_memory():
    for path in EXAMPLES.glob("*.json"):
        assert not any(isinstance(run.algorithm, EarlierRounds) for run in read_spec(path).runs())
