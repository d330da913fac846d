"""scikit-learn's own checks of an estimator; and pipelines: what nobody can see of one is the caller's word."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.utils.estimator_checks import check_estimator

from sordino import InputError, Ledger, estimators, write_release
from sordino.data import Feature, Number, Schema, Target
from sordino.report.page import report_page
from sordino.report.subject import open_subject

# No check is known to fail where bounds declare that cells that are no numbers stop a fit, as the checks want it.
EXPECTED_FAILURES: dict[str, str] = {}
# Otherwise these two do: an exception would be an answer about private rows without noise.
WITHOUT_REFUSALS = {
    "check_dtype_object": "a cell that is no number counts as the middle of its bounds",
    "check_supervised_y_no_nan": "a target that is no number counts as the middle of its bounds",
}
# Weights count within declared bounds only, and no check declares any; a check may be new or gone in another version.
_WEIGHED = (
    "sample_weights_pandas_series sample_weights_not_an_array sample_weights_list all_zero_sample_weights_error "
    "sample_weights_shape sample_weights_not_overwritten sample_weight_equivalence_on_dense_data "
    "classifiers_one_label_sample_weights"
)
WEIGHTS = dict.fromkeys([f"check_{name}" for name in _WEIGHED.split()], "weights without declared bounds are refused")

BUDGET = {"epsilon": 50.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
# Checks use a handful of rows, too few to learn from: a constant is asked for where nothing else can be learned.
OR_CONSTANT = BUDGET | {"method": "auto-or-constant"}
NUMBERS = estimators.ArrayBounds(-10, 10, target=(-100, 100), missing="refuse")
LABELS = estimators.ArrayBounds(-10, 10, classes="public", missing="refuse")


def holds(estimator, failures=EXPECTED_FAILURES):
    with warnings.catch_warnings():
        # Checks use a handful of rows, so that the budget warning is right, and skip what needs other packages.
        warnings.simplefilter("ignore", estimators.BudgetWarning)
        warnings.simplefilter("ignore", estimators.NonPrivateWarning)
        answers = check_estimator(estimator, expected_failed_checks={**failures, **WEIGHTS}, on_skip=None)
    assert sum(answer["status"] == "passed" for answer in answers) >= 40
    assert {answer["check_name"] for answer in answers if answer["status"] == "xfail"} - set(WEIGHTS) == set(failures)
    assert {answer["status"] for answer in answers} <= {"passed", "skipped", "xfail"}


def test_linear_regression_holds():
    """Whatever method learns, the checks see one class; with methods that plan a fit, see the slow test below."""
    holds(estimators.PrivateLinearRegression(schema=NUMBERS, method="constant", **BUDGET))


def test_where_no_cell_can_stop_a_fit_all_but_two_checks_hold():
    bounds = estimators.ArrayBounds(-10, 10, target=(-100, 100))
    holds(estimators.PrivateLinearRegression(schema=bounds, method="constant", **BUDGET), WITHOUT_REFUSALS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        estimators.PrivateLinearRegression(schema=NUMBERS, **OR_CONSTANT),
        estimators.PrivateLogisticRegression(schema=LABELS, **OR_CONSTANT),
        estimators.PrivateRobustRegression(schema=NUMBERS, **OR_CONSTANT),
        estimators.PrivateGaussianMixture(schema=estimators.ArrayBounds(-10, 10, missing="refuse"), **BUDGET),
        estimators.PrivateBayesianNetworkRegressor(schema=NUMBERS, hidden=(2,), method="constant", **BUDGET),
        estimators.PrivateBayesianNetworkClassifier(schema=LABELS, hidden=(2,), method="constant", **BUDGET),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_estimator_holds(estimator):
    holds(estimator)


PIPELINE_BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
Y = X @ [0.5, -0.25]


def model(**more):
    return estimators.PrivateLinearRegression(
        schema=estimators.ArrayBounds(-1, 1, target=(-1, 1)), **PIPELINE_BUDGET, **more
    )


def label_model():
    return estimators.PrivateLogisticRegression(
        schema=estimators.ArrayBounds(-1, 1, classes=(False, True)), method="constant", **PIPELINE_BUDGET
    )


PUBLIC = {
    "a row by itself": Normalizer(),
    "a public function": FunctionTransformer(np.tanh),
    "switched off": "passthrough",
    "declared categories": ColumnTransformer(
        [("a", OneHotEncoder(categories=[[0.0, 1.0]], handle_unknown="ignore", sparse_output=False), [0])],
        remainder="passthrough",
    ),
    "frozen, fitted to public rows": FrozenEstimator(StandardScaler().fit(-X)),
    "a pipeline of such": make_pipeline(Normalizer(), FunctionTransformer(np.tanh)),
    "columns by themselves": ColumnTransformer([("a", Normalizer(), [0]), ("b", "passthrough", [1])]),
    "columns, the rest too": ColumnTransformer([("a", FunctionTransformer(np.tanh), [0])], remainder=Normalizer()),
    "columns by their type": ColumnTransformer([("a", Normalizer(), make_column_selector(dtype_include="number"))]),
    "several side by side": FeatureUnion([("a", Normalizer()), ("b", "passthrough")]),
}
LEARNING = {
    "a scaler": StandardScaler(),
    "another": MinMaxScaler(),
    "a pipeline with one": make_pipeline(Normalizer(), StandardScaler()),
    "one of the columns": ColumnTransformer([("a", Normalizer(), [0]), ("b", StandardScaler(), [1])]),
    "the other columns": ColumnTransformer([("a", Normalizer(), [0])], remainder=StandardScaler()),
    "deep in the columns": ColumnTransformer([("a", make_pipeline(Normalizer(), StandardScaler()), [0, 1])]),
    "side by side": FeatureUnion([("a", Normalizer()), ("b", StandardScaler())]),
    "categories of the rows": OneHotEncoder(handle_unknown="ignore"),
    "categories that stop": OneHotEncoder(categories=[[0.0], [1.0]]),
    "rare categories": OneHotEncoder(categories=[[0.0], [1.0]], handle_unknown="ignore", min_frequency=2),
    "a class": StandardScaler,
    "no step at all": object(),
}


@pytest.mark.parametrize("step", PUBLIC.values(), ids=PUBLIC)
def test_public_preprocessing_passes(step):
    rows = pd.DataFrame(X)
    assert estimators.public_pipeline(step, model()).fit(rows, Y).predict(rows[:3]).shape == (3,)


@pytest.mark.parametrize("step", LEARNING.values(), ids=LEARNING)
def test_preprocessing_that_learns_is_refused_where_the_pipeline_is_built(step):
    with pytest.raises(InputError, match="which learns from private rows"):
        estimators.public_pipeline(step, model())
    with pytest.raises(InputError, match="which learns from private rows"):
        estimators.public_pipeline(make_pipeline(Normalizer(), step), model())


WRAPPED = {
    "a target that is scaled": TransformedTargetRegressor(model(), transformer=StandardScaler()),
    "a calibration": CalibratedClassifierCV(label_model()),
    "a search": GridSearchCV(model(), {"epsilon": [1.0, 2.0]}),
    "several": BaggingRegressor(model()),
    "not private": LinearRegression(),
    "a class": estimators.PrivateLinearRegression,
}


@pytest.mark.parametrize("last", WRAPPED.values(), ids=WRAPPED)
def test_what_is_wrapped_around_the_private_estimator_is_refused(last):
    with pytest.raises(InputError, match="must end in a private estimator"):
        estimators.public_pipeline(last)
    with pytest.raises(InputError, match="must end in a private estimator"):
        estimators.public_pipeline(Normalizer(), last)


def test_steps_that_were_changed_after_building_are_refused_before_the_debit(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 5.0, 1e-5)
    made = estimators.public_pipeline(Normalizer(), model(ledger=ledger))
    with pytest.raises(InputError, match="StandardScaler, which learns"):
        made.set_params(normalizer=StandardScaler()).fit(X, Y)
    assert ledger.balance().releases == 0


def test_columns_may_not_be_chosen_by_looking_at_rows():
    chosen = ColumnTransformer([("wide", Normalizer(), lambda rows: list(np.flatnonzero(rows.std(axis=0) > 0.5)))])
    with pytest.raises(InputError, match="could choose them by looking at private rows"):
        estimators.public_pipeline(chosen, model())


def fitted(kind):
    """Ways to fit through scikit-learn that nothing here can see, and the release each leaves."""
    if kind == "pipeline":
        return make_pipeline(StandardScaler(), model()).fit(X, Y)[-1]
    if kind == "pipeline in a pipeline":
        return make_pipeline(StandardScaler(), make_pipeline(Normalizer(), model())).fit(X, Y)[-1][-1]
    if kind == "scaled target":
        return TransformedTargetRegressor(model(), transformer=StandardScaler()).fit(X, Y).regressor_
    if kind == "calibration":
        fits = CalibratedClassifierCV(label_model(), cv=2).fit(X, Y > 0).calibrated_classifiers_
        return fits[0].estimator
    return estimators.public_pipeline(Normalizer(), model()).fit(X, Y)[-1]


@pytest.mark.filterwarnings("ignore:StandardScaler in front")
@pytest.mark.parametrize("kind", ["pipeline", "pipeline in a pipeline", "scaled target", "calibration", "public"])
def test_a_release_from_arrays_says_that_preprocessing_is_the_callers_word(tmp_path, kind):
    release = fitted(kind).release_
    assert release.preprocessing == "the caller's word"
    stored = write_release(tmp_path / "release", release)
    assert json.loads((stored / "release.json").read_text())["preprocessing"] == "the caller's word"
    assert "preprocessing</dt><dd>the caller&#39;s word" in report_page([open_subject(stored)], non_private=True)


def test_what_scikit_learn_computes_around_a_fit_is_warned_of(tmp_path):
    """A scaler in front, and a search that no ledger adds up; nothing is said of public steps, or under a ledger."""
    with pytest.warns(estimators.NonPrivateWarning, match="StandardScaler in front of this estimator learned"):
        fitted("pipeline")
    with pytest.warns(estimators.NonPrivateWarning, match="fits private rows many times without a ledger"):
        GridSearchCV(model(), {"draws": [100, 200]}, cv=2).fit(X, Y)
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 50.0, 1e-4)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cross_val_score(model(ledger=str(tmp_path / "ledger")), X, Y, cv=2)
        make_pipeline(Normalizer(), model()).fit(X, Y)
        fitted("public")
    assert not [str(one.message) for one in said if "learned from" in str(one.message) or "many" in str(one.message)]
    assert ledger.balance().releases == 2


def test_decisions_are_log_odds_of_the_probabilities():
    made = label_model().fit(X, Y > 0)
    odds = np.diff(made.predict_log_proba(X[:5]), axis=1)[:, 0]
    np.testing.assert_allclose(made.decision_function(X[:5]), odds)
    assert estimators.public_pipeline(Normalizer(), label_model()).fit(X, Y > 0).decision_function(X[:5]).shape == (5,)


FEATURES = (Feature("a", Number(-1, 1)), Feature("b", Number(-1, 1)))
SCHEMA = Schema(records=2000, features=FEATURES, target=Target("y", Number(-1, 1)), intercept=True)
COLUMNS = {"a": X[:, 0], "b": X[:, 1], "y": Y}


def test_only_named_columns_through_a_schema_omit_that_line(tmp_path):
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "rows.csv", index=False)
    by_schema = estimators.PrivateLinearRegression(schema=SCHEMA, **PIPELINE_BUDGET)
    for rows in (pd.DataFrame(COLUMNS), COLUMNS, str(tmp_path / "rows.csv")):
        release = by_schema.fit(rows).release_
        assert release.preprocessing == "by the schema"
    page = report_page([open_subject(write_release(tmp_path / "release", release))], non_private=True)
    assert "caller&#39;s word" not in page
    assert by_schema.fit(X, Y).release_.preprocessing == "the caller's word"
    scaled = TransformedTargetRegressor(by_schema, transformer=MaxAbsScaler())
    found = scaled.fit(pd.DataFrame(COLUMNS)[["a", "b"]], Y).regressor_.release_
    assert found.preprocessing == "the caller's word"


def test_a_pipeline_that_has_nothing_to_do_with_the_fit_is_no_obstacle():
    assert make_pipeline(StandardScaler(), Normalizer()).fit(X).transform(X).shape == X.shape
    assert model().fit(X, Y).predict(X[:3]).shape == (3,)
