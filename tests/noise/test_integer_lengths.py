"""Every unit's contribution is within its bound as the whole numbers it is, whatever computed them."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sordino.noise import integer_sums

UNIT = 20
SIZE = integer_sums.ROWS_PER_BLOCK + 9


def shorter(rows, bound):
    """Whole numbers of 2^-20 that are at most the bound long, most of them nearly as long."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.trunc(rows * (bound * (1 - 2.0**-40) / np.maximum(lengths, bound)) * 2.0**UNIT)


def drawn(width, seed=0, number=SIZE):
    return np.random.default_rng(seed).standard_normal((number, width)) * 3.0


BOUND = 0.7
VECTORS = shorter(drawn(5), BOUND)
SIGNS = shorter(np.where(drawn(1, 6) > 0.0, 9.0, -9.0), BOUND)
BALL = shorter(drawn(4, 1), 1.0)
NUMBERS = shorter(drawn(3, 2), BOUND)
SPREAD = np.random.default_rng(3).integers(0, 2**UNIT, (SIZE, 3))
FLAGS = np.eye(3)[np.random.default_rng(4).integers(0, 3, SIZE)] * 2.0**UNIT
BINARY = (np.random.default_rng(5).integers(0, 2, (SIZE, 1)) - 0.5) * 2.0**UNIT


def vectors(units, numbers=VECTORS, kind=integer_sums.vectors):
    return kind(len(numbers), units, numbers.__getitem__), numbers.sum(axis=0)


def places(units, weights=None):
    where = np.arange(SIZE) % 7
    given = np.full(SIZE, 2**UNIT) if weights is None else weights
    return integer_sums.tallies(SIZE, units, where, given.__getitem__, 7), np.bincount(where, given, 7)


def centred(units, table=None):
    given = np.column_stack([NUMBERS, BINARY, FLAGS]) if table is None else table
    sets = [(np.array([3]), True), (np.array([4, 5, 6]), False)]
    made = integer_sums.centred(SIZE, units, given.__getitem__, np.arange(3), BOUND, sets)
    return made, given.sum(axis=0)


def grams(units, several=1):
    given = VECTORS[:, None] * np.ones((1, several, 1)) if several > 1 else VECTORS
    total = several * np.sum(
        [integer_sums.products(VECTORS[k : k + 99], VECTORS[k : k + 99]) for k in range(0, SIZE, 99)], axis=0
    )
    return integer_sums.grams(SIZE, units, given.__getitem__, several), total[np.triu_indices(5)]


def outers(units):
    total = np.sum([integer_sums.products(BALL[k : k + 99], VECTORS[k : k + 99]) for k in range(0, SIZE, 99)], axis=0)
    return integer_sums.outers(SIZE, units, BALL.__getitem__, VECTORS.__getitem__), total.ravel()


ONE = BOUND**2 * (1 + 1e-9)
KINDS = {
    "vectors": (vectors, BOUND, -UNIT),
    "one number": (lambda units: vectors(units, SIGNS), BOUND, -UNIT),
    "nonnegative": (lambda units: vectors(units, np.abs(VECTORS), integer_sums.nonnegative), BOUND, -UNIT),
    "cones": (
        lambda units: vectors(units, np.column_stack([np.full(SIZE, 2**UNIT), SPREAD[:, 0]]), integer_sums.cones),
        math.sqrt(2.0),
        -UNIT,
    ),
    "cubes": (lambda units: vectors(units, SPREAD, integer_sums.cubes), math.sqrt(3.0), -UNIT),
    "places": (places, 1.0, -UNIT),
    "centre": (centred, 99.0, -UNIT),
    "grams": (grams, ONE, -2 * UNIT),
    "several": (lambda units: grams(units, 3), 3.0 * ONE, -2 * UNIT),
    "outers": (outers, BOUND, -2 * UNIT),
}


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_within_their_bound_are_added_as_they_are(kind):
    made, bound, exponent = KINDS[kind]
    contributions, expected = made(None)
    assert np.array_equal(contributions.total(bound, exponent), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_units_beyond_the_bound_count_as_zero(kind):
    """Two full rows of one person: twice the bound at most. All others are as if she were not there."""
    made, bound, exponent = KINDS[kind]
    units = np.arange(SIZE)
    units[[5, SIZE - 2]] = 5
    contributions, expected = made(units)
    total = contributions.total(bound, exponent)
    alone = made(None)[0]
    two = [alone.summed(*alone.read(slice(row, row + 1))) for row in (5, SIZE - 2)]
    assert np.array_equal(total, expected - two[0] - two[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_row_counts_as_zero(kind):
    """The bound is made shorter than what was clipped: every row beyond it goes, in exact fractions."""
    made, bound, exponent = KINDS[kind]
    if kind in ("cubes", "cones", "centre"):
        pytest.skip("their bounds are lengths of differences")
    contributions = replace(made(None)[0], rows=200)
    short = 0.9 * bound
    limit = (Fraction(short) / Fraction(2) ** exponent) ** 2
    expected = np.zeros_like(contributions.total(bound, exponent))
    # In Frobenius' length an entry off the diagonal counts twice.
    twice = np.where(np.subtract(*np.triu_indices(5)) != 0, 2, 1).tolist() if kind in ("grams", "several") else None
    for row in range(200):
        own = contributions.summed(*contributions.read(slice(row, row + 1)))
        if sum(int(one) ** 2 * times for one, times in zip(own, twice or [1] * len(own), strict=True)) <= limit:
            expected += own
    assert np.array_equal(contributions.total(short, exponent), expected)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e300])
def test_numbers_that_are_none_count_as_zero(wrong):
    given, without = VECTORS.copy(), VECTORS.copy()
    given[7], without[7] = wrong, 0.0
    for kind in (integer_sums.vectors, integer_sums.grams):
        found, expected = (kind(SIZE, None, one.__getitem__).total(BOUND, -UNIT) for one in (given, without))
        assert np.array_equal(found, expected)


def test_the_bound_itself_is_allowed_and_a_unit_more_is_not():
    """Decided in whole numbers of Python: floats do not hold either square, and take them for the same."""
    for width, bits in ((2, 34), (3, 34), (2, 50), (3, 50)):
        exact = np.full((3, width), 2**bits, np.int64)
        bound = math.sqrt(width)
        while Fraction(bound) ** 2 < width:
            bound = math.nextafter(bound, math.inf)
        assert integer_sums.vectors(3, None, exact.__getitem__).total(bound, -bits).tolist() == [3 * 2**bits] * width
        beyond = exact.copy()
        beyond[1, 0] += 1
        assert integer_sums.vectors(3, None, beyond.__getitem__).total(bound, -bits).tolist() == [2 * 2**bits] * width


@pytest.mark.parametrize(
    "made",
    [
        lambda: vectors(None, -np.abs(VECTORS), integer_sums.nonnegative),
        lambda: vectors(None, np.column_stack([SPREAD[:, 0], -SPREAD[:, 0] - 1]), integer_sums.cones),
        lambda: vectors(None, -SPREAD - 1, integer_sums.cubes),
        lambda: places(None, np.full(SIZE, -1)),
        lambda: centred(None, np.column_stack([NUMBERS, BINARY, FLAGS + FLAGS[:, ::-1]])),
        lambda: centred(None, np.column_stack([NUMBERS, 2 * BINARY, FLAGS])),
        lambda: centred(None, np.column_stack([np.abs(NUMBERS) + 2**UNIT, BINARY, FLAGS])),
    ],
)
def test_what_is_not_of_its_kind_counts_as_zero(made):
    contributions, _ = made()
    assert not contributions.total(9.0, -UNIT).any()


def test_no_rows_add_nothing():
    for made in (
        integer_sums.vectors(0, None, lambda _: np.zeros((0, 3))),
        integer_sums.grams(0, np.zeros(0, np.intp), lambda _: np.zeros((0, 2))),
        integer_sums.tallies(0, None, np.zeros(0, np.intp), lambda _: np.zeros(0), 4),
    ):
        assert not made.total(1.0, -UNIT).any()
