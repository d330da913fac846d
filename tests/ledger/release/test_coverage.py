"""No interval stands alone: what was measured is in one table, and everything that shows an interval reads it."""

import inspect
import json
import re
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sordino.cli import main
from sordino.estimators import ESTIMATORS, METHODS, ArrayBounds, PrivateLinearRegression
from sordino.ledger.release import release_coverage, write_release
from sordino.ledger.release.coverage import (
    COEFFICIENTS,
    LEVELS,
    MEASURED,
    NEW_TARGETS,
    PROBABILITIES,
    SEVERAL,
    coverage_words,
    measured,
)
from sordino.report.coefficients import LEVEL, summarise
from sordino.report.page import non_private_page, private_page
from sordino.report.subject import open_subject
from tests.report.example_releases import gaussians, kept_draws, written

ROOT = Path(__file__).parents[3]
# What an independent measurement of 95 % intervals of coefficients found.
FOUND = {
    ("classification", "newton"): (47, 97),
    ("robust-regression", "gradients"): (28, 100),
    ("classification", "output"): (31, 67),
    ("classification", "chain"): (73, 76),
    ("regression", "statistics"): (94, 100),
}
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))


@pytest.mark.parametrize(("key", "range_"), FOUND.items(), ids=str)
def test_ranges_hold_what_others_measured(key, range_):
    found = measured(*key, COEFFICIENTS, 0.95)
    assert found is not None
    assert found.low <= range_[0] / 100
    assert range_[1] / 100 <= found.high


def test_every_row_is_a_rate_of_a_registered_method():
    for one in MEASURED:
        assert 0.0 <= one.low <= one.high <= 1.0
        assert one.task.removesuffix(SEVERAL) in {task.value for task in METHODS[one.method].tasks}
        assert one.of in {COEFFICIENTS, NEW_TARGETS, PROBABILITIES}
        assert one.level in LEVELS
        assert one.cells >= 4
        assert one.tables >= 10
        wider = measured(one.task, one.method, one.of, 0.95)
        assert wider is not None
        assert one.low <= wider.low


# Pairs whose intervals are withheld, with the reason; a new method is measured or stands here.
WITHHELD = {
    ("network-regression", "variational", COEFFICIENTS): "a weight of a network means nothing by itself",
    ("network-regression", "natural", COEFFICIENTS): "a weight of a network means nothing by itself",
    ("network-classification", "natural", COEFFICIENTS): "a weight of a network means nothing by itself",
    ("network-classification", "variational", COEFFICIENTS): "a weight of a network means nothing by itself",
    ("regression", "ridge", COEFFICIENTS): "its prior draws effects to 0, and what columns share is not known",
    ("regression", "ridge", NEW_TARGETS): "its prior draws effects to 0, and what columns share is not known",
    ("classification", "ridge", COEFFICIENTS): "its prior draws effects to 0, and what columns share is not known",
    ("classification", "ridge", PROBABILITIES): "its prior draws effects to 0, and what columns share is not known",
    ("classification", "constant", PROBABILITIES): "a constant knows nothing about a row",
    ("network-classification", "constant", PROBABILITIES): "a constant knows nothing about a row",
}


def test_every_interval_is_measured_or_withheld():
    unknown = set()
    for name, method in METHODS.items():
        for task in (one.value for one in method.tasks):
            asked = [COEFFICIENTS]
            if task != "mixture":
                chances = task.endswith("classification") or task == "hazard-regression"
                asked.append(PROBABILITIES if chances else NEW_TARGETS)
            unknown |= {(task, name, of) for of in asked if measured(task, name, of, 0.95) is None}
    assert unknown == set(WITHHELD)


def test_the_words_name_the_level_and_round_outwards():
    words = coverage_words("robust-regression", "gradients", COEFFICIENTS, 0.95)
    assert words == "95 % nominal; measured 28 to 100 %"
    other = coverage_words("robust-regression", "gradients", COEFFICIENTS, 0.99)
    assert other == "99 % nominal; measured 28 to 100 % where 95 % was nominal"
    assert coverage_words("mixture", "unheard-of", COEFFICIENTS, 0.95) is None
    for one in MEASURED:
        low, high = re.fullmatch(r"(?:(\d+) to )?(\d+) %", one.words).groups()
        assert int(low or high) <= 100 * one.low + 1e-6
        assert int(high) >= 100 * one.high - 1e-6


def test_the_page_shows_no_interval_without_its_range(tmp_path):
    bounds = ArrayBounds(-1, 1, target=(-1, 1))
    model = PrivateLinearRegression(schema=bounds, **BUDGET).fit(X, X @ [0.5, -0.2])
    page = non_private_page([open_subject(write_release(tmp_path / "release", model.release_))])
    assert coverage_words("regression", "bounded-influence", COEFFICIENTS, LEVEL) in page
    older = PrivateLinearRegression(schema=bounds, method="statistics", **BUDGET).fit(X, X @ [0.5, -0.2])
    page = non_private_page([open_subject(write_release(tmp_path / "older", older.release_))])
    assert coverage_words("regression", "statistics", COEFFICIENTS, LEVEL) in page  # the head of the table
    released = page.split('id="r1-released"')[1].split("</section>")[0]
    assert len(re.findall(r"95 ?%", released)) == len(
        re.findall(r"95 % (nominal|intervals of this family held)", released)
    )


def test_the_page_of_somebodys_own_run_claims_nothing(tmp_path):
    for place, release in enumerate((kept_draws(), gaussians())):
        page = private_page([open_subject(written(tmp_path, f"own-{place}", release))])
        assert "how often such intervals hold the truth was not measured" in page
        assert "95 % interval</th>" not in page


def test_several_classes_are_another_thing_than_two():
    for labels, words in ((["a", "b"], "41 to 97 %"), (["a", "b", "c"], "62 to 100 %")):
        release = gaussians(settings={"task": "classification", "method": "newton", "labels": labels})
        assert words in release_coverage(release, COEFFICIENTS, 0.95)
    unmeasured = gaussians(settings={"task": "classification", "method": "output", "labels": ["a", "b", "c"]})
    assert release_coverage(unmeasured, COEFFICIENTS, 0.95) is None


def test_intervals_that_were_not_measured_are_withheld(tmp_path):
    release = gaussians(settings={"task": "network-regression", "method": "variational"})
    summary = summarise(release)
    assert summary is not None
    assert all((one.outer, one.inner, one.deviation) == (None,) * 3 for one in summary.marginals)
    page = private_page([open_subject(written(tmp_path, "network", release))])
    assert "Intervals are withheld" in page
    assert "Density of" not in page


def test_estimators_say_it():
    model = PrivateLinearRegression(schema=ArrayBounds(-1, 1, target=(-1, 1)), **BUDGET).fit(X, X @ [0.5, -0.2])
    assert model.interval_coverage(0.9) == coverage_words("regression", "bounded-influence", NEW_TARGETS, 0.9)
    for kind in ESTIMATORS.values():
        if hasattr(kind, "predict_interval"):
            assert "interval_coverage" in inspect.getdoc(kind.predict_interval)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstrings_state_what_was_measured(name):
    """Every range of 95 % intervals of coefficients and of 90 % intervals of predictions, by method."""
    kind = ESTIMATORS[name]
    text = " ".join(inspect.getdoc(kind).split())
    asked = product(METHODS, ((COEFFICIENTS, 0.95), (NEW_TARGETS, 0.9), (PROBABILITIES, 0.9)))
    for method, (of, level) in asked:
        found = measured(kind._task.value, method, of, level)
        if found is not None and found.task == kind._task.value and method != "constant":
            assert found.words in text, (method, of, found.words)


def test_the_documented_table_is_the_measured_one():
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    section = page.split("## How often intervals hold")[1].split("\n## ")[0]
    shown = [tuple(part.strip() for part in line.strip("|").split("|")) for line in section.splitlines() if "|" in line]
    words = {(one.task, one.method, one.of, one.level): one.words for one in MEASURED}
    keys = dict.fromkeys((one.task, one.method, one.of) for one in MEASURED)
    assert shown[2:] == [(*key, *(words.get((*key, level), "") for level in LEVELS)) for key in keys]
    tutorial = (ROOT / "docs" / "tutorials" / "statistician.md").read_text(encoding="utf-8")
    assert measured("classification", "newton", COEFFICIENTS, 0.95).words in tutorial


def test_what_is_told_of_bounded_influence_is_what_random_designs_showed(monkeypatch):
    """Both ends of every range of coefficients, from bench/recorded/designs.json; none was put in by hand."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    written_down = import_module("interval_ranges")
    rows = written_down.of_designs()
    found = {(one["task"], one["level"]): one for one in written_down.ranges(rows)}
    assert {task for task, _ in found} == set(written_down.TASKS.values())
    for (task, level), one in found.items():
        told = measured(task, "bounded-influence", COEFFICIENTS, level)
        assert (told.level, told.low, told.high, told.cells, told.tables) == (
            level, one["low"], one["high"], one["cells"], one["tables"],
        )  # fmt: skip
    # A cell that holds less often is told at once.
    other = written_down.ranges([*rows, rows[0] | {"rate": 0.4}])
    assert other != list(found.values())


def test_predictions_carry_it_in_a_column(tmp_path, capsys):
    from sordino.data import Number, Target
    from tests.cli.test_predict import ROWS, SCORE, schema

    model = PrivateLinearRegression(schema=schema(Target("y", Number(-4, 4))), **BUDGET | {"epsilon": 4.0})
    write_release(tmp_path / "release", model.fit({**ROWS, "y": SCORE}).release_)
    (tmp_path / "rows.csv").write_text("a,b\n0.1,0.2\n")
    assert main(["predict", str(tmp_path / "release"), str(tmp_path / "rows.csv"), "--level", "0.9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    words = coverage_words("regression", "bounded-influence", NEW_TARGETS, 0.9)
    assert found["intervals"] == [f"of new targets: {words}; of means: not measured"]
