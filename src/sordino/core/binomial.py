"""Binomial probabilities and tails between proved bounds.

*One number.* Loader's form of P(X = k) for n trials of rate p: with the Stirling error d(n) = log n! - log(sqrt(2 pi n)
(n / e)^n) and the deviance D(x, m) = x log(x / m) + m - x,

    log P(X = k) = d(n) - d(k) - d(n - k) - D(k, n p) - D(n - k, n q) + log(n / (2 pi k (n - k))) / 2.

No term is large where the probability is not small, so no digits cancel. A relative error e of n p and n q moves the
deviances by e |k - n p| each.

*At least m.* P(X >= m) = m q P(X = m) f, f the continued fraction of Didonato & Morris (1992, formula 9) for the
incomplete beta function at a = m, b = n - m + 1. Where m >= (n + 1) p all of its coefficients are positive and it ends
after b of them: two successive convergents enclose f, wherever one stops, and their recurrence adds positive numbers
only. Below the mean the answer is 1 - P(Y >= n - m + 1), Y of rate q. Near the mean of very many trials the fraction
converges slowly; there Zubkov & Serov (2013, Theorem 1) enclose too: with H = D(x, n p) + D(n - x, n q) and C(x) =
Phi(sign(x - n p) sqrt(2 H)), C(x) <= P(X <= x) <= C(x + 1) for every x = 0, ..., n - 1.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, least_whole, special

_FEW = 16  # up to here the Stirling error comes from the factorial itself
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)  # the next term is below 1e-16 from 16 on
_NEAR = 0.1  # of (x - m) / (x + m), below which the deviance is a series
_TERMS = 1500  # of the continued fraction, at most
_ENOUGH = 1e-14
_SMALLEST = 1e-300  # a probability that underflows is rounded up to this
_SPLIT = 2.0**27 + 1
_ODD = [1 / (2 * j + 3) for j in range(9)]
_STIRLING_ERRORS = [
    math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - math.log(2 * math.pi) / 2 for n in range(1, _FEW)
]
_STIRLING = np.array([0.0, *_STIRLING_ERRORS])


def _stirling(n: Array) -> Array:
    """d(n), to an absolute 2e-15; 0 for n = 0."""
    inverse = 1 / np.maximum(n, _FEW)
    series = inverse * np.polynomial.polynomial.polyval(inverse * inverse, _SERIES)
    return np.where(n < _FEW, _STIRLING[np.minimum(n, _FEW - 1).astype(int)], series)


def _deviance(x: Array, m: Array, excess: Array) -> Array:
    """D(x, m) for `excess` = x - m."""
    v = excess / (x + m)
    # x log(x / m) = 2 x artanh(v), and m - x = -excess; the sum of both is excess v + 2 x (artanh(v) - v).
    odd = np.polynomial.polynomial.polyval(v * v, _ODD)
    near = excess * v + 2 * x * v * v * v * odd
    far = x * np.log(np.maximum(x / m, _SMALLEST)) - excess
    return np.maximum(np.where(np.abs(v) < _NEAR, near, far), 0.0)


def _deviances(counts: Array, trials: float, rate: Array, other: Array) -> tuple[Array, Array, Array]:
    """H(count), a bound on its error (in units of rounding: 256 H, and |k - n p| for n p and n q), and k - n p."""
    mean, missing = np.maximum(trials * rate, _SMALLEST), np.maximum(trials * other, _SMALLEST)
    # From the smaller of the two means, whose rounding is the smaller one.
    excess = np.where(mean <= missing, counts - mean, missing - (trials - counts))
    found = _deviance(counts, mean, excess) + _deviance(trials - counts, missing, -excess)
    return found, UNIT_ROUNDOFF * (256 * found + 64 * np.abs(excess)), excess


def _log_chances(counts: Array, trials: float, rate: Array, other: Array) -> tuple[Array, Array]:
    found, error, _ = _deviances(counts, trials, rate, other)
    rest = trials - counts
    inside = (counts > 0) & (rest > 0)
    spread = np.where(inside, trials / (2 * math.pi * np.maximum(counts, 1.0) * np.maximum(rest, 1.0)), 1.0)
    stirling = _stirling(np.asarray(trials)) - _stirling(counts) - _stirling(rest)
    logs = np.where(inside, stirling + np.log(spread) / 2, 0.0) - found
    return logs, error + UNIT_ROUNDOFF * (64 + np.abs(np.log(spread)))


def log_chances(counts: ArrayLike, trials: int, rate: float) -> tuple[Array, Array]:
    """log P(X = count) for counts from 0 to n, and a bound on its error; the rate may be off by a unit of rounding."""
    rates = np.asarray(rate, float)
    return _log_chances(np.asarray(counts, float), float(trials), rates, 1 - rates)


def at_least(counts: ArrayLike, trials: int, rate: ArrayLike, other: ArrayLike | None = None) -> tuple[Array, Array]:
    """Bounds on P(X >= count), below and above, elementwise.

    `other` is 1 - rate. The smaller of the two is taken as exact, the larger one may be off by a few units of rounding.
    """
    rates = np.asarray(rate, float)
    m, p, q = np.broadcast_arrays(np.asarray(counts, float), rates, 1 - rates if other is None else other)
    n = float(trials)
    low, high = np.zeros(m.shape), np.ones(m.shape)
    high[m > n] = 0.0
    low[m <= 0] = 1.0
    inside = (m > 0) & (m <= n)
    low[(p >= 1) & inside], high[(p <= 0) & inside] = 1.0, 0.0
    inside &= (p > 0) & (q > 0)
    # Beyond which mean a number lies is known best from the smaller of the two rates.
    beyond = np.where(p <= q, _beyond_mean(m, n, p), -_beyond_mean(n - m + 1, n, q))
    right = inside & (beyond >= 0)
    low[right], high[right] = _right_tail(m[right], n, p[right], q[right], beyond[right])
    left = inside & ~right
    less, more = _right_tail(n - m[left] + 1, n, q[left], p[left], -beyond[left])
    low[left], high[left] = np.maximum((1 - more) * (1 - 1e-15), 0.0), np.minimum((1 - less) * (1 + 1e-15), 1.0)
    return low, high


def _beyond_mean(m: Array, n: float, p: Array) -> Array:
    """m - (n + 1) p to a few units of rounding: the product is split into its leading and its last digits."""
    scaled, count = p * _SPLIT, (n + 1) * _SPLIT
    p_high, n_high = scaled - (scaled - p), count - (count - (n + 1))
    p_low, n_low = p - p_high, n + 1 - n_high
    product = (n + 1) * p
    last = ((p_high * n_high - product) + p_high * n_low + p_low * n_high) + p_low * n_low
    return (m - product) - last


def _right_tail(m: Array, n: float, p: Array, q: Array, beyond: Array) -> tuple[Array, Array]:
    """Bounds on P(X >= m) where `beyond` = m - (n + 1) p is not negative."""
    if len(m) == 0:
        return m, m
    logs, errors = _log_chances(m, n, p, q)
    below, above, slack = _fraction(m, n - m + 1, p, q, beyond)
    with np.errstate(under="ignore"):
        front = np.exp(logs) * m * q
    low, high = front * below * (1 - slack - 2 * errors), front * above * (1 + slack + 2 * errors)
    # P(X >= m) = 1 - P(X <= m - 1), between 1 - C(m), rounded down, and 1 - C(m - 1), rounded up; both are right of the
    # mean or next to it. Right of the mean a larger deviance means a smaller tail, left of it a larger one.
    tails = []
    for x, side in ((m, -1), (m - 1, 1)):
        found, error, excess = _deviances(x, n, p, q)
        sign = np.where(excess >= 0, 1.0, -1.0)
        distance = np.sqrt(2 * np.maximum(found - sign * side * error, 0.0))
        tails.append(special.ndtr(-sign * distance) * (1 + side * 1e-13 * (1 + distance * distance)))
    far, near = tails
    return np.maximum(np.maximum(low, far), 0.0), np.minimum(np.minimum(high, near) + _SMALLEST, 1.0)


def _fraction(a: Array, b: Array, x: Array, y: Array, beyond: Array) -> tuple[Array, Array, Array]:
    """Two successive convergents of the continued fraction, the smaller first, and a bound on their relative error."""
    before_top, top = np.zeros_like(a), np.ones_like(a)
    before_bottom, bottom = np.ones_like(a), a / (a + 1) * (beyond + 1)
    # The first two coefficients: alpha_1 = 1, beta_1 = a (lambda + 1) / (a + 1).
    last, now = np.full_like(a, np.inf), top / bottom
    steps = 0
    for steps in range(1, _TERMS + 1):
        place = a + 2 * steps - 1
        gap = np.maximum(b - steps, 0.0) * x
        alpha = (a + steps - 1) / place * ((a + b + steps - 1) / place) * (steps * gap * x)
        beta = steps + steps * gap / place + (a + steps) / (place + 2) * (beyond + 1 + steps * (1 + y))
        top, before_top = beta * top + alpha * before_top, top
        bottom, before_bottom = beta * bottom + alpha * before_bottom, bottom
        scale = 1 / bottom
        top, before_top, bottom, before_bottom = top * scale, before_top * scale, np.ones_like(a), before_bottom * scale
        last, now = now, top
        if np.all(np.abs(now - last) <= _ENOUGH * now):
            break
    return np.minimum(last, now), np.maximum(last, now), np.full_like(a, 64 * (steps + 2) * UNIT_ROUNDOFF)


def window(trials: int, rate: float, cut: float) -> tuple[int, int]:
    """Numbers between which X lies but for next to nothing below, and at most `cut` above."""
    mean, deviation = trials * rate, math.sqrt(trials * rate * (1 - rate))
    low, high = max(0, math.floor(mean - 9 * deviation)), min(trials, math.ceil(mean + 9 * deviation + 60))

    def enough(end: int) -> bool:
        return float(at_least([end + 1], trials, rate)[1][0]) <= cut

    # Nearer to the mean it is never enough, and a tail takes long.
    return low, least_whole(enough, min(math.floor(mean + 2 * deviation), high) - 1, high)


def law_above(ends: Array, trials: int, rate: float, total: float = 1.0) -> tuple[Array, float]:
    """The law of X rounded up onto increasing numbers, with chances that add to `total`, and the chance of more."""
    beyond = np.minimum(at_least(ends + 1, trials, rate)[1], total)
    return np.maximum(-np.diff(beyond, prepend=total), 0.0), float(beyond[-1])
