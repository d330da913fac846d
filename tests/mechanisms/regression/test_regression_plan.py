"""Plans: shares of the budget add up to at most 1 in every branch, and refusals follow from public numbers."""

import math

import pytest

from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, plan, with_bins
from sordino.mechanisms.regression.plan import LEAST_BUDGET, as_dict, expected
from sordino.mechanisms.regression.release import _check
from sordino.mechanisms.regression.statistics import Histogram, target_sizes
from tests.mechanisms.regression.tables import FAMILIES, declaration, planned


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("family", [*FAMILIES, "cox"])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("records", [40, 1000, 5000, 1_000_000])
def test_the_budget_is_spent_once(family, relation, epsilon, records):
    declared = with_bins(Declaration((-1.0,), (1.0,)), (0.0, 1.0, 2.0)) if family == "cox" else declaration(family)
    made = plan(family, declared, records, relation, epsilon, 1e-6)
    squares = math.fsum(1.0 / one.multiplier**2 for one in made.mechanisms)
    assert (1.0 - 1e-9) * made.mu**2 <= squares <= made.mu**2
    assert made.spent <= made.mu
    assert len({one.name for one in made.mechanisms}) == len(made.mechanisms)
    assert as_dict(made)["mu"] == made.spent


def test_every_branch_of_the_budget_is_planned():
    plans = [planned("linear", records, Relation.REPLACE_ONE, 1.0) for records in (40, 4000, 6000, 400_000)]
    assert {one.rounds for one in plans} == {4, 6} or {one.rounds for one in plans} == {4}
    assert {one.corrected for one in plans} == {False, True}
    assert {planned("logistic", records, Relation.REPLACE_ONE, 1.0).rounds for records in (40, 400_000)} == {4, 6}


def test_poor_budgets_are_refused_from_public_numbers():
    poor, rich = (planned("logistic", records, Relation.REPLACE_ONE, 1.0) for records in (100, 100_000))
    assert expected(poor).refused
    assert poor.budget < LEAST_BUDGET
    assert not expected(rich).refused


@pytest.mark.parametrize("family", FAMILIES)
def test_widths_fall_with_records_and_budget(family):
    few, many, more = (
        expected(planned(family, records, Relation.REPLACE_ONE, epsilon)).together.mean()
        for records, epsilon in ((5000, 1.0), (50_000, 1.0), (50_000, 4.0))
    )
    assert few > many > more


def test_only_what_was_planned_is_answered():
    """A statistic with another bound than the certified one stops the run before it is asked."""
    first = planned("linear", 500, Relation.REPLACE_ONE, 2.0).mechanisms[0]
    with pytest.raises(AssertionError, match="planned target-sizes"):
        _check(Histogram("target-sizes", 2.0, 1.0, target_sizes), first)
    _check(Histogram("target-sizes", 1.0, 1.0, target_sizes), first)
