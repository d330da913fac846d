"""No interval stands alone: what was measured is in one table, and everything that shows an interval reads it."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import numpy as np

from sordino.data import Number, Target
from sordino.estimators import ESTIMATORS, ArrayBounds, PrivateLinearRegression
from sordino.fitting.tasks.base import TASKS
from sordino.inference.release import parameters_of
from sordino.ledger.release import release_coverage, write_release
from sordino.ledger.release.coverage import (
    COEFFICIENTS,
    LEVELS,
    MEASURED,
    NEW_TARGETS,
    PROBABILITIES,
    SEVERAL,
    measured,
    nominal_and_measured,
)
from sordino.report.page import report_page
from sordino.report.subject import open_subject
from tests.cli.console import answer
from tests.cli.test_predict import ROWS, SCORE, schema
from tests.report.example_releases import gaussians, kept_draws, written

ROOT = Path(__file__).parents[3]
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))


def coverage_words(task, method, of, level):
    found = measured(task, method, of, level)
    return None if found is None else nominal_and_measured(found, level)


def test_every_row_is_a_rate_of_a_registered_method():
    for one in MEASURED:
        assert 0.0 <= one.low <= one.high <= 1.0
        assert one.method in TASKS[one.task.removesuffix(SEVERAL)].methods
        assert one.of in {COEFFICIENTS, NEW_TARGETS, PROBABILITIES}
        assert one.level in LEVELS
        assert one.cells >= 4
        assert one.tables >= 10
        wider = measured(one.task, one.method, one.of, 0.95)
        assert wider is not None
        assert one.low <= wider.low


# Pairs whose intervals are withheld, with the reason; a new method is measured or stands here.
NETWORKS, CLASSES = ("network-regression", "network-classification"), ("classification", "network-classification")
WITHHELD = {
    # A weight of a network means nothing by itself.
    *((task, method, COEFFICIENTS) for task in NETWORKS for method in ("dp-vi", "natural")),
    ("network-regression", "dp-sep", COEFFICIENTS),
    ("network-regression", "dp-sep", NEW_TARGETS),
    # Its prior draws effects to 0, and what columns share is not known; the others leave out noise or clipping.
    *(("regression", method, of) for method in ("ridge", "dp-sep", "dp-vi") for of in (COEFFICIENTS, NEW_TARGETS)),
    *(("classification", name, of) for name in ("ridge", "dp-sep", "dp-vi") for of in (COEFFICIENTS, PROBABILITIES)),
    *(("mixture", method, COEFFICIENTS) for method in ("dp-sep", "dp-vi")),
    # A constant knows nothing about a row.
    *((task, "constant", PROBABILITIES) for task in CLASSES),
}


def test_every_interval_is_measured_or_withheld():
    unknown = set()
    for word, task in TASKS.items():
        chances = task.classifies or task.outcome.startswith("chance")
        asked = [COEFFICIENTS, *([PROBABILITIES if chances else NEW_TARGETS] if task.outcome else [])]
        for name in task.methods:
            unknown |= {(word, name, of) for of in asked if measured(word, name, of, 0.95) is None}
    assert unknown == WITHHELD


def test_the_words_name_the_level_and_round_outwards():
    held = measured("robust-regression", "bounded-influence", COEFFICIENTS, 0.95).words
    words = coverage_words("robust-regression", "bounded-influence", COEFFICIENTS, 0.95)
    assert words == f"95 % nominal; measured {held}"
    other = coverage_words("robust-regression", "bounded-influence", COEFFICIENTS, 0.99)
    assert other == f"99 % nominal; measured {held} where 95 % was nominal"
    assert coverage_words("mixture", "unheard-of", COEFFICIENTS, 0.95) is None
    for one in MEASURED:
        low, high = re.fullmatch(r"(?:(\d+) to )?(\d+) %", one.words).groups()
        assert int(low or high) <= 100 * one.low + 1e-6
        assert int(high) >= 100 * one.high - 1e-6


def test_the_page_shows_no_interval_without_its_range(tmp_path):
    bounds = ArrayBounds(-1, 1, target=(-1, 1))
    model = PrivateLinearRegression(schema=bounds, **BUDGET).fit(X, X @ [0.5, -0.2])
    page = report_page([open_subject(write_release(tmp_path / "release", model.release_))], non_private=True)
    assert coverage_words("regression", "bounded-influence", COEFFICIENTS, 0.95) in page
    constant = PrivateLinearRegression(schema=bounds, method="constant", **BUDGET).fit(X, X @ [0.5, -0.2])
    page = report_page([open_subject(write_release(tmp_path / "constant", constant.release_))], non_private=True)
    assert coverage_words("regression", "constant", COEFFICIENTS, 0.95) in page  # the head of the table
    released = page.split('id="r1-released"')[1].split("</section>")[0]
    assert len(re.findall(r"95 ?%", released)) == len(
        re.findall(r"95 % (nominal|intervals of this method contained)", released)
    )


def test_several_classes_are_another_thing_than_two():
    for labels, task in ((["a", "b"], "classification"), (["a", "b", "c"], "classification of several classes")):
        release = gaussians(settings={"task": "classification", "method": "bounded-influence", "labels": labels})
        words = measured(task, "bounded-influence", COEFFICIENTS, 0.95).words
        assert words in release_coverage(release, COEFFICIENTS, 0.95)
    unmeasured = gaussians(settings={"task": "classification", "method": "ridge", "labels": ["a", "b", "c"]})
    assert release_coverage(unmeasured, COEFFICIENTS, 0.95) is None


def test_intervals_that_were_not_measured_are_withheld(tmp_path):
    network = gaussians(settings={"task": "network-regression", "method": "dp-vi"})
    assert all(one.low is one.high is None for one in parameters_of(network).lines)
    for place, release in enumerate((kept_draws(), gaussians(), network)):
        page = report_page([open_subject(written(tmp_path, f"own-{place}", release))])
        assert "No intervals are reported" in page
        assert "95 % interval</th>" not in page
        assert "Density of" not in page
    found = parameters_of(gaussians(settings={"task": "mixture", "method": "em"}))
    assert all(one.low < one.estimate < one.high for one in found.lines)
    assert "95 %" in found.cells[0][-1]


def test_estimators_say_it():
    model = PrivateLinearRegression(schema=ArrayBounds(-1, 1, target=(-1, 1)), **BUDGET).fit(X, X @ [0.5, -0.2])
    assert model.interval_coverage(0.9) == coverage_words("regression", "bounded-influence", NEW_TARGETS, 0.9)
    for kind in ESTIMATORS.values():
        if hasattr(kind, "predict_interval"):
            assert "interval_coverage" in inspect.getdoc(kind.predict_interval)


def test_the_documented_table_is_the_measured_one():
    page = (ROOT / "docs" / "reference" / "estimators.md").read_text(encoding="utf-8")
    section = page.split("## Measured coverage")[1].split("\n## ")[0]
    shown = [tuple(part.strip() for part in line.strip("|").split("|")) for line in section.splitlines() if "|" in line]
    words = {(one.task, one.method, one.of, one.level): one.words for one in MEASURED}
    keys = dict.fromkeys((one.task, one.method, one.of) for one in MEASURED)
    assert shown[2:] == [(*key, *(words.get((*key, level), "") for level in LEVELS)) for key in keys]
    tutorial = (ROOT / "docs" / "tutorials" / "statistician.md").read_text(encoding="utf-8")
    assert measured("classification", "bounded-influence", COEFFICIENTS, 0.95).words in tutorial


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
    assert written_down.ranges([*rows, rows[0] | {"rate": 0.4}]) != list(found.values())


def test_predictions_carry_it_in_a_column(tmp_path, capsys):
    model = PrivateLinearRegression(schema=schema(Target("y", Number(-4, 4))), **BUDGET | {"epsilon": 4.0})
    write_release(tmp_path / "release", model.fit({**ROWS, "y": SCORE}).release_)
    (tmp_path / "rows.csv").write_text("a,b\n0.1,0.2\n")
    found = answer(capsys, "predict", tmp_path / "release", tmp_path / "rows.csv", "--level", "0.9")
    words = coverage_words("regression", "bounded-influence", NEW_TARGETS, 0.9)
    assert found["intervals"] == [f"of new targets: {words}; of means: not measured"]
