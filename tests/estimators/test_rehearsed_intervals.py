"""Intervals of coefficients rehearsed from the declaration, and what "auto" makes of them."""

from dataclasses import replace

import numpy as np
import pytest

from sordino.core.bound import Relation
from sordino.data import Boolean, Category, Feature, Number, Schema, Target
from sordino.fitting import simulated_coverage as rehearsal
from sordino.fitting.choose import _as_good, _least_error, choose
from sordino.fitting.methods import METHODS, Predicted
from sordino.fitting.methods.bounded_influence import influence_plan, public_columns
from sordino.fitting.problem import FitProblem
from sordino.fitting.simulated_coverage import SimulatedCoverage, interval_scores, simulated_coverage
from sordino.fitting.tasks import AUTO, Task

WORD = "bounded-influence"


def declared(columns: int, levels: tuple[int, ...], records: int, classes: int | None, epsilon: float) -> FitProblem:
    features = [Feature(f"x{place}", Number(-1.0, 1.0)) for place in range(columns)]
    features += [
        Feature(f"c{place}", Category(tuple(f"level {code}" for code in range(size))))
        for place, size in enumerate(levels)
    ]
    kind = Number(-1.0, 1.0) if classes is None else Boolean()
    schema = Schema(records=records, features=tuple(features), target=Target("y", kind), intercept=True)
    task = Task.REGRESSION if classes is None else Task.CLASSIFICATION
    return FitProblem(task, schema, classes, epsilon, 1e-5, Relation.REPLACE_ONE)


def engine(problem: FitProblem):
    return influence_plan(problem, public_columns(problem))


def test_the_interval_score_is_the_width_and_what_is_missed():
    low, high = np.array([-1.0, -1.0, -1.0]), np.array([1.0, 1.0, 1.0])
    found = interval_scores(low, high, np.array([0.0, 1.5, -3.0]), 0.9)
    assert np.allclose(found, [2.0, 2.0 + 20.0 * 0.5, 2.0 + 20.0 * 2.0])


def test_the_interval_of_the_truths_own_law_has_the_least_score():
    """Of widths from a third to thrice the right one; with 200,000 draws the error of a mean is below .01."""
    truth = np.random.default_rng(3).standard_normal(200_000)
    widths = 1.6449 * np.array([0.33, 0.7, 1.0, 1.4, 3.0])
    scores = [interval_scores(np.full(len(truth), -w), np.full(len(truth), w), truth).mean() for w in widths]
    assert int(np.argmin(scores)) == 2


def test_few_columns_with_a_budget_are_learned_and_their_intervals_hold():
    asked = declared(4, (), 4000, None, 1.0)
    found = simulated_coverage(engine(asked))
    assert found.hold
    assert found.score < 0.3
    assert found.cautions == ()
    assert choose(asked, AUTO).method.name == WORD


def test_a_rehearsal_is_kept_for_all_fits_of_a_plan_and_is_the_same_again(monkeypatch):
    made = engine(declared(3, (), 1000, None, 2.0))
    first = simulated_coverage(made)
    monkeypatch.setattr(rehearsal, "_rehearsed", lambda plan: pytest.fail("it was rehearsed twice"))
    assert simulated_coverage(made) is first
    monkeypatch.undo()
    rehearsal._kept.pop(made.key)
    assert simulated_coverage(made) == first


def test_many_coefficients_for_a_budget_are_not_left_to_intervals_that_do_not_hold():
    """40 numbers, eight categories of five levels, 2,000 records: intervals are withheld, and auto goes elsewhere."""
    asked = declared(40, (5,) * 8, 2000, 2, 4.0)
    plan = METHODS[WORD].plan(asked)
    assert plan.predicted.intervals.held < 0.88
    assert "withheld" in plan.cautions[0]
    poor = SimulatedCoverage(0.9, 0.57, 100)
    assert not poor.hold
    assert "do not hold" in poor.cautions[0]
    assert "57%" in poor.cautions[0]
    assert choose(asked, AUTO).method.name != WORD


def test_counts_are_not_rehearsed():
    asked = declared(3, (), 1000, None, 2.0)
    counted = replace(asked, task=Task.COUNTS, schema=replace(asked.schema, target=Target("y", Number(0, 9))))
    assert simulated_coverage(engine(counted)) is None


def plan_with(name: str, error: float, **rest):
    plan = METHODS["statistics"].plan(declared(2, (), 500, None, 1.0))
    return replace(plan, method=METHODS[name], predicted=Predicted(error, 1.0, **rest))


def test_withheld_intervals_have_to_be_paid_for_in_error():
    near, far = plan_with("ridge", 0.499), plan_with("ridge", 0.49)
    telling = plan_with("newton", 0.5)
    assert _least_error([near, telling]) is telling
    assert _least_error([far, telling]) is far
    assert _least_error([near]) is near
    assert _least_error([plan_with("ridge", float("nan")), telling]) is telling


@pytest.mark.parametrize(
    ("rehearsed", "taken"),
    [
        (SimulatedCoverage(0.5, 0.9, 100), True),
        (SimulatedCoverage(1.01, 0.9, 100), False),
        (SimulatedCoverage(0.5, 0.6, 100), False),
        (SimulatedCoverage(0.5, 0.6, 5), True),  # three of five say nothing
        (None, True),
    ],
)
def test_intervals_count_where_they_hold_and_say_more_than_the_prior(rehearsed, taken):
    plan = plan_with(WORD, 0.52, informs=True, intervals=rehearsed)
    assert _as_good(plan, plan_with("newton", 0.5)) is taken
    # Where nothing else is worth while, it is enough that coefficients will be known.
    assert _as_good(plan, plan_with("newton", 0.999))
