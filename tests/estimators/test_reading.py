"""What people take with them: a table in four forms, margins and effects, named draws, and an ArviZ object."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from sordino import InputError
from sordino.cli import main
from sordino.core.results import ResultTable, latex
from sordino.data import declared_lines, with_formula
from sordino.fitting.predictor import Predictor
from sordino.inference.margins import effects, margins, named_draws, raw_kinds, representative, to_arviz
from sordino.inference.summary import _column_remarks, summary_of
from tests.report.example_releases import MEANS, coefficients, written

PUBLIC = {"age": [20.0, 80.0], "days": [3.0, 30.0], "smoker": ["true", "false"], "ward": ["surgery", "medicine"]}


def test_a_summary_says_the_same_in_text_csv_latex_and_html():
    found = summary_of(coefficients("logistic"))
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["name"] for row in rows] == [line.name for line in found.lines]
    assert [float(row["estimate"]) for row in rows] == [line.estimate for line in found.lines]
    assert rows[0]["odds_ratio"] == ""
    assert float(rows[3]["odds_ratio_low"]) == pytest.approx(found.lines[3].ratio[1])
    for word in ("Dep. variable: ", "readmitted", "5,000", "replace-one"):
        assert word in str(found)
    assert found._repr_html_() == found.to_html()
    assert found.to_html().count("<tr>") == len(found.facts) + 2 * (len(found.lines) + 1)
    assert found.to_latex().count(r"\toprule") == 2
    assert r"ward=surgery * & " in found.to_latex()
    # A seeded fit says in every form that it may not be published.
    seeded = summary_of(coefficients("logistic", private=False))
    assert all("NON-PRIVATE" in seeded.shown.to(form) for form in ("text", "csv", "latex", "html"))
    assert "NON-PRIVATE" not in found.to_csv()


def test_names_from_outside_are_escaped_in_every_form():
    hostile = ResultTable(
        "<script>", (((r"\input{x}", "b"), (("=cmd()", "-1"), ("<b>&%", "$x_1^2~"))),), {"=a": ["@b"]}
    )
    assert "<script>" not in hostile.to_html()
    assert "<b>" not in hostile.to_html()
    assert hostile.to_csv() == "'=a\n'@b\n"
    assert r"\input{" not in hostile.to_latex()
    assert r"\$x\_1\textasciicircum{}2\textasciitilde{}" in hostile.to_latex()
    assert latex("a-b -1") == "a-b $-$1"


def by_hand(age, days, smoker, ward):
    """The score of the releases made for tests, at the posterior's mean."""
    row = np.array([1, (age - 55) / 55, (days - 30) / 30, smoker, ward])
    return row @ np.array(MEANS)


def test_margins_are_means_of_outcomes_at_declared_values():
    release = coefficients("logistic")
    weights, draws = 1 / 2000, np.asarray(Predictor(release).posterior.draws)
    found = margins(release, ["age", "ward"])
    assert [one.value for one in found.margins] == ["0", "27.5", "55", "82.5", "110", "medicine", "surgery"]
    for one, age in zip(found.margins[:5], (0, 27.5, 55, 82.5, 110), strict=True):
        row = np.array([1, (age - 55) / 55, 0, 0, 0])
        assert one.estimate == pytest.approx(float((special.expit(draws @ row) * weights).sum()))
        assert one.low < one.estimate < one.high
        assert one.outcome == "probability of True"
    assert "age=55, days=30, smoker=false, ward=medicine" in str(found)
    held = margins(release, "age", values={"age": [30]}, at={"smoker": "true", "ward": "surgery", "days": "0"})
    row = np.array([1, (30 - 55) / 55, -1, 1, 1])
    assert held.margins[0].estimate == pytest.approx(float(special.expit(draws @ row).mean()))


def test_averages_are_over_the_public_rows_that_are_given():
    release = coefficients("linear")
    (one,) = margins(release, "ward", values={"ward": ["surgery"]}, over=PUBLIC).margins
    scores = [by_hand(age, days, smoker, 1) for age, days, smoker in ((20, 3, 1), (80, 30, 0))]
    assert one.estimate == pytest.approx(50 + 50 * np.mean(scores), rel=1e-9)
    assert "must be public" in str(margins(release, "ward", over=PUBLIC))
    many = {name: list(cells) * 200 for name, cells in PUBLIC.items()}  # more than one block of rows
    again = margins(release, "ward", values={"ward": ["surgery"]}, over=many).margins[0]
    assert again.estimate == pytest.approx(one.estimate)


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_effects_are_differences_in_natural_units(family):
    found = {(one.column, one.value): one for one in effects(coefficients(family)).margins}
    assert list(found) == [
        ("age", "80 against 30"),
        ("days", "40 against 20"),
        ("smoker", "true against false"),
        ("ward", "surgery against medicine"),
    ]
    if family == "linear":
        assert found["age", "80 against 30"].estimate == pytest.approx(50 * 50 * MEANS[1] / 55)
        assert found["smoker", "true against false"].estimate == pytest.approx(50 * MEANS[3])
    else:
        means = {"logistic": special.expit, "poisson": np.exp}[family]
        draws = np.asarray(Predictor(coefficients(family)).posterior.draws)
        wanted = means(draws @ [1, 0, 0, 1, 0]) - means(draws @ [1, 0, 0, 0, 0])
        assert found["smoker", "true against false"].estimate == pytest.approx(wanted.mean())


def test_margins_read_products_of_a_formula_and_dates_in_the_tables_own_words():
    days = "day: 2020-01-01..2020-12-31"
    schema = declared_lines(f"records = 9\nage: 0..110\nward: a|b\n{days}\nill: yes/no [target]")
    kinds = raw_kinds(with_formula(schema, "ill ~ ward + age:ward + day"))
    assert set(kinds) == {"age", "ward", "day"}
    assert {name: representative(kind) for name, kind in kinds.items()} == {
        "age": 55.0,
        "ward": "a",
        "day": "2020-07-01",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"columns": ["dose"]}, "Expected columns among 'age'"),
        ({"at": {"dose": 1}}, "is not one of 'age'"),
        ({"columns": ["age"], "values": {"age": [400]}}, "between 0 and 110"),
        ({"columns": ["age"], "values": {"age": ["old"]}}, "to be a number"),
        ({"at": {"ward": "maternity"}}, "to be one of 'medicine', 'surgery'"),
        ({"over": {"age": [1.0]}}, "a table without 'days'"),
    ],
)
def test_margins_of_what_is_not_declared_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        margins(coefficients(), **given)


def test_margins_need_a_method_that_knows_its_error():
    only = coefficients("linear")
    with pytest.raises(InputError, match="bounded influence"):
        margins(replace(only, settings={**only.settings, "learned": "constant", "method": "constant"}))


def test_draws_have_names_and_come_again_from_a_seed():
    release = coefficients("linear")
    drawn = named_draws(release, 4000, seed=1)
    assert list(drawn) == ["intercept", "age", "days", "smoker", "ward=surgery"]
    assert drawn["age"].mean() == pytest.approx(50 * MEANS[1] / 55, abs=0.02)
    assert named_draws(release, 10, seed=1)["age"].tolist() == named_draws(release, 10, seed=1)["age"].tolist()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_arviz_gets_named_variables_with_the_tables_words_as_coordinates():
    pytest.importorskip("arviz")
    release = coefficients("logistic")
    found = to_arviz(release, 50, seed=2)
    assert found.posterior["slope"].dims == ("chain", "draw", "column")
    assert found.posterior["column"].values.tolist() == ["age", "days", "smoker", "ward=surgery"]
    assert found.posterior["intercept"].shape == (1, 50)
    assert found.posterior.attrs["relation"] == release.spec.relation.value
    slopes = named_draws(release, 50, seed=2)
    assert found.posterior["slope"].sel(column="age").values[0].tolist() == slopes["age"].tolist()


def test_the_command_shows_every_form_and_refuses_what_does_not_go_together(tmp_path, capsys):
    folder = str(written(tmp_path, "release", coefficients()))
    for form, mark in (("text", "std. error"), ("csv", "standard_error"), ("latex", r"\toprule"), ("html", "<table")):
        assert main(["show", folder, "--format", form]) == 0
        assert mark in capsys.readouterr().out
        assert main(["show", folder, "--margins", "age", "--format", form]) == 0
        assert "27.5" in capsys.readouterr().out
    assert main(["show", folder, "--effects", "--at", "ward=surgery", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["margins"][0]["value"] == "80 against 30"
    assert main(["show", folder, "--draws", "3", "--seed", "1", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["age"]) == 3
    target = tmp_path / "table.tex"
    assert main(["show", folder, "--format", "latex", "--out", str(target)]) == 0
    assert target.read_text().endswith("\n")
    capsys.readouterr()
    for wrong in (
        ["--format", "word"],
        ["--at", "ward=surgery"],
        ["--effects", "--margins", "age"],
        ["--effects", "--draws", "3"],
        ["--margins", "age", "--at", "surgery"],
        ["--format", "csv", "--json"],
        ["--format", "latex", "--draws", "3"],
        ["--format", "html", "--wald", "age"],
    ):
        assert main(["show", folder, *wrong]) == 2, wrong
        assert capsys.readouterr().err.count("\n") == 1


def test_a_summary_says_what_one_more_of_a_column_is_and_where_products_count_from():
    lines = (
        "records = 9\nage: 18..100\nstage: I < II < III\nday: 2020-01-01..2024-12-31 [part=month]\n"
        "bmi: 12..60 [missing=indicator]\nill: yes/no [target]"
    )
    kinds = {feature.name: feature.kind for feature in with_formula(declared_lines(lines), "ill ~ age*stage").features}
    plain = {feature.name: feature.kind for feature in declared_lines(lines).features}
    assert _column_remarks({"age": plain["age"]}) == []
    said = " ".join(_column_remarks(plain))
    for words in (
        "One more of stage is a step from I to III.",
        "day is a month of the year",
        "A missing cell of bmi is",
    ):
        assert words in said
    assert "middle of their bounds (age from 59, stage from 1)" in " ".join(_column_remarks(kinds))
