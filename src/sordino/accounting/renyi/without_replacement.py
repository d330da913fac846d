"""Rényi divergence of one step that samples a fixed-size batch without replacement, replace-one relation."""

import math
from functools import lru_cache

from scipy import special

from sordino.core.rounding import up

LARGEST_ORDER = 256
_SMALLEST = 5e-324


def without_replacement_renyi(order: float, rate: float, mu: float) -> float:
    """Wang, Balle & Kasiviswanathan 2019, Theorem 9, for a mu-Gaussian step; rounded up.

    Between whole orders the bound (order - 1) D_order is interpolated: the exact quantity is convex in the order and
    both ends bound it from above.
    """
    whole = up(order * mu * mu / 2 * (1 + 1e-14))
    if order > LARGEST_ORDER or rate >= 1.0:
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
    logs = [2 * math.log(rate) + _log_binomial(order, 2) + first]
    logs += [
        j * math.log(rate) + _log_binomial(order, j) + j * (j - 1) * square / 2 + math.log(2)
        for j in range(3, order + 1)
    ]
    peak = max(logs)
    total = peak + math.log(math.fsum(math.exp(value - peak) for value in logs))
    rounded = total + 1e-13 * (1 + abs(total))
    return math.log1p(math.exp(rounded)) if rounded < 500 else rounded + 1e-300


def _log_binomial(n: int, k: int) -> float:
    return float(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)) + 1e-13 * n
