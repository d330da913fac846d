"""Bounds for each column, or by name, for arrays and data frames; names of frames are kept."""

import numpy as np
import pandas as pd
import pytest

from sordino import ArrayBounds, PrivateLinearRegression
from sordino.core.validate import InputError, Mistakes

BUDGET = {"epsilon": 8.0, "delta": 1e-6, "relation": "replace-one", "random_state": 1, "method": "statistics"}


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
