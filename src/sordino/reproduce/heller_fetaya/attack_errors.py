"""What so many attacked models can prove, and how often the bound fails: exactly, by summing over the error counts."""

import math

import numpy as np
from scipy import stats

from sordino.audit.confidence.attack_bound import cap, epsilon_from_rates
from sordino.audit.confidence.clopper_pearson import upper_end

DELTA, CONFIDENCE = 1e-5, 0.9


def most_provable(models: int) -> float:
    """The bound of an attack that never errs on `models` models a side, with joint confidence 90 %."""
    return cap(models, models, DELTA, CONFIDENCE)


def failure_probability(epsilon: float, models: int, each: float) -> float:
    """How often (12) exceeds the true epsilon when each upper end fails with probability `each`.

    The attacked mechanism is randomised response with this epsilon, the hardest case: both errors are 1/(1 + e^epsilon)
    and every test is as good as it can be.
    """
    wrong = 1 / (1 + math.exp(epsilon))
    counts = np.arange(models + 1)
    chances = stats.binom.pmf(counts, models, wrong)
    ends = upper_end(counts, np.full_like(counts, models), each)
    bounds = epsilon_from_rates(ends[:, None], ends[None, :], DELTA)
    return float(chances @ (bounds > epsilon) @ chances)


def expected_bound(epsilon: float, models: int) -> float:
    """The mean of the bound over attacks on randomised response, with joint confidence 90 %."""
    counts = np.arange(models + 1)
    chances = stats.binom.pmf(counts, models, 1 / (1 + math.exp(epsilon)))
    ends = upper_end(counts, np.full_like(counts, models), (1 - CONFIDENCE) / 2)
    return float(chances @ epsilon_from_rates(ends[:, None], ends[None, :], DELTA) @ chances)
