"""scikit-learn's own checks of an estimator, the few that cannot hold listed with the reason."""

import warnings

import pytest
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from sordino.core.validate import InputError
from sordino.estimators import (
    ArrayBounds,
    BudgetWarning,
    NonPrivateWarning,
    PrivateBayesianNetworkClassifier,
    PrivateBayesianNetworkRegressor,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRobustRegression,
    public_pipeline,
)

# No check is known to fail where bounds declare that cells that are no numbers stop a fit, as the checks want it.
EXPECTED_FAILURES: dict[str, str] = {}
# Otherwise these two do: an exception would be an answer about private rows without noise.
WITHOUT_REFUSALS = {
    "check_dtype_object": "a cell that is no number counts as the middle of its bounds",
    "check_supervised_y_no_nan": "a target that is no number counts as the middle of its bounds",
}
# Weights count within declared bounds only, and no check declares any; a check may be new or gone in another version.
_UNDECLARED = "weights without declared bounds are refused: one record could count without limit"
WEIGHTS = dict.fromkeys(
    (
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_all_zero_sample_weights_error",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_classifiers_one_label_sample_weights",
    ),
    _UNDECLARED,
)

BUDGET = {"epsilon": 50.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
# Checks use a handful of rows, too few to learn from: a constant is asked for where nothing else can be learned.
OR_CONSTANT = BUDGET | {"method": "auto-or-constant"}
NUMBERS = ArrayBounds(-10, 10, target=(-100, 100), missing="refuse")
LABELS = ArrayBounds(-10, 10, classes="public", missing="refuse")


def holds(estimator, failures=EXPECTED_FAILURES):
    with warnings.catch_warnings():
        # Checks use a handful of rows, so that the budget warning is right, and skip what needs other packages.
        warnings.simplefilter("ignore", BudgetWarning)
        warnings.simplefilter("ignore", NonPrivateWarning)
        answers = check_estimator(estimator, expected_failed_checks={**failures, **WEIGHTS}, on_skip=None)
    assert sum(answer["status"] == "passed" for answer in answers) >= 40
    assert {answer["check_name"] for answer in answers if answer["status"] == "xfail"} - set(WEIGHTS) == set(failures)
    assert {answer["status"] for answer in answers} <= {"passed", "skipped", "xfail"}


def test_linear_regression_holds():
    """Whatever method learns, the checks see one class; with methods that plan a fit, see the slow test below."""
    holds(PrivateLinearRegression(schema=NUMBERS, method="constant", **BUDGET))


def test_where_no_cell_can_stop_a_fit_all_but_two_checks_hold():
    bounds = ArrayBounds(-10, 10, target=(-100, 100))
    holds(PrivateLinearRegression(schema=bounds, method="constant", **BUDGET), WITHOUT_REFUSALS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        PrivateLinearRegression(schema=NUMBERS, **OR_CONSTANT),
        PrivateLogisticRegression(schema=LABELS, **OR_CONSTANT),
        PrivateRobustRegression(schema=NUMBERS, **OR_CONSTANT),
        PrivateGaussianMixture(schema=ArrayBounds(-10, 10, missing="refuse"), **BUDGET),
        PrivateBayesianNetworkRegressor(schema=NUMBERS, hidden=(2,), method="constant", **BUDGET),
        PrivateBayesianNetworkClassifier(schema=LABELS, hidden=(2,), method="constant", **BUDGET),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_estimator_holds(estimator):
    holds(estimator)


def test_a_pipeline_with_public_preprocessing_works_and_one_that_learns_is_refused():
    last = PrivateLinearRegression(schema=ArrayBounds(-1, 1, target=(-1, 1)), **BUDGET)
    made = public_pipeline(Normalizer(), last)
    rows = [[3.0, 4.0], [1.0, 0.0], [0.0, -2.0], [5.0, 12.0]] * 25
    assert made.fit(rows, [0.5, 1.0, -0.5, 0.2] * 25).predict(rows).shape == (100,)
    with pytest.raises(InputError, match="StandardScaler, which learns"):
        public_pipeline(StandardScaler(), last)
    with pytest.raises(InputError, match="end in a private estimator"):
        public_pipeline(StandardScaler())
