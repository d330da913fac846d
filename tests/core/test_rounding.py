"""Every rounding goes the way its name says, against exact rational arithmetic; a search ends on its side."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core import gaussian as rounding
from sordino.core.validate import InputError

SETTINGS = settings(derandomize=True, deadline=None, max_examples=40)
finite = st.floats(allow_nan=False, allow_infinity=False)


@SETTINGS
@given(value=finite, units=st.integers(1, 5))
def test_up_and_down_step_that_many_floats(value, units):
    assert rounding.down(value, units) < value < rounding.up(value, units)
    if math.isfinite(rounding.up(value, units)):
        assert rounding.down(rounding.up(value, units), units) == value


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_infinities_stay(infinity):
    assert rounding.up(infinity) == infinity
    assert rounding.down(infinity) == infinity


def test_the_largest_float_rounds_up_to_infinity():
    assert rounding.up(math.nextafter(math.inf, 0)) == math.inf


@SETTINGS
@given(values=st.lists(finite, max_size=12))
def test_sum_up_is_not_below_the_real_sum(values):
    total = rounding.sum_up(values)
    exact = sum(map(Fraction, values), Fraction(0))
    assert total == math.inf or Fraction(total) >= exact
    if exact and abs(exact) < 1e300:
        assert total <= rounding.up(float(exact), 2)


def test_an_overflowing_sum_is_infinite():
    assert rounding.sum_up([1e308, 1e308]) == math.inf


@SETTINGS
@given(uses=st.lists(st.tuples(st.floats(0, 1e100), st.integers(1, 10**6)), max_size=6))
def test_weighted_sum_up_is_the_least_float_above_and_counts_like_a_list(uses):
    total = rounding.weighted_sum_up(uses)
    exact = sum((count * Fraction(value) for value, count in uses), Fraction(0))
    assert Fraction(total) >= exact
    assert total == 0 or Fraction(rounding.down(total)) < exact
    assert rounding.weighted_sum_up(
        [(value, 1) for value, count in uses for _ in range(count % 7)]
    ) == rounding.weighted_sum_up([(value, count % 7) for value, count in uses])


def test_weighted_sum_up_keeps_infinity():
    assert rounding.weighted_sum_up([(math.inf, 2), (1.0, 1)]) == math.inf
    assert rounding.weighted_sum_up([(1e308, 10)]) == math.inf


@SETTINGS
@given(value=st.floats(-1e200, 1e200), relative=st.floats(0, 0.1))
def test_widening_covers_the_relative_error(value, relative):
    exact = Fraction(value)
    reach = abs(exact) * Fraction(relative)
    assert Fraction(rounding.widen_up(value, relative)) >= exact + reach * (1 - Fraction(1, 10**15))
    assert Fraction(rounding.widen_down(value, relative)) <= exact - reach * (1 - Fraction(1, 10**15))


@SETTINGS
@given(value=finite, digits=st.integers(1, 17))
def test_printed_bounds_stay_on_their_side_and_within_one_digit(value, digits):
    shown = (show(value, digits) for show in (rounding.show_up, rounding.show_down))
    above, below, exact = map(Decimal, (*shown, value))
    assert below <= exact <= above
    assert above - below <= Decimal(10) ** (2 - digits) * abs(exact)


@pytest.mark.parametrize(
    ("value", "shown"), [(1.82821, "1.829"), (0.0, "0"), (1e-7, "1.000e-7"), (math.inf, "inf"), (123456.0, "123500")]
)
def test_show_up_reads_like_a_number(value, shown):
    assert rounding.show_up(value) == shown


def test_a_bracket_is_ordered_and_contains_its_ends():
    bracket = rounding.Bracket(1.0, 2.0)
    assert 1.0 in bracket
    assert 2.0 in bracket
    assert 2.1 not in bracket
    assert bracket.width >= 1.0
    assert bracket.relative_width == pytest.approx(0.5)


@pytest.mark.parametrize("ends", [(2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_a_bracket_out_of_order_is_refused(ends):
    with pytest.raises(InputError, match="low <= high"):
        rounding.Bracket(*ends)


def test_degenerate_and_unbounded_brackets():
    assert rounding.Bracket(math.inf, math.inf).width == 0.0
    assert rounding.Bracket(0.0, 0.0).relative_width == 0.0
    assert rounding.Bracket(1.0, math.inf).relative_width == math.inf


@SETTINGS
@given(threshold=st.floats(1e-300, 1e300), high=st.floats(1e-300, 1e300))
def test_a_search_ends_where_it_is_true_and_a_little_less_is_false(threshold, high):
    answer = rounding.least_true(lambda x: x >= threshold, 0.0, high)
    assert answer >= threshold
    assert answer * (1 - 3e-15) < threshold


@pytest.mark.parametrize(("always", "end"), [(True, 0.25), (False, math.inf)])
def test_a_predicate_true_at_once_or_nowhere_answers_an_end(always, end):
    assert rounding.least_true(lambda _: always, 0.25, 1.0) == end
