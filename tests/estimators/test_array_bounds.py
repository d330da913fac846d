"""Bounds for each column, or by name, for arrays and data frames; names of frames are kept."""

import numpy as np
import pandas as pd
import pytest

from sordino import ArrayBounds, PrivateLinearRegression
from sordino.core.validate import InputError, Mistakes
from sordino.data import DeclaredWeight, declared_lines

BUDGET = {"epsilon": 8.0, "delta": 1e-6, "relation": "replace-one", "random_state": 1, "method": "ridge"}


def frame(rows=400):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"bmi": rng.uniform(15, 40, rows), "age": rng.uniform(0, 100, rows)})
    return X, (0.01 * X["age"] + rng.normal(0, 0.05, rows)).to_numpy()


def fitted(bounds, X, y):
    return PrivateLinearRegression(schema=bounds, **BUDGET).fit(X, y)


def test_bounds_by_name_take_columns_by_name_and_bounds_in_order_by_place():
    X, y = frame()
    named = fitted(ArrayBounds({"age": (0, 110), "bmi": (10, 60)}, target=(0, 1.5)), X, y)
    assert named.release_.schema.feature_names == ("intercept", "age", "bmi")
    placed = fitted(ArrayBounds([10, 0], [60, 110], target=(0, 1.5)), X, y)
    assert placed.release_.schema.feature_names == ("intercept", "bmi", "age")
    kinds = {feature.name: (feature.kind.low, feature.kind.high) for feature in placed.release_.schema.features}
    assert kinds == {"bmi": (10, 60), "age": (0, 110)}
    for model in (named, placed):
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.2
    bare = fitted(ArrayBounds([10, 0], [60, 110], target=(0, 1.5)), X.to_numpy(), y)
    assert bare.release_.schema.feature_names == ("intercept", "x0", "x1")


def test_all_bounds_that_make_no_sense_are_named_at_once():
    with pytest.raises(Mistakes, match=r"Column 'age': .* Column 'bmi': "):
        ArrayBounds({"age": (5, 1), "bmi": (3, 3)})
    with pytest.raises(InputError, match="one number for each column"):
        ArrayBounds([1, 2], [3, 4, 5])
    with pytest.raises(InputError, match="pairs"):
        ArrayBounds({"age": 5})
    X, y = frame()
    for wrong in (ArrayBounds([0], [1], target=(0, 1)), ArrayBounds([0, 1, 2], [1, 5, 6], target=(0, 1))):
        with pytest.raises(InputError, match="Expected ArrayBounds for 2 columns"):
            fitted(wrong, X, y)
    with pytest.raises(InputError, match="without 'height' and with 'bmi' besides"):
        fitted(ArrayBounds({"age": (0, 110), "height": (100, 220)}, target=(0, 1)), X, y)


def test_weights_beside_arrays_count_within_their_declared_bounds():
    """Half of the records have another slope, and weights of 1.8 and .2 make it 1.85 of what is 1.25 without."""
    rng = np.random.default_rng(0)
    X, half = rng.uniform(-1, 1, (4000, 2)), rng.random(4000) < 0.5
    y = np.where(half, 2.0, 0.5) * X[:, 0] + 0.3 * rng.standard_normal(4000)
    weights = np.where(half, 1.8, 0.2)
    budget = BUDGET | {"method": "auto"}

    def slope(sample_weight, **bounds):
        model = PrivateLinearRegression(schema=ArrayBounds(-1, 1, target=(-4, 4), **bounds), **budget)
        return model.fit(X, y, sample_weight=sample_weight)

    declared = {"weight": (0.1, 2.0)}
    assert slope(None, **declared).coef_[0] == pytest.approx(1.25, abs=0.1)
    found = slope(weights, **declared)
    assert found.coef_[0] == pytest.approx(1.87, abs=0.1)
    assert found.release_.schema.weight == DeclaredWeight(column="sample_weight", low=0.1, high=2.0, mean=1.0)
    # What lies outside counts as the bound, to the last bit of the release.
    cut = slope(np.where(half, 1e9, -5.0), **declared)
    assert cut.coef_.tolist() == slope(np.where(half, 2.0, 0.1), **declared).coef_.tolist()
    with pytest.warns(UserWarning, match="as a weight: the mean"):
        odd = slope(np.where(half, np.nan, 0.2), **declared)
    assert odd.coef_.tolist() == slope(np.where(half, 1.0, 0.2), **declared).coef_.tolist()
    for given, bounds, words in (
        (weights, {}, "sample_weight has no declared bounds"),
        (weights[:9], declared, "one weight for each of 4000 records"),
        (weights.astype(str), declared, "sample_weight"),
        (None, {"weight": (2.0, 3.0, 2.5)}, "exclude 1"),
        (weights, {"weight": (2.0, 1.0)}, "Bounds of sample_weight: Expected high above"),
        (weights, {"weight": 3.0}, "low, high, mean"),
    ):
        with pytest.raises(InputError, match=words):
            slope(given, **bounds)


def test_weights_of_a_table_stand_in_its_column():
    schema = declared_lines("records = 400\nage: 0..100\nw: weight 0.2..4\ny: 0..2 [target]")
    X, y = frame()
    table = {"age": X["age"].to_numpy(), "w": np.ones(400), "y": y}
    with pytest.raises(InputError, match="into the table"):
        PrivateLinearRegression(schema=schema, **BUDGET).fit(table, sample_weight=np.ones(400))
