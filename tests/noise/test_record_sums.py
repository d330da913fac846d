"""One record moves a computed sum by its own contribution, exactly, and by no more than the bound."""

from fractions import Fraction

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.data import Feature, Number, RowNorm, Schema, encode_features, from_matrix
from sordino.mechanisms.regression.ridge import clipped_gradients
from sordino.mechanisms.statistics.second_moments import StatisticsStack
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.regression import Huber
from sordino.noise import integer_sums as record_sums

# Sizes around a block's end, where fast matrix products treat rows differently.
SIZES = [1, 2, 7, 63, record_sums.ROWS_PER_BLOCK - 1, record_sums.ROWS_PER_BLOCK, record_sums.ROWS_PER_BLOCK + 5]
MODELS = [
    (Logistic(), (-1.0, 1.0)),
    (Softmax(classes=3), (0.0, 1.0, 2.0)),
    (Softmax(classes=12), tuple(range(12))),
    (Huber(threshold=0.4), (-0.8, 0.1, 0.9)),
]


def rows(number: int, width: int, seed: int):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((number, width)) * generator.choice([1e-6, 0.3, 4.0], (number, 1))


def summed(gradients, theta, clip=0.7):
    return gradients.products(theta).total(clip, gradients.exponent)


def pairs(stack, X, y):
    return stack.products(X, y).total(1.0, record_sums.PRODUCT_EXPONENT)


@pytest.mark.parametrize("number", SIZES)
def test_removing_a_record_takes_away_what_it_adds_alone(number):
    stack, X = StatisticsStack(), rows(number, 5, 0)
    y = np.random.default_rng(1).uniform(-1.5, 1.5, number)
    whole = pairs(stack, X, y)
    for place in {0, number // 2, number - 1}:
        others = np.arange(number) != place
        assert np.array_equal(whole - pairs(stack, X[others], y[others]), pairs(stack, X[[place]], y[[place]]))


@pytest.mark.parametrize(("model", "targets"), MODELS)
@pytest.mark.parametrize("number", SIZES)
def test_removing_a_record_takes_its_gradient_away_and_moves_no_other(model, targets, number):
    generator = np.random.default_rng(2)
    X, y = rows(number, 5, 3), generator.choice(targets, number)
    theta = 3 * generator.standard_normal(5 * model.outputs)
    whole = summed(clipped_gradients(model, X, y, 0.7), theta)
    for place in {0, number // 2, number - 1}:
        others = np.arange(number) != place
        rest = summed(clipped_gradients(model, X[others], y[others], 0.7), theta)
        assert np.array_equal(whole - rest, summed(clipped_gradients(model, X[[place]], y[[place]], 0.7), theta))


@pytest.mark.parametrize("number", [1, 2, 9, record_sums.ROWS_PER_BLOCK + 3])
def test_an_encoded_row_depends_on_that_row_alone(number):
    """A table and each of its rows alone: the same bits, also where the cap shortens a row."""
    generator = np.random.default_rng(7)
    names = tuple(f"x{place}" for place in range(19))
    features = tuple(Feature(name, Number(-1.0, 1.0)) for name in names)
    schema = Schema(
        records=number, features=features, target=None, intercept=True, row_norm=RowNorm(2.0, includes_intercept=True)
    )
    X = generator.uniform(-1.0, 1.0, (number, 19))
    whole = encode_features(schema, from_matrix(X, names))
    for place in {0, number // 2, number - 1}:
        assert np.array_equal(encode_features(schema, from_matrix(X[[place]], names))[0], whole[place])
    assert np.linalg.norm(whole, axis=1).max() <= 2.0


def test_sums_of_floats_do_not_have_this_property():
    """Otherwise the two tests above would show nothing."""
    X = rows(3000, 5, 4)
    assert not np.array_equal(X.T @ X - X[1:].T @ X[1:], X[:1].T @ X[:1])


@pytest.mark.parametrize("width", [1, 3, 50, 2000])
def test_no_computed_contribution_is_longer_than_its_bound_by_a_hair(width):
    """In exact fractions, for rows of every size and for those that lie on the boundary."""
    generator = np.random.default_rng(width)
    given = generator.standard_normal((40, width)) * np.exp(generator.uniform(-80, 80, (40, 1)))
    given[:10] /= np.linalg.norm(given[:10], axis=1)[:, None]
    given[10] = 0.0
    given[11] = 1e-200
    for found in (record_sums.shortened(given, 1.0, 0), record_sums.directions(given)[0]):
        assert all(_square(row) <= 2 ** (2 * record_sums.DIGITS) for row in found)
    clip = 0.3
    assert all(
        _square(row) <= (Fraction(clip) * 2 ** (record_sums.DIGITS + 1)) ** 2
        for row in record_sums.shortened(given, clip, -1)
    )


def test_parameters_of_any_size_meet_the_rows_exactly():
    model = Logistic()
    X, y = rows(50, 4, 5), np.ones(50)
    for size in (0.0, 1e-30, 1.0, 1e12):
        theta = size * np.random.default_rng(6).standard_normal(4)
        gradients = clipped_gradients(model, X, y, 100.0)
        found = np.ldexp(summed(gradients, theta, 100.0).astype(float), gradients.exponent)
        exact = -(1.0 / (1.0 + np.exp(np.minimum(X @ theta, 700.0)))) @ X
        assert found == pytest.approx(exact, abs=50 * 2.0 ** (7 - record_sums.DIGITS))  # one unit a record


def test_more_rows_or_columns_than_exact_sums_hold_are_refused():
    with pytest.raises(InputError, match="number of rows") as refused:
        record_sums.check_size(np.broadcast_to(0.0, (2**23, 1)))
    assert str(2**23) not in str(refused.value)  # how many there are may be private
    with pytest.raises(InputError, match="encoded columns"):
        record_sums.check_size(np.broadcast_to(0.0, (1, 2**13 + 1)))


def test_the_largest_sums_do_not_overflow():
    """A full block of the largest factors is 2^53, and as many blocks as are allowed stay below 2^63."""
    block = np.full((record_sums.ROWS_PER_BLOCK, 1), 2.0**record_sums.DIGITS)
    assert int(record_sums.products(block, block)[0, 0]) == 2**53
    assert record_sums.MOST_ROWS * 2 ** (2 * record_sums.DIGITS) < 2**63


def _square(row) -> int:
    return sum(int(value) ** 2 for value in row)


def directions_by_definition(given, centre, weights):
    """Directions and lengths as the docstring of `own_directions` says them, with scales where they belong."""
    exact = record_sums.ExactWeights.of(weights)
    centred = given - centre
    exponents = np.frexp(np.abs(centred).max(axis=1))[1][:, None]
    cut = np.trunc(np.ldexp(centred, record_sums.DIGITS - exponents))
    products = np.ldexp(cut @ exact.whole, exponents - record_sums.DIGITS + exact.units)
    return record_sums.directions(np.column_stack([np.ones(len(given)), products]))


# Ordinary rows; a row that is the centre, which has no exponent; rows and weights near the ends of the floats.
@pytest.mark.parametrize(("size", "weight"), [(1.0, 1.0), (0.0, 1.0), (1e-120, 1.0), (1e120, 1.0), (1.0, 1e-120)])
@pytest.mark.parametrize("number", [1, 7, 300])
def test_directions_are_what_they_are_said_to_be_wherever_a_row_stands(number, size, weight):
    generator = np.random.default_rng(number)
    given = generator.uniform(-1.0, 1.0, (number, 5)) * generator.choice([1e-6, 0.3, 1.0], (number, 1)) * size
    centre, weights = generator.uniform(-0.1, 0.1, 5) * size, generator.standard_normal((5, 4)) * weight
    expected, lengths = directions_by_definition(given, centre, weights)

    def found(part):
        out = np.empty((len(given[part]), 5), order="F")
        return out, record_sums.own_directions(given[part], centre, record_sums.ExactWeights.of(weights), out)

    turned, sizes = found(slice(None))
    assert turned.tobytes("C") == expected.tobytes("C")
    assert sizes.tobytes() == lengths.tobytes()
    last, size_of_last = found(slice(number - 1, number))
    assert last.tobytes() == turned[-1:].tobytes()
    assert size_of_last.tobytes() == sizes[-1:].tobytes()
    assert (np.abs(turned) <= 2.0**record_sums.DIGITS).all()
