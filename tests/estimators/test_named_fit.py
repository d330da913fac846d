"""`sordino.fit` has one meaning: a named model and a custom one give the same kind of result."""

import numpy as np
import pytest

import sordino
from sordino.ledger.release.folder import release_files
from tests.golden import cases, run_cases

BUDGET = {"epsilon": 4.0, "delta": cases.DELTA, "relation": "replace-one", "random_state": 3}


def test_a_named_model_is_the_estimator_s_own_fit():
    table, schema = cases._table("logistic", "records"), cases._schema("logistic", "records")
    options = {"effect_scale": 2.0}
    found = sordino.fit("logistic", table, schema=schema, method="bounded-influence", options=options, **BUDGET)
    model = sordino.PrivateLogisticRegression(schema=schema, method="bounded-influence", **options, **BUDGET)
    assert release_files(found) == release_files(model.fit(table).release_)
    assert found.settings["asked"]["effect_scale"] == 2.0


def test_both_kinds_of_model_give_a_release_that_answers_and_writes_itself(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (600, 2))
    bounds = sordino.ArrayBounds(-1, 1, target=(-1, 1))
    named = sordino.fit("linear", (X, X[:, 0]), schema=bounds, **BUDGET)
    for place, release in enumerate((named, run_cases.custom("loss", "replace-one"))):
        assert isinstance(release, sordino.Release)
        assert release.summary().lines
        folder = release.write(tmp_path / str(place))
        assert str(sordino.read_release(folder).summary()) == str(release.summary())
    assert named.predict(X[:4], draws=3)["target"].shape == (3, 4)


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        ("logit", {}, "linear, logistic"),
        ("linear", {"records": 600}, "takes no records"),
        ("linear", {"loss": print}, "takes no loss"),
        ("linear", {"options": {"bins": 3}}, "'bins'"),
        (lambda params, x: x, {"params": {"w": 0.0}}, "takes no schema"),
    ],
)
def test_what_a_model_does_not_take_is_refused(model, changes, words):
    bounds = sordino.ArrayBounds(-1, 1, target=(-1, 1))
    with pytest.raises(sordino.InputError, match=words):
        sordino.fit(model, (np.zeros((9, 2)), np.zeros(9)), **{"schema": bounds, **BUDGET, **changes})
