# pyright: reportArgumentType=false
"""Example tables: the schema holds by construction, and drawn targets follow the truth they were drawn from.

Statistical tests compare a standardised statistic with 5: a false alarm has probability below 6e-7 each.
"""

import json
import math
import sys
from importlib import resources

import numpy as np
import pytest
from scipy import special

from sordino import InputError, Relation
from sordino.data import Number, encode, from_arrays, rand_health, rand_health_schema, schema_to_text
from sordino.data.example_tables import GENERATORS, poisson

MANY = 40_000
EVERY = pytest.mark.parametrize("word", sorted(GENERATORS))


def drawn_by(word, records=MANY, dim=3, seed=20, **more):
    return GENERATORS[word](np.random.default_rng(seed), records, dim, **more)


@EVERY
@pytest.mark.parametrize("dim", [1, 7])
def test_encoding_under_the_schema_changes_nothing(word, dim):
    drawn = drawn_by(word, 5000, dim)
    kind = drawn.schema.declared_target().kind
    words = {"y": kind.decode(drawn.target)} | {f"x{place}": column for place, column in enumerate(drawn.features.T)}
    encoded = encode(drawn.schema, from_arrays(words), Relation.REPLACE_ONE)
    np.testing.assert_array_equal(encoded.features, drawn.features)
    np.testing.assert_array_equal(encoded.target, drawn.target)
    bound = drawn.schema.feature_norm_certificate()
    assert not bound.reads_private_data
    assert np.linalg.norm(drawn.features, axis=1).max() <= bound.value


@EVERY
def test_the_seed_decides_everything_and_sizes_are_counts(word):
    first, again, other = (drawn_by(word, 50, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.target, again.target)
    assert not np.array_equal(first.features, other.features)
    for records, dim in ((0, 3), (10, 0), (2.5, 3)):
        with pytest.raises(InputError, match=r"records|dim"):
            drawn_by(word, records, dim)


def standardised_score(features, residual, variance):
    """Sum of (1, x) * residual over its standard deviation, per coordinate: standard normal at the truth."""
    design = np.column_stack([np.ones(len(features)), features])
    return np.abs((design.T @ residual) / np.sqrt((design**2).T @ variance)).max()


def test_residuals_of_linear_targets_are_the_noise():
    drawn = drawn_by("linear", noise=0.3, signal=2.0)
    assert np.linalg.norm(drawn.truth["theta"]) == pytest.approx(2.0)
    residual = drawn.target - drawn.features @ drawn.truth["theta"]
    assert standardised_score(drawn.features, residual, np.full(MANY, 0.09)) < 5
    assert abs(np.mean((residual / 0.3) ** 2) - 1) * math.sqrt(MANY / 2) < 5


@pytest.mark.parametrize(("link", "holds"), [(special.expit, True), (special.ndtr, False)])
def test_binary_labels_follow_their_link_and_no_other(link, holds):
    drawn = drawn_by("logistic", dim=4)
    chance = link(drawn.features @ drawn.truth["theta"])
    assert set(np.unique(drawn.target)) == {-1.0, 1.0}
    score = standardised_score(drawn.features, (drawn.target + 1) / 2 - chance, chance * (1 - chance))
    assert (score < 5) == holds


def test_softmax_codes_follow_their_logits():
    drawn = drawn_by("softmax", classes=4)
    chances = special.softmax(drawn.features @ drawn.truth["theta"], axis=1)
    for code, chance in enumerate(chances.T):
        assert standardised_score(drawn.features, (drawn.target == code) - chance, chance * (1 - chance)) < 5


def test_poisson_counts_follow_their_mean_and_never_feel_their_bound():
    drawn = drawn_by("poisson")
    mean = np.exp(drawn.features @ drawn.truth["theta"])
    assert standardised_score(drawn.features, drawn.target - mean, mean) < 5
    assert drawn.target.max() < drawn.truth["count_bound"]
    assert all(special.pdtrc(math.ceil(m + 10 * math.sqrt(m) + 30), m) < 1e-9 for m in (1.0, 4.5, 20.0, 148.0, 22026.5))
    with pytest.raises(InputError, match=r"cap \* signal"):
        poisson(np.random.default_rng(), 10, 2, cap=5.0, signal=3.0)


def test_the_health_data_have_declared_bounds_that_are_no_observed_extremes():
    text = resources.files("sordino.data").joinpath("schemas", "rand_health.json").read_text(encoding="utf-8")
    assert schema_to_text(rand_health_schema()) == text
    assert json.loads(text)["reads_private_data"] is False
    loaded, counts = rand_health(), rand_health("visits")
    encoded = encode(loaded.schema, loaded.table, Relation.REPLACE_ONE)
    assert encoded.features.shape == (20190, 10)
    assert int((encoded.target > 0).sum()) == 13882  # person-years with a visit
    assert np.linalg.norm(encoded.features, axis=1).max() <= loaded.schema.feature_norm_certificate().value == 2.5
    visits = encode(counts.schema, counts.table, Relation.REPLACE_ONE)
    assert (visits.target.sum(), "any_visit" in counts.table.names) == (57752, False)
    for feature in loaded.schema.features:
        column = loaded.table.columns[feature.name]
        # A share of 1 is the end of its scale, whatever the rows say.
        if isinstance(feature.kind, Number) and feature.name != "physlm":
            assert feature.kind.high > column.numbers(()).max()


def test_an_unknown_target_and_a_missing_package_are_named(monkeypatch):
    with pytest.raises(InputError, match="any-visit, visits"):
        rand_health("cost")
    monkeypatch.setitem(sys.modules, "statsmodels.datasets.randhie", None)
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    with pytest.raises(InputError, match=r"sordino\[demo\]"):
        rand_health()
