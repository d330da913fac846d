"""Errors of a test, and the epsilon they prove."""

import math

import mpmath
import pytest

from sordino.auditing.lower_bound import TradeOffPoint
from sordino.core.validate import InputError


def exact(false_positive: float, false_negative: float, delta: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        fp, fn, d = (mpmath.mpf(value) for value in (false_positive, false_negative, delta))
        return max(mpmath.mpf(0), mpmath.log((1 - d - fp) / fn), mpmath.log((1 - d - fn) / fp))


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
@pytest.mark.parametrize("errors", [(0.1, 0.2), (1e-9, 0.5), (0.3, 1e-300), (0.0059, 0.0059), (0.05, 0.9)])
def test_it_is_never_above_the_exact_value_and_hardly_below(errors, delta):
    false_positive, false_negative = errors
    found = TradeOffPoint(false_positive, false_negative).epsilon(delta)
    true = exact(false_positive, false_negative, delta)
    assert found <= true
    assert found == pytest.approx(float(true), rel=1e-12, abs=1e-14)


def test_both_directions_count():
    assert TradeOffPoint(0.2, 0.01).epsilon(1e-5) == TradeOffPoint(0.01, 0.2).epsilon(1e-5)


@pytest.mark.parametrize("errors", [(0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (0.999999, 0.3)])
def test_a_test_that_tells_nothing_proves_nothing(errors):
    assert TradeOffPoint(*errors).epsilon(1e-5) == 0.0


def test_a_perfect_test_refutes_every_epsilon():
    assert TradeOffPoint(0.0, 0.0).epsilon(1e-5) == math.inf
    assert TradeOffPoint(0.0, 0.3).epsilon(1e-5) == math.inf


def test_the_cap_of_an_attack_with_500_models_a_side():
    """No error in 500 per side, one-sided 95 % each: 5.11."""
    most = 1 - 0.05 ** (1 / 500)
    assert TradeOffPoint(most, most).epsilon(1e-5) == pytest.approx(5.11, abs=0.005)


@pytest.mark.parametrize("errors", [(-0.1, 0.5), (0.5, 1.1), (math.nan, 0.1)])
def test_what_is_no_probability_is_refused(errors):
    with pytest.raises(InputError, match="false_"):
        TradeOffPoint(*errors)
