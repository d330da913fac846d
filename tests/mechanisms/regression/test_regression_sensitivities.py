"""Every noised sum of the regression engine: the search that attacks its sensitivity, and mistakes that a test finds.

The table is checked: a sum that some plan releases and that is not in it, a search that is gone, or a mistake that is
no longer tried is an error here. What each search does stands in its docstring; mistakes are run by the slow tests of
`tests/mutations`.
"""

import ast
from pathlib import Path

import pytest

from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, plan, with_bins
from tests.mechanisms.regression.tables import FAMILIES, planned
from tests.mutations.in_regression import IN_REGRESSION
from tests.mutations.in_units import IN_UNITS
from tests.mutations.survived import SURVIVED

ROOT = Path(__file__).parents[3]
_HERE = "tests/mechanisms/regression"
REPLAYED = (f"{_HERE}/test_regression_replay.py", "test_no_call_moves_beyond_its_plan")
COX = (f"{_HERE}/test_regression_replay.py", "test_no_call_of_cox_moves_beyond_its_plan")
PAIRS = (f"{_HERE}/test_regression_statistics.py", "test_no_two_units_are_further_apart_than_the_sensitivity")
SUBJECTS = ("tests/estimators/test_cox.py", "test_no_subject_moves_a_sum_by_more_than_the_spec_says_of_one_record")
UNITS = (
    "tests/estimators/test_unit_fits.py",
    "test_ignoring_the_unit_breaks_the_guarantee_and_the_audit_with_a_whole_unit_finds_it",
)
ALL = ("regression: half the noise", "regression: the budget is spent twice")
_HISTOGRAM = ((REPLAYED, PAIRS), ("regression: replaced histograms pay as if one were added",))
_VECTOR = ((REPLAYED, PAIRS), ("regression: replaced vectors pay once", "sums: units beyond their bound are added"))
_MATRIX = ((REPLAYED, PAIRS), ("regression: replaced matrices pay as if one were added",))
# By sum: searches for a neighbour that moves it too far, and mistakes that must fail a test besides `ALL`.
TABLE = {
    "centre": ((REPLAYED, COX), ("regression: two levels of a category are said to be 1 apart",)),
    "target-sizes": _HISTOGRAM,
    "target-mean": ((REPLAYED, PAIRS), ("sums: units beyond their bound are added",)),
    "class-counts": _HISTOGRAM,
    "counts-and-exposure": _HISTOGRAM,
    "square-sizes": _HISTOGRAM,
    "squares": ((REPLAYED, PAIRS), ("sums: units beyond their bound are added",)),
    "row-sizes": _HISTOGRAM,
    "scatter": _MATRIX,
    "lengths": _HISTOGRAM,
    "again": ((REPLAYED, PAIRS), ("sums: units beyond their bound are added",)),
    "residuals": _HISTOGRAM,
    "spread": _VECTOR,
    "spread-residuals": _HISTOGRAM,
    "cut-off": _VECTOR,
    "cut-counts": _VECTOR,
    "gradient": (
        (REPLAYED, PAIRS, COX, SUBJECTS, UNITS),
        ("regression: replaced vectors pay once", "sums: rows are looked at and not units"),
    ),
    "slopes": ((REPLAYED, PAIRS, COX, SUBJECTS), ("regression: replaced matrices pay as if one were added",)),
    "score-sizes": _HISTOGRAM,
    "meat": ((REPLAYED, PAIRS, COX), ("regression: the meat is of rows and not of people",)),
    # What is no sum of its own, and the method beside this engine.
    "units": ((UNITS,), ("sums: rows are looked at and not units", "units: the engine uses all records of a unit")),
    "subjects": (
        (SUBJECTS, COX),
        ("cox: every time bin of a subject is a record of its own", "sums: rows are looked at and not units"),
    ),
    "ridge": (
        (("tests/replay/test_estimators.py", None),),
        (
            "ridge: noise of centre and sketch halved",
            "sums: the length of one factor alone",
            "ridge: the actual number of records",
        ),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_every_noised_sum_has_a_search_and_a_mistake_that_is_found(name):
    searches, mistakes = TABLE[name]
    known = {one.name for one in IN_REGRESSION + IN_UNITS + SURVIVED}
    assert not {*ALL, *mistakes} - known
    assert mistakes
    for file, function in searches:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        named = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}
        assert function is None or function in named


@pytest.mark.parametrize("relation", list(Relation))
def test_no_plan_releases_a_sum_that_is_not_in_the_table(relation):
    plans = [planned(family, records, relation) for family in FAMILIES for records in (40, 4000, 400_000)]
    plans += [planned(family, 4000, relation, unit=True, most_records=9) for family in FAMILIES]
    plans.append(plan("cox", with_bins(Declaration((-1.0,), (1.0,)), (0.0, 1.0, 2.0)), 40_000, relation, 1.0, 1e-6))
    assert {one.name.split()[0] for made in plans for one in made.mechanisms} <= set(TABLE)
