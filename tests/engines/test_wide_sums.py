"""Sums of 128 bits: exact on both sides of every size at which something else begins."""

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.mechanisms.regression.rows import Given, InMemory
from sordino.noise.gaussian import ExactGaussians
from sordino.noise.integer_sums import MOST_ROWS
from sordino.noise.port import MOST_RECORDS, check_capacity, from_bytes, to_bytes, wide
from sordino.noise.randomness import Purpose, SeededRandomness
from tests.engines.tables import ROWS, arrays, asked_in_memory, planned
from tests.noise.released import noised_sums

EDGES = [2**61 - 1, 2**61, -(2**61), -(2**61) - 1, 2**63 - 1, 2**63, -(2**63), 2**64, 2**127 - 1, -(2**127), 0, -1]


def test_numbers_on_both_sides_of_every_edge_are_kept():
    sums = np.array(EDGES, object)
    assert from_bytes(to_bytes(sums), len(EDGES)).tolist() == EDGES
    with pytest.raises(InputError, match="16 bytes"):
        from_bytes(to_bytes(sums), len(EDGES) - 1)


def test_sums_are_those_of_python_in_any_order():
    g = np.random.default_rng(3)
    values = g.integers(-(2**63), 2**63 - 1, (500, 4), endpoint=True)
    values[::7] = [2**63 - 1, -(2**63), -1, 2**63 - 1]
    expected = [sum(int(one) for one in column) for column in values.T]
    for order in (np.arange(500), g.permutation(500)):
        total = wide(4)
        for row in values[order]:
            total += row
        assert total.tolist() == expected


def test_how_many_records_fit_is_said_beforehand():
    check_capacity(MOST_RECORDS)
    with pytest.raises(InputError, match=str(MOST_RECORDS)):
        check_capacity(MOST_RECORDS + 1)
    # As many records as fit, each as large as it can be, do not wrap round.
    assert MOST_RECORDS * 2**40 < 2**127 <= (MOST_RECORDS + 1) * 2**40


@pytest.mark.parametrize("exponent", [-34, -40])
def test_noise_on_a_wide_sum_is_that_on_a_narrow_one(exponent):
    """The same draws on sums that differ by a multiple of 2^70 cells give answers that differ by exactly that."""
    narrow, far = np.array([12345678901, -98765432109]), 2**100
    away_by = np.array([int(one) + far for one in narrow], object)
    drawn = [ExactGaussians(SeededRandomness(4).generator(Purpose.NOISE), 2) for _ in range(2)]
    near = noised_sums(narrow, exponent, 3.0, drawn[0])
    away = noised_sums(away_by, exponent, 3.0, drawn[1])
    np.testing.assert_array_equal(away, near + np.ldexp(float(far), exponent))


@pytest.mark.parametrize(("family", "unit"), [("logistic", False), ("linear", True), ("cox", False)])
@pytest.mark.parametrize("most", [50, ROWS - 1])
def test_rows_beyond_64_bits_are_summed_in_parts_that_divide_no_unit(family, unit, most):
    """With the limit at 50 rows instead of 2^23 - 1 the sums are the same, on both sides of it."""
    made, encoded = planned(family, Relation.REPLACE_ONE, unit=unit)
    total = InMemory(made, encoded.given(arrays(family)), most)
    for asked, summed in asked_in_memory(family, Relation.REPLACE_ONE, unit):
        found = total(asked)
        assert found.sums.tolist() == summed.sums.tolist()
        assert found.units == summed.units


@pytest.mark.slow
def test_more_rows_than_64_bits_hold_are_summed():
    made, _ = planned("logistic", Relation.ADD_REMOVE, unit=False)
    (asked, summed), rows = asked_in_memory("logistic", Relation.ADD_REMOVE, False)[0], arrays("logistic")
    times = MOST_ROWS // ROWS + 1
    given = Given(
        np.tile(np.column_stack([rows["age"], rows["dose"], rows["ward"]]), (times, 1)), np.tile(rows["y"], times)
    )
    assert len(given.y) > MOST_ROWS
    found = InMemory(made, given)(asked)
    assert found.sums.tolist() == [times * one for one in summed.sums]
