"""Intervals of a look hold the table's own numbers as often as they say, and suggested bounds hold nearly all rows."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from sordino.core.bound import Relation
from sordino.core.validate import InputError, Mistakes
from sordino.data import declared_lines, from_arrays
from sordino.explore.looks import LookPlan, look_cautions, sums_in_memory
from sordino.fitting.problem import Sources
from sordino.mechanisms.statistics.parse_questions import WORDS, parsed
from sordino.mechanisms.statistics.questions import Rows

LINES = "records = 400\nage: 0..100\nbmi: 10..60\nward: a|b|c\nsmoker: yes/no"
NAMES = ("age", "bmi", "ward", "smoker")


def table(records=400):
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(55, 18, records), 0, 100)
    bmi = np.clip(0.2 * age + rng.normal(20, 4, records), 10, 60)
    absent = rng.random(records) < 0.1
    columns = {
        "age": age,
        "bmi": np.where(absent, np.nan, bmi),
        "ward": rng.choice(["a", "b", "c", "d"], records),
        "smoker": rng.choice(["yes", "no"], records),
    }
    both = ~absent
    quartiles = lambda values: np.quantile(values, [0.25, 0.5, 0.75], method="inverted_cdf")  # noqa: E731
    by_ward = [columns["ward"] == word for word in ("a", "b", "c", "d")]
    truth = {
        "count": [records],
        "histogram: ward": [np.sum(columns["ward"] == word) for word in ("a", "b", "c", "d", "")],
        "mean: bmi": [bmi[both].mean()],
        "mean: smoker": [np.mean(columns["smoker"] == "yes")],
        "missing: bmi": [absent.sum()],
        "quantiles: age": quartiles(age),
        "describe: bmi": [absent.sum(), bmi[both].mean(), bmi[both].std(), *quartiles(bmi[both])],
        "mean: age by ward": [*(age[own].mean() for own in by_ward), np.nan],
        "missing: bmi by ward": [*(np.sum(absent & own) for own in by_ward), 0],
        "correlation: age, bmi": [np.corrcoef(age[both], bmi[both])[0, 1]],
    }
    return from_arrays(columns), truth


def covered(relation, epsilon, repeats, level=0.9):
    declared = declared_lines(LINES)
    rows, truth = table()
    plan = LookPlan.of(parsed(list(truth), declared, NAMES), declared, epsilon, 1e-5, relation)
    rows = Rows(rows, declared)
    hits = {text: np.zeros(len(values)) for text, values in truth.items()}
    for seed in range(repeats):
        for one, answers in plan.answered(sums_in_memory(rows), Sources(seed), level):
            text = one.question.text
            hits[text] += [
                np.isnan(value) or row.low - 1e-9 <= value <= row.high + 1e-9
                for row, value in zip(answers, truth[text], strict=True)
            ]
            assert all(row.low <= row.value <= row.high for row in answers)
    return hits


@pytest.mark.parametrize(
    ("epsilon", "repeats"),
    [
        pytest.param(8.0, 60),
        pytest.param(8.0, 400, marks=pytest.mark.slow),
        pytest.param(0.5, 400, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("relation", list(Relation))
def test_intervals_hold_as_often_as_they_say(relation, epsilon, repeats):
    """Each of some 29 numbers is held at least as often as 0.9 allows; one false alarm in 10^5 runs."""
    least = stats.binom.ppf(1e-5 / 29, repeats, 0.9)
    for text, times in covered(relation, epsilon, repeats).items():
        assert np.all(times >= least), (text, times / repeats)


@pytest.mark.slow
def test_intervals_are_not_wider_than_they_must_be():
    """Counts, missing cells and means: the interval is exact, so it is not held more often either."""
    most = stats.binom.ppf(1 - 1e-5 / 8, 400, 0.9)
    times = covered(Relation.ADD_REMOVE, 8.0, 400)
    for text in ("count", "mean: bmi", "mean: smoker", "missing: bmi"):
        assert np.all(times[text] <= most), (text, times[text] / 400)


def test_suggested_bounds_hold_nearly_all_rows_and_are_not_far_wider():
    rng = np.random.default_rng(3)
    records = 20_000
    columns = {
        "year": rng.integers(1950, 2020, records).astype(float),
        "income": np.exp(rng.normal(10, 0.5, records)),
        "change": rng.normal(0, 1e-3, records),
        "flag": rng.integers(0, 2, records).astype(float),
    }
    declared = declared_lines(f"records = {records}\nyear: 0..1")
    found = parsed([f"bounds: {name}" for name in columns], declared, tuple(columns))
    plan = LookPlan.of(found, declared, 0.5, 1e-6, Relation.REPLACE_ONE)
    for one, (low, high) in plan.answered(sums_in_memory(Rows(from_arrays(columns), declared)), Sources(1), 0.95):
        values = columns[one.question.columns[0]]
        assert np.mean((values < low.value) | (values > high.value)) < 0.03, one.question.text
        width = np.quantile(values, 0.999) - np.quantile(values, 0.001)
        assert high.value - low.value < 1.5 * width + 1e-9, one.question.text


def test_bounds_that_noise_would_hide_are_refused_before_anything_is_spent():
    declared = declared_lines("records = 20\nage: 0..100")
    with pytest.raises(InputError, match=r"about .* times as much.* Nothing was read and nothing was spent"):
        LookPlan.of(parsed(["bounds: age"], declared, ("age",)), declared, 0.1, 1e-6, Relation.REPLACE_ONE)


def test_where_noise_hides_every_cell_no_bounds_are_suggested():
    """Values spread over sixty powers of 2, so that no cell holds enough to be seen."""
    declared = declared_lines("records = 300\nage: 0..100")
    plan = LookPlan.of(parsed(["bounds: age"], declared, ("age",)), declared, 1.0, 1e-6, Relation.REPLACE_ONE)
    spread = from_arrays({"age": np.exp2(np.linspace(-20, 40, 300))})
    answers = plan.answered(sums_in_memory(Rows(spread, declared)), Sources(4), 0.95)
    assert answers[0][1] == ()
    assert "hides every value" in look_cautions([{"word": "bounds", "question": "q", "rows": ()}], plan.spec)[0]


def test_units_count_once_however_many_records_they_have():
    declared = declared_lines("records = 200\nage: 0..100\nwho: unit of 4")
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(200), rng.integers(1, 9, 200))
    age = np.where(who < 100, 20.0, 80.0)
    found = parsed(["mean: age", "histogram: age [bins=2]"], declared, ("age", "who"))
    plan = LookPlan.of(found, declared, 50.0, 1e-5, Relation.REPLACE_ONE)
    table = from_arrays({"age": age, "who": who})
    (mean,), bins = (rows for _, rows in plan.answered(sums_in_memory(Rows(table, declared)), Sources(1), 0.95))
    assert mean.value == pytest.approx(50.0, abs=1.5)
    assert [row.value for row in bins] == pytest.approx([100, 100, 0], abs=4)
    assert plan.spec.to_dict()["algorithm"]["unit"] == {"column": "who", "most_records": 4}


WRONG = {
    "mean age": "Expected a question such as 'mean: age'",
    "median: age": "begin with one of count, describe, histogram",
    "mean: agee": "Expected columns of the table in 'mean: agee', got 'agee'",
    "mean: ward": "Expected a number in 'mean: ward', got the kind 'category'",
    "mean: age, bmi": "Expected one column",
    "table: ward": "Expected 2 to 3 columns",
    "table: ward, smoker by ward": "'by' may follow describe, histogram, mean",
    "mean: age by bmi": "must be declared words",
    "histogram: age [scale=cubic]": "scale in",
    "test: age": "two different columns",
    "survival: age, bmi": "the event must be declared as yes/no",
    "count: age": "Expected no column",
    "histogram: age [bins=0]": "bins in",
    "histogram: age [bins=many]": "Expected numbers behind bins",
    "histogram: age [bins=inf]": "bins to be a whole number",
    "table: age, bmi [bins=nan]": "bins to be a whole number",
    "histogram: age [colour=red]": "Expected options of histogram (bins, scale)",
    "quantiles: age [levels=0.5,2]": "must be between 0 and 1",
    "correlation: age": "Expected 2 to 50 different columns",
    "correlation: age, age": "Expected 2 to 50 different columns",
    "categories: age": "needs a category",
    "bounds: ward": "Expected a number",
    "mean: who": "Expected declared columns in 'mean: who', got 'who'; declare them, or ask for their bounds first",
    "table: age, bmi [bins=1000]": "Expected at most 100000 cells",
}


def test_questions_that_make_no_sense_are_named_all_at_once():
    declared = declared_lines(LINES)
    with pytest.raises(Mistakes) as caught:
        parsed(list(WRONG), declared, (*NAMES, "who"))
    assert len(caught.value.errors) == len(WRONG)
    for error, words in zip(caught.value.errors, WRONG.values(), strict=True):
        assert words in str(error)
    with pytest.raises(InputError, match="Expected different questions"):
        parsed(["mean: age", "mean: age"], declared, NAMES)
    with pytest.raises(InputError, match="There are no questions"):
        parsed("mean: age", declared, NAMES)


KINDS = "records = 40\nage: 0..100\nward: a|b\nsmoker: yes/no\nstage: I < II < III\nday: 2015-01-01..2024-12-31"


@pytest.mark.parametrize("word", WORDS)
def test_a_question_about_a_column_of_any_kind_is_answered_or_refused_before_the_debit(word):
    """Quantiles of words in an order were charged and had no edges to be read from."""
    declared = declared_lines(KINDS)
    names = [feature.name for feature in declared.features]
    odd = from_arrays(dict.fromkeys(names, np.array(["", "a", "II", "7", "2020-02-02"] * 8, object)))
    rows, asked = Rows(odd, declared), 0
    for relation, columns in product(Relation, [(), *combinations(names, 1), *combinations(names, 2)]):
        try:
            found = parsed([f"{word}: {', '.join(columns)}".removesuffix(": ")], declared, names)
            plan = LookPlan.of(found, declared, 1.0, 1e-5, relation)
        except InputError:
            continue
        asked += 1
        for seed in range(3):
            for _, answers in plan.answered(sums_in_memory(rows), Sources(seed), 0.9):
                assert answers or word in ("categories", "bounds", "test", "survival")
    assert asked


def test_the_number_of_rows_is_used_nowhere_under_add_remove():
    """It is private there; answers are computed from the declared number and from what was noised."""
    declared = declared_lines("records = 20000\nage: 0..100")
    found = parsed(["count", "bounds: age", "mean: age", "quantiles: age"], declared, ("age",))
    plan = LookPlan.of(found, declared, 0.1, 1e-6, Relation.ADD_REMOVE)
    rows = Rows(from_arrays({"age": np.random.default_rng(0).normal(50, 10, 20_000)}), declared)
    first = repr([answers for _, answers in plan.answered(sums_in_memory(rows), Sources(1), 0.95)])
    rows.units = 10**6
    assert repr([answers for _, answers in plan.answered(sums_in_memory(rows), Sources(1), 0.95)]) == first
