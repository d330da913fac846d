"""Units in the engine: only their first records count, each unit as much as one record; an empty table is answered."""

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.mechanisms.regression import posterior, release
from sordino.mechanisms.regression.rows import UnitRows
from sordino.noise.randomness import SeededRandomness
from tests.mechanisms.regression.tables import FAMILIES, Table, declaration, extreme_rows, planned, table

UNITS, MOST = 40, 3


def released(made, given):
    return release(made, given.X, given.y, SeededRandomness(1), **given.arguments()).sums


@pytest.mark.parametrize("family", FAMILIES)
def test_records_beyond_the_most_change_nothing(family):
    """The first records of each unit as the table holds them, wherever those of other units stand; to the last bit."""
    g = np.random.default_rng(2)
    few = table(family, UNITS * MOST)._replace(unit=np.repeat(np.arange(UNITS), MOST))
    extreme = few._replace(X=extreme_rows(g, UNITS * MOST))
    both = Table(*(None if one is None else np.concatenate([one, two]) for one, two in zip(few, extreme, strict=True)))
    made = planned(family, UNITS, Relation.REPLACE_ONE, unit=True, most_records=MOST)
    answers = [released(made, given) for given in (few, both)]
    for name, sums in answers[0].items():
        assert np.array_equal(sums, answers[1][name]), name
    last = Table(*(None if part is None else part[::-1] for part in both))
    assert not np.array_equal(answers[0]["centre"], released(made, last)["centre"])


def test_a_unit_counts_as_one_record_however_many_it_has():
    declared = declaration("linear", unit=True, most_records=9)
    given = table("linear", 60, units=20)
    rows = UnitRows(declared, given.X, given.y, None, given.unit)
    _, counts = np.unique(given.unit, return_counts=True)
    assert rows.masses is not None
    assert rows.units == 20
    assert np.allclose(rows.per_unit(rows.masses), 1.0)
    assert len(rows.masses) == np.minimum(counts, 9).sum()
    weighted = UnitRows(declared, given.X, given.y, None, given.unit, np.full(60, 0.5))
    assert weighted.masses is not None
    assert np.allclose(weighted.per_unit(weighted.masses), 0.5)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_empty_table_is_answered_like_any_other(family, unit):
    """Under add-remove it is a neighbour of every table with one unit."""
    made = planned(family, UNITS, Relation.ADD_REMOVE, unit=unit, most_records=MOST)
    full = table(family, UNITS, units=UNITS if unit else None)
    empty = Table(*(None if part is None else part[:0] for part in full))
    found = release(made, empty.X, empty.y, SeededRandomness(1), **empty.arguments())
    assert {name: sums.shape for name, sums in found.sums.items()} == {
        name: sums.shape for name, sums in released(made, full).items()
    }
    assert np.isfinite(posterior(made, found).mean).all()


@pytest.mark.parametrize("unit", [False, True])
def test_no_weight_counts_more_than_a_whole_record_or_less_than_none(unit):
    """Bounds on contributions rest on it, whoever calls the engine; to the last bit."""
    made = planned("linear", UNITS, Relation.ADD_REMOVE, unit=unit, most_records=MOST)
    given = table("linear", UNITS, units=UNITS if unit else None)
    wild = np.random.default_rng(4).choice([-3.0, 0.25, 1.0, 40.0], UNITS)
    one, other = (
        release(made, given.X, given.y, SeededRandomness(1), **given.arguments(), weight=weight).sums
        for weight in (wild, np.clip(wild, 0.0, 1.0))
    )
    assert all(np.array_equal(sums, other[name]) for name, sums in one.items())
    with pytest.raises(InputError, match="weight"):
        release(made, given.X, given.y, SeededRandomness(1), **given.arguments(), weight=np.full(UNITS, np.nan))


def test_of_a_category_one_level_counts():
    """Rows that claim several levels have the first: bounds of centre and scatter rest on it."""
    declared = declaration("linear")
    X = np.zeros((3, 7))
    X[0, 3:], X[1, 4:] = 1.0, 1.0
    encoded = declared.encoded(X)[:, 3:]
    assert encoded.sum(axis=1).tolist() == [1.0, 1.0, 0.0]
    assert encoded[:2].argmax(axis=1).tolist() == [0, 1]


def test_the_meat_is_of_units():
    """Sums over units of squares of their means, and not over rows."""
    rows = UnitRows(declaration("linear", unit=True, most_records=9), *_of_units())
    assert rows.per_unit(np.ones((len(rows.y), 2))).shape == (20, 2)


def _of_units():
    given = table("linear", 60, units=20)
    return given.X, given.y, None, given.unit
