"""`sordino predict` from releases that somebody changed: an answer or one sentence, never a traceback."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sordino.cli.predict import INTERVALS, _table
from sordino.data import Boolean, Category, Feature, Number, Schema, Target
from sordino.estimators import (
    PrivateBayesianNetworkClassifier,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from sordino.fitting.predictor import Predictor
from sordino.inference.summary import summary_of
from sordino.ledger.release import read_release, write_release
from tests.cli.console import answer, refusal
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import changed_json
from tests.fuzz.watch import read_or_refused

BUDGET = {"epsilon": 4.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
N = 600
GENERATOR = np.random.default_rng(3)
ROWS = {"a": GENERATOR.uniform(-1, 1, N), "b": GENERATOR.uniform(-1, 1, N)}
SCORE = ROWS["a"] + 0.3 * GENERATOR.normal(size=N)


def schema(target):
    return Schema(N, (Feature("a", Number(-1, 1)), Feature("b", Number(-1, 1))), target, intercept=True)


def fitted():
    """Releases of several kinds, by name."""
    words, number = Boolean(true_values=("yes",), false_values=("no",)), Number(-4, 4)
    three = np.array(["low", "middle", "high"])[np.digitize(SCORE, [-0.3, 0.3])]
    ill = np.where(SCORE > 0, "yes", "no")
    labels = schema(Target("y", words))
    yield "linear", PrivateLinearRegression(schema=schema(Target("y", number)), **BUDGET).fit({**ROWS, "y": SCORE})
    yield "logistic", PrivateLogisticRegression(schema=labels, **BUDGET).fit({**ROWS, "y": ill})
    classes = schema(Target("y", Category(("low", "middle", "high"))))
    yield "softmax", PrivateLogisticRegression(schema=classes, **BUDGET).fit({**ROWS, "y": three})
    constant = PrivateLogisticRegression(schema=labels, method="constant", **BUDGET)
    yield "constant", constant.fit({**ROWS, "y": ill})
    network = PrivateBayesianNetworkClassifier(schema=labels, hidden=(3,), method="dp-vi", **BUDGET)
    yield "network", network.fit({**ROWS, "y": ill})
    yield "mixture", PrivateGaussianMixture(schema=schema(None), method="em", **BUDGET).fit(ROWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("releases")
    for name, model in fitted():
        write_release(place / name, model.release_)
    lines = [f"{a},{b}" for a, b in zip(ROWS["a"][:5], ROWS["b"][:5], strict=True)]
    (place / "rows.csv").write_text("\n".join(["a,b", *lines]) + "\n")
    (place / "none.csv").write_text("a,b\n")
    return place


NAMES = ("linear", "logistic", "softmax", "constant", "network", "mixture")


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_release_predicts(folder, name, capsys):
    found = answer(capsys, "predict", folder / name, folder / "rows.csv")
    assert all(len(values) == 5 for values in found.values())
    intervals = {column for column in found if column.startswith(("low", "high"))} - {"low of low", "high of high"}
    # Of a network by clipped variational gradients no interval holds, so none is given.
    if name in {"constant", "mixture", "network"}:
        assert INTERVALS not in found
        assert not intervals
    else:
        assert all("% nominal; measured " in words for words in found[INTERVALS])
        assert intervals
    assert "no rows to predict" in refusal(capsys, "predict", folder / name, folder / "none.csv")


def test_a_mixture_shows_its_means_in_the_units_of_the_table(folder):
    release = read_release(folder / "mixture")
    wide = replace(release.schema, features=(Feature("a", Number(0, 4)), Feature("b", Number(-1, 1))))
    shown = {line.name: line.estimate for line in summary_of(replace(release, schema=wide)).lines}
    (a, b), (c, d) = Predictor(release).posterior.mean.reshape(2, 2).tolist()
    assert shown == pytest.approx({"a [0]": 2 + 2 * a, "b [0]": b, "a [1]": 2 + 2 * c, "b [1]": d}, rel=1e-6)


HOSTILE_LABELS = (
    *(None, [], "no", 3, True, ["no"], ["no", "yes", "maybe"], ["no", "no"], ["no", None], ["no", 1], ["no", ["yes"]]),
    *([["no"], ["yes"]], [["no", "yes"], ["a", "b"]], [{"no": 1}, {"yes": 2}], {"no": 0, "yes": 1}),
)


@pytest.mark.parametrize("name", ["logistic", "network"])
def test_labels_that_are_none_are_refused(folder, tmp_path, capsys, name):
    document = json.loads((folder / name / "release.json").read_text())
    (tmp_path / "arrays.safetensors").write_bytes((folder / name / "arrays.safetensors").read_bytes())
    for labels in HOSTILE_LABELS:
        document["settings"]["labels"] = labels
        (tmp_path / "release.json").write_text(json.dumps(document))
        assert "settings.labels" in refusal(capsys, "predict", tmp_path, folder / "rows.csv"), labels


@pytest.mark.every(2)
@pytest.mark.parametrize("name", NAMES)
@tried(60, 1000)
def test_settings_model_and_schema_may_say_anything(folder, tmp_path, name, examples):
    document = json.loads((folder / name / "release.json").read_text())
    said = {key: document[key] for key in ("settings", "model", "schema")}
    (tmp_path / "arrays.safetensors").write_bytes((folder / name / "arrays.safetensors").read_bytes())

    def predicted():
        table = _table(Predictor(read_release(tmp_path)), str(folder / "rows.csv"), 0.9, 2, 0)
        json.dumps(table, allow_nan=False)

    (tmp_path / "release.json").write_text(json.dumps(document))
    predicted()  # once before it is watched, so that everything is imported

    def check(changed):
        if isinstance(changed, dict):
            (tmp_path / "release.json").write_text(json.dumps({**document, **changed}))
            read_or_refused(predicted, tmp_path)

    explore(examples, changed_json(said), check)
