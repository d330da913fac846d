"""The embedded health data load with a schema whose bounds are declared and are no observed extremes."""

import json
import sys
from importlib import resources

import numpy as np
import pytest

from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.data import Number, NumberColumn, encode, rand_health, rand_health_schema, schema_to_text


def test_the_committed_schema_is_canonical():
    text = resources.files("sordino.data").joinpath("schemas", "rand_health.json").read_text(encoding="utf-8")
    assert schema_to_text(rand_health_schema()) == text
    assert json.loads(text)["reads_private_data"] is False


def test_any_visit():
    loaded = rand_health()
    encoded = encode(loaded.schema, loaded.table, Relation.REPLACE_ONE)
    assert encoded.features.shape == (20190, 10)
    assert encoded.names[0] == "intercept"
    assert set(np.unique(encoded.target)) == {-1.0, 1.0}
    # 13,882 of the person-years have a visit.
    assert int((encoded.target > 0).sum()) == 13882
    assert loaded.schema.feature_norm_certificate().value == 2.5
    assert np.linalg.norm(encoded.features, axis=1).max() <= 2.5


def test_visits():
    loaded = rand_health("visits")
    encoded = encode(loaded.schema, loaded.table, Relation.REPLACE_ONE)
    assert encoded.target.sum() == 57752
    assert encoded.report.columns["mdvis"].clipped == 0
    assert "any_visit" not in loaded.table.names


def test_no_declared_bound_is_an_observed_extreme():
    loaded = rand_health()
    for feature in loaded.schema.features:
        column = loaded.table.columns[feature.name]
        # A share of 1 is the end of its scale, whatever the rows say.
        if isinstance(feature.kind, Number) and isinstance(column, NumberColumn) and feature.name != "physlm":
            assert feature.kind.high > column.values.max()


def test_nothing_is_clipped_by_its_bounds():
    loaded = rand_health()
    report = encode(loaded.schema, loaded.table, Relation.REPLACE_ONE).report
    assert all(counts.clipped == 0 for counts in report.columns.values())


def test_an_unknown_target_is_refused():
    with pytest.raises(InputError, match="any-visit, visits"):
        rand_health("cost")


def test_without_statsmodels_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.datasets.randhie", None)
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    with pytest.raises(InputError, match=r"sordino\[demo\]"):
        rand_health()
