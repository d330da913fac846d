# pyright: reportReturnType=false
"""The row-norm cap holds exactly (rational arithmetic), in float64 and after a cast to float32."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sordino import data
from sordino.core.bound import Evidence, Relation
from sordino.core.validate import InputError
from sordino.data.neighbours import worst_records
from sordino.data.scaling import add_up, float32_up, norm_up

FIXED = settings(deadline=None, derandomize=True)


def longest(rows) -> Fraction:
    """The exact squared length of the longest row."""
    return max(sum(Fraction(float(value)) ** 2 for value in row) for row in rows)


def assert_within(rows: np.ndarray, cap: float) -> None:
    assert longest(rows) <= Fraction(cap) ** 2
    assert longest(rows.astype(np.float32)) <= Fraction(cap) ** 2


ELEMENTS = st.floats(-1e6, 1e6, allow_subnormal=True)
MATRICES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=ELEMENTS)


@FIXED
@given(rows=MATRICES, cap=st.floats(1e-9, 1e7))
def test_clipped_rows_never_exceed_the_cap(rows, cap):
    before = rows.copy()
    data.clip_rows(rows, cap)
    assert_within(rows, cap)
    lengths = np.linalg.norm(before, axis=1)
    untouched = lengths < cap * (1 - 1e-6)
    np.testing.assert_array_equal(rows[untouched], before[untouched])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.minimum(lengths, cap), rtol=1e-6, atol=1e-300)


@settings(FIXED, max_examples=60)
@given(
    values=hnp.arrays(np.float64, (4, 3), elements=st.floats(-30, 30)),
    low=st.floats(-10, 9),
    scaling=st.sampled_from(["symmetric", "unit", "none"]),
    cap=st.none() | st.floats(1.0001, 40),
    intercept=st.booleans(),
    includes=st.booleans(),
)
def test_encoded_rows_and_targets_respect_their_certificates(values, low, scaling, cap, intercept, includes):
    schema = data.Schema(
        records=4,
        features=tuple(
            data.Feature(name, data.Number(low, 10, data.Scaling(scaling), data.INDICATOR)) for name in "ab"
        ),
        target=data.Target("c", data.Number(low, 10, data.Scaling(scaling))),
        intercept=intercept,
        row_norm=None if cap is None else data.RowNorm(cap, includes),
    )
    encoded = data.encode(schema, data.from_matrix(values, list("abc")), Relation.REPLACE_ONE)
    assert_within(encoded.features, schema.feature_norm_certificate().value)
    bound, width = (one.value for one in schema.target_certificates())
    for dtype in (np.float64, np.float32):
        target = [Fraction(float(value)) for value in encoded.target.astype(dtype)]
        assert max(map(abs, target)) <= Fraction(bound)
        assert max(target) - min(target) <= Fraction(width)
    if intercept:
        assert (encoded.features[:, 0] == 1.0).all()


@FIXED
@given(drawn=st.data())
def test_the_worst_records_of_any_schema_respect_its_certificate(schemas, drawn):
    schema = drawn.draw(schemas)
    if schema.target is None:
        with pytest.raises(InputError, match="The schema has no target"):
            worst_records(schema)
        return
    assert_within(np.array([record.features for record in worst_records(schema)]), schema.norm_bound)


def test_the_cap_counts_the_intercept_as_declared():
    def bound(intercept, row_norm):
        features = (
            data.Feature("x", data.Number(-1, 1)),
            data.Feature("z", data.Category(("a", "b"))),
            data.Feature("f", data.Boolean()),
        )
        return data.Schema(5, features, None, intercept, row_norm).norm_bound

    assert bound(False, None) == norm_up([1.0, 1.0, 1.0])
    assert bound(True, None) == 2.0
    assert bound(True, data.RowNorm(1.5, includes_intercept=True)) == 1.5
    assert bound(True, data.RowNorm(1.5, includes_intercept=False)) == norm_up([1.5, 1.0])
    assert bound(False, data.RowNorm(1.5, includes_intercept=True)) == 1.5
    assert bound(True, data.RowNorm(100.0, includes_intercept=True)) == 2.0


def test_a_cap_that_never_acts_clips_nothing():
    schema = data.Schema(
        2,
        (data.Feature("x", data.Number(-1, 1)),),
        None,
        True,
        data.RowNorm(math.sqrt(2) + 1e-9, includes_intercept=True),
    )
    assert schema.clip_length is None
    assert data.encode_features(schema, data.from_matrix([[1.0], [-1.0]], ["x"])).tolist() == [[1, 1], [1, -1]]


def test_a_missing_value_counts_towards_the_bound():
    schema = data.Schema(2, (data.Feature("x", data.Number(0, 0.1, data.UNSCALED, data.INDICATOR)),), None, False)
    assert_within(data.encode_features(schema, data.from_matrix([[math.nan], [0.1]], ["x"])), schema.norm_bound)
    assert schema.norm_bound == 1.0


def test_rows_keep_their_direction():
    schema = data.Schema(
        1, tuple(data.Feature(n, data.Number(-9, 9, data.UNSCALED)) for n in "ab"), None, True, data.RowNorm(1.0, False)
    )
    row = data.encode_features(schema, data.from_matrix([[3.0, 4.0]], ["a", "b"]))[0]
    np.testing.assert_allclose(row, [1.0, 0.6, 0.8], rtol=1e-6)


def test_certificates_are_by_construction_and_remember_private_reads():
    schema = data.Schema(2, (data.Feature("x", data.Number(-1, 1)),), data.Target("y", data.Boolean()), True)
    inferred = replace(schema, reads_private_data=True)
    for given_schema, private in ((schema, False), (inferred, True)):
        for certificate in (given_schema.feature_norm_certificate(), *given_schema.target_certificates()):
            assert certificate.evidence is Evidence.BY_CONSTRUCTION
            assert certificate.reads_private_data is private
            assert ("taken from private rows" in certificate.reason) is private
    assert [one.value for one in schema.target_certificates()] == [1.0, 2.0]


def test_labels_have_no_magnitude():
    schema = data.Schema(2, (data.Feature("x", data.Number(-1, 1)),), data.Target("y", data.Category(("a", "b"))), True)
    with pytest.raises(InputError, match="got the category 'y'"):
        schema.target_certificates()
    with pytest.raises(InputError, match="The schema has no target"):
        schema.with_target(None).target_certificates()


@FIXED
@given(parts=st.lists(st.floats(0, 1e8), min_size=1, max_size=8))
def test_the_norm_bound_is_above_the_norm_and_tight(parts):
    bound = norm_up(parts)
    assert Fraction(bound) ** 2 >= sum(Fraction(part) ** 2 for part in parts)
    assert bound <= math.hypot(*parts) * (1 + 1e-14) + 1e-160


@FIXED
@given(first=st.floats(0, 1e15), second=st.floats(0, 1e15))
def test_directed_helpers(first, second):
    assert Fraction(add_up(first, second)) >= Fraction(first) + Fraction(second)
    raised = float32_up(first)
    assert raised >= first
    assert raised == float(np.float32(raised))
    assert raised <= first * (1 + 2**-22) + 1e-44
