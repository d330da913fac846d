"""Every statistic of a fit: its whole numbers do not depend on how rows are divided, and no unit exceeds its bound."""

from dataclasses import replace

import numpy as np
import pytest

from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, person_bins, plan, with_bins
from sordino.mechanisms.regression.families import At, family_of
from sordino.mechanisms.regression.release import release_sums
from sordino.mechanisms.regression.rows import FitRound, Frame, Given, InMemory, UnitRows, unit_rows
from sordino.mechanisms.regression.statistics import Again, Centre, Gradient
from sordino.noise.port import factor, matrix_size, symmetric
from sordino.noise.randomness import SeededRandomness
from tests.mechanisms.regression import tables

RECORDS, RICH = 60, 900.0


def asked(made, given):
    """All statistics of a fit with their sums."""
    total, found = InMemory(made, given), []

    def recorded(statistic):
        found.append((statistic, total(statistic)))
        return found[-1][1]

    release_sums(made, recorded, SeededRandomness(1))
    return found


def as_given(private: tables.Table) -> Given:
    return Given(private.X, private.y, private.exposure, private.unit)


def taken(private: tables.Table, places) -> tables.Table:
    return tables.Table(*(None if part is None else part[places] for part in private))


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("family", tables.FAMILIES)
def test_sums_are_the_same_however_rows_are_divided_and_ordered(family, unit):
    private = tables.table(family, RECORDS, units=RECORDS // 2 if unit else None)
    records = RECORDS // 2 if unit else RECORDS
    made = tables.planned(family, records, Relation.REPLACE_ONE, RICH, unit=unit, most_records=RECORDS)
    g = np.random.default_rng(3)
    if unit:
        sides = [np.flatnonzero((private.unit % 3 == 0) == side) for side in (True, False)]
    else:
        sides = np.array_split(g.permutation(RECORDS), 2)
    for statistic, summed in asked(made, as_given(private)):
        parts = [
            statistic.of(rows)
            for side in sides
            for rows in unit_rows(family, made.declaration, as_given(taken(private, side)))
        ]
        assert np.array_equal(sum(parts), summed.sums), statistic.name
        assert len(parts[0]) == statistic.numbers


def test_rows_beyond_the_cut_are_shortened_and_not_lost():
    private = tables.table("linear", RECORDS)
    made = tables.planned("linear", RECORDS, Relation.REPLACE_ONE, RICH)
    (scatter,) = (statistic for statistic, _ in asked(made, as_given(private)) if statistic.name == "scatter")
    total, given = InMemory(made, as_given(private)), unit_rows("linear", made.declaration, as_given(private))
    lengths = np.concatenate([np.linalg.norm(scatter.scaled(rows), axis=1) for rows in given])
    scatter = replace(scatter, bound=float(np.median(lengths)) ** 2)
    squares = np.minimum(lengths**2, scatter.bound)
    found = symmetric(np.ldexp(total(scatter).sums.astype(float), scatter.exponent))
    assert np.trace(found) == pytest.approx(squares.sum(), rel=1e-4)


def length(statistic, sums):
    """In the length that goes with the shape."""
    values = np.ldexp(np.asarray(sums, np.float64), statistic.exponent)
    if statistic.shape == "matrix":
        rows, columns = np.triu_indices(matrix_size(len(values)))
        values = np.where(rows == columns, values, np.sqrt(2.0) * values)
    return float(np.linalg.norm(values))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("family", tables.FAMILIES)
def test_no_two_units_are_further_apart_than_the_sensitivity(family, relation):
    """Single extreme units, alone and in pairs; some come near the bound."""
    g = np.random.default_rng(4)
    private = tables.table(family, RECORDS)
    made = tables.planned(family, RECORDS, relation, RICH)
    ones = []
    for _ in range(40):
        exposure = None if private.exposure is None else g.choice([0.01, 0.5, 2.0], 1)
        one = Given(tables.extreme_rows(g, 1), tables.extreme_targets(g, family, 1), exposure)
        ones.append(next(unit_rows(family, made.declaration, one)))
    for statistic, _ in asked(made, as_given(private)):
        sums = [np.asarray(statistic.of(rows), object) for rows in ones]
        most = statistic.sensitivity(relation)
        if statistic.shape != "centre":
            assert max(length(statistic, one) for one in sums) <= statistic.bound, statistic.name
            assert most == statistic.bound * factor(statistic.shape, relation)
        if relation is Relation.REPLACE_ONE:
            apart = max(length(statistic, one - other) for one in sums for other in sums[:8])
            assert apart <= most, statistic.name
        else:
            assert max(length(statistic, one) for one in sums) <= most, statistic.name


def test_rows_that_no_person_can_have_stay_within_the_bounds_of_cox():
    g, edges = np.random.default_rng(5), np.arange(5.0)
    declared = with_bins(Declaration((-1.0,) * 2, (1.0,) * 2), edges)
    made = plan("cox", declared, RECORDS, Relation.REPLACE_ONE, RICH, 1e-6)
    people = person_bins(g.uniform(-1, 1, (RECORDS, 2)), g.exponential(3.0, RECORDS), np.ones(RECORDS), edges)
    for statistic, _ in asked(made, people):
        for _ in range(20):
            X = np.hstack([np.tile(g.choice([-1.0, 1.0], 2), (4, 1)), np.eye(4)[:, 1:]])
            one = Given(X, g.choice([0.0, 1.0], 4), g.choice([0.0, 1.0, 50.0], 4), np.zeros(4, int))
            sums = statistic.of(next(unit_rows("cox", declared, one)))
            if statistic.shape != "centre":
                assert length(statistic, sums) <= statistic.bound, statistic.name


def test_products_of_whitened_rows_are_bounded_whatever_their_length():
    g = np.random.default_rng(6)
    declared = tables.planned("linear", RECORDS, Relation.REPLACE_ONE).declaration
    frame = Frame(np.zeros(7), 5.0 * np.eye(7))
    statistic = Again("again", 1.5**2, frame)
    for _ in range(20):
        one = Given(tables.extreme_rows(g, 1), np.zeros(1))
        sums = statistic.of(next(unit_rows("linear", declared, one)))
        assert 0.9 * statistic.bound <= length(statistic, sums) <= statistic.bound


def test_a_person_with_an_event_in_every_bin_pulls_no_harder_than_one_can():
    """Events in four bins, where one is the most there can be, at a point that expects none."""
    declared = with_bins(Declaration((-1.0,) * 2, (1.0,) * 2), np.arange(5.0))
    frame, point = Frame(np.zeros(5), 0.1 * np.eye(5)), np.array([-9.0, 0, 0, 0, 0, 0])[:, None]
    own = FitRound(family_of("cox", declared), frame, point, At(follow=0.5), 0.5, 100.0)
    statistic = Gradient("gradient 1", own.gradient_bound, own)
    X = np.hstack([np.ones((4, 2)), np.eye(4)[:, 1:]])
    given = Given(X, np.ones(4), np.zeros(4), np.zeros(4, int))
    sums = statistic.of(next(unit_rows("cox", declared, given)))
    assert 0.9 * statistic.bound <= length(statistic, sums) <= statistic.bound


@pytest.mark.parametrize("relation", list(Relation))
def test_the_centre_moves_as_far_as_its_bound_and_no_further(relation):
    """All corners of the box with all levels: single rows, in pairs or beside none."""
    made = tables.declaration("linear")
    centre = Centre.declared(made, relation)
    corners = [
        (first, second, flag, *level)
        for first in (tables.LOW[0], tables.HIGH[0])
        for second in (tables.LOW[1], tables.HIGH[1])
        for flag in (0.0, 1.0)
        for level in np.vstack([np.zeros(4), np.eye(4)])
    ]
    rows = [UnitRows(made, np.array([row]), np.zeros(1)) for row in corners]
    found = [np.ldexp(centre.of(one).astype(float), centre.exponent) for one in rows]
    if relation is Relation.REPLACE_ONE:
        moved = max(float(np.linalg.norm(one - other)) for one in found for other in found)
    else:
        moved = max(float(np.linalg.norm(one)) for one in found)
    assert (1.0 - 1e-6) * centre.bound <= moved <= centre.bound
