"""Schedules, batches, kept iterates and instances mean what their declarations say; the schema describes them all."""

import json
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from sordino import InputError, View, calibrate
from sordino.accounting.evaluate import explain
from sordino.core import spec as specs
from sordino.core.spec.fields import Section

RIDGE: dict[str, Any] = {
    "model": {"name": "ridge", "parameters": {"weight_decay": 0.1}},
    "dataset": {"kind": "synthetic", "generator": "linear", "records": 20, "features": 2, "seed": 3},
}
NOISE, BATCH = {"kind": "gaussian", "scale": 0.1}, {"scheme": "full"}
CHAIN: dict[str, Any] = {
    "algorithm": {"kind": "noisy-gradient", "steps": 10, "step_size": 0.1, "noise": NOISE, "batch": BATCH},
    "problem": {"n": 20, "dim": 2, "gradient_sensitivity": 2.0},
    "relation": "replace-one",
    "view": "last-iterate",
}
WITH = CHAIN | {"instance": RIDGE}


def chain(batch: specs.Batch, **extra: Any) -> specs.NoisyGradient:
    return specs.NoisyGradient(
        10, specs.ConstantSchedule(1.0), specs.GaussianNoise(specs.ConstantSchedule(1.0)), batch, **extra
    )


def test_a_list_serves_exactly_as_many_steps_as_it_has_entries() -> None:
    schedule = specs.ListSchedule((0.3, 0.2, 0.1))
    assert schedule.values(3).tolist() == [0.3, 0.2, 0.1]
    assert (schedule.constant, specs.ListSchedule((0.3, 0.3)).constant) == (None, 0.3)
    with pytest.raises(InputError, match=r"each of the 4 steps, got 3"):
        schedule.values(4)
    for entries in ((0.1, 0.0), (0.1, -1.0), (0.1, float("nan")), (0.1, float("inf")), (0.1, True), ()):
        with pytest.raises(InputError, match="values"):
            specs.ListSchedule(entries)


def test_a_polynomial_schedule_follows_its_formula_and_may_not_underflow() -> None:
    schedule = specs.PolynomialSchedule(initial=2.0, offset=4.0, power=0.5)
    expected = [2.0 * ((k + 4.0) / 4.0) ** -0.5 for k in range(13)]
    np.testing.assert_allclose(schedule.values(13), expected, rtol=1e-15)
    assert schedule.constant is None
    steep = specs.PolynomialSchedule(initial=1.0, offset=1.0, power=300.0)
    assert not list(steep.misfits(10, "scale"))
    assert steep.values(10).min() > 0.0
    assert [misfit.key for misfit in steep.misfits(20, "scale")] == ["scale"]


@pytest.mark.parametrize("steps", [0, -1, 2.0, True])
def test_the_number_of_steps_is_a_count(steps: int) -> None:
    for schedule in (specs.ConstantSchedule(1.0), specs.PolynomialSchedule(1.0, 1.0, 1.0)):
        with pytest.raises(InputError, match="steps"):
            schedule.values(steps)


@pytest.mark.parametrize(
    ("batch", "divisor", "rate", "batches"),
    [
        (specs.Batch(specs.Scheme.FULL), 103, 1.0, 1),
        (specs.Batch(specs.Scheme.FULL, 103), 103, 1.0, 1),
        (specs.Batch(specs.Scheme.CYCLIC, 10), 10, 10 / 103, 11),
        (specs.Batch(specs.Scheme.WITHOUT_REPLACEMENT, 103), 103, 1.0, 1),
        (specs.Batch(specs.Scheme.POISSON, 10), 10, 10 / 103, 11),
        (specs.Batch(specs.Scheme.POISSON, 10, 0.5), 10, 0.5, 11),
    ],
)
def test_batches_are_resolved_against_n(batch: specs.Batch, divisor: int, rate: float, batches: int) -> None:
    algorithm = chain(batch)
    assert (algorithm.divisor(103), algorithm.rate(103), algorithm.batches_per_epoch(103)) == (divisor, rate, batches)


@pytest.mark.parametrize(
    ("keep", "view", "iterates"),
    [
        (None, View.LAST_ITERATE, [10]),
        (None, View.ALL_ITERATES, list(range(1, 11))),
        (None, View.AVERAGE, list(range(1, 11))),
        (specs.Keep.LAST, View.ALL_ITERATES, [10]),
        (specs.Keep.ALL, View.ALL_ITERATES, list(range(1, 11))),
        (specs.Thinning(0, 1), View.ALL_ITERATES, list(range(1, 11))),
        (specs.Thinning(4, 3), View.ALL_ITERATES, [5, 8]),
        (specs.Thinning(9, 100), View.AVERAGE, [10]),
    ],
)
def test_kept_iterates(keep: specs.Keep | specs.Thinning | None, view: View, iterates: list[int]) -> None:
    assert list(chain(specs.Batch(specs.Scheme.FULL), keep=keep).kept_iterates(view)) == iterates
    assert specs.Ball(10.0).diameter == 20.0


def test_an_instance_is_read_written_kept_by_calibration_and_read_by_no_theorem() -> None:
    spec = specs.Spec.from_dict(WITH)
    assert spec.instance is not None
    assert spec.instance.neighbour == specs.WorstNeighbour()
    assert spec.to_dict()["instance"] == RIDGE
    assert specs.Spec.from_json(spec.to_json()) == spec
    with_it, without = explain(spec, 1e-5), explain(specs.Spec.from_dict(CHAIN), 1e-5)
    assert with_it.bounds == without.bounds
    assert calibrate(spec, 1.0, 1e-5, "noise").spec.instance == spec.instance


def test_settings_keep_their_kind() -> None:
    settings = {"a": 1, "b": 1.0, "c": True, "d": "word", "e": [1, 2.5]}
    spec = specs.Spec.from_dict(CHAIN | {"instance": RIDGE | {"model": {"name": "x", "parameters": settings}}})
    assert spec.instance is not None
    held = dict(spec.instance.model.parameters)
    assert [type(held[name]) for name in "abcde"] == [int, float, bool, str, tuple]
    assert spec.to_dict()["instance"]["model"]["parameters"] == settings


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": {}}, "instance.model.name"),
        ({"dataset": {"kind": "table"}}, "instance.dataset.kind"),
        ({"dataset": RIDGE["dataset"] | {"seed": -1}}, "instance.dataset.seed"),
        ({"neighbour": {"kind": "given", "position": 0}}, "instance.neighbour.features"),
        ({"neighbour": {"kind": "zero", "position": 20}}, "instance.neighbour.position"),
        ({"neighbour": {"kind": "worst", "rank": 1}}, "instance.neighbour.rank"),
        ({"model": {"name": "ridge", "parameters": {"weight decay": 1}}}, "instance.model.parameters"),
        ({"model": {"name": "ridge", "parameters": {"weight_decay": None}}}, "weight_decay"),
        ({"model": {"name": "ridge", "parameters": {"weight_decay": {}}}}, "weight_decay"),
    ],
)
def test_a_malformed_instance_is_refused_with_its_path(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        specs.Spec.from_dict(CHAIN | {"instance": RIDGE | change})


def test_the_schema_is_valid_and_defines_every_kind_of_algorithm() -> None:
    schema = specs.json_schema()
    Draft202012Validator.check_schema(schema)
    for word, section in specs.ALGORITHMS.table.items():
        assert schema["$defs"][section.__name__]["properties"]["kind"] == {"const": word}
        assert schema["$defs"][section.__name__]["additionalProperties"] is False
    assert "any two records" in json.dumps(schema["$defs"]["Problem"]["properties"]["gradient_sensitivity"])


def test_no_two_sections_share_a_name() -> None:
    def names(base: type[Section]) -> list[str]:
        return [name for child in base.__subclasses__() for name in (child.__name__, *names(child))]

    assert len(names(Section)) == len(set(names(Section)))
