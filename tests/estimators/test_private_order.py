"""The order of a fit: plan, certify, debit, and only then rows; and nothing about rows in the plan."""

import pickle

import numpy as np
import pytest

from sordino import InputError, Ledger, LedgerRefusal, Relation
from sordino.data import Boolean, Category, Feature, Number, Schema, Target
from sordino.estimators import METHODS, ArrayBounds, PrivateLinearRegression, PrivateLogisticRegression
from sordino.fitting.methods.base import choose
from sordino.fitting.problem import FitProblem, declared
from sordino.fitting.tasks.base import TASKS
from sordino.ledger.release import read_release, write_release

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
BOUNDS = ArrayBounds(-1, 1, target=(-1, 1))


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (3000, 3))
    return X, 0.5 * X[:, 0] + generator.normal(0, 0.1, 3000)


def problem(task=TASKS["regression"], relation=Relation.REPLACE_ONE, epsilon=1.0, records=3000, width=3):
    bounds = ArrayBounds(-1, 1, target=(-1, 1), classes=(0, 1), records=records)
    found = declared(bounds, task, relation, np.zeros((1, width)), None)
    return FitProblem(task, found.schema, epsilon, 1e-6, relation)


@pytest.mark.every(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize(
    ("task", "name"),
    [
        (TASKS["regression"], "ridge"),
        (TASKS["classification"], "ridge"),
        (TASKS["classification"], "constant"),
        (TASKS["robust-regression"], "constant"),
        *((TASKS[word], "bounded-influence") for word in ("regression", "robust-regression", "classification")),
    ],
)
def test_every_plan_keeps_its_budget_and_uses_nearly_all_of_it(task, name, epsilon, relation):
    from sordino.accounting.evaluate import explain

    plan = choose(problem(task, relation, epsilon), name)
    found = explain(plan.spec, 1e-6)
    assert 0.999 * epsilon < found.epsilon <= epsilon
    assert found.tightest is not None
    assert plan.predicted > 0
    assert name != "bounded-influence" or plan.made.spent <= plan.made.mu


def test_every_method_is_registered_for_some_task():
    assert set(METHODS) == {"bounded-influence", "ridge", "constant", "natural", "dp-vi", "dp-sep", "em"}
    assert {name for task in TASKS.values() for name in task.methods} == set(METHODS)


def test_rows_are_read_after_the_debit_and_never_when_the_ledger_refuses(rows, tmp_path):
    X, y = rows
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, "clinic", "replace-one", 0.5, 1e-6)
    model = PrivateLinearRegression(schema=BOUNDS, ledger=path, **BUDGET)
    with pytest.raises(LedgerRefusal):
        model.fit(X, y)
    assert ledger.balance().releases == 0
    assert not hasattr(model, "release_")
    bad = X.copy()
    bad[7, 1] = np.nan
    generous = Ledger.open(tmp_path / "other", "clinic", "replace-one", 5.0, 1e-6)
    refusing = ArrayBounds(-1, 1, target=(-1, 1), missing="refuse")
    with pytest.raises(ValueError, match=r"NaN.* NON-PRIVATE: .* debited before anything was computed .* \(entry 1\)"):
        PrivateLinearRegression(schema=refusing, ledger=generous, **BUDGET).fit(bad, y)
    assert generous.balance().releases == 1
    fitted = PrivateLinearRegression(schema=BOUNDS, ledger=generous, **BUDGET).fit(X, y)
    assert fitted.release_.ledger == {"dataset": "clinic", "entry": 2, "digest": generous.entries()[1].digest}
    assert generous.verify().sound


def test_a_plan_that_certifies_more_than_the_budget_is_refused_before_anything_is_spent(rows, tmp_path, monkeypatch):
    """Methods plan within their budget; one that does not is caught by its certificate."""
    from dataclasses import replace

    monkeypatch.setattr(
        "sordino.fitting.fit.choose",
        lambda problem, name: choose(replace(problem, epsilon=1.001 * problem.epsilon), name),
    )
    monkeypatch.setattr("sordino.fitting.fit.encoded_arrays", lambda *_: pytest.fail("rows were read"))
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 8.0, 1e-5)
    with pytest.raises(InputError, match=r"a budget that method 'ridge' can keep, got epsilon 1 while"):
        PrivateLinearRegression(schema=BOUNDS, ledger=ledger, method="ridge", **BUDGET).fit(*rows)
    assert ledger.balance().releases == 0


def test_the_plan_does_not_depend_on_the_rows(rows):
    X, y = rows
    one = PrivateLinearRegression(schema=BOUNDS, **BUDGET).fit(X, y)
    two = PrivateLinearRegression(schema=BOUNDS, **BUDGET).fit(np.zeros_like(X), np.ones_like(y))
    assert one.release_.spec == two.release_.spec
    assert one.release_.bound == two.release_.bound


def test_a_seed_marks_the_release_and_its_absence_does_not(rows):
    X, y = rows
    assert not PrivateLinearRegression(schema=BOUNDS, **BUDGET).fit(X, y).release_.private
    assert PrivateLinearRegression(schema=BOUNDS, **BUDGET | {"random_state": None}).fit(X, y).release_.private


def test_a_release_and_a_pickle_predict_what_the_estimator_predicts(rows, tmp_path):
    from sordino.fitting.predictor import Predictor

    X, y = rows
    model = PrivateLogisticRegression(schema=ArrayBounds(-1, 1, classes=("no", "yes")), **BUDGET)
    model.fit(X, np.where(y > 0, "yes", "no"))
    again = Predictor(read_release(write_release(tmp_path / "release", model.release_)))
    assert again.probabilities(again.encode(X[:9])) == pytest.approx(model.predict_proba(X[:9]))
    assert pickle.loads(pickle.dumps(model)).predict_proba(X[:9]) == pytest.approx(model.predict_proba(X[:9]))
    assert set(model.sample_predictive(X[:50], 3, seed=1).ravel()) == {"no", "yes"}
    low, high = model.predict_interval(X[:9])
    assert np.all((low <= model.predict_proba(X[:9])) & (model.predict_proba(X[:9]) <= high))


@pytest.mark.parametrize("epsilon", [0.3, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.05, 1.0))])
@pytest.mark.filterwarnings("ignore::sordino.fitting.methods.base.BudgetWarning")
def test_a_fit_is_never_much_worse_than_the_constant(epsilon):
    """Ten seeds of 800 records with a weak signal in 20 columns: the mean loss is at most 1 % above the constant's."""
    losses, constants = [], []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        X = generator.uniform(-1, 1, (4000, 20))
        y = generator.random(4000) < 1 / (1 + np.exp(1.0 - 1.5 * X[:, 0] - X[:, 1]))
        schema = ArrayBounds(-1, 1, classes=(False, True), records=800, row_norm=3.0)
        model = PrivateLogisticRegression(
            schema=schema,
            epsilon=epsilon,
            delta=1e-5,
            relation="add-remove",
            method="auto-or-constant",
            random_state=seed,
        ).fit(X[:800], y[:800])
        shares = model.predict_proba(X[800:])[:, 1]
        losses.append(-np.mean(np.log(np.where(y[800:], shares, 1 - shares))))
        share = y[:800].mean()
        constants.append(-np.mean(np.log(np.where(y[800:], share, 1 - share))))
    assert np.mean(losses) <= 1.01 * np.mean(constants)


def test_what_cannot_be_private_is_refused(rows):
    X, y = rows
    table = {"a": X[:, 0], "y": y > 0}
    features = (Feature("a", Number(-9, 9)),)
    inferred = Schema(len(y), features, Target("y", Boolean()), True, reads_private_data=True)
    with pytest.raises(InputError, match="taken from private rows"):
        PrivateLogisticRegression(schema=inferred, **BUDGET).fit(table)
    with pytest.raises(InputError, match="Under add-remove ArrayBounds need records"):
        PrivateLinearRegression(schema=BOUNDS, **BUDGET | {"relation": "add-remove"}).fit(X, y)
    with pytest.raises(InputError, match="relation"):
        PrivateLinearRegression(schema=BOUNDS, **BUDGET | {"relation": "same"}).fit(X, y)
    with pytest.raises(InputError, match="classes"):
        PrivateLogisticRegression(schema=BOUNDS, **BUDGET).fit(X, y > 0)
    with pytest.raises(InputError, match="list every class"):
        PrivateLogisticRegression(schema=ArrayBounds(-1, 1, classes=(1, 2)), **BUDGET).fit(X, np.arange(3000) % 3)
    bare = Schema(records=3000, features=(Feature("a", Number(-1, 1)),), target=Target("y", Boolean()), intercept=False)
    with pytest.raises(InputError, match="intercept"):
        PrivateLogisticRegression(schema=bare, **BUDGET).fit(table)


def test_tables_come_with_names_and_targets_in_or_beside_them(rows):
    X, y = rows
    features = tuple(Feature(name, Number(-1, 1)) for name in "abc")
    schema = Schema(records=3000, features=features, target=Target("y", Boolean()), intercept=True)
    table = {name: X[:, place] for place, name in enumerate("abc")}
    inside = PrivateLogisticRegression(schema=schema, **BUDGET).fit({**table, "y": y > 0})
    beside = PrivateLogisticRegression(schema=schema, **BUDGET).fit(table, y > 0)
    assert inside.predict_proba(table) == pytest.approx(beside.predict_proba(table))
    assert inside.classes_.tolist() == [False, True]
    assert inside.n_features_in_ == 3
    assert inside.score(table, y > 0) > 0.8


WORDS = {
    "yes and no": (Boolean(true_values=("yes", "y"), false_values=("no",)), ("yes", "no"), ["no", "yes"]),
    "digits": (Boolean(true_values=("1",), false_values=("0",)), (1, 0), ["0", "1"]),
    "booleans": (Boolean(), (True, False), [False, True]),
}


@pytest.mark.parametrize(("kind", "given", "labels"), WORDS.values(), ids=WORDS)
def test_boolean_targets_keep_their_words(rows, tmp_path, kind, given, labels):
    """Predictions are in declared words, and `score` takes every declared spelling."""
    from sordino.fitting.predictor import Predictor

    X, y = rows
    schema = Schema(3000, (Feature("a", Number(-1, 1)),), Target("target", kind), intercept=True)
    words = np.where(y > 0, *given)
    model = PrivateLogisticRegression(schema=schema, **BUDGET).fit({"a": X[:, 0], "target": words})
    assert model.classes_.tolist() == labels
    assert set(model.predict({"a": X[:, 0]}).tolist()) == set(labels)
    right = model.score({"a": X[:, 0]}, words)
    assert right > 0.9
    assert model.score({"a": X[:, 0]}, words, sample_weight=np.arange(3000)) == pytest.approx(right, abs=0.05)
    apart = PrivateLogisticRegression(schema=schema, **BUDGET).fit({"a": X[:, 0]}, words)
    assert apart.predict_proba({"a": X[:9, 0]}) == pytest.approx(model.predict_proba({"a": X[:9, 0]}))
    stored = Predictor(read_release(write_release(tmp_path / "release", model.release_)))
    assert stored.labels.tolist() == labels


def test_a_category_target_is_scored_in_its_words(rows):
    """Also where the column is called as arrays call theirs."""
    X, y = rows
    kind = Category(("low", "middle", "high"))
    schema = Schema(3000, (Feature("a", Number(-1, 1)),), Target("target", kind), intercept=True)
    words = np.array(["low", "middle", "high"])[np.digitize(y, [-0.2, 0.2])]
    model = PrivateLogisticRegression(schema=schema, **BUDGET).fit({"a": X[:, 0]}, words)
    assert model.score({"a": X[:, 0]}, words) > 0.6


def test_the_stages_of_a_fit_are_told_as_they_begin(rows):
    from sordino.fitting.fit import STAGES

    told: list[str] = []
    PrivateLinearRegression(schema=BOUNDS, **BUDGET).fit_in_stages(*rows, told.append)
    assert tuple(told) == STAGES
