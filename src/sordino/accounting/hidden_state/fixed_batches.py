"""Rényi coefficients (value / order) of runs over batches fixed in advance, and of their baselines.

The noise variance is tau^2, a step whose batch holds the record moves by kappa tau, and u = kappa^2 / 2 (in the papers'
letters eta S_g^2 / (4 sigma^2 b^2)). Every value is linear in the order, so one coefficient says it for all orders.
Every function rounds up; arrays are taken elementwise.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# Exponentials are evaluated at exponents of at most 700, known to a few units in the last place: 700 * 2^-52 * 4.
_ACCURACY = 1e-12
_LARGEST_EXPONENT = 700.0
# A coefficient that underflows is rounded up to this; it costs nothing.
_SMALLEST = 1e-300


def one_pass(contraction: float, u: float, steps: ArrayLike) -> Array:
    """epsilon_0^j / order: the record is used once, j = `steps` steps before the end, that step included.

    u c^{2(j-1)} / sum_{s<j} c^{2s} (Ye & Shokri 2022, Equation 136); u / j for c = 1.
    """
    length = np.asarray(steps, dtype=np.float64)
    if contraction >= 1.0:
        return u / length * (1 + _ACCURACY)
    rate = min(-2 * math.log(contraction), _LARGEST_EXPONENT)
    ratio = math.expm1(rate) / np.expm1(np.minimum(length * rate, _LARGEST_EXPONENT))
    return np.maximum(u * np.minimum(ratio, 1.0), _SMALLEST) * (1 + _ACCURACY)


def geometric_sum(log_ratio: float, terms: ArrayLike) -> Array:
    """sum_{k < terms} exp(k log_ratio) for a log ratio of at most 0."""
    count = np.asarray(terms, dtype=np.float64)
    if log_ratio == 0.0:
        return count
    return np.expm1(count * log_ratio) / math.expm1(log_ratio) * (1 + _ACCURACY)


def strongly_convex(contraction: float, u: float, period: int, earlier: ArrayLike, steps: ArrayLike) -> Array:
    """Theorem 3.3 for a record used `earlier` times before its last use, which comes `steps` steps before the end.

    epsilon_0^h (1 - c^{2 E (l-h)}) / (1 - c^{2 (l-h)}) + epsilon_0^steps with l = `period` >= 2 batches a pass and
    h = floor(l / 2). A record of batch j_0 in K whole passes has E = K - 1 earlier uses and l - j_0 steps left.
    """
    half = period // 2
    log_ratio = 0.0 if contraction >= 1.0 else 2 * (period - half) * math.log(contraction)
    return one_pass(contraction, u, half) * geometric_sum(log_ratio, earlier) + one_pass(contraction, u, steps)


def convex(u: float, period: int, earlier: ArrayLike, steps: ArrayLike) -> Array:
    """Theorem D.4: u E / l + u / steps."""
    before, left = np.asarray(earlier, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    return u * (before / period + 1 / left) * (1 + _ACCURACY)


def balle(square: float, u: float, period: int, earlier: ArrayLike, steps: ArrayLike) -> Array:
    """Theorem D.5, Balle et al. 2019 (Theorem 5), composed over the passes; `square` is 1 - 2 eta m M / (m + M).

    A use followed by j - 1 >= 1 others costs u square^{j/2} / (j - 1), one at the very end costs u.
    """

    def use(length: Array) -> Array:
        quiet = np.maximum(length - 1, 1.0)
        faded = u * np.exp(np.maximum(length * (math.log(square) / 2), -_LARGEST_EXPONENT)) / quiet
        return np.where(length <= 1, u, faded)

    before, left = np.asarray(earlier, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    return (before * use(np.asarray(float(period))) + use(left)) * (1 + _ACCURACY)


def full(decay: float, u: float, steps: int) -> float:
    """Theorem D.6: 2 u sum_{k=1}^{K} (1 - eta m / 2)^k; `decay` is eta m, below 1."""
    log_ratio = math.log1p(-decay / 2)
    return float(2 * u * math.exp(log_ratio) * geometric_sum(log_ratio, steps)) * (1 + _ACCURACY)


def chourasia(decay: float, u: float, steps: int) -> float:
    """Theorem D.7, Chourasia, Ye & Shokri 2021 (Corollary 1): 4 u / (eta m) (1 - e^{-eta m K / 2})."""
    exponent = decay * steps / 2
    # A decay that underflows to 0 is the limit 2 u K, which is never smaller.
    share = -math.expm1(-exponent) / exponent if exponent > 0 else 1.0
    return 2 * u * steps * share * (1 + _ACCURACY)
