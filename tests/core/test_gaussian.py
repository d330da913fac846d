"""The Gaussian trade-off against 60 digits of mpmath: every answer on its side, and close."""

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from sordino.core import gaussian
from tests.core.loss.exact import gaussian_delta

MUS = [1e-8, 3e-5, 1e-3, 0.05, 0.4, 1.0, 1.9999, 2.0, 2.3, 5.0, 11.0, 30.0, 60.0]
EPSILONS = [0.0, 1e-9, 1e-4, 0.02, 0.5, 1.0, 2.5, 7.0, 30.0, 90.0, 200.0]
# Below this the exact value underflows; only the direction can be checked.
TINY = 1e-300


@pytest.mark.every(2)
@pytest.mark.parametrize("mu", MUS)
def test_delta_range_contains_the_exact_value_and_is_narrow(mu):
    low, high = gaussian.delta_range(mu, EPSILONS)
    for epsilon, below, above in zip(EPSILONS, low, high, strict=True):
        if epsilon / mu - mu / 2 > 38:  # Phi(-38) < 1e-315
            assert below == 0.0
            assert 0.0 < above < TINY
            continue
        with mp.workdps(60 + int(0.25 * (epsilon / mu + mu / 2) ** 2)):
            exact = gaussian_delta(mu, epsilon)
        assert below <= exact <= above
        # delta is a difference of two numbers that agree to a relative mu / (1 + epsilon / mu).
        if exact > TINY:
            assert above - below <= 1e-13 * (1 + 1 / mu + mu) * (1 + epsilon / mu) ** 3 * exact


def test_delta_range_far_in_the_tail():
    """delta about 1e-250, where a difference of two cdfs would have no correct digit."""
    for mu, epsilon in ((1.0, 34.0), (0.1, 3.4), (0.01, 0.335), (3.0, 105.0)):
        low, high = gaussian.delta_range(mu, epsilon)
        with mp.workdps(700):
            exact = gaussian_delta(mu, epsilon)
        assert 1e-300 < exact < 1e-200
        assert float(low) <= exact <= float(high)
        assert float(high) / float(low) < 1 + 1e-9 / mu


@settings(derandomize=True, deadline=None, max_examples=10)
@given(log_mu=st.floats(-8, 1.7), log_delta=st.floats(-300, -0.01))
def test_epsilon_upper_and_lower_bracket_the_root(log_mu, log_delta):
    mu, delta = 10**log_mu, 10**log_delta
    low, high = gaussian.epsilon_lower(mu, delta), gaussian.epsilon_upper(mu, delta)
    with mp.workdps(420):
        assert gaussian_delta(mu, high) <= delta
        assert low == 0 or gaussian_delta(mu, low) >= delta
    assert high - low <= 1e-13 * (1 + 1 / mu) * (1 + high / mu) ** 2 * high


@settings(derandomize=True, deadline=None, max_examples=10)
@given(epsilon=st.floats(0.01, 60), log_delta=st.floats(-120, -0.05))
def test_largest_mu_is_private_and_a_little_more_is_not(epsilon, log_delta):
    delta = 10**log_delta
    mu = gaussian.largest_mu(epsilon, delta)
    with mp.workdps(320):
        assert gaussian_delta(mu, epsilon) <= delta
        assert gaussian_delta(mu * (1 + 1e-9), epsilon) > delta


@pytest.mark.parametrize("delta", [1e-20, 1e-300])
def test_an_unreachable_calibration_ends_at_no_signal(delta):
    """At epsilon = 0 the certified error of delta exceeds 1e-20: the search must end, on the private side."""
    assert gaussian.largest_mu(0.0, delta) == 0.0


def test_subnormal_deltas_end_in_infinity_not_in_a_loop():
    assert gaussian.epsilon_upper(1.0, 1e-310) == math.inf
    assert gaussian.epsilon_lower(1.0, 1e-310) < 45.0


@pytest.mark.parametrize("mu", [1e155, 1e200, 1e308])
def test_signals_beyond_the_range_of_floats_promise_nothing(mu):
    assert gaussian.delta_range(mu, 1.0)[1] == 1.0
    assert gaussian.epsilon_upper(mu, 1e-5) >= 1e300


@settings(derandomize=True, deadline=None, max_examples=60)
@given(log_mu=st.floats(-6, 1.5), alpha=st.floats(1e-12, 1 - 1e-12))
def test_beta_is_below_the_exact_trade_off_and_close(log_mu, alpha):
    mu = 10**log_mu
    beta = float(gaussian.beta_lower(mu, alpha))
    # ncdf(ncdfinv(1 - alpha) - mu) >= beta, written without an inverse: the exact size of the test at beta.
    if beta > 1e-300:
        with mp.workdps(50):
            guess = mp.findroot(lambda z: mp.log(mp.ncdf(-z)) - mp.log(mp.mpf(alpha)), -float(special.ndtri(alpha)))
            exact = mp.ncdf(guess - mu)
        assert beta <= exact
        assert beta >= exact * (1 - 1e-11 * (1 + mu) ** 2)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(uses=st.lists(st.tuples(st.floats(1e-200, 1e100), st.integers(1, 10**9)), min_size=1, max_size=5))
def test_composed_mu_is_rounded_up_and_tight(uses):
    exact = sum(count * Fraction(mu) ** 2 for mu, count in uses)
    mu = Fraction(gaussian.composed(uses))
    assert exact <= mu**2 <= exact * (1 + Fraction(1, 10**14))
