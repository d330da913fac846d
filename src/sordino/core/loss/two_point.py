"""Draws from one law whose log ratio to a neighbour's lies in an interval of length r: the worst two-point law.

**Statement** (Dong, Durfee & Rogers 2020). delta(epsilon) of k independent draws is the largest, over t in [0, r], of
the delta of k uses of the two-point pair whose loss is t with probability p_t = (1 - e^(t-r)) / (1 - e^-r) and t - r
otherwise.

**Proof.** Let [t - r, t] hold the log ratio log(dP/dQ); the ratio has mean 1 under Q, so 0 <= t <= r. Hockey-stick
divergences are means under Q of convex functions of the ratio, hence largest, given its mean and its range, for the law
on the two ends; so that pair dominates one draw, and its product k of them (Zhu, Dong & Wang 2022, Theorem 10). All
draws have the same law and share t; the other order of the pair has r - t. With l the largest number of low losses at
which the sum exceeds epsilon, delta = max over l of f_l(t), f_l(t) = P_t(at most l low) - e^epsilon Q_t(at most l low),
and f_l'(t) has the sign of e^(epsilon + (l+1) r - (k+1) t) - 1: f_l is largest at t_l = (epsilon + (l+1) r) / (k+1), or
at the end of [0, r] that is nearer.
"""

import math
from functools import lru_cache

import numpy as np

from sordino.core.binomial import at_least
from sordino.core.gaussian import UNIT_ROUNDOFF, up

_LARGEST_EXPONENT = 700.0  # of e that a float can hold
_SMALLEST_WIDTH = 1e-12  # where e^-r and 1 still differ; smaller ones are rounded up to it


def one_draw_delta(width: float, epsilon: float) -> float:
    """The delta of one draw, rounded up: t = (epsilon + r) / 2, in closed form; epsilon < r."""
    share = -math.expm1((epsilon - width) / 2)
    return min(1.0, up(share * share / -math.expm1(-width), 16))


@lru_cache(maxsize=4096)
def worst_delta(width: float, draws: int, epsilon: float) -> float:
    """The delta of several draws, max over l of f_l(t_l), rounded up."""
    width, lows = max(width, _SMALLEST_WIDTH), np.arange(draws, dtype=np.float64)
    top = np.clip((epsilon + (lows + 1) * width) / (draws + 1), 0.0, width)
    # Of high and low losses under both laws each chance by itself: 1 minus the other one would cancel.
    rises, falls = -np.expm1(top - width) / -math.expm1(-width), -np.expm1(-top) / -math.expm1(-width)
    error = (16 + 4 * width) * UNIT_ROUNDOFF
    _, mine = at_least(
        draws - lows, draws, np.minimum(rises * (1 + error), 1.0), falls * np.exp(top - width) * (1 - error)
    )
    other, _ = at_least(draws - lows, draws, rises * np.exp(-top) * (1 - error), np.minimum(falls * (1 + error), 1.0))
    # Where e^epsilon overflows the other law's part is left out, which rounds up.
    growth = math.exp(epsilon) * (1 - 4 * UNIT_ROUNDOFF) if epsilon < _LARGEST_EXPONENT else 0.0
    return min(1.0, up(max(0.0, float((mine - growth * other).max()))))
