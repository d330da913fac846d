"""Every estimator learns what there is to learn at a fair budget, by DP-SEP and DP-VI too."""

import jax.numpy as jnp
import numpy as np
import pytest

import sordino
from sordino import InputError, Relation
from sordino.estimators import (
    ESTIMATORS,
    METHODS,
    ArrayBounds,
    PrivateBayesianNetworkRegressor,
    PrivateGaussianMixture,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateRobustRegression,
)
from sordino.fitting.fit import array_rows
from sordino.fitting.methods.base import choose
from sordino.fitting.methods.dp_sep import _model, _posterior, _steps_spec, rounds_of
from sordino.fitting.methods.dp_vi import scores_at
from sordino.fitting.problem import FitProblem
from sordino.fitting.tasks.base import TASKS
from sordino.mechanisms.messages import MessagePassingRelease, Repairs

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
NUMBERS = ArrayBounds(-1, 1, target=(-2, 2))


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(1)
    return generator.uniform(-1, 1, (4000, 4)), generator


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
    assert model.posterior_.names[:4] == ("intercept [1]", "intercept [2]", "x0 [1]", "x0 [2]")
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


def test_settings_are_checked():
    with pytest.raises(InputError, match="hidden"):
        PrivateBayesianNetworkRegressor(schema=NUMBERS, hidden=(), **BUDGET).fit(np.ones((9, 2)), np.ones(9))
    with pytest.raises(InputError, match="components"):
        PrivateGaussianMixture(schema=ArrayBounds(-1, 1), components=1, **BUDGET).fit(np.ones((9, 2)))
    with pytest.raises(InputError, match="high to be above low"):
        ArrayBounds(1, 1)
    with pytest.raises(InputError, match="classes"):
        ArrayBounds(0, 1, classes="some")


TWICE = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
BOTH = pytest.mark.parametrize("method", ["dp-sep", "dp-vi"])
SLOPES = np.array([0.5, -0.3, 0.2])


@pytest.fixture(scope="module")
def columns():
    return np.random.default_rng(3).uniform(-1, 1, (4000, 3))


@BOTH
def test_a_line_is_learned_with_its_residual_variance_and_charged(method, columns, tmp_path):
    ledger = sordino.Ledger.open(tmp_path / "book", dataset="columns", relation="replace-one", epsilon=3.0, delta=1e-5)
    y = columns @ SLOPES + np.random.default_rng(4).normal(0, 0.1, len(columns))
    model = PrivateLinearRegression(
        schema=ArrayBounds(-1, 1, target=(-1.5, 1.5)), method=method, ledger=ledger, **TWICE
    ).fit(columns, y)
    assert np.abs(model.coef_ - SLOPES).max() < 0.05
    assert model.release_.epsilon <= 2.0
    assert model.release_.ledger is not None
    assert 0.05**2 < model.release_.settings["residual_variance"] * 1.5**2 < 0.25**2
    sordino.write_release(tmp_path / "release", model.release_)
    assert "no standard errors" in str(sordino.read_release(tmp_path / "release").summary())


@BOTH
def test_log_odds_are_learned(method, columns):
    chance = 1.0 / (1.0 + np.exp(-4.0 * (columns @ SLOPES)))
    labels = np.random.default_rng(5).random(len(columns)) < chance
    model = PrivateLogisticRegression(schema=ArrayBounds(-1, 1, classes=(False, True)), method=method, **TWICE).fit(
        columns, labels
    )
    assert np.sqrt(np.mean((model.predict_proba(columns)[:, 1] - chance) ** 2)) < 0.25 * chance.std()


@BOTH
def test_a_mixture_is_found(method):
    generator = np.random.default_rng(6)
    X = np.concatenate([generator.normal(place, 0.1, (1500, 2)) for place in (-0.5, 0.5)])
    model = PrivateGaussianMixture(schema=ArrayBounds(-1, 1), spread=0.15, method=method, **TWICE).fit(X)
    assert np.abs(np.sort(model.means_[:, 0]) - [-0.5, 0.5]).max() < 0.05


@BOTH
def test_a_network_learns_what_a_line_cannot(method, columns):
    bent = np.abs(columns[:, 0]) - 0.5
    model = PrivateBayesianNetworkRegressor(schema=ArrayBounds(-1, 1, target=(-1.0, 1.0)), method=method, **TWICE).fit(
        columns, bent
    )
    assert np.sqrt(np.mean((model.predict(columns) - bent) ** 2)) < 0.5 * bent.std()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_wide_network_with_much_noise_does_not_run_away(columns, seed):
    """Twenty hidden units on 800 records: most rounds repair a precision, which once threw means beyond 1e30."""
    few = columns[:800]
    model = PrivateBayesianNetworkRegressor(
        schema=ArrayBounds(-1, 1, target=(-1.0, 1.0)), hidden=(20,), method="dp-sep", **TWICE | {"random_state": seed}
    ).fit(few, few @ SLOPES)
    assert np.sqrt(np.mean((model.predict(few) - few @ SLOPES) ** 2)) < 1.5 * np.std(few @ SLOPES)


def _problem(task, **settings):
    target = {} if task is TASKS["mixture"] else {"target": (-1.0, 1.0)}
    bounds = ArrayBounds(-1, 1, records=500, **target)
    given = array_rows(bounds, task, Relation.ADD_REMOVE, np.zeros((1, 3)), np.zeros(1))
    return FitProblem(task, given.declaration.schema, 1.0, 1e-6, Relation.ADD_REMOVE, settings)


def test_the_model_of_a_network_predicts_what_its_site_predicts():
    problem = _problem(TASKS["network-regression"], hidden=(5,))
    rounds = rounds_of(problem)
    family = rounds.site.family(problem.features)
    generator = np.random.default_rng(7)
    precision = np.full(family.dim, 1e8)  # nearly a point, so that both predict its network
    natural = np.concatenate([precision * generator.normal(size=family.dim), precision]).astype(np.float32)
    spec = _steps_spec(problem, rounds)
    release = MessagePassingRelease(spec, rounds.site, family, natural, Repairs(0, 0), None)
    X = np.column_stack([np.ones(50), generator.uniform(-1, 1, (50, problem.features - 1))])
    model = _model(problem, 0.04)
    ours = scores_at(model, _posterior(problem, release, model, rounds).mean, X)[:, 0]
    theirs = rounds.site.predict(release.posterior.moments, jnp.asarray(rounds.unit * X, jnp.float32))[0]
    assert ours == pytest.approx(np.asarray(theirs) / rounds.target_unit, abs=2e-3)


def test_auto_never_takes_them_for_a_line_and_several_layers_are_refused_before_a_row_is_read():
    linear = _problem(TASKS["regression"])
    assert not any(METHODS[name].considered(linear) for name in ("dp-sep", "dp-vi"))
    with pytest.raises(InputError, match="'dp-vi' has as many as declared"):
        choose(_problem(TASKS["network-regression"], hidden=(4, 4)), "dp-sep")
