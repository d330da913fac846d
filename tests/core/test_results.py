"""Every result shows itself: short text, HTML, a data frame with all digits, and a plot."""

import numpy as np
import pytest

import sordino
from sordino import InputError, read_spec
from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.core.results import MOST_ROWS, Estimate, Result, ResultTable, text_table
from sordino.data import declared_lines
from tests.conformance.examples import FOLDER

LONG = ResultTable(
    "A long table.",
    ((("name", "value"), tuple((f"row {place}", f"{place}") for place in range(100))),),
    {"name": [f"row {place}" for place in range(100)], "value": list(range(100))},
    points=(tuple(Estimate(f"row {place}", float(place), place - 1.0, place + 1.0) for place in range(100)),),
)


def shown() -> dict[str, Result]:
    spec = read_spec(FOLDER / "full-last-iterate.json")
    rows = {"age": np.random.default_rng(0).uniform(0, 100, 1000)}
    schema = declared_lines("records = 1000\nage: 0..100")
    budget = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one"}
    asked = ["mean: age", "histogram: age"]
    return {
        "table": LONG,
        "explanation": explain(spec, 1e-5),
        "lower bound": audit(spec, "exact", AuditOptions(delta=1e-5)),
        "look": sordino.explore.look(rows, asked, schema=schema, random_state=1, **budget),
        "plan": sordino.plan("linear", sordino.ArrayBounds(-1, 1, target=(-1, 1)).schema(3, 5000, None), **budget),
    }


@pytest.mark.parametrize("name", ["table", "explanation", "lower bound", "look", "plan"])
def test_a_result_is_short_text_html_a_frame_and_a_plot(name):
    result = shown()[name]
    assert len(str(result)) < 5000
    assert result._repr_html_().count("<table") >= 1
    assert len(result.to_frame()) == len(next(iter(result.shown.columns.values())))
    assert result.to_latex().count(r"\begin{tabular}") == sum(bool(rows) for _, rows in result.shown.tables)
    pytest.importorskip("matplotlib").use("Agg")
    assert result.plot() is not None


def test_a_terminal_gets_the_first_rows_and_their_number_and_a_file_all():
    assert f"... and {100 - MOST_ROWS} more rows" in str(LONG)
    assert LONG.text().count("\n") > 100
    assert len(LONG.to_csv().splitlines()) == 101


def test_words_stand_to_the_left_and_numbers_to_the_right():
    lines = text_table(("", "word", "n"), [("a", "x", "1"), ("b", "long", "22")]).splitlines()
    assert lines == ["   word   n", "a  x      1", "b  long  22"]


def test_what_has_no_estimate_is_not_plotted():
    with pytest.raises(InputError, match="estimates to plot"):
        ResultTable("nothing", (), {}).plot()


def test_a_release_prints_its_summary_and_not_its_arrays():
    X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    budget = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
    release = sordino.fit("linear", (X, X[:, 0]), schema=sordino.ArrayBounds(-1, 1, target=(-1, 1)), **budget)
    assert len(repr(release)) < 200
    assert "NON-PRIVATE" in repr(release)
    assert str(release) == str(release.summary())
