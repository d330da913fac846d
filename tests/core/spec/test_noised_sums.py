"""Noised sums say what ran; the three kinds before them are read as they were, and mean the same run."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.accounting.evaluate import explain
from sordino.core.spec import ColumnUnit, NoisedSums, Spec, SumShape, Unit, read_spec

EXAMPLES = Path(__file__).parents[3] / "examples" / "specs"


def sums(spec: Spec) -> NoisedSums:
    assert isinstance(spec.algorithm, NoisedSums)
    return spec.algorithm


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
