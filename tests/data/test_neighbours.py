"""Neighbours satisfy their relation and no stronger one; worst records sit at the edge of the public domain."""

import numpy as np
import pytest

from sordino import InputError, Relation, data
from sordino.data.neighbours import worst_records


def dataset(records: int = 5) -> data.Dataset:
    rng = np.random.default_rng(records)
    return data.Dataset(rng.normal(size=(records, 3)), rng.normal(size=records))


RECORD = data.EncodedRecord(np.array([9.0, 8.0, 7.0]), 1.0)


@pytest.mark.parametrize("records", [1, 2, 6])
def test_a_neighbour_differs_in_one_record_and_the_base_stays(records):
    base, before = dataset(records), dataset(records)
    for position in range(records + 1):
        rest = position + 1
        added = data.neighbours(base, Relation.ADD_REMOVE, position, RECORD).second
        np.testing.assert_array_equal(added.features, np.insert(before.features, position, RECORD.features, axis=0))
        np.testing.assert_array_equal(added.target, np.insert(before.target, position, RECORD.target))
        removed = data.neighbours(added, Relation.ADD_REMOVE, position, None).second
        np.testing.assert_array_equal(removed.features, before.features)
        np.testing.assert_array_equal(removed.target, before.target)
        if position < records:
            replaced = data.neighbours(base, Relation.REPLACE_ONE, position, RECORD).second
            np.testing.assert_array_equal(replaced.features[position], RECORD.features)
            np.testing.assert_array_equal(replaced.features[rest:], before.features[rest:])
            np.testing.assert_array_equal(replaced.features[:position], before.features[:position])
            assert replaced.target[position] == RECORD.target
    np.testing.assert_array_equal(base.features, before.features)


@pytest.mark.parametrize(
    ("relation", "position", "record", "message"),
    [
        (Relation.REPLACE_ONE, 5, RECORD, "position in"),
        (Relation.REPLACE_ONE, -1, RECORD, "position in"),
        (Relation.REPLACE_ONE, 0, None, "a record must take the place"),
        (Relation.ADD_REMOVE, 6, RECORD, "position in"),
        (Relation.ADD_REMOVE, 5, None, "position in"),
        (Relation.REPLACE_ONE, 0, data.EncodedRecord(np.zeros(2), 1.0), "3 finite numbers"),
        (Relation.REPLACE_ONE, 0, data.EncodedRecord(np.full(3, np.nan), 1.0), "3 finite numbers"),
        (Relation.REPLACE_ONE, 0, data.EncodedRecord(np.zeros(3), np.inf), "its target to be one"),
        ("replace-one", 0, RECORD, "relation to be a Relation"),
    ],
)
def test_impossible_neighbours_are_refused(relation, position, record, message):
    with pytest.raises(InputError, match=message):
        data.neighbours(dataset(), relation, position, record)


def test_misshapen_and_empty_datasets_are_refused():
    with pytest.raises(InputError, match="shapes"):
        data.Dataset(np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(InputError, match="at least one record"):
        data.neighbours(data.Dataset(np.zeros((0, 3)), np.zeros(0)), Relation.ADD_REMOVE, 0, None)


FEATURES = (
    data.Feature("a", data.Number(-2, 6)),
    data.Feature("b", data.Number(0, 1, data.UNIT)),
    data.Feature("c", data.Category(("u", "v"), drop_first=True)),
    data.Feature("d", data.Boolean()),
)


@pytest.mark.parametrize(
    ("kind", "opposite"),
    [(data.Number(0, 10), (1.0, -1.0)), (data.Boolean(), (1.0, -1.0)), (data.Category(("p", "q", "r")), (0, 2))],
)
@pytest.mark.parametrize("cap", [None, 1.5])
def test_the_first_two_worst_records_attain_the_cap_with_opposite_targets(kind, opposite, cap):
    row_norm = None if cap is None else data.RowNorm(cap, includes_intercept=True)
    schema = data.Schema(100, FEATURES, data.Target("y", kind), True, row_norm)
    first, second, *others = worst_records(schema)
    np.testing.assert_array_equal(first.features, second.features)
    assert np.linalg.norm(first.features) == pytest.approx(schema.norm_bound, rel=1e-6)
    assert (first.target, second.target) == opposite
    assert len(others) == 6
    corners = {tuple(np.sign(record.features)) for record in (first, *others)}
    assert corners == {(1, 1, 1, 1, 1), (1, -1, 0, 0, 0), (1, 1, 0, 1, 0), (1, -1, 1, 0, 1)}


def test_a_missing_token_at_a_bound_does_not_hide_the_corner():
    schema = data.Schema(5, FEATURES[:1], data.Target("y", data.Boolean()), True, missing_tokens=("6",))
    assert worst_records(schema)[0].features.tolist() == [1.0, 1.0]
