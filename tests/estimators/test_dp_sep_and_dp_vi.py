"""DP-SEP and DP-VI as methods of the estimators: they learn, are charged, report no interval."""

import jax.numpy as jnp
import numpy as np
import pytest

import sordino
from sordino import ArrayBounds
from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.fitting.fit import array_rows
from sordino.fitting.methods import METHODS
from sordino.fitting.methods.base import choose
from sordino.fitting.methods.dp_sep import _model, _posterior, _steps_spec, rounds_of
from sordino.fitting.methods.dp_vi import scores_at
from sordino.fitting.problem import FitProblem
from sordino.fitting.tasks import TASKS
from sordino.mechanisms.messages import MessagePassingRelease, Repairs

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
BOTH = pytest.mark.parametrize("method", ["dp-sep", "dp-vi"])
SLOPES = np.array([0.5, -0.3, 0.2])


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(3).uniform(-1, 1, (4000, 3))


@BOTH
def test_a_line_is_learned_with_its_residual_variance_and_charged(method, rows, tmp_path):
    ledger = sordino.Ledger.open(tmp_path / "book", dataset="rows", relation="replace-one", epsilon=3.0, delta=1e-5)
    y = rows @ SLOPES + np.random.default_rng(4).normal(0, 0.1, len(rows))
    model = sordino.PrivateLinearRegression(
        schema=ArrayBounds(-1, 1, target=(-1.5, 1.5)), method=method, ledger=ledger, **BUDGET
    ).fit(rows, y)
    assert np.abs(model.coef_ - SLOPES).max() < 0.05
    assert model.release_.epsilon <= 2.0
    assert model.release_.ledger is not None
    assert 0.05**2 < model.release_.settings["residual_variance"] * 1.5**2 < 0.25**2
    sordino.write_release(tmp_path / "release", model.release_)
    assert "no standard errors" in str(sordino.read_release(tmp_path / "release").summary())


@BOTH
def test_log_odds_are_learned(method, rows):
    chance = 1.0 / (1.0 + np.exp(-4.0 * (rows @ SLOPES)))
    labels = np.random.default_rng(5).random(len(rows)) < chance
    model = sordino.PrivateLogisticRegression(
        schema=ArrayBounds(-1, 1, classes=(False, True)), method=method, **BUDGET
    ).fit(rows, labels)
    assert np.sqrt(np.mean((model.predict_proba(rows)[:, 1] - chance) ** 2)) < 0.25 * chance.std()


@BOTH
def test_a_mixture_is_found(method):
    generator = np.random.default_rng(6)
    X = np.concatenate([generator.normal(place, 0.1, (1500, 2)) for place in (-0.5, 0.5)])
    model = sordino.PrivateGaussianMixture(schema=ArrayBounds(-1, 1), spread=0.15, method=method, **BUDGET).fit(X)
    assert np.abs(np.sort(model.means_[:, 0]) - [-0.5, 0.5]).max() < 0.05


@BOTH
def test_a_network_learns_what_a_line_cannot(method, rows):
    bent = np.abs(rows[:, 0]) - 0.5
    model = sordino.PrivateBayesianNetworkRegressor(
        schema=ArrayBounds(-1, 1, target=(-1.0, 1.0)), method=method, **BUDGET
    ).fit(rows, bent)
    assert np.sqrt(np.mean((model.predict(rows) - bent) ** 2)) < 0.5 * bent.std()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_wide_network_with_much_noise_does_not_run_away(rows, seed):
    """Twenty hidden units on 800 records: most rounds repair a precision, which once threw means beyond 1e30."""
    few = rows[:800]
    model = sordino.PrivateBayesianNetworkRegressor(
        schema=ArrayBounds(-1, 1, target=(-1.0, 1.0)), hidden=(20,), method="dp-sep", **BUDGET | {"random_state": seed}
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
    theirs = rounds.site.predict(release.posterior.moments, jnp.asarray(rounds.unit * X, jnp.float32)).mean
    assert ours == pytest.approx(np.asarray(theirs) / rounds.target_unit, abs=2e-3)


def test_auto_never_takes_them_for_a_line_and_several_layers_are_refused_before_a_row_is_read():
    linear = _problem(TASKS["regression"])
    assert not any(METHODS[name].considered(linear) for name in ("dp-sep", "dp-vi"))
    with pytest.raises(InputError, match="'dp-vi' has as many as declared"):
        choose(_problem(TASKS["network-regression"], hidden=(4, 4)), "dp-sep")
