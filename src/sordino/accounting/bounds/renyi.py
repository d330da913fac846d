"""Rényi divergences of one sampled Gaussian step, and of a round of random allocation.

For Poisson batches by the trapezoidal rule with a certified error. The integrand is analytic in a strip around the real
line, where the rule converges geometrically (Trefethen & Weideman 2014, Theorem 5.1): relative error below 2 M / (exp(2
pi a / h) - 1), a the strip's half-width, M the growth of the integrand on it. The step h makes it e^-60.
"""

import math
from functools import lru_cache

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import UNIT_ROUNDOFF, special, up
from sordino.core.guarantee import ORDERS
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
    strip = min(math.pi / ((4 if replace else 2) * mu), 4.0)
    growth = strip * strip / 2 + (order * math.log(2) / 2 if replace else 0.0)
    step = min(0.1, 2 * math.pi * strip / (60.0 + growth))
    reach = _REACH + (math.sqrt(-2 * order * math.log1p(-rate)) if replace else 0.0)
    z = np.arange(-reach - (order * mu if replace else 0.0), order * mu + reach + step, step)
    log_ratio, error = np.zeros(len(z)), np.zeros(len(z))
    for power, product in ((order, mu * z), (1 - order, -mu * z))[: 2 if replace else 1]:
        # power * log(1 - q + q e^x): x is off by its terms' rounding, which moves the logarithm by the share of q e^x
        # in the sum; for large x the logarithm of q is rounded on its own.
        x = product - mu * mu / 2
        logs = log_mixture(rate, x)
        share = np.exp(np.minimum(x + math.log(rate) - logs, 0.0))
        off = np.abs(product) + mu * mu / 2 - np.where(x > 30.0, math.log(rate), 0.0)
        log_ratio += power * logs
        error += UNIT_ROUNDOFF * abs(power) * (4 * share * off + 8 * np.abs(logs))
    log_weight = -z * z / 2 - math.log(2 * math.pi) / 2 + math.log(step)
    return min(whole, _log_mean(log_ratio, error, log_weight, UNIT_ROUNDOFF * (2 * z * z + 16)) / (order - 1))


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
    return max(0.0, math.log1p(math.fsum(terms) + 2 * float(doubts.sum()) + 1e-18)) * (1 + 1e-14)


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


# Random allocation, for deltas that the loss distribution of a round does not reach. A record is used in one of t
# steps, of which d are seen. Against a round without it the ratio of densities is dominated by R = (t - d) / t + (1 /
# t) (X_1 + ... + X_d) with independent X = exp(mu Z - mu^2 / 2), Z standard normal (`core.loss.allocation`): what
# follows are means of convex functions of R.
#
# **Removing** the record, order a: E R^a. For a whole a it is a! / t^a times the coefficient of x^a in
#
#     e^((t - d) x) (sum over k of x^k E X^k / k!)^d,    E X^k = exp(mu^2 k (k - 1) / 2):
#
# sums of positive numbers, so nothing cancels. Its logarithm is convex in a and 0 at a = 1, so between whole orders a
# straight line is above it.
#
# **Adding** it: E R^-s, s = a - 1. With Gamma(s) R^-s = integral over w of exp(s w - e^w R) and phi(v) = E e^(-v X),
#
#     Gamma(s) E R^-s = integral over w of exp(g(w)),    g(w) = s w - e^w (t - d) / t + d log phi(e^w / t).
#
# The integrand is analytic and at height |y| <= theta < pi / 2 above w at most its value at w + log cos(theta) times
# cos(theta)^-s, so the trapezoidal rule of step h is off by at most 2 cos(theta)^-s / (exp(2 pi theta / h) - 1) of the
# integral (Trefethen & Weideman 2014, Theorem 5.1). To the left g(w) <= s w. To the right g is concave, because
# phi(e^w) is a convolution of exp(-e^w) and a normal density, both log-concave (Prékopa): the rest of the sum is below
# a geometric series. phi itself is a trapezoidal sum over z, analytic with modulus at most exp(y^2 / 2) times the
# normal density for mu |y| <= pi / 2. Without a sum: R is at least the geometric mean of its terms, so log E R^-s <= d
# mu^2 (s / t) (s / t + 1) / 2; and by Jensen's inequality nothing exceeds a Gaussian use, s (s + 1) mu^2 / 2.
#
# **Replacing** it: with P, P' and Q the rounds with the one, the other and neither, Hölder's inequality gives for b > a
#
#     log E_Q (P / Q)^a (P' / Q)^(1 - a) <= (a / b) log E_Q (P / Q)^b + (1 - a / b) log E_Q (P' / Q)^-s,
#
# s = (a - 1) b / (b - a): a removal at order b and an addition, the best b of the grid.

# Above these orders of a removal and of an addition the closed bounds are used.
LARGEST_REMOVAL, LARGEST_POWER = 1024, 255
_WHOLE = tuple(int(order) for order in ORDERS if order == int(order) and order <= LARGEST_REMOVAL)
_POWERS = tuple(order - 1 for order in _WHOLE if order - 1 <= LARGEST_POWER)
LARGEST_MU = 16.0  # beyond it a round counts as a Gaussian use: no number of steps hides so large a move
_LEFT, _RIGHT = -46.0, 60.0  # of w
_DIGITS = 60.0  # of phi, in powers of e
_MOST_DIGITS = 700.0
_OUTER = 110.0
_ROUNDING = 1e-12  # relative, of a sum of a few thousand positive terms
_CLOSED = 1 + 1e-14


def round_renyi(total: int, done: int, mu: float, relation: Relation) -> tuple[float, ...]:
    """D_order of a round, both directions, at each of `ORDERS`; rounded up."""
    orders = np.asarray(ORDERS)
    found = orders * ((1 if relation is Relation.ADD_REMOVE else 4) * mu * mu / 2) * _CLOSED
    sampled = total > 1 and mu <= LARGEST_MU
    if sampled and relation is Relation.ADD_REMOVE:
        moments = np.maximum(removal(total, done, mu, orders), addition(total, done, mu, orders - 1))
        found = np.minimum(found, moments / (orders - 1))
    elif sampled:
        further = np.asarray(_WHOLE, float)
        moments = removal(total, done, mu, further)
        for place, order in enumerate(orders):
            b, after = further[further > order], moments[further > order]
            if len(b):
                added = addition(total, done, mu, (order - 1) * b / (b - order))
                both = order / b * after + (1 - order / b) * added
                found[place] = min(found[place], float(both.min()) / (order - 1))
    # Divergences grow with their order, so each is also below those of larger ones.
    return tuple((np.minimum.accumulate(found[::-1])[::-1] * (1 + 1e-13)).tolist())


def removal(total: int, done: int, mu: float, orders: Array) -> Array:
    """log E R^order, rounded up."""
    gaussian = orders * (orders - 1) * (mu * mu / 2) * _CLOSED
    # Straight lines from (1, 0); where the list ends, the Gaussian use alone.
    line = np.interp(orders, np.arange(1, LARGEST_REMOVAL + 1), _removal(total, done, mu), right=math.inf)
    return np.minimum(gaussian, line * (1 + 1e-13))


def addition(total: int, done: int, mu: float, powers: Array) -> Array:
    """log E R^-power, rounded up."""
    square, share = mu * mu / 2, powers / total
    closed = np.minimum(powers * (powers + 1) * square, done * square * share * (share + 1)) * _CLOSED
    line = np.interp(powers, (0, *_POWERS), (0.0, *_addition(total, done, mu)), right=math.inf)
    return np.minimum(closed, line * (1 + 1e-13))


@lru_cache(maxsize=32)
def _removal(total: int, done: int, mu: float) -> Array:
    """log E R^a for a = 1, 2, ..., LARGEST_REMOVAL."""
    k = np.arange(LARGEST_REMOVAL + 1)
    factorials = special.gammaln(k + 1.0)
    series, products = _power(mu * mu * k * (k - 1.0) / 2 - factorials, done)
    if done < total:
        series, products = _product(series, k * math.log(total - done) - factorials), products + 1
    found = series + factorials - k * math.log(total)
    # What a logarithm may be off: the first coefficient is exactly 1, so the errors of at most k factors add up, and
    # every product adds its own rounding once to each of them.
    size = mu * mu * k * k / 2.0 + k * np.log(k + 1.0) + k * math.log(total) + 1
    slack = 4 * UNIT_ROUNDOFF * (k * (products + 2) * (k + 16 + 2 * size) + 4 * size)
    moments = np.maximum(found + slack, 0.0)
    moments[1] = 0.0  # the mean of R is 1
    return moments[1:]


def _power(logs: Array, count: int) -> tuple[Array, int]:
    """The coefficients of a power of a series, and by how many products."""
    found, square, products = None, logs, 0
    while True:
        if count & 1:
            found, products = (square, products) if found is None else (_product(found, square), products + 1)
        count >>= 1
        if not count:
            return (logs if found is None else found), products
        square, products = _product(square, square), products + 1


def _product(left: Array, right: Array) -> Array:
    """The logarithms of the coefficients of a product of two series with positive ones."""
    size = len(left)
    padded = np.concatenate([np.full(size - 1, -np.inf), right])
    # Row m holds left[i] + right[m - i].
    rows = np.lib.stride_tricks.sliding_window_view(padded, size)[:, ::-1] + left
    peaks = rows.max(axis=1)
    return peaks + np.log(np.exp(rows - peaks[:, None]).sum(axis=1))


@lru_cache(maxsize=32)
def _addition(total: int, done: int, mu: float) -> Array:
    """log E R^-s for each of `_POWERS`; infinite where the sum does not reach far enough."""
    powers = np.asarray(_POWERS, float)
    theta = min(1.0, math.sqrt(_DIGITS / LARGEST_POWER))
    step = 2 * math.pi * theta / _OUTER
    right = math.log(LARGEST_POWER) + mu * mu * (LARGEST_POWER / total + 0.5) + 4.0
    w = np.arange(_LEFT, min(right, _RIGHT), step)
    # Both terms are negative or 0, and rounded towards 0.
    logs = (done * _log_transform(mu, np.exp(w) / total) - np.exp(w) * ((total - done) / total)) * (1 - _ROUNDING)
    found = np.empty(len(powers))
    for place, s in enumerate(powers):
        g = s * w + logs
        # So many points hold the sum: further right phi may be too small for what is known of it.
        top = int(np.argmax(np.append(np.diff(g) < 0, True)))
        low = g[top:] < g[top] - _DIGITS
        g = g[: top + int(np.argmax(low)) + 1] if low.any() else g
        peak = float(g.max())
        inside = float(np.exp(g - peak).sum())
        before = math.exp(s * (_LEFT - step) - peak) / -math.expm1(-s * step)
        ratio = math.exp(min(0.0, float(g[-1] - g[-2]) + 1e-9))
        after = math.exp(float(g[-1]) - peak) * ratio / (1 - ratio) if ratio < 1 else math.inf
        rule = 2 * math.cos(theta) ** -s / math.expm1(_OUTER)
        whole = (inside * (1 + _ROUNDING) + before + after) * step / (1 - rule)
        factorial = float(special.gammaln(s))
        rounding = 1e-15 * s * (_RIGHT - _LEFT) + 1e-13 * (1 + abs(peak) + abs(factorial))
        found[place] = max(0.0, peak + math.log(whole) - factorial + rounding) if whole < math.inf else math.inf
    return found


def _log_transform(mu: float, v: Array) -> Array:
    """log E exp(-v X), rounded up; at most 0."""
    strip = min(math.pi / (2 * mu), 4.0)
    # How small the last of them may be: exp(-v) at least, and the probability that v X is below 1, over e.
    last = float(v[-1])
    smallest = min(last, 1 - float(special.log_ndtr((mu * mu / 2 - math.log(last)) / mu)))
    digits = min(_MOST_DIGITS, _DIGITS + smallest)
    step = min(0.1, 2 * math.pi * strip / (digits + strip * strip / 2 + 1))
    reach = math.sqrt(2 * digits) + 1
    z = np.arange(-reach, reach + step, step)
    weights = np.exp(-z * z / 2) * (step / math.sqrt(2 * math.pi))
    x = np.exp(mu * z - mu * mu / 2)
    missing = 2 * math.exp(strip * strip / 2) / math.expm1(min(_MOST_DIGITS, 2 * math.pi * strip / step))
    missing += 2 * math.exp(-reach * reach / 2)
    found = np.empty(len(v))
    for begin in range(0, len(v), 256):
        part = slice(begin, begin + 256)
        exponents = -v[part, None] * x
        lacking = (np.expm1(exponents) * weights).sum(axis=1)
        # Near 1 what is lacking keeps its relative accuracy, further down the value does.
        left = (np.exp(exponents) * weights).sum(axis=1) * (1 + _ROUNDING) + missing
        near = np.log1p(np.maximum(lacking * (1 - _ROUNDING) + missing, -0.75))
        found[part] = np.where(lacking > -0.5, near, np.log(left))
    return np.minimum(found, 0.0)
