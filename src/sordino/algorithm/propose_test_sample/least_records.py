"""n_min of (33): how many clean records make one posterior draw (epsilon, delta)-private."""

import math

from sordino.core.spec import ProposeTestSample

_UP = 1 + 1e-12


def least_records(run: ProposeTestSample, centre: float, cleaned: float) -> float:
    """n_min, rounded up, for the noisy slope `centre` and the noisy count `cleaned` (n_2 > 1) of lines 12 and 18.

    The last entry is n_2^(rho_2 / gamma_1): the proof of Claim C.14 needs n^gamma_1 >= n_2^rho_2, where the text of
    (33) prints n_1. A negative centre counts as 0: slopes are never negative, so every kept one is as near to 0.
    """
    order = 2 * math.log(1 / run.delta) / run.epsilon + 1
    high, low = run.x_high * run.x_high, run.x_low * run.x_low
    ratio, pull = high / low, run.alpha + high * run.beta
    slope = max(centre, 0.0)
    first = order / run.epsilon * high * high * pull / (0.9 * low * low)
    second = order / run.epsilon * high * high * pull * pull / (0.9 * low * low * low * run.beta)
    entries = (
        1 + 8 * ratio / run.epsilon,
        1 + order * ratio * (1 + 8 * (order - 1) / run.epsilon),
        _power(16 * order * run.beta * high * high / (0.9 * run.epsilon * low), 1 / (1 - 2 * run.gamma1)),
        _power(32 * first * slope, 1 / (2 - run.gamma1)),
        _power(32 * first, 1 / (2 - 2 * run.gamma1)),
        _power(4 * second, 1 / 3) * _power(2 * slope, 2 / 3),
        _power(16 * second, 1 / (3 - 2 * run.gamma1)),
        1 + 10 * order * ratio / run.beta,
        1 + order * ratio,
        _power(cleaned, run.rho2 / run.gamma1),
    )
    return max(entries) * _UP


def _power(base: float, exponent: float) -> float:
    """base^exponent; infinite where it overflows, which no dataset reaches."""
    if base == 0.0:
        return 0.0
    logarithm = exponent * math.log(base)
    return math.inf if logarithm > 700 else math.exp(logarithm)
