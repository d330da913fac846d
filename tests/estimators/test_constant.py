"""Where only a constant was learned, nothing else is stated: in the release, on the page, by the command line."""

import json
import pickle
import re
import warnings

import numpy as np
import pytest

from sordino import InputError, estimators
from sordino.cli import main
from sordino.data import Boolean, Feature, Number, Schema, Target, write_schema
from sordino.inference.release import parameters_of
from sordino.ledger.release import read_release, write_release
from sordino.report.page import report_page
from sordino.report.subject import open_subject

SAID = "Only a constant was learned"
COLUMNS = ("zinc", "fibre", "dose")
N = 200
GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-1, 1, (N, 3))
SCORE = 0.5 * X[:, 0] + 0.2 * GENERATOR.normal(size=N)
BUDGET = {"epsilon": 0.01, "delta": 1e-6, "relation": "replace-one", "method": "auto-or-constant"}
MODELS = {
    "linear": (estimators.PrivateLinearRegression, Number(-1, 1), {}),
    "robust": (estimators.PrivateRobustRegression, Number(-1, 1), {}),
    "logistic": (estimators.PrivateLogisticRegression, Boolean(), {}),
    "network-regressor": (estimators.PrivateBayesianNetworkRegressor, Number(-1, 1), {"hidden": (4,)}),
    "network-classifier": (estimators.PrivateBayesianNetworkClassifier, Boolean(), {"hidden": (4,)}),
}


def fitted(name, **more):
    kind, target, given = MODELS[name]
    schema = Schema(N, tuple(Feature(c, Number(-1, 1)) for c in COLUMNS), Target("y", target), intercept=True)
    y = SCORE > 0 if isinstance(target, Boolean) else SCORE
    table = {**dict(zip(COLUMNS, X.T, strict=True)), "y": y}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", estimators.BudgetWarning)
        return kind(schema=schema, **{**BUDGET, **given, **more}).fit(table), table


@pytest.mark.parametrize("name", MODELS)
def test_no_coefficient_is_stated_that_was_not_estimated(tmp_path, name):
    """The page once drew slopes as 0 with intervals of 6e-5, where the true one is 0.5."""
    model, table = fitted(name)
    assert model.method_ == "constant"
    assert model.posterior_.dim == 1
    assert {values.size for values in model.release_.arrays.values()} == {1}
    folder = write_release(tmp_path / "release", model.release_)
    assert [line.name for line in parameters_of(read_release(folder)).lines] == ["constant"]
    released = report_page([open_subject(folder)]).split('id="r1-released"')[1].split("</section>")[0]
    figures_and_table = released.split("What was declared before any row was read")[0]
    assert not any(column in figures_and_table for column in COLUMNS)
    assert "constant" in figures_and_table
    assert np.unique(model.predict(table)).size == 1


def test_of_several_classes_there_is_one_number_each():
    model = estimators.PrivateLogisticRegression(
        schema=estimators.ArrayBounds(-1, 1, classes=("a", "b", "c")), **BUDGET | {"method": "constant"}
    )
    model.fit(X, np.array(["a", "b", "c"])[np.digitize(SCORE, [-0.2, 0.2])])
    assert model.posterior_.dim == 3
    assert [line.name for line in parameters_of(model.release_).lines] == [f"constant [{word}]" for word in "abc"]
    assert model.predict_proba(X[:2]).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("name", MODELS)
def test_it_is_said_first_by_release_page_and_estimator(tmp_path, name):
    model, _ = fitted(name)
    assert model.cautions_[0].startswith(SAID)
    assert "would be enough" in model.cautions_[1] or "no epsilon up to 100" in model.cautions_[1]
    assert pickle.loads(pickle.dumps(model)).cautions_ == model.cautions_
    folder = write_release(tmp_path / "release", model.release_)
    assert json.loads((folder / "release.json").read_text())["cautions"] == list(model.cautions_)
    article = report_page([open_subject(folder)]).split("<article")[1]
    assert SAID in article.split("Certificate</h3>")[0]
    assert "is too small for 200 records" in article.split("Certificate</h3>")[0]


def test_an_overview_of_several_releases_says_it_too(tmp_path):
    (one, _), (two, _) = fitted("linear"), fitted("logistic", epsilon=50.0)
    subjects = [
        open_subject(write_release(tmp_path / "constant", one.release_)),
        open_subject(write_release(tmp_path / "learned", two.release_)),
    ]
    assert report_page(subjects).split("<article")[0].count(SAID) == 1


def test_a_constant_that_was_asked_for_says_so_as_well(tmp_path):
    model, _ = fitted("linear", method="constant", epsilon=4.0)
    assert model.cautions_ == (open_subject(write_release(tmp_path / "release", model.release_)).cautions[0],)
    assert model.cautions_[0].startswith(SAID)


def test_what_was_learned_has_no_such_caution():
    assert fitted("linear", epsilon=50.0)[0].cautions_ == ()


@pytest.mark.parametrize("name", ["logistic", "network-classifier"])
def test_there_is_no_interval_of_a_rows_probability(name):
    model, table = fitted(name)
    with pytest.raises(InputError, match="Only a constant was learned"):
        model.predict_interval(table)
    assert model.predict_proba(table).shape == (N, 2)
    assert set(model.sample_predictive(table, 3, seed=0).ravel()) <= {False, True}


@pytest.mark.parametrize("name", ["linear", "robust", "network-regressor"])
def test_new_targets_have_an_interval_wide_enough_for_all_of_them(name):
    model, table = fitted(name, epsilon=4.0, method="constant", random_state=0)
    low, high = model.predict_interval(table, 0.9)
    assert np.ptp(low) == np.ptp(high) == 0.0
    assert np.mean((low <= SCORE) & (high >= SCORE)) > 0.8


def test_the_command_line_says_it_on_both_streams(tmp_path, capsys):
    model, table = fitted("logistic")
    write_schema(model.release_.schema, tmp_path / "schema.json")
    lines = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(table), *lines]) + "\n")
    budget = ["--epsilon", "0.01", "--delta", "1e-6", "--relation", "replace-one"]
    line = ["fit", "logistic", str(tmp_path / "rows.csv"), "--schema", str(tmp_path / "schema.json"), *budget]
    assert main([*line, "--out", str(tmp_path / "one")]) == 2
    streams = capsys.readouterr()
    assert not streams.out
    assert not (tmp_path / "one").exists()
    assert "Nothing was read and nothing was spent" in streams.err
    assert "would be enough" in streams.err
    assert main([*line, "--or-constant", "--method", "ridge", "--out", str(tmp_path / "one")]) == 2
    assert "`--or-constant` needs `--method auto`" in capsys.readouterr().err
    line.append("--or-constant")
    assert main([*line, "--out", str(tmp_path / "one")]) == 0
    streams = capsys.readouterr()
    assert streams.out.startswith(SAID)
    assert "too small for 200 records" in streams.err
    assert main([*line, "--out", str(tmp_path / "two"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"][0].startswith(SAID)
    assert main(["predict", str(tmp_path / "one"), str(tmp_path / "rows.csv")]) == 0
    header = capsys.readouterr().out.split("\n", maxsplit=1)[0]
    assert re.findall(r"low|high", header) == []
    assert "probability of True" in header
