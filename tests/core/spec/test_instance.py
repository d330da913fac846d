"""The instance of a spec: read, written, refused; ignored by every theorem and kept by calibration."""

from typing import Any

import pytest

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import explain
from sordino.core.spec import Instance, Spec, SyntheticDataset, WorstNeighbour
from sordino.core.validate import InputError

RIDGE: dict[str, Any] = {
    "model": {"name": "ridge", "parameters": {"weight_decay": 0.1}},
    "dataset": {"kind": "synthetic", "generator": "linear", "records": 20, "features": 2, "seed": 3},
}
CHAIN: dict[str, Any] = {
    "algorithm": {
        "kind": "noisy-gradient",
        "steps": 10,
        "step_size": 0.1,
        "noise": {"kind": "gaussian", "scale": 0.1},
        "batch": {"scheme": "full"},
    },
    "problem": {"n": 20, "dim": 2, "gradient_sensitivity": 2.0},
    "relation": "replace-one",
    "view": "last-iterate",
}
WITH = CHAIN | {"instance": RIDGE}


def test_it_reads_and_writes_back():
    spec = Spec.from_dict(WITH)
    assert isinstance(spec.instance, Instance)
    assert isinstance(spec.instance.dataset, SyntheticDataset)
    assert spec.instance.neighbour == WorstNeighbour()
    assert spec.to_dict()["instance"] == RIDGE
    assert Spec.from_json(spec.to_json()) == spec


def test_settings_keep_their_kind():
    settings = {"a": 1, "b": 1.0, "c": True, "d": "word", "e": [1, 2.5]}
    spec = Spec.from_dict(CHAIN | {"instance": RIDGE | {"model": {"name": "x", "parameters": settings}}})
    assert spec.instance is not None
    held = dict(spec.instance.model.parameters)
    assert [type(held[name]) for name in "abcde"] == [int, float, bool, str, tuple]
    assert spec.to_dict()["instance"]["model"]["parameters"] == settings


def test_no_theorem_reads_it():
    with_it, without = explain(Spec.from_dict(WITH), 1e-5), explain(Spec.from_dict(CHAIN), 1e-5)
    assert [(bound.theorem, epsilon) for bound, epsilon in with_it.bounds] == [
        (bound.theorem, epsilon) for bound, epsilon in without.bounds
    ]


def test_calibration_keeps_it():
    found = calibrate(Spec.from_dict(WITH), 1.0, 1e-5, "noise")
    assert found.spec.instance == Spec.from_dict(WITH).instance


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
def test_what_is_malformed_is_refused_with_its_path(change, word):
    with pytest.raises(InputError, match=word):
        Spec.from_dict(CHAIN | {"instance": RIDGE | change})
