"""Rényi curves: the optimal conversion is valid and never worse than Mironov's."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting.convert import to_renyi
from sordino.core.guarantee import GaussianDP, RenyiDP
from sordino.core.validate import InputError
from tests.core.loss.exact import gaussian_delta

SETTINGS = settings(derandomize=True, deadline=None, max_examples=40)


@SETTINGS
@given(log_mu=st.floats(-4, 1), log_delta=st.floats(-30, -0.05))
def test_optimal_is_below_mironov_and_both_are_above_the_exact_gaussian(log_mu, log_delta):
    mu, delta = 10**log_mu, 10**log_delta
    curve = to_renyi(GaussianDP(mu))
    mironov = min(
        value - math.log(delta) / (order - 1) for order, value in zip(curve.orders, curve.values, strict=True)
    )
    optimal = curve.epsilon(delta)
    assert optimal <= mironov * (1 + 1e-12)
    assert gaussian_delta(mu, optimal) <= delta


@SETTINGS
@given(log_mu=st.floats(-4, 1), epsilon=st.floats(0, 30))
def test_delta_is_above_the_exact_gaussian(log_mu, epsilon):
    mu = 10**log_mu
    assert gaussian_delta(mu, epsilon) <= to_renyi(GaussianDP(mu)).delta(epsilon)


@SETTINGS
@given(value=st.floats(1e-6, 10), order=st.sampled_from([1.01, 1.5, 2.0, 16.0, 256.0]), log_delta=st.floats(-12, -0.5))
def test_epsilon_and_delta_agree(value, order, log_delta):
    """Going to epsilon and back loses nothing but rounding."""
    curve, delta = RenyiDP((order,), (value,)), 10**log_delta
    epsilon = curve.epsilon(delta)
    assert curve.delta(epsilon) <= delta * (1 + 1e-9) or epsilon == 0.0


def test_two_points_at_the_bound_of_the_conversion():
    """Canonne, Kamath & Steinke 2020, Proposition 12, in 15 digits at one order."""
    order, value, delta = 4.0, 0.5, 1e-5
    exact = value + math.log(3 / 4) - (math.log(delta) + math.log(order)) / 3
    assert RenyiDP((order,), (value,)).epsilon(delta) == pytest.approx(exact, rel=1e-12)
    assert RenyiDP((order,), (value,)).epsilon(delta) >= exact


def test_a_failure_probability_is_spent_first():
    curve = RenyiDP((2.0, 8.0), (0.1, 0.4), 1e-6)
    assert curve.epsilon(1e-6) == math.inf
    assert curve.epsilon(1e-5) >= RenyiDP((2.0, 8.0), (0.1, 0.4)).epsilon(9e-6)
    assert curve.delta(50.0) >= 1e-6


def test_small_divergences_give_epsilon_zero_through_total_variation():
    value = 1e-6
    assert RenyiDP((2.0,), (value,)).epsilon(1.001e-3) == 0.0
    assert RenyiDP((2.0,), (value,)).epsilon(0.99e-3) > 0.0
    assert RenyiDP((2.0,), (value,)).delta(0.0) <= 1.0001e-3


@pytest.mark.parametrize(
    ("orders", "values"), [((), ()), ((2.0,), (0.1, 0.2)), ((1.0,), (0.1,)), ((2.0,), (-0.1,)), ((2.0,), (math.nan,))]
)
def test_malformed_curves_are_refused(orders, values):
    with pytest.raises(InputError):
        RenyiDP(orders, values)


def test_values_are_read_only_at_listed_orders():
    curve = to_renyi(GaussianDP(1.0))
    assert curve.at(2.0) == pytest.approx(1.0)
    with pytest.raises(InputError, match="grid"):
        curve.at(2.00001)
