"""Tests of means, tables, correlations and survival reject as often as they say, find what is there, or say nothing."""

import numpy as np
import pytest
from scipy import stats

from bench.population_tests import LINES, NAMES, QUESTIONS, main, p_values
from sordino import InputError, explore
from sordino.core.bound import Relation
from sordino.data import declared_lines
from sordino.mechanisms.statistics.parse_questions import parsed


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("text", QUESTIONS.values(), ids=QUESTIONS)
def test_a_test_rejects_as_often_as_it_says_and_finds_what_is_there(text, relation):
    """At 20 %, so that few tables tell, where noise dominates and where sampling does; one false alarm in 10^5."""
    for epsilon, records in ((0.1 if "w," in text else 0.25, 3000), (9.0, 1000)):
        nothing = p_values(text, epsilon, 60, records=records, relation=relation)
        assert None not in nothing
        assert np.sum(np.array(nothing) <= 0.2) <= stats.binom.ppf(1 - 1e-5, 60, 0.2), (epsilon, sorted(nothing))
    assert np.mean(np.array(p_values(text, 9.0, 20, effect=1.0, relation=relation)) < 0.05) >= 0.8


@pytest.mark.parametrize("text", QUESTIONS.values(), ids=QUESTIONS)
def test_a_test_says_nothing_of_a_handful_of_records(text):
    assert set(p_values(text, 50.0, 5, records=8)) == {None}


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_size_and_coverage_on_random_designs(question, monkeypatch):
    """Fresh designs: 5 % of all tables, no design far above, intervals hold; the bench's own exit code."""
    drawn = ["--designs", "60", "--tables", "100", "--first", "31000000", "--only", question]
    monkeypatch.setattr("sys.argv", ["population_tests.py", *drawn])
    assert main() == 0


def test_a_test_needs_independent_records_and_says_whom_its_intervals_are_about():
    declared = declared_lines(LINES.format(50) + "\nwho: unit of 4")
    with pytest.raises(InputError, match="one record for each value of 'who'"):
        parsed(["test: x by g"], declared, (*NAMES, "who"))
    rng = np.random.default_rng(1)
    table = {"g": ["a", "b"] * 300, "x": rng.uniform(0, 100, 600)}
    schema = declared_lines("records = 600\ng: a|b\nx: 0..100")
    budget = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one", "random_state": 1}
    found = explore.look(table, ["describe", "test: x by g", "mean: x by g"], schema=schema, **budget)
    assert [text for text, _ in found.answers] == ["describe: g", "describe: x", "test: x by g", "mean: x by g"]
    assert "describe the population" in found.release.settings["about"]
    few = explore.look(
        {"x": [1.0] * 9, "g": ["a"] * 9},
        ["test: x by g"],
        schema=schema,
        **budget | {"relation": "add-remove", "epsilon": 90.0},
    )
    assert "hidden by the noise" in str(few)
