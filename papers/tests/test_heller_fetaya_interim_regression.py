"""Heller & Fetaya's counterexample, on their regression."""

import mpmath
import numpy as np
import pytest

from papers.heller_fetaya.interim import interim_lower_bound
from papers.heller_fetaya.interim_regression import InterimRegression, ScalarAffine, geometric_sum, neighbour_law
from sordino.models.exact import ConjugateRegression

N = 17_864_389
PAPER = InterimRegression(n=N, c=N**1.1455777897, prior_precision=2.0, noise_precision=1.0, x=1.8)
SMALL = InterimRegression(n=40, c=30.0, prior_precision=2.0, noise_precision=1.0, x=1.8)


def looped(problem: InterimRegression, epochs: int, position: int | None) -> tuple[float, float]:
    """Mean and variance step by step, in 50 digits."""
    with mpmath.workdps(50):
        n, c, alpha, beta, x = (
            mpmath.mpf(v) for v in (problem.n, problem.c, problem.prior_precision, problem.noise_precision, problem.x)
        )
        step = 2 * mpmath.mpf(problem.step_factor) / (alpha + n * x**2 * beta) ** 2
        mean, variance = mpmath.mpf(0), 1 / alpha
        for _ in range(epochs):
            for k in range(problem.n):
                features = x / 2 if k == position else x
                factor = 1 - step / 2 * (alpha + n * features**2 * beta)
                mean = factor * mean + step / 2 * n * c * features**2 * beta
                variance = factor**2 * variance + step
        return mean, variance


@pytest.mark.parametrize("position", [0, 17, 39])
def test_closed_forms_agree_with_a_loop_over_records(position):
    mean, variance = looped(SMALL, 6, None)
    other_mean, other_variance = looped(SMALL, 6, position)
    law, neighbour = SMALL.law(6), neighbour_law(SMALL, 6, position)
    assert law.mean[0] == pytest.approx(float(mean), rel=1e-13)
    assert law.covariance[0, 0] == pytest.approx(float(variance), rel=1e-13)
    assert neighbour.covariance[0, 0] == pytest.approx(float(other_variance), rel=1e-13)
    assert SMALL.gap(6, position) == pytest.approx(float(mean - other_mean), rel=1e-12)


def test_the_gap_at_the_paper_s_size_keeps_twelve_digits():
    """The two means are near 2e8 and differ by less than 1e-1: composed in 60 digits, the difference is the same."""
    with mpmath.workdps(60):
        n, c, alpha, beta, x = (
            mpmath.mpf(v) for v in (N, PAPER.c, PAPER.prior_precision, PAPER.noise_precision, PAPER.x)
        )
        precision = alpha + n * x**2 * beta
        half = 1 / precision**2
        factor, rho = 1 - half * precision, half * n * c * x**2 * beta
        odd, odd_rho = 1 - half * (alpha + n * x**2 * beta / 4), rho / 4

        def mean(position):
            power, offset = mpmath.mpf(1), mpmath.mpf(0)
            after = N - 1 - position
            before_sum, after_sum = (rho * (1 - factor**k) / (1 - factor) for k in (position, after))
            power = factor ** (N - 1) * odd
            offset = factor**after * (odd * before_sum + odd_rho) + after_sum
            return offset * (1 - power**25) / (1 - power)

        plain = rho / (1 - factor) * (1 - factor ** (25 * N))
        exact = [float(plain - mean(r)) for r in (0, N // 3, N - 1)]
    assert np.allclose(PAPER.gap(25, [0, N // 3, N - 1]), exact, rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("epochs", "expected"), [(1, 6.23), (11, 837), (21, 3009), (25, 3686.6), (31, 825), (41, 2.7465), (61, 0)]
)
def test_reference_values_by_epoch(epochs, expected):
    assert interim_lower_bound(PAPER, epochs, 0.001, exact=False) == pytest.approx(expected, rel=1e-3, abs=1e-12)


def test_the_peak_is_at_epoch_25_and_the_exact_tail_is_a_little_better():
    bounds = {k: interim_lower_bound(PAPER, k, 0.001, exact=False) for k in range(1, 62)}
    assert max(bounds, key=lambda k: bounds[k]) == 25
    assert interim_lower_bound(PAPER, 25, 0.001, exact=True) == pytest.approx(3692.0, abs=0.05)


def test_half_the_step_peaks_at_twice_the_epoch():
    half = InterimRegression(n=N, c=PAPER.c, prior_precision=2.0, noise_precision=1.0, x=1.8, step_factor=0.5)
    bounds = {k: interim_lower_bound(half, k, 0.001, exact=False) for k in range(45, 56)}
    assert max(bounds, key=lambda k: bounds[k]) == 50
    assert bounds[50] == pytest.approx(3686.5, abs=0.1)


def test_the_integral_over_positions_is_the_sum_over_positions():
    problem = InterimRegression(n=200_000, c=1e6, prior_precision=2.0, noise_precision=1.0, x=1.8)
    for exact in (False, True):
        summed = interim_lower_bound(problem, 5, 0.001, exact=exact, every_position=True)
        assert summed == pytest.approx(interim_lower_bound(problem, 5, 0.001, exact=exact), rel=1e-10)
        assert summed > 1


@pytest.mark.slow
def test_every_one_of_the_paper_s_positions_can_be_visited():
    summed = interim_lower_bound(PAPER, 25, 0.001, exact=True, every_position=True)
    assert summed == pytest.approx(interim_lower_bound(PAPER, 25, 0.001, exact=True), rel=1e-12)


def test_the_chain_settles_near_the_posterior():
    posterior = ConjugateRegression(2.0, 1.0).posterior([[1.8]], [1.8 * 30.0], [40.0])
    law = SMALL.law(2000)
    assert law.mean[0] == pytest.approx(posterior.mean[0], rel=1e-12)
    assert law.covariance[0, 0] == pytest.approx(posterior.covariance[0, 0], rel=1e-2)


# Affine maps: closed geometric sums against plain loops and high precision.


def test_repetition_agrees_with_a_loop():
    step = ScalarAffine.contraction(0.03, 0.7, 0.2)
    mean, variance = 5.0, 2.0
    for _ in range(50):
        mean, variance = 0.97 * mean + 0.7, 0.97**2 * variance + 0.2
    many = step.repeated(50)
    assert np.exp(many.log_factor) * 5.0 + many.offset == pytest.approx(mean, rel=1e-13)
    assert np.exp(2 * many.log_factor) * 2.0 + many.variance == pytest.approx(variance, rel=1e-13)


def test_composition_is_associative_and_broadcasts_over_positions():
    equal, odd = ScalarAffine.contraction(0.1, 1.0, 0.5), ScalarAffine.contraction(0.4, -2.0, 0.3)
    positions = np.arange(7)
    epoch = equal.repeated(positions).then(odd).then(equal.repeated(6 - positions))
    for r in range(7):
        plain = ScalarAffine.contraction(0.0, 0.0, 0.0)
        for k in range(7):
            plain = plain.then(odd if k == r else equal)
        for name in ("log_factor", "offset", "variance"):
            assert getattr(epoch, name)[r] == pytest.approx(getattr(plain, name), rel=1e-13)


def test_a_billion_steps_near_one_keep_full_accuracy():
    reduction, count = 1.7e-9, 10**9
    with mpmath.workdps(40):
        factor = 1 - mpmath.mpf(reduction)
        exact = float((1 - factor ** (2 * count)) / (1 - factor**2))
    assert float(ScalarAffine.contraction(reduction, 0.0, 1.0).repeated(count).variance) == pytest.approx(
        exact, rel=1e-14
    )


def test_a_ratio_of_one_counts():
    assert geometric_sum([0.0, np.log(0.5)], 3.0).tolist() == [3.0, pytest.approx(1.75)]
