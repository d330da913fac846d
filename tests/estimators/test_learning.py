"""Every estimator learns what there is to learn at a fair budget."""

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.estimators import (
    ESTIMATORS,
    ArrayBounds,
    BudgetWarning,
    PrivateBayesianNetworkClassifier,
    PrivateBayesianNetworkRegressor,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRobustRegression,
)

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
NUMBERS = ArrayBounds(-1, 1, target=(-2, 2))


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(1)
    X = generator.uniform(-1, 1, (4000, 4))
    return X, generator


def test_the_words_of_the_command_line_are_the_estimators():
    from sordino.cli.fit import MODELS

    # Counts that vary more than a Poisson law are an option of an estimator, and a word of the command line.
    assert set(MODELS) == {*ESTIMATORS, "negative-binomial"}


def test_robust_regression_withstands_outliers_that_move_least_squares(rows):
    X, generator = rows
    y = 0.6 * X[:, 0] + generator.normal(0, 0.1, 4000)
    y[X[:, 0] > 0.8] = -2.0  # a tenth of the records, all at one end
    clean = 0.6 * X[:, 0]
    errors = [
        np.abs(kind(schema=NUMBERS, method=method, **BUDGET).fit(X, y).predict(X) - clean).mean()
        for kind, method in ((PrivateRobustRegression, "auto"), (PrivateLinearRegression, "bounded-influence"))
    ]
    assert errors[0] < 0.6 * errors[1]


def test_three_classes_are_told_apart(rows):
    X, generator = rows
    y = np.argmax(2 * X[:, :3] + 0.4 * generator.gumbel(size=(4000, 3)), axis=1)
    model = PrivateLogisticRegression(schema=ArrayBounds(-1, 1, classes="public"), **BUDGET).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, y) > 0.75
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert np.exp(model.predict_log_proba(X[:5])) == pytest.approx(model.predict_proba(X[:5]))


def test_a_mixture_finds_its_centres_and_their_weights(rows):
    _, generator = rows
    first = generator.normal(-0.5, 0.15, (3000, 2))
    Z = np.concatenate([first, generator.normal(0.5, 0.15, (1000, 2))])
    model = PrivateGaussianMixture(schema=ArrayBounds(-1, 1), spread=0.15, **BUDGET).fit(Z)
    order = np.argsort(model.means_[:, 0])
    assert model.means_[order] == pytest.approx(np.array([[-0.5, -0.5], [0.5, 0.5]]), abs=0.15)
    assert model.weights_[order] == pytest.approx([0.75, 0.25], abs=0.1)
    assert np.mean(model.predict(first) == order[0]) > 0.95
    assert model.predict_proba(Z[:4]).sum(axis=1) == pytest.approx(1.0)
    assert np.isfinite(model.score(Z))


@pytest.mark.slow
def test_networks_learn_what_no_line_can(rows):
    X, generator = rows
    y = np.abs(X[:, 0]) * 2 - 1 + generator.normal(0, 0.1, 4000)
    budget = BUDGET | {"epsilon": 8.0}
    number = PrivateBayesianNetworkRegressor(schema=ArrayBounds(-1, 1, target=(-2, 2)), **budget).fit(X, y)
    assert number.score(X, y) > 0.5
    label = PrivateBayesianNetworkClassifier(schema=ArrayBounds(-1, 1, classes="public"), **budget).fit(X, y > 0)
    assert label.score(X, y > 0) > 0.8


def test_a_network_without_hope_is_a_constant(rows):
    X, _ = rows
    with pytest.warns(BudgetWarning):
        model = PrivateBayesianNetworkClassifier(
            schema=ArrayBounds(-1, 1, classes=(0, 1)),
            hidden=(4,),
            method="auto-or-constant",
            **BUDGET | {"epsilon": 0.01},
        ).fit(X, X[:, 0] > -0.6)
    assert model.method_ == "constant"
    assert model.predict(X[:5]).tolist() == [1] * 5


def test_settings_are_checked():
    with pytest.raises(InputError, match="hidden"):
        PrivateBayesianNetworkRegressor(schema=NUMBERS, hidden=(), **BUDGET).fit(np.ones((9, 2)), np.ones(9))
    with pytest.raises(InputError, match="components"):
        PrivateGaussianMixture(schema=ArrayBounds(-1, 1), components=1, **BUDGET).fit(np.ones((9, 2)))
    with pytest.raises(InputError, match="high to be above low"):
        ArrayBounds(1, 1)
    with pytest.raises(InputError, match="classes"):
        ArrayBounds(0, 1, classes="some")
