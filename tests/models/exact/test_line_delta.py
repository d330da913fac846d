"""The adaptive bracket on the line contains the truth and is as narrow as it says."""

import math

import numpy as np
import pytest
from scipy import integrate

from sordino.models.exact import GaussianLaw, GaussianMixtureLaw, StableLaw1D, hockey_stick, renyi
from tests.models.exact.laws import density, mixture_of


def mixture(weights, means, variances) -> GaussianMixtureLaw:
    return GaussianMixtureLaw(np.array(weights), np.array(means)[:, None], np.array(variances)[:, None, None])


def law(mean: float, variance: float) -> GaussianLaw:
    return GaussianLaw(np.array([mean]), np.array([[variance]]))


FIRST = mixture([0.9, 0.1], [0.0, 2.0], [1.0, 1.0])
SECOND = mixture([0.9, 0.1], [0.0, -2.0], [1.0, 1.2])


@pytest.mark.parametrize(
    ("mean", "variance", "epsilon"), [(1, 1, 0.0), (1, 1, 2.0), (0.3, 1.2, 0.1), (0, 0.5, 0.2), (1, 0.9, -1)]
)
def test_one_component_agrees_with_the_exact_gaussian_formula(mean, variance, epsilon):
    exact = hockey_stick(law(mean, variance), law(0, 1), epsilon)
    found = hockey_stick(mixture_of(law(mean, variance)), mixture_of(law(0, 1)), epsilon)
    assert found.low <= exact.high
    assert exact.low <= found.high
    assert found.width <= 1e-10


@pytest.mark.every(2)
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 1.0])
def test_mixtures_agree_with_plain_quadrature(epsilon):
    def positive_part(x):
        at = np.array([x])
        return max(0.0, float((density(FIRST, at) - math.exp(epsilon) * density(SECOND, at))[()]))

    exact, error = integrate.quad(positive_part, -15, 15, limit=2000, epsabs=1e-11, points=[-2, 0, 1, 2])
    found = hockey_stick(FIRST, SECOND, epsilon)
    assert found.low - 10 * error - 1e-10 <= exact <= found.high + 10 * error + 1e-10


def test_a_coarser_request_gives_a_wider_bracket_that_still_contains_the_finer_one():
    coarse, fine = (hockey_stick(FIRST, SECOND, 0.2, width=width) for width in (1e-3, 1e-11))
    assert coarse.low <= fine.low
    assert fine.high <= coarse.high
    assert fine.width < 1e-11 < coarse.width <= 1e-3


def test_a_narrow_spike_is_not_missed():
    spike = mixture([1 - 1e-4, 1e-4], [0.0, 3.3], [1.0, 1e-10])
    found = hockey_stick(spike, law(0, 1), 0.0)
    assert found.low == pytest.approx(1e-4, rel=1e-3)


def test_both_directions_satisfy_the_identity_of_the_hockey_stick():
    # delta_PQ(eps) = 1 - exp(eps) + exp(eps) delta_QP(-eps).
    for epsilon in (-0.4, 0.7):
        forward, backward = hockey_stick(FIRST, SECOND, epsilon), hockey_stick(SECOND, FIRST, -epsilon)
        assert forward.low == pytest.approx(1 - math.exp(epsilon) + math.exp(epsilon) * backward.low, abs=1e-9)


def test_stable_laws_of_different_scale_agree_with_plain_quadrature():
    first, second = StableLaw1D(1.5, 0.5, 1.0), StableLaw1D(1.5, 0.0, 1.3)

    def positive_part(x):
        return max(0.0, float(density(first, x) - math.exp(0.1) * density(second, x)))

    exact, error = integrate.quad(positive_part, -60, 60, limit=500, epsabs=1e-9, points=[-1, 0, 1, 2])
    found = hockey_stick(first, second, 0.1)
    assert found.low - error - 1e-8 <= exact <= found.high + error + 1e-8
    assert found.width <= 1e-8


@pytest.mark.parametrize("order", [0.5, 2.0, 8.0, 40.0])
def test_renyi_by_quadrature_agrees_with_the_closed_form(order):
    first, second = law(0.7, 0.95), law(0, 1)
    found = renyi(mixture_of(first), mixture_of(second), order)
    assert found == pytest.approx(renyi(first, second, order), rel=1e-9)


def test_renyi_of_a_mixture_is_at_most_that_of_its_best_matched_components():
    # Joint convexity of exp((order - 1) D) for matched components.
    shifted = mixture([0.5, 0.5], [0.3, 1.0], [1.0, 1.0])
    base = mixture([0.5, 0.5], [0.0, 0.7], [1.0, 1.0])
    assert 0 < renyi(shifted, base, 3.0) <= 3.0 * 0.09 / 2 * (1 + 1e-12)
