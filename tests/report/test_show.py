"""What people read of a release: `summary()`, `sordino show`, the forest plot and the page say what the draws say."""

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from sordino import (
    ArrayBounds,
    InputError,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
)
from sordino.cli import main
from sordino.data import Boolean, Feature, Number, Schema, Target
from sordino.fitting.predictor import Predictor
from sordino.inference.contrasts import contrast, wald
from sordino.inference.summary import coefficients_of, summary_of
from sordino.report.figures import FOREST, forest_figure, forest_plot, forest_rows, shares_bar
from sordino.report.page import report_page
from sordino.report.subject import open_subject
from tests.cli.console import answer, refusal, shown
from tests.report.example_releases import HOSTILE, MEANS, SHARES, coefficients, written

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["intercept", "age", "days", "smoker", "ward=surgery"]
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}


def test_a_summary_is_in_the_units_of_the_table():
    found = summary_of(coefficients("linear"))
    # y = 50 + 50 y', age = 55 + 55 age', days = 30 + 30 days'.
    assert [line.name for line in found.lines] == NAMES
    age, days = 50 * MEANS[1] / 55, 50 * MEANS[2] / 30
    intercept = 50 + 50 * MEANS[0] - 55 * age - 30 * days
    wanted = [intercept, age, days, 50 * MEANS[3], 50 * MEANS[4]]
    assert [line.estimate for line in found.lines] == pytest.approx(wanted)
    assert found.ratio == ""
    assert [line.shares for line in found.lines[1:]] == [pytest.approx(tuple(SHARES[:, k])) for k in range(1, 5)]
    assert [line.prior_dominated for line in found.lines] == [False, False, False, False, True]
    assert "ward=surgery *" in str(found)
    assert "Categories are compared with ward=medicine." in str(found)
    assert "Odds are those of True against False." in str(summary_of(coefficients("logistic")))


@pytest.mark.parametrize(("family", "word"), [("logistic", "odds ratio"), ("poisson", "rate ratio")])
def test_ratios_stand_beside_their_logarithms_but_for_the_intercept(family, word):
    found = summary_of(coefficients(family))
    assert found.cells[0][-2:] == (word, "interval")
    assert found.line("smoker").ratio[0] == pytest.approx(math.exp(0.4))
    assert found.cells[1][0][-2:] == ("", "")
    assert found.cells[1][3][-2] == "1.492"


def test_the_command_prints_what_the_summary_says(capsys, tmp_path):
    given = coefficients_of(coefficients())
    command = ("show", written(tmp_path, "release", coefficients()), "--contrast", "age=1,days=-1")
    command += ("--wald", "age,smoker", "--level", "0.9")
    text = shown(capsys, *command)
    for words in (str(summary_of(coefficients(), 0.9)), "age - days", str(wald(given, ["age", "smoker"]))):
        assert words in text
    found = answer(capsys, *command)
    assert [one["name"] for one in found["coefficients"]] == NAMES
    assert found["contrasts"] == [contrast(given, {"age": 1, "days": -1}, 0.9).as_dict()]
    assert found["wald"][0]["degrees_of_freedom"] == 2
    smoker = found["coefficients"][3]
    assert smoker["widened_by_privacy"] == pytest.approx(math.sqrt(0.99 / 0.9) - 1)
    assert smoker["interval"][0] < smoker["estimate"] < smoker["interval"][1]


def test_bad_input_is_one_sentence_and_code_2(capsys, tmp_path):
    folder = written(tmp_path, "release", coefficients())
    for more, said in (
        (["--level", "1"], "level in (0, 1)"),
        (["--contrast", "weight=1"], "to be one of intercept, age, days, smoker, ward=surgery, got 'weight'"),
        (["--contrast", "age=x"], 'to read like "age=1,dose=-1"'),
        (["--wald", "age,weight"], "got 'weight'"),
        (["--wald", "age,age"], "follows from the others"),
        (["--plot", "forest.png"], "ends in .svg"),
    ):
        assert said in refusal(capsys, "show", folder, *more)
    assert "release.json" in refusal(capsys, "show", tmp_path)


def test_the_forest_plot_is_drawn_for_round_steps_of_units():
    rows = forest_rows(summary_of(coefficients()).lines, ratio=True)
    assert [row.name for row in rows] == ["age, per 50", "days, per 20", "smoker", "ward=surgery"]
    assert rows[0].effect == pytest.approx(math.exp(50 * MEANS[1] / 55))
    line = summary_of(coefficients()).line("smoker")
    (low, high), (inner_low, inner_high) = rows[2].outer, rows[2].inner
    assert (low, high) == pytest.approx((math.exp(line.low), math.exp(line.high)))
    narrower = math.log(inner_high / inner_low) / math.log(high / low)
    assert narrower == pytest.approx(1 / (1 + line.widened))


def test_the_forest_plot_is_well_formed_and_says_what_it_shows(capsys, tmp_path):
    folder = str(written(tmp_path, "release", coefficients()))
    assert main(["show", folder, "--plot", str(tmp_path / "forest.svg")]) == 0
    root = ET.fromstring((tmp_path / "forest.svg").read_text())
    texts = ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]
    assert {"Odds ratios with 95 % intervals", "age, per 50", "smoker", FOREST} <= set(texts)
    assert "ward=surgery: 1.649 (0.4944 to 5.498), prior-dominated" in (root.findtext(f"{SVG}desc") or "")
    assert len(list(root.iter(f"{SVG}circle"))) == 4
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", forest_figure(summary_of(coefficients())))
    bar = shares_bar(summary_of(coefficients()).lines[1])
    assert 'aria-label="sampling 70 %, privacy 28 %, prior 2 %"' in bar


def test_names_from_outside_are_escaped_everywhere():
    release = coefficients()
    columns = ["intercept", HOSTILE, "days\x1b[2J", "smoker", "ward=surgery"]
    settings = dict(release.settings) | {"coefficients": dict(release.settings["coefficients"]) | {"columns": columns}}
    hostile = coefficients(settings=settings)
    assert "\x1b" not in str(summary_of(hostile))
    assert "<script>" not in (forest_plot("f", summary_of(hostile)) or "")
    assert "<script>" not in forest_figure(summary_of(hostile))


def test_the_page_has_the_table_the_forest_plot_and_the_shares(tmp_path):
    page = report_page([open_subject(written(tmp_path, "release", coefficients()), None, None)])
    released = page[page.index(">What was released<") : page.index(">Assumptions and their evidence<")]
    for cell in (cell for row in summary_of(coefficients()).cells[1] for cell in row if cell):
        assert cell.replace("<", "&lt;") in released
    assert "odds ratio" in released
    assert "Forest plot" in released
    assert released.count('class="shares"') == 5
    assert "encoded columns" not in released
    # What ran has the whole width below the facts.
    facts = page[page.index('<dl class="facts">') : page.index("</dl>", page.index('<dl class="facts">'))]
    assert "what ran" not in facts
    assert re.search(r"\.facts\.ran \{[^}]*grid-column: 1 / -1", page)


def test_means_and_new_targets_are_in_the_units_of_the_table():
    release = coefficients("linear")
    rows = np.array([[1.0, 0.2, -0.4, 1.0, 0.0, 1.0]])
    found = Predictor(release).means(rows, 0.9)
    mean = 50 + 50 * (rows[0, [0, 1, 2, 3, 5]] @ MEANS)
    spread = 50 * math.sqrt(0.1**2 + (0.2 * 0.15) ** 2 + (0.4 * 0.2) ** 2 + 0.06**2 + 0.6**2)
    assert found.mean == pytest.approx([mean])
    # 2,000 draws: an end is off by .05 deviations (one deviation), and .2 is four of them.
    assert found.high[0] - found.low[0] == pytest.approx(2 * 1.6449 * spread, abs=0.2 * spread)
    new = math.hypot(spread, 50 * 0.3)
    assert found.new_high[0] - found.new_low[0] == pytest.approx(2 * 1.6449 * new, abs=0.2 * new)
    counts = Predictor(coefficients("poisson")).means(rows, 0.9)
    assert counts.new_low[0] == round(counts.new_low[0]) < counts.mean[0] < counts.new_high[0]
    assert len(Predictor(release).means(np.repeat(rows, 1100, axis=0), 0.9).mean) == 1100
    chance = Predictor(coefficients("logistic")).means(rows, 0.9)
    assert 0.0 < chance.low[0] < chance.mean[0] < chance.high[0] < 1.0
    assert chance.new_low is None


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(4)
    X = np.column_stack([generator.uniform(20, 90, 4000), generator.uniform(0, 100, 4000)])
    return X, 20 + 0.3 * X[:, 0] - 0.1 * X[:, 1] + generator.normal(0, 3, 4000)


def test_an_estimator_has_a_summary_contrasts_tests_and_means(table):
    X, y = table
    schema = ArrayBounds(0, 100, target=(0, 60))
    model = PrivateLinearRegression(schema=schema, method="bounded-influence", **BUDGET)
    with pytest.raises(ValueError, match="not fitted"):
        model.summary()
    model.fit(X, y)
    found = model.summary()
    # Truth within 4.5 standard errors: false alarm below 1e-5 for each.
    for line, truth in zip(found.lines, (20, 0.3, -0.1), strict=True):
        assert abs(line.estimate - truth) < 4.5 * line.standard_error
    assert found.line("x0").p_value < 1e-6
    both = model.contrast({"x0": 1, "x1": 1})
    assert both.estimate == pytest.approx(found.line("x0").estimate + found.line("x1").estimate)
    assert model.wald(["x0", "x1"]).p_value < 1e-6
    means = model.predict_mean(X[:3])
    assert np.all((means.low < means.mean) & (means.mean < means.high))
    assert np.all((means.new_low < means.low) & (means.high < means.new_high))
    held = model.predict_mean(X, 0.9)
    # A normal law for the residuals of a normal table; the share is within 6 points of its level.
    assert np.mean((held.new_low < y) & (y < held.new_high)) == pytest.approx(0.9, abs=0.06)
    with pytest.raises(InputError, match="'x2'"):
        model.contrast("x2")


def test_methods_without_intervals_show_estimates_but_no_test(table):
    X, y = table
    schema = ArrayBounds(0, 100, target=(0, 60))
    older = PrivateLinearRegression(schema=schema, method="ridge", **BUDGET).fit(X, y)
    found = older.summary()
    assert not found.tested
    assert [line.z for line in found.lines] == [None] * 3
    assert found.cells[0][-1] == "estimate"
    # The estimate is the posterior's mean, moved to the units of the table.
    encoded = older.posterior_.mean
    assert found.line("x1").estimate == pytest.approx(30 * encoded[2] / 50)
    row = np.array([[50.0, 5.0]])
    at_row = found.lines[0].estimate + row[0] @ [found.line("x0").estimate, found.line("x1").estimate]
    assert at_row == pytest.approx(older.predict(row)[0])
    for asked in (lambda: older.contrast("x0"), lambda: older.wald(["x0"]), lambda: older.predict_mean(row)):
        with pytest.raises(InputError, match="intervals of this release are withheld"):
            asked()
    classes = ArrayBounds(0, 100, classes=(False, True))
    constant = PrivateLogisticRegression(schema=classes, method="constant", **BUDGET).fit(X, y > 30).summary()
    assert [line.name for line in constant.lines] == ["intercept"]
    assert str(constant).startswith("Only a constant was learned")


def test_counts_and_yes_or_no_targets_taken_for_numbers_have_tables_too(table):
    X, y = table
    counts = np.random.default_rng(5).poisson(np.exp(0.5 + 0.01 * X[:, 0]))
    poisson = PrivatePoissonRegression(schema=ArrayBounds(0, 100, target=(0, 15)), **BUDGET).fit(X, counts)
    found = poisson.summary()
    assert found.ratio == "rate ratio"
    assert abs(found.line("x0").estimate - 0.01) < 4.5 * found.line("x0").standard_error
    columns = tuple(Feature(name, Number(0.0, 100.0)) for name in ("x0", "x1"))
    signs = Schema(records=4000, features=columns, target=Target("high", Boolean()), intercept=True)
    rows = {"x0": X[:, 0], "x1": X[:, 1], "high": (y > 35).astype(str)}
    shown = PrivateLinearRegression(schema=signs, method="bounded-influence", **BUDGET).fit(rows).summary()
    assert shown.line("x0").p_value < 1e-6
