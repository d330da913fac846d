"""Budgets that hardly allow anything: there is a release, or nothing was debited.

Whole numbers hold so much noise and no more. How much a run needs is public, so it is refused before the debit.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import sordino
from sordino import InputError, Ledger
from sordino.mechanisms.networks.training import Descent, Training
from tests.golden import cases

BUDGETS = [(1e-6, 1e-300), (1e-9, 1e-6), (1e-13, 1e-6)]
X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
# Methods whose noise is refused at most of these budgets, and one that noises counts by Laplace's law.
SOME = ("mixture em", "linear dp-vi", "mixture dp-vi", "logistic dp-sep", "network-regressor dp-vi")
NAMES = (*SOME, "logistic constant")
TASKS = {f"{task} {method}": (task, method, settings) for task, method, _, settings in cases.FITS}


def spent(fit, ledger):
    """Whether a fit was refused, of which the ledger must not know."""
    try:
        fit(ledger)
    except InputError:
        assert ledger.entries() == ()
        return False
    assert len(ledger.entries()) == 1
    return True


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 1e3, 0.5)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in NAMES else pytest.mark.slow) for name in TASKS]
)
def test_a_fit_with_hardly_any_budget_is_released_or_free(name, budget, ledger):
    task, method, settings = TASKS[name]

    def fit(book):
        model = cases._estimator(task, method, "records", "replace-one", settings)
        model.set_params(epsilon=budget[0], delta=budget[1], ledger=book, random_state=1)
        model.fit(cases._table(task, "records"))

    assert not (spent(fit, ledger) and name in SOME and budget != (1e-9, 1e-6))


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("method", ["rounds", "training", "sgld"])
def test_a_custom_model_with_hardly_any_budget_is_released_or_free(method, budget, ledger):
    def loss(params, x):
        return jnp.sum((x - params["w"]) ** 2)

    def fit(book):
        model = {"params": {"w": np.zeros(2, np.float32)}, "method": method, "relation": "replace-one"}
        sordino.fit(loss, {"x": X}, epsilon=budget[0], delta=budget[1], ledger=book, random_state=0, **model)

    spent(fit, ledger)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_network_with_hardly_any_budget_is_free(budget, ledger):
    def fit(book):
        sordino.fit_network(
            lambda params, x: ((x - params["w"]) ** 2).sum(),
            {"w": np.zeros(2, np.float32)},
            X,
            epsilon=budget[0],
            delta=budget[1],
            relation="replace-one",
            rounds=2,
            clip=0.5,
            training=Training(Descent(0.5)),
            ledger=book,
            random_state=0,
        )

    assert not spent(fit, ledger)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_look_with_hardly_any_budget_is_released_or_free(budget, ledger):
    table, schema = cases._table("linear", "records"), cases._schema("linear", "records")
    questions = ["count", "histogram: a", "quantiles: a", "mean: a", "bounds: a", "correlation: a, y"]

    def fit(book):
        sordino.explore.look(
            table, questions, schema=schema, epsilon=budget[0], delta=budget[1], relation="replace-one",
            ledger=book, random_state=0,
        )  # fmt: skip

    spent(fit, ledger)
