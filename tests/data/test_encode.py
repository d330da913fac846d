# pyright: reportArgumentType=false
"""Encoding: each rule does what the schema declares, and counts what it did."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino import InputError, Relation, data
from sordino.data.raw_columns import UNSEEN
from sordino.data.table import as_codes

FIXED = settings(deadline=None, derandomize=True)

NAN = math.nan


def encoded(kind: data.ColumnKind, values, tokens=("",)):
    """Features of one column, their names, and how many cells were missing, clipped and unseen."""
    schema = data.Schema(len(values), (data.Feature("x", kind),), None, False, missing_tokens=tokens)
    table = data.from_arrays({"x": np.array(values, dtype=object)})
    cells = kind.read("x", table.columns["x"], tokens)
    counts = (int(cells.missing.sum()), cells.clipped, cells.unseen)
    return data.encode_features(schema, table).tolist(), schema.feature_names, counts


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (data.SYMMETRIC, [-1.0, 0.0, 1.0, -1.0, 1.0, 1.0, -1.0]),
        (data.UNIT, [0.0, 0.5, 1.0, 0.0, 1.0, 1.0, 0.0]),
        (data.UNSCALED, [10.0, 20.0, 30.0, 10.0, 30.0, 30.0, 10.0]),
    ],
)
def test_numbers_are_scaled_by_public_bounds_and_clipped(scaling, expected):
    features, names, counts = encoded(data.Number(10, 30, scaling), [10.0, 20.0, 30.0, 9.0, 31.0, math.inf, -math.inf])
    assert [row[0] for row in features] == expected
    assert names == ("x",)
    assert counts == (0, 4, 0)


@pytest.mark.parametrize("absent", [None, NAN, "", " ", "NA", "-9"])
def test_missing_numbers_follow_the_declared_rule(absent):
    tokens = ("", "NA", "-9")
    values = ["2", absent, "4"] if isinstance(absent, str) else [2.0, absent, 4.0]
    with pytest.raises(InputError, match=r"every row of column 'x', got 1 cells that are missing .*row 2\)"):
        encoded(data.Number(0, 4), values, tokens)
    features, names, counts = encoded(data.Number(0, 4, missing=data.MissingRule("value", 1.0)), values, tokens)
    assert features == [[0.0], [-0.5], [1.0]]
    assert names == ("x",)
    assert counts == (1, 0, 0)
    features, names, counts = encoded(data.Number(0, 4, data.UNIT, missing=data.INDICATOR), values, tokens)
    assert features == [[0.5, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert names == ("x", "x is missing")
    assert counts == (1, 0, 0)


WORDS, GAPS = ("a", "b"), ["a", None, "", "b"]
OTHER = data.Category(WORDS, unseen="other", drop_first=True, missing=data.INDICATOR)
# A kind, cells, and what they become: rows, names of columns, and what was counted.
RULES = [
    (data.Number(0, 10), [5, 5, 5], [[0.0]] * 3, ("x",), (0, 0, 0)),
    (data.Number(0, 4, missing=data.INDICATOR), [-9.0, 4.0], [[0, 1], [1, 0]], ("x", "x is missing"), (1, 0, 0)),
    (data.Category(WORDS), ["b", "a", "b"], [[0, 1], [1, 0], [0, 1]], ("x=a", "x=b"), (0, 0, 0)),
    (data.Category(("a", "b", "c"), drop_first=True), ["a", "c"], [[0, 0], [0, 1]], ("x=b", "x=c"), (0, 0, 0)),
    (
        data.Category(WORDS, unseen="other"), ["a", "z", "q"], [[1, 0, 0], [0, 0, 1], [0, 0, 1]],
        ("x=a", "x=b", "x is unseen"), (0, 0, 2),
    ),
    (
        data.Category(WORDS, missing=data.MissingRule("value", "b")), GAPS, [[1, 0], [0, 1], [0, 1], [0, 1]],
        ("x=a", "x=b"), (2, 0, 0),
    ),
    (
        OTHER, [*GAPS, "z"], [[0, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0], [0, 1, 0]],
        ("x=b", "x is unseen", "x is missing"), (2, 0, 1),
    ),
    (data.Boolean(("ja",), ("nein",)), ["ja", "nein"], [[1], [0]], ("x",), (0, 0, 0)),
    (data.Boolean(("ja",), ("nein",), data.INDICATOR), ["ja", ""], [[1, 0], [0, 1]], ("x", "x is missing"), (1, 0, 0)),
]  # fmt: skip
REFUSED = [
    (data.Number(0, 1, out_of_range="refuse"), [0.5, 2.0], r"column 'x' in \[0, 1\], got '1 outside'"),
    (data.Number(0, 10), ["1", "2", "many", "more"], r"got 2 cells .*row 3\); correct them"),
    (data.Category(WORDS), ["a", "z", "q"], r"declared categories in column 'x', got 2 others \(the first in row 2\)"),
    (data.Category(WORDS), GAPS, "cells that are missing"),
    (
        data.Boolean(("ja",), ("nein",)),
        ["ja", "yes"],
        r"one of 'ja', 'nein' in every row of column 'x', got 1 cells .*row 2",
    ),
]


@pytest.mark.parametrize(("kind", "cells", "rows", "names", "counts"), RULES)
def test_each_rule_does_what_is_declared_and_counts_it(kind, cells, rows, names, counts):
    assert encoded(kind, cells, ("", "-9")) == (rows, names, counts)


@pytest.mark.parametrize(("kind", "cells", "message"), REFUSED)
def test_what_a_rule_refuses_is_counted_with_its_first_row(kind, cells, message):
    with pytest.raises(InputError, match=message):
        encoded(kind, cells)


@pytest.mark.parametrize("column", [np.array([1, 2, 1]), np.array([1.0, 2.0, 1.0]), np.array(["1", "2", "1"])])
def test_numbers_as_categories_are_compared_in_their_shortest_spelling(column):
    schema = data.Schema(3, (data.Feature("x", data.Category(("1", "2"))),), None, False)
    assert data.encode_features(schema, data.from_arrays({"x": column})).tolist() == [[1, 0], [0, 1], [1, 0]]


def table_of(target_values):
    values = np.array(target_values)
    return data.from_arrays({"x": np.zeros(len(values)), "y": values})


def schema_with(kind, rows, **changes):
    return replace(data.Schema(rows, (data.Feature("x", data.Number(-1, 1)),), data.Target("y", kind), True), **changes)


def test_number_targets_are_scaled_and_come_back():
    kind = data.Number(0, 50)
    result = data.encode(schema_with(kind, 4), table_of([0.0, 25.0, 50.0, 80.0]), Relation.REPLACE_ONE)
    assert result.target.tolist() == [-1.0, 0.0, 1.0, 1.0]
    assert kind.decode(result.target).tolist() == [0.0, 25.0, 50.0, 50.0]
    with pytest.raises(InputError, match="got '1 outside'"):
        data.encode(schema_with(data.Number(0, 50, out_of_range="refuse"), 1), table_of([80.0]), Relation.REPLACE_ONE)


def test_category_targets_are_codes_and_come_back():
    kind = data.Category(("no", "maybe", "yes"), unseen="other")
    result = data.encode(schema_with(kind, 4), table_of(["yes", "no", "hm", "maybe"]), Relation.REPLACE_ONE)
    assert result.target.tolist() == [2, 0, 3, 1]
    assert kind.classes == 4
    assert kind.decode(result.target).tolist() == ["yes", "no", "other (unseen)", "maybe"]
    for wrong in ([4], [-1], [0.5]):
        with pytest.raises(InputError, match=r"Class codes must be in 0\.\.3"):
            kind.decode(wrong)


def test_boolean_targets_are_signs_and_come_back():
    kind = data.Boolean()
    result = data.encode(schema_with(kind, 2), table_of([True, False]), Relation.REPLACE_ONE)
    assert result.target.tolist() == [1.0, -1.0]
    assert kind.decode(result.target).tolist() == [True, False]
    with pytest.raises(InputError, match="encoded labels"):
        kind.decode([0.5])


@pytest.mark.parametrize(
    ("kind", "filled", "expected"),
    [
        (data.Number(0, 2), data.Number(0, 2, missing=data.MissingRule("value", 2)), 1.0),
        (data.Category(("0", "1")), data.Category(("0", "1"), missing=data.MissingRule("value", "1")), 1),
        (data.Boolean(), data.Boolean(missing=data.MissingRule("value", True)), 1.0),
    ],
)
def test_a_missing_target_follows_the_declared_rule(kind, filled, expected):
    table = table_of([0.0, NAN])
    with pytest.raises(InputError, match="in every row of column 'y'"):
        data.encode(schema_with(kind, 2), table, Relation.REPLACE_ONE)
    assert data.encode(schema_with(filled, 2), table, Relation.REPLACE_ONE).target[1] == expected


@FIXED
@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    share=st.floats(0, 1),
    scaling=st.sampled_from([data.SYMMETRIC, data.UNIT, data.UNSCALED]),
)
def test_decoding_inverts_encoding(low, width, share, scaling):
    kind = data.Number(low, low + width, scaling)
    value = np.array([min(low + share * width, low + width)])
    back = kind.decode(kind.scaled(value.copy()))
    largest = max(abs(kind.low), abs(kind.high), 3.0)
    assert abs(back[0] - value[0]) <= 4 * np.spacing(largest)


def test_columns_must_match():
    schema = schema_with(data.Number(0, 1), 2)
    with pytest.raises(InputError, match="Expected the declared columns 'x' in the table, got 'z', 'y'"):
        data.encode(schema, data.from_arrays({"z": [0, 0], "y": [0, 0]}), Relation.REPLACE_ONE)
    with pytest.raises(InputError, match="Expected the declared column 'y' in the table, got 'x'; check its name"):
        data.encode(schema, data.from_arrays({"x": [0, 0]}), Relation.REPLACE_ONE)
    table = data.from_arrays({"x": [0, 0], "y": [0, 0], **{f"e{index}": [0, 0] for index in range(7)}})
    with pytest.raises(InputError, match=r"got 'e0', 'e1', 'e2', 'e3', 'e4' and 2 more as well"):
        data.encode(schema, table, Relation.REPLACE_ONE)
    assert data.encode(replace(schema, extra_columns="ignore"), table, Relation.REPLACE_ONE).features.shape == (2, 2)


def test_prediction_needs_no_target_and_no_record_count():
    schema = schema_with(data.Number(0, 1), 1000)
    for columns in ({"x": [0.5]}, {"x": [0.5], "y": ["anything"]}):
        assert data.encode_features(schema, data.from_arrays(columns)).tolist() == [[1.0, 0.5]]
    assert schema.feature_names == ("intercept", "x")


def test_the_number_of_records_is_public_under_replace_one_only():
    schema = schema_with(data.Number(0, 1), 3)
    table = data.from_arrays({"x": [0, 0], "y": [0, 0]})
    with pytest.raises(InputError, match="Expected 3 records as the schema declares, got 2"):
        data.encode(schema, table, Relation.REPLACE_ONE)
    assert len(data.encode(schema, table, Relation.ADD_REMOVE).target) == 2
    with pytest.raises(InputError, match="relation to be a Relation"):
        data.encode(schema, table, "replace-one")


def test_a_table_without_records_is_encoded_where_their_number_is_private():
    schema, empty = schema_with(data.Number(0, 1), 1), data.from_arrays({"x": [], "y": []})
    found = data.encode(schema, empty, Relation.ADD_REMOVE)
    assert found.features.shape == (0, len(schema.feature_names))
    assert found.target.shape == (0,)
    with pytest.raises(InputError, match="Expected 1 records as the schema declares, got 0"):
        data.encode(schema, empty, Relation.REPLACE_ONE)


def test_one_record_changes_one_row():
    rng = np.random.default_rng(11)
    columns = {"x": rng.normal(size=50), "y": rng.normal(size=50)}
    schema = schema_with(data.Number(-1, 1), 50, row_norm=data.RowNorm(1.2, includes_intercept=True))
    before = data.encode(schema, data.from_arrays(columns), Relation.REPLACE_ONE)
    changed = {name: np.where(np.arange(50) == 17, 1e9, values) for name, values in columns.items()}
    after = data.encode(schema, data.from_arrays(changed), Relation.REPLACE_ONE)
    different = np.any(before.features != after.features, axis=1) | (before.target != after.target)
    assert np.flatnonzero(different).tolist() == [17]


def test_encoding_leaves_the_table_alone():
    values = np.array([5.0, NAN, -5.0])
    table = data.from_arrays({"x": values})
    schema = data.Schema(3, (data.Feature("x", data.Number(-1, 1, missing=data.INDICATOR)),), None, True)
    first = data.encode_features(schema, table)
    np.testing.assert_array_equal(values, [5.0, NAN, -5.0])
    np.testing.assert_array_equal(data.encode_features(schema, table), first)


def test_small_integers_from_one_end_to_the_other_are_read_as_words():
    values = np.array([-128, 127, 0], np.int8)
    assert as_codes(data.from_arrays({"x": values}).columns["x"], "x", ("-128", "127"), ()).tolist() == [0, 1, UNSEEN]
