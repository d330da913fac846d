"""ULA and SGLD have the stationary variance, and the order in the step size, that the theory gives them.

Statistical comparisons are made at 5.6 standard errors: a false-alarm rate of 2e-8 each, below 1e-6 for this file.
"""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest

from sordino.algorithm import SeededRandomness, run, sgld, ula
from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, Problem, Scheme
from sordino.model.families.regression import GaussianLinear

STANDARD_ERRORS = 5.6
ROWS = np.array([[0.9], [-0.4], [0.3], [1.2], [-0.8]])
TARGET = np.array([1.0, -0.8, 0.4, 0.9, -0.1])
N = len(ROWS)
PRIOR_PRECISION = 0.5
PRECISION = float(np.sum(ROWS**2)) + PRIOR_PRECISION
POSTERIOR_MEAN = float(np.sum(ROWS[:, 0] * TARGET)) / PRECISION
MODEL = GaussianLinear(weight_decay=PRIOR_PRECISION / N)
PROBLEM = Problem(n=N, dim=1)


def stationary(spec, seed=11):
    sample = np.asarray(run(spec, MODEL, ROWS, TARGET, SeededRandomness(seed)).iterates, np.float64)[:, 0]
    variance = sample.var()
    return sample.mean(), variance, math.sqrt(2.0 / len(sample)) * variance


def steps_to_converge(contraction):
    return math.ceil(math.log(1e-8) / math.log(contraction))


def ula_spec(step, chains):
    return ula(
        PROBLEM,
        step=step,
        steps=steps_to_converge(1.0 - step * PRECISION),
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
        chains=chains,
    )


def check_ula(chains):
    errors = []
    for part in (0.4, 0.2, 0.1):
        step = part / PRECISION
        mean, variance, error = stationary(ula_spec(step, chains))
        exact = 1.0 / (PRECISION * (1.0 - part / 2.0))
        assert abs(variance - exact) < STANDARD_ERRORS * error
        assert abs(mean - POSTERIOR_MEAN) < STANDARD_ERRORS * math.sqrt(variance / chains)
        errors.append(variance * PRECISION - 1.0)
    return [math.log2(coarse / fine) for coarse, fine in pairwise(errors)]


def test_ula_has_its_stationary_variance():
    check_ula(20_000)


@pytest.mark.slow
def test_ula_is_of_first_order_in_the_step():
    """The exact orders are 1.17 and 1.08, and 2 is far outside what 400,000 chains leave open."""
    chains = 400_000
    exact = [1.0 / (1.0 - part / 2.0) - 1.0 for part in (0.4, 0.2, 0.1)]
    check_orders(check_ula(chains), exact, math.sqrt(2.0 / chains))


def check_orders(measured, exact, relative_error):
    """Each measured order is within 5.6 standard errors of the exact one, and those are below 0.5 in all."""
    for order, (coarse, fine) in zip(measured, pairwise(exact), strict=True):
        spread = relative_error * math.hypot((1.0 + coarse) / coarse, (1.0 + fine) / fine) / math.log(2.0)
        assert STANDARD_ERRORS * spread < 0.5
        assert abs(order - math.log2(coarse / fine)) < STANDARD_ERRORS * spread
        assert math.log2(coarse / fine) == pytest.approx(1.0, abs=0.3)


def exact_sgld_variance(step, size):
    """The fixed point of mean and second moment under uniform batches of `size`, by enumeration of its moments.

    theta <- (1 - (step / 2)(p + (n / b) S)) theta + (step / 2)(n / b) C + sqrt(step) N, with S, C the batch's sums.
    """
    subsets = [list(subset) for subset in combinations(range(N), size)]
    squares = np.array([np.sum(ROWS[s, 0] ** 2) for s in subsets])
    crosses = np.array([np.sum(ROWS[s, 0] * TARGET[s]) for s in subsets])
    slopes = 1.0 - 0.5 * step * (PRIOR_PRECISION + N / size * squares)
    shifts = 0.5 * step * N / size * crosses
    mean = shifts.mean() / (1.0 - slopes.mean())
    second = (2.0 * mean * np.mean(slopes * shifts) + np.mean(shifts**2) + step) / (1.0 - np.mean(slopes**2))
    return mean, second - mean**2


def sgld_spec(step, chains, size):
    return sgld(
        PROBLEM,
        step=step,
        batch=Batch(Scheme.WITHOUT_REPLACEMENT, size),
        steps=steps_to_converge(1.0 - 0.5 * step * PRECISION),
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
        chains=chains,
    )


def check_sgld(chains, size):
    errors = []
    for part in (0.4, 0.2, 0.1):
        step = 2.0 * part / PRECISION
        mean, variance, _ = stationary(sgld_spec(step, chains, size))
        exact_mean, exact = exact_sgld_variance(step, size)
        # The law is a mixture, so its kurtosis is above 3; this covers a kurtosis of 6.
        assert abs(variance - exact) < STANDARD_ERRORS * math.sqrt(5.0 / chains) * exact
        assert abs(mean - exact_mean) < STANDARD_ERRORS * math.sqrt(variance / chains)
        errors.append(variance * PRECISION - 1.0)
    return [math.log2(coarse / fine) for coarse, fine in pairwise(errors)]


@pytest.mark.every(3)
@pytest.mark.parametrize("size", [1, 2, N])
def test_sgld_has_its_stationary_variance(size):
    check_sgld(20_000, size)


@pytest.mark.slow
def test_sgld_is_of_first_order_in_the_step():
    """Batches add a term of the same order to the error of the variance: halving the step halves it."""
    chains = 400_000
    exact = [exact_sgld_variance(2.0 * part / PRECISION, 2)[1] * PRECISION - 1.0 for part in (0.4, 0.2, 0.1)]
    check_orders(check_sgld(chains, 2), exact, math.sqrt(5.0 / chains))


def test_full_batch_sgld_is_ula_at_half_the_step():
    """Step e of SGLD is step e / 2 of ULA, so the two specs are one chain."""
    langevin = sgld(
        PROBLEM,
        step=0.1,
        batch=Batch(Scheme.FULL),
        steps=50,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
    )
    unadjusted = ula(PROBLEM, step=0.05, steps=50, relation=Relation.REPLACE_ONE, view=View.LAST_ITERATE)
    assert langevin.to_dict() == unadjusted.to_dict()
