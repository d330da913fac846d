"""On quadratics the mean and covariance of many chains are those of the exact recursion, for every scheme.

False-alarm rate: every moment is compared at 5.6 standard errors (2e-8 two-sided), so the about thirty comparisons of
a test all pass with probability above 1 - 1e-6 when the kernel is right.
"""

import numpy as np
import pytest

from sordino.core.spec import Scheme
from sordino.mechanisms import LastIterate, SeededRandomness, run

STANDARD_ERRORS = 5.6
STEPS = 8  # two full passes and a part of the third


def worst_deviation(sample, mean, covariance):
    """The largest deviation of an empirical mean or covariance, in its own standard errors."""
    sample = np.asarray(sample, np.float64)
    centred = sample - mean
    products = centred[:, :, None] * centred[:, None, :]
    root = np.sqrt(len(sample))
    of_mean = np.abs(centred.mean(0)) / (centred.std(0) / root)
    of_covariance = np.abs(products.mean(0) - covariance) / (products.std(0) / root)
    return max(of_mean.max(), of_covariance.max())


def last(problem, scheme, chains, seed=7, **algorithm):
    spec = problem.spec(scheme, STEPS, chains, **algorithm)
    release = run(spec, problem.model, problem.rows, problem.target, SeededRandomness(seed))
    assert isinstance(release, LastIterate)
    return release.iterates


def uncorrelated(sample):
    """Whether neighbouring chains are: their batches and noise together."""
    centred = np.asarray(sample, np.float64) - np.mean(sample, axis=0)
    products = centred[:-1, 0] * centred[1:, 0]
    return abs(products.mean()) < STANDARD_ERRORS * products.std() / np.sqrt(len(products))


@pytest.mark.every(3)
@pytest.mark.parametrize("scheme", list(Scheme))
def test_moments_of_twenty_thousand_chains(quadratic, scheme):
    sample = last(quadratic, scheme, 20_000)
    assert worst_deviation(sample, *quadratic.moments(scheme, STEPS)) < STANDARD_ERRORS
    assert uncorrelated(sample)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", list(Scheme))
def test_moments_on_a_line_and_of_four_hundred_thousand_chains(line, quadratic, scheme):
    for problem, chains in ((line, 20_000), (quadratic, 400_000)):
        moments = problem.moments(scheme, STEPS)
        assert worst_deviation(last(problem, scheme, chains), *moments) < STANDARD_ERRORS


def test_schemes_differ_by_more_than_the_test_resolves(quadratic):
    """The comparison has power: chains of one scheme do not pass for another's."""
    sample = last(quadratic, Scheme.CYCLIC, 20_000)
    for other in (
        Scheme.FULL,
        Scheme.SHUFFLE_ONCE,
        Scheme.RESHUFFLED,
        Scheme.WITHOUT_REPLACEMENT,
        Scheme.POISSON,
        Scheme.WITH_REPLACEMENT,
        Scheme.RANDOM_ALLOCATION,
    ):
        assert worst_deviation(sample, *quadratic.moments(other, STEPS)) > 2 * STANDARD_ERRORS


def test_a_poisson_batch_is_divided_by_the_public_size(quadratic):
    """A rate of its own leaves the divisor alone: at rate 1 every step sums all five rows and divides by two."""
    every = {"batch": {"scheme": "poisson", "size": 2, "rate": 1.0}}
    sample = last(quadratic, Scheme.POISSON, 20_000, **every)
    exact = quadratic.moments(Scheme.POISSON, STEPS, **every)
    assert worst_deviation(sample, *exact) < STANDARD_ERRORS
    assert worst_deviation(sample, *quadratic.moments(Scheme.POISSON, STEPS)) > 2 * STANDARD_ERRORS


def test_schedules_are_followed_step_by_step(line):
    """With listed step sizes and scales the moments follow the recursion with those numbers."""
    etas, taus = [0.5, 0.1, 0.3, 0.2, 0.4, 0.05, 0.6, 0.3], [0.1, 0.2, 0.05, 0.4, 0.3, 0.2, 0.1, 0.2]
    step_size = {"kind": "list", "values": etas}
    schedules = {"step_size": step_size, "noise": {"kind": "gaussian", "scale": {"kind": "list", "values": taus}}}
    sample = last(line, Scheme.FULL, 20_000, **schedules)
    assert worst_deviation(sample, *line.moments(Scheme.FULL, STEPS, **schedules)) < STANDARD_ERRORS


def test_a_gaussian_start_has_its_scale(line):
    """Three steps from N(0, s^2)."""
    start = {"start": {"kind": "gaussian", "scale": 3.0}}
    spec = line.spec(Scheme.FULL, 3, 20_000, **start)
    sample = run(spec, line.model, line.rows, line.target, SeededRandomness(3)).iterates
    assert worst_deviation(sample, *line.moments(Scheme.FULL, 3, **start)) < STANDARD_ERRORS
