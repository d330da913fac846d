"""Rényi divergences of one sampled Gaussian step: Poisson batches, and fixed-size batches without replacement.

For Poisson batches by the trapezoidal rule with a certified error. The integrand is analytic in a strip around the real
line, where the rule converges geometrically (Trefethen & Weideman 2014, Theorem 5.1): relative error below
2 M / (exp(2 pi a / h) - 1), with a the half-width of the strip and M the growth of the integrand on it. The step h is
chosen to make that e^-60, far below rounding.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import UNIT_ROUNDOFF, up
from sordino.core.loss.normal_pairs import log_mixture

# Above this order the unsampled Gaussian's value is used: still a bound, and never the best order in practice.
LARGEST_ORDER = 256.0
# The same above this ratio: the quadrature would need too many points, and sampling no longer hides such a step.
LARGEST_RATIO = 16.0
_SMALLEST_RATE = 1e-300  # smaller rates are rounded up, which is safe: the divergence grows with the rate
_REACH = 24.0


def poisson_renyi(order: float, rate: float, mu: float, relation: Relation) -> float:
    """D_order of one step, both directions, rounded up.

    Add-remove: (1-q) N(0,1) + q N(mu,1) against N(0,1), the larger direction (Mironov, Talwar & Zhang 2019, Theorem 5).
    Replace-one: against (1-q) N(0,1) + q N(-mu,1), symmetric.
    """
    replace = relation is Relation.REPLACE_ONE
    whole = up(order * mu * mu / 2 * (4 if replace else 1) * (1 + 1e-14))
    if rate >= 1.0 or order > LARGEST_ORDER or mu > LARGEST_RATIO:
        return whole
    rate = max(rate, _SMALLEST_RATE)
    strip = math.pi / (4 * mu) if replace else min(math.pi / (2 * mu), 4.0)
    strip = min(strip, 4.0)
    growth = strip * strip / 2 + (order * math.log(2) / 2 if replace else 0.0)
    step = min(0.1, 2 * math.pi * strip / (60.0 + growth))
    reach = _REACH + (math.sqrt(-2 * order * math.log1p(-rate)) if replace else 0.0)
    z = np.arange(-reach - (order * mu if replace else 0.0), order * mu + reach + step, step)
    log_ratio, error = _log_power(order, rate, mu * z, mu)
    if replace:
        other, other_error = _log_power(1 - order, rate, -mu * z, mu)
        log_ratio, error = log_ratio + other, error + other_error
    log_weight = -z * z / 2 - math.log(2 * math.pi) / 2 + math.log(step)
    return min(whole, _log_mean(log_ratio, error, log_weight, UNIT_ROUNDOFF * (2 * z * z + 16)) / (order - 1))


def _log_power(order: float, rate: float, product: Array, mu: float) -> tuple[Array, Array]:
    """order * log(1 - q + q e^x), x = product - mu^2 / 2, and a bound on its error.

    x is off by its terms' rounding, which moves the logarithm by the share of q e^x in the sum; for large x the
    logarithm of q is rounded on its own.
    """
    x = product - mu * mu / 2
    logs = log_mixture(rate, x)
    share = np.exp(np.minimum(x + math.log(rate) - logs, 0.0))
    off = np.abs(product) + mu * mu / 2 - np.where(x > 30.0, math.log(rate), 0.0)
    return order * logs, UNIT_ROUNDOFF * abs(order) * (4 * share * off + 8 * np.abs(logs))


def _log_mean(log_ratio: Array, ratio_error: Array, log_weight: Array, weight_error: Array) -> float:
    """log sum exp(log_weight + log_ratio), rounded up, accurate when the sum is near 1."""
    peak = float((log_weight + log_ratio).max())
    if peak > 0 or float(log_ratio.max()) > 300.0:
        exponents = log_weight + log_ratio - peak
        doubt = ratio_error + weight_error - 4 * UNIT_ROUNDOFF * exponents
        total = float((np.exp(exponents) * (1 + 2 * doubt)).sum())
        return peak + math.log(total) + 1e-14 * (1 + abs(peak))
    weights = np.exp(log_weight)
    terms = weights * np.expm1(log_ratio)
    doubts = weights * np.exp(log_ratio) * ratio_error + np.abs(terms) * weight_error
    excess = float(math.fsum(terms)) + 2 * float(doubts.sum()) + 1e-18
    return max(0.0, math.log1p(excess)) * (1 + 1e-14)


LARGEST_SUBSET_ORDER = 256
_SMALLEST = 5e-324


def without_replacement_renyi(order: float, rate: float, mu: float) -> float:
    """Wang, Balle & Kasiviswanathan 2019, Theorem 9, for a mu-Gaussian step; rounded up.

    Between whole orders the bound (order - 1) D_order is interpolated: the exact quantity is convex in the order and
    both ends bound it from above.
    """
    whole = up(order * mu * mu / 2 * (1 + 1e-14))
    if order > LARGEST_SUBSET_ORDER or rate >= 1.0:
        return whole
    below = math.floor(order)
    share = order - below
    # At order 1 the weighted quantity (order - 1) D is 0.
    left = _weighted(below, rate, mu) if below > 1 else 0.0
    right = _weighted(below + 1, rate, mu) if share > 0 else 0.0
    return min(whole, ((1 - share) * left + share * right) / (order - 1) * (1 + 1e-14))


@lru_cache(maxsize=65536)
def _weighted(order: int, rate: float, mu: float) -> float:
    """(order - 1) D_order at a whole order."""
    square = mu * mu
    # log of q^j binom(order, j) times the j-th coefficient; a Gaussian has no finite max divergence, hence the 2.
    first = square + math.log(2)
    if square < 700:
        first = min(first, math.log(4) + math.log(math.expm1(square) or _SMALLEST))
    log_rate = math.log(rate)
    logs = [2 * log_rate + _log_binomial(order, 2) + first]
    further = range(3, order + 1)
    logs += [j * log_rate + _log_binomial(order, j) + j * (j - 1) * square / 2 + math.log(2) for j in further]
    peak = max(logs)
    total = peak + math.log(math.fsum(math.exp(value - peak) for value in logs))
    rounded = total + 1e-13 * (1 + abs(total))
    return math.log1p(math.exp(rounded)) if rounded < 500 else rounded + 1e-300


def _log_binomial(n: int, k: int) -> float:
    return float(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)) + 1e-13 * n
