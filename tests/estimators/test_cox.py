"""Cox regression behind the estimators and the command line: a subject is one record however many bins it passes."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sordino import ArrayBounds, InputError, Ledger, PrivateCoxRegression, PrivatePoissonRegression, Relation
from sordino.auditing.replay.plan import compare
from sordino.auditing.replay.port import Recorder
from sordino.cli import main
from sordino.core.spec import Unit
from sordino.data import Boolean, DeclaredUnit, Feature, Number, Schema, Target, write_schema
from sordino.fitting.methods.base import choose
from sordino.fitting.predictor import Predictor
from sordino.fitting.problem import EncodedRows, FitProblem, Sources, declared_columns
from sordino.fitting.tasks.base import TASKS
from sordino.ledger.release import read_release, write_release

EDGES = (0.0, 1.0, 2.0, 4.0)
BUDGET = {"epsilon": 4.0, "delta": 1e-6, "relation": "replace-one"}
TRUTH = np.array([0.03, -0.7])


def schema(records, **changes):
    features = (Feature("years", Number(0, 4)), Feature("age", Number(20, 80)), Feature("drug", Boolean()))
    return Schema(records=records, features=features, target=Target("died", Boolean()), intercept=True, **changes)


def subjects(records, seed=0):
    """Log hazards are -1.5 + .03 (age - 50) - .7 drug; nobody is followed for more than 4 years."""
    g = np.random.default_rng(seed)
    age, drug = g.uniform(20, 80, records), g.random(records) < 0.5
    time = g.exponential(np.exp(1.5 - TRUTH[0] * (age - 50) - TRUTH[1] * drug))
    seen = np.minimum(4.0, g.exponential(10.0, records))
    return pd.DataFrame({"years": np.minimum(time, seen), "age": age, "drug": drug, "died": time <= seen})


def fitted(frame, **changes):
    given = {"schema": schema(max(1, len(frame))), "time": "years", "bins": EDGES, "random_state": 1} | BUDGET | changes
    return PrivateCoxRegression(**given).fit(frame)


@pytest.fixture(scope="module")
def model():
    return fitted(subjects(6000))


def test_hazard_ratios_are_found_in_the_units_of_the_table(model):
    """Six standard errors from the truth are an error; no effect would be further away."""
    found = model.summary()
    assert found.title.startswith("Cox regression by bounded-influence")
    assert found.ratio == "hazard ratio"
    assert model.coef_names_ == ("age", "drug", "years 1 to 2", "years 2 to 4")
    for name, truth in zip(("age", "drug"), TRUTH, strict=True):
        line = found.line(name)
        assert abs(line.estimate - truth) <= 6 * line.standard_error < abs(truth)
    assert model.intercept_ == pytest.approx(-1.5 - 50 * TRUTH[0], abs=0.5)
    assert "Bins are compared with the first, from 0 to 1" in " ".join(str(found).split())
    assert found.line("drug").ratio[0] == pytest.approx(np.exp(found.line("drug").estimate))


def test_chances_of_the_event_are_those_of_the_hazard_and_grow_with_time(model):
    """The hazard is .223 at age 50 without the drug: 1 - exp(-.892) have the event within 4 years."""
    rows = pd.DataFrame({"age": [50.0, 50.0, 80.0], "drug": [False, True, False]})
    end = model.predict_event(rows)
    assert end.mean[0] == pytest.approx(1 - np.exp(-4 * np.exp(-1.5)), abs=0.08)
    assert end.low[0] < end.mean[0] < end.high[0]
    assert end.mean[1] < end.mean[0] < end.mean[2]
    assert np.array_equal(model.predict(rows), end.mean)
    early = model.predict_event(rows, until=1.5)
    assert (early.mean < end.mean).all()
    assert early.mean[0] == pytest.approx(1 - np.exp(-1.5 * np.exp(-1.5)), abs=0.08)
    drawn = model.sample_predictive(rows, 2000, seed=1)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert drawn.mean(axis=0) == pytest.approx(end.mean, abs=0.06)
    with pytest.raises(InputError, match="until"):
        model.predict_event(rows, until=5.0)
    assert np.array_equal(model.predict(rows.assign(years=[1.0, 2.0, 3.0])), end.mean)


def test_a_release_answers_as_the_fit_did_and_names_a_record(model, tmp_path):
    write_release(tmp_path / "release", model.release_)
    read = Predictor(read_release(tmp_path / "release"))
    rows = pd.DataFrame({"age": [33.0], "drug": [True]})
    assert np.array_equal(read.means(read.encode(rows), 0.95).low, model.predict_event(rows).low)
    assert {part.algorithm.unit for part in model.release_.spec.algorithm.parts} == {Unit.RECORD}
    assert model.release_.protected.words == "one record"
    changed = dict(model.release_.settings) | {"bins": [0.0, "x", 1.0]}
    with pytest.raises(InputError, match="increasing edges"):
        _ = Predictor(replace(model.release_, settings=changed)).edges


def test_what_the_schema_does_not_allow_is_refused_before_a_row_is_read(tmp_path):
    frame = subjects(300)
    path = tmp_path / "ledger"
    Ledger.open(path, "clinic", "replace-one", 5.0, 1e-5)
    number = Target("died", Number(0, 9))
    for changes, words in (
        ({"time": None}, "name of a declared column"),
        ({"time": "months"}, "one of the declared columns"),
        ({"time": "drug"}, "number without an indicator"),
        ({"bins": 1}, "bins"),
        ({"bins": (0, 2, 1)}, "edges rise"),
        ({"bins": (1, 2, 3)}, "begin at or before the lowest"),
        ({"bins": (0, 4, 8)}, "begin at or before the lowest"),
        ({"bins": "four"}, "number of bins"),
        ({"schema": schema(300, unit=DeclaredUnit(column="id", most_records=3))}, "needs one record per subject"),
        ({"schema": Schema(300, schema(300).features, number, intercept=True)}, "yes or no"),
        ({"method": "auto-or-constant"}, "has a constant"),
        ({"epsilon": 0.01}, "too small"),
    ):
        with pytest.raises(InputError, match=words):
            fitted(frame.assign(id=np.arange(300)) if "subject" in words else frame, ledger=path, **changes)
    assert Ledger.at(path).balance().releases == 0


def _extreme(g):
    """A subject at a corner or outside, with the event at the start, at an edge, at the end or never."""
    years = g.choice([0.0, 1e-9, 1.0, 3.999, 4.0, 50.0])
    age = g.choice([-1e6, 20.0, 50.0, 80.0, 1e6])
    return {"years": years, "age": age, "drug": bool(g.random() < 0.5), "died": bool(g.random() < 0.7)}


@pytest.mark.parametrize("relation", list(Relation))
def test_no_subject_moves_a_sum_by_more_than_the_spec_says_of_one_record(relation):
    """The search: a subject replaced by extreme ones, or absent; its rows of all bins move together."""
    g, records = np.random.default_rng(3), 40
    task = TASKS["hazard-regression"]
    declared = declared_columns(schema(records), task)
    settings = {"time": "years", "bins": EDGES}
    plan = choose(FitProblem(task, declared.schema, 50.0, 1e-6, relation, settings), "bounded-influence")
    frame = subjects(records, seed=4)

    def rows(frame):
        bounds = np.column_stack(
            [np.ones(len(frame)), frame["years"] / 2 - 1, (frame["age"] - 50) / 30, frame["drug"]]
        ).astype(float)
        bounds[:, 1:3] = np.clip(bounds[:, 1:3], -1, 1)
        return bounds, np.where(frame["died"], 1.0, -1.0)

    def run(frame):
        X, y = rows(frame)
        return lambda sources: plan.method.run(plan, EncodedRows(X, y), Sources(None, sources)).posterior.arrays

    recorder, most = Recorder(), 0.0
    first = frame.iloc[1:] if relation is Relation.ADD_REMOVE else frame
    recording = recorder.record(run(first), 7)
    for _ in range(25):
        other = pd.concat([frame.iloc[1:], pd.DataFrame([_extreme(g)])])
        found = compare(plan.spec, recording, recorder.replay(recording, run(other)))
        assert found.faults == ()
        assert found.holds()
        most = max(most, found.ratio)
    assert 0.5 <= most <= 1.0


def test_an_empty_table_is_answered_under_add_remove():
    assert np.isfinite(fitted(subjects(0), schema=schema(4000), relation="add-remove").coef_).all()


def test_arrays_have_bounds_of_single_columns():
    """Exposures and times are columns of arrays, with bounds of their own."""
    bounds = ArrayBounds([-1, 0.5], [1, 4.0], target=(0, 30))
    assert [one.kind.high for one in bounds.schema(2, 10, None).features] == [1, 4.0]
    g = np.random.default_rng(0)
    X = np.column_stack([g.uniform(-1, 1, 4000), g.uniform(0.5, 4.0, 4000)])
    y = g.poisson(X[:, 1] * np.exp(0.2 + 0.6 * X[:, 0]))
    given = {"schema": bounds, "exposure": 1, "random_state": 1}
    model = PrivatePoissonRegression(**BUDGET, **given).fit(X, y)
    assert model.coef_names_ == ("x0",)
    line = model.summary().line("x0")
    assert abs(line.estimate - 0.6) <= 6 * line.standard_error < 0.6
    assert model.intercept_ == pytest.approx(0.2, abs=0.15)
    twice = model.predict([[0.0, 1.0], [0.0, 2.0]])
    assert twice[1] == pytest.approx(2 * twice[0])


def _told(capsys, *words):
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_the_command_line_goes_from_a_plan_to_a_page(tmp_path, capsys):
    frame = subjects(5000)
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    write_schema(schema(5000), tmp_path / "schema.json")
    budget = ["--schema", tmp_path / "schema.json", "--epsilon", 2, "--delta", 1e-6, "--relation", "replace-one"]
    followed = ["--time", "years", "--bins", "0,1,2,4"]
    expected = json.loads(_told(capsys, "plan", "cox", *budget, *followed, "--json"))
    assert expected["unit"] == "record"
    assert [one["name"] for one in expected["coefficients"]] == ["age", "drug", "years 1 to 2", "years 2 to 4"]
    assert "Half of all records" in _told(capsys, "plan", "cox", *budget, *followed)
    Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 3.0, 1e-5)
    release = tmp_path / "release"
    more = ["--ledger", tmp_path / "ledger", "--out", release]
    answer = json.loads(_told(capsys, "fit", "cox", tmp_path / "clinic.csv", *budget, *followed, *more, "--json"))
    assert (answer["task"], answer["unit"], answer["epsilon"] <= 2.0) == ("hazard-regression", "record", True)
    assert Ledger.at(tmp_path / "ledger").verify().sound
    assert json.loads(_told(capsys, "show", release, "--json"))["ratio"] == "hazard ratio"
    assert "hazard ratio" in _told(capsys, "show", release)
    _told(capsys, "report", release, "--out", tmp_path / "page.html")
    assert "hazard ratio" in (tmp_path / "page.html").read_text(encoding="utf-8")
    frame[["age", "drug"]].head(3).to_csv(tmp_path / "new.csv", index=False)
    assert len(json.loads(_told(capsys, "predict", release, tmp_path / "new.csv", "--json"))["mean"]) == 3
    for words, refused in ((["--bins", "a,b"], "--bins"), (["--or-constant"], "--or-constant")):
        fit = ["fit", "cox", tmp_path / "clinic.csv", *budget, "--time", "years", *words, "--out", tmp_path / "other"]
        assert main([str(word) for word in fit]) == 2
        assert refused in capsys.readouterr().err
    assert main([str(word) for word in ["fit", "linear", tmp_path / "clinic.csv", *budget, *followed, *more]]) == 2


def test_overdispersed_counts_go_through_the_command_line(tmp_path, capsys):
    g = np.random.default_rng(0)
    age = g.uniform(20, 80, 4000)
    visits = g.poisson(np.exp(0.4 + 0.01 * (age - 50)) * g.gamma(2.0, 0.5, 4000))
    pd.DataFrame({"age": age, "visits": visits}).to_csv(tmp_path / "visits.csv", index=False)
    features, target = (Feature("age", Number(20, 80)),), Target("visits", Number(0, 40))
    write_schema(Schema(records=4000, features=features, target=target, intercept=True), tmp_path / "schema.json")
    budget = ["--schema", tmp_path / "schema.json", "--epsilon", 2, "--delta", 1e-6, "--relation", "replace-one"]
    assert json.loads(_told(capsys, "plan", "negative-binomial", *budget, "--json"))["family"] == "negative-binomial"
    fit = ["fit", "poisson", tmp_path / "visits.csv", *budget, "--overdispersed", "--out", tmp_path / "release"]
    assert json.loads(_told(capsys, *fit, "--seed", 1, "--json"))["task"] == "count-regression"
    shown = _told(capsys, "show", tmp_path / "release")
    assert shown.startswith("Negative-binomial regression")
    assert re.search(r"Model: +negative-binomial ", shown)
    assert "rate ratio" in shown
    law = Predictor(read_release(tmp_path / "release")).posterior.in_table_units()
    # Read with a standard deviation of some .3 here, and of .05 with five times the records and twice the budget.
    assert law.dispersion == pytest.approx(0.5, abs=0.6)
    assert abs(law.mean[1] - 0.01) <= 6 * law.deviation[1]
