"""What "auto" takes, by declared numbers alone: the engine, ridge or a constant; and what it says when it refuses."""

import warnings

import numpy as np
import pytest

from sordino import ArrayBounds, InputError, PrivateLinearRegression, Relation
from sordino.data import Boolean, Category, Feature, Number, Schema, Target
from sordino.fitting.methods.base import METHODS, BudgetWarning, beats_constant, choose, enough_epsilon
from sordino.fitting.problem import FitProblem
from sordino.fitting.tasks.base import AUTO, AUTO_OR_CONSTANT, TASKS

ENGINE, RIDGE = "bounded-influence", "ridge"
NUMBERS, CLASSES = (TASKS["regression"], Number(-1.0, 1.0)), (TASKS["classification"], Boolean())


def asked(kind, columns: int, records: int, epsilon: float, levels: int = 0) -> FitProblem:
    task, target = kind
    features = [Feature(f"x{place}", Number(-1.0, 1.0)) for place in range(columns)]
    if levels:
        features.append(Feature("site", Category(tuple(f"level {place}" for place in range(levels)))))
    schema = Schema(records=records, features=tuple(features), target=Target("y", target), intercept=True)
    return FitProblem(task, schema, epsilon, 1e-6, Relation.REPLACE_ONE)


@pytest.mark.parametrize(
    ("kind", "columns", "records", "epsilon", "levels", "name"),
    [
        (NUMBERS, 4, 10_000, 1.0, 0, ENGINE),
        (CLASSES, 4, 10_000, 1.0, 0, ENGINE),
        # Too little for the engine, whose standard errors would be above half the prior's standard deviation.
        (NUMBERS, 10, 300, 1.0, 0, RIDGE),
        (CLASSES, 10, 600, 1.0, 0, RIDGE),
        # Enough for both: the engine has too many coefficients to predict as well as ridge.
        (CLASSES, 10, 40_000, 4.0, 40, RIDGE),
        (NUMBERS, 30, 40_000, 4.0, 0, RIDGE),
        # More columns than the engine has.
        (NUMBERS, 104, 1600, 0.5, 0, RIDGE),
        (CLASSES, 300, 40_000, 1.0, 0, RIDGE),
    ],
)
def test_declared_numbers_decide(kind, columns, records, epsilon, levels, name):
    assert choose(asked(kind, columns, records, epsilon, levels), AUTO).method.name == name


def test_intervals_go_before_a_slightly_smaller_expected_error():
    problem = asked(CLASSES, 12, 2000, 1.0)
    engine, ridge = (METHODS[one].plan(problem) for one in (ENGINE, RIDGE))
    assert beats_constant(engine)
    assert beats_constant(ridge)
    assert 0.95 * engine.predicted < ridge.predicted < engine.predicted
    assert choose(problem, AUTO).method.name == ENGINE


def test_more_epsilon_or_records_never_raise_an_expected_error():
    for kind in (NUMBERS, CLASSES):
        for method in (METHODS[ENGINE], METHODS[RIDGE]):
            for grid in (
                [asked(kind, 10, 2000, epsilon) for epsilon in (0.1, 0.5, 1.0, 2.0, 8.0)],
                [asked(kind, 10, records, 1.0) for records in (200, 1000, 5000, 20_000)],
            ):
                errors = [method.plan(problem).predicted for problem in grid]
                assert errors == sorted(errors, reverse=True)
                assert 0.5 < errors[-1] < errors[0] <= 1.0


def test_a_budget_that_is_too_small_is_refused_with_one_that_would_do():
    problem = asked(CLASSES, 100, 800, 0.05)
    said = r"of the error of a constant; about epsilon .* Nothing was read"
    with pytest.raises(InputError, match=said) as refused:
        choose(problem, AUTO)
    enough = enough_epsilon([METHODS[RIDGE]], problem)
    assert f"about epsilon {enough:g} would be enough" in str(refused.value)
    assert choose(asked(CLASSES, 100, 800, enough), AUTO).method.name == RIDGE
    with pytest.warns(BudgetWarning, match="only the best constant is learned"):
        assert choose(problem, AUTO_OR_CONSTANT).method.name == "constant"


def test_ridge_fits_a_wide_table_that_the_engine_refuses():
    """105 encoded columns, 1,600 records, epsilon 0.5; a constant has a root mean square error of 1.41."""
    errors = []
    for seed in range(3):
        generator = np.random.default_rng(seed)
        X = generator.uniform(-1.0, 1.0, (5600, 104))
        scores = X[:, :6] @ generator.standard_normal(6)
        y = scores / scores.std() + generator.standard_normal(len(X))
        schema = ArrayBounds(-1, 1, target=(-6, 6), records=1600)
        model = PrivateLinearRegression(
            epsilon=0.5, delta=1e-5, relation="add-remove", schema=schema, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X[:1600], y[:1600])
        assert model.method_ == RIDGE
        errors.append(np.sqrt(np.mean((model.predict(X[1600:]) - y[1600:]) ** 2)))
    assert np.mean(errors) < 1.36
