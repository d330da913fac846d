"""Pipelines: public constants pass, whatever learns from private rows is refused before anything is debited."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler

from sordino.core.errors import InputError
from sordino.estimators import ArrayBounds, PrivateLinearRegression, public_pipeline
from sordino.ledger import Ledger

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": 0}
X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
Y = X @ [0.5, -0.25]


def model(**more):
    return PrivateLinearRegression(schema=ArrayBounds(-1, 1, target=(-1, 1)), **BUDGET, **more)


PUBLIC = {
    "a row by itself": Normalizer(),
    "a public function": FunctionTransformer(np.tanh),
    "switched off": "passthrough",
    "frozen, fitted to public rows": FrozenEstimator(StandardScaler().fit(-X)),
    "a pipeline of such": make_pipeline(Normalizer(), FunctionTransformer(np.tanh)),
}
LEARNING = {
    "a scaler": StandardScaler(),
    "another": MinMaxScaler(),
    "a pipeline with one": make_pipeline(Normalizer(), StandardScaler()),
}


@pytest.mark.parametrize("step", PUBLIC.values(), ids=PUBLIC)
def test_public_preprocessing_passes(step):
    assert make_pipeline(step, model()).fit(X, Y).predict(X[:3]).shape == (3,)
    if not isinstance(step, str):
        assert public_pipeline(step, model()).fit(X, Y).predict(X[:3]).shape == (3,)


@pytest.mark.parametrize("step", LEARNING.values(), ids=LEARNING)
def test_preprocessing_that_learns_is_refused_before_the_debit(tmp_path, step):
    ledger = Ledger.open(tmp_path / "ledger", "clinic", "replace-one", 5.0, 1e-5)
    with pytest.raises(InputError, match="Scaler, which learns from private rows"):
        make_pipeline(step, model(ledger=ledger)).fit(X, Y)
    with pytest.raises(InputError, match="Scaler, which learns from private rows"):
        public_pipeline(step, model(ledger=ledger))
    assert ledger.balance().releases == 0


def test_it_is_refused_however_deep_it_sits():
    inner = make_pipeline(Normalizer(), model())
    with pytest.raises(InputError, match="StandardScaler, which learns"):
        make_pipeline(StandardScaler(), inner).fit(X, Y)
    with pytest.raises(InputError, match="StandardScaler, which learns"):
        cross_val_predict(Pipeline([("scale", StandardScaler()), ("fit", model())]), X, Y, cv=2)


def test_a_pipeline_that_has_nothing_to_do_with_the_fit_is_no_obstacle():
    assert make_pipeline(StandardScaler(), Normalizer()).fit(X).transform(X).shape == X.shape
    assert model().fit(X, Y).predict(X[:3]).shape == (3,)
