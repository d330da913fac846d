"""Pure, approximate, total-variation and Gaussian guarantees: exact formulas, rounded up."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core.guarantee import ApproxDP, GaussianDP, PureDP, TotalVariation
from sordino.core.validate import InputError
from tests.core.loss.exact import response_delta

SETTINGS = settings(derandomize=True, deadline=None, max_examples=50)


@SETTINGS
@given(epsilon0=st.floats(0, 60), delta0=st.sampled_from([0.0, 1e-12, 1e-3, 0.9]), epsilon=st.floats(0, 70))
def test_delta_of_an_approximate_guarantee(epsilon0, delta0, epsilon):
    exact = response_delta(epsilon0, delta0, 1, epsilon)
    delta = ApproxDP(epsilon0, delta0).delta(epsilon)
    assert exact <= delta <= exact * (1 + mp.mpf("1e-12")) + mp.mpf("1e-320")
    if delta0 == 0.0:
        assert PureDP(epsilon0).delta(epsilon) == delta


@SETTINGS
@given(
    epsilon0=st.floats(0, 60),
    delta0=st.sampled_from([0.0, 1e-12, 1e-3, 0.9]),
    delta=st.one_of(st.floats(1e-15, 1 - 1e-15), st.floats(1e-16, 0.3).map(lambda x: 1 - x)),
)
def test_epsilon_of_an_approximate_guarantee(epsilon0, delta0, delta):
    epsilon = ApproxDP(epsilon0, delta0).epsilon(delta)
    if delta < delta0:
        assert epsilon == math.inf
        return
    assert 0 <= epsilon <= epsilon0
    assert response_delta(epsilon0, delta0, 1, epsilon) <= delta
    if epsilon > 1e-9:
        closer = epsilon - 1e-12 * (1 + epsilon0) / (1 - delta)
        assert closer < 0 or response_delta(epsilon0, delta0, 1, closer) > delta
    if delta0 == 0.0:
        assert PureDP(epsilon0).epsilon(delta) == epsilon


ALL = [PureDP(0.7), ApproxDP(0.5, 1e-6), TotalVariation(0.05), GaussianDP(0.8)]


@pytest.mark.parametrize("guarantee", ALL, ids=lambda guarantee: guarantee.kind)
def test_bad_arguments_are_refused(guarantee):
    for delta in (0.0, 1.0, -0.1, math.nan, "1e-5"):
        with pytest.raises(InputError, match="delta"):
            guarantee.epsilon(delta)
    for epsilon in (-1e-9, math.inf, math.nan, None):
        with pytest.raises(InputError, match="epsilon"):
            guarantee.delta(epsilon)


def test_impossible_guarantees_are_refused():
    for kind, arguments in (
        (PureDP, [-1.0]),
        (ApproxDP, [1.0, 1.5]),
        (TotalVariation, [-0.1]),
        (GaussianDP, [math.inf]),
    ):
        with pytest.raises(InputError):
            kind(*arguments)


@pytest.mark.parametrize(("epsilon0", "delta0"), [(0.7, 0.0), (0.5, 1e-6), (3.0, 1e-3)])
def test_beta_lies_below_the_exact_trade_off_of_randomised_response(epsilon0, delta0):
    """max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha)): Dong, Roth & Su 2022, Proposition 2.5."""
    alphas = np.concatenate([[0.0, 1.0], np.geomspace(1e-9, 1.0, 200), 1 - np.geomspace(1e-9, 1.0, 50)])
    for alpha, below in zip(alphas, ApproxDP(epsilon0, delta0).beta(alphas), strict=True):
        a, e, d = mp.mpf(float(alpha)), mp.exp(mp.mpf(epsilon0)), mp.mpf(delta0)
        exact = max(mp.mpf(0), 1 - d - e * a, (1 - d - a) / e)
        assert below <= exact
        assert below >= exact - 0.1
