"""Epsilon at a delta, and the trade-off curve, of two exact laws: searched for with their hockey-stick divergence."""

import math
from collections.abc import Callable

from sordino.core.gaussian import Bracket, down, golden_section, narrow
from sordino.core.validate import OPEN_UNIT, PROBABILITY, number
from sordino.models.exact import ExactLaw, hockey_stick

_LARGEST_EPSILON = 1e5


def epsilon_at(first: ExactLaw, second: ExactLaw, delta: float) -> Bracket:
    """Bracket of the smallest epsilon >= 0 at which both directions of the hockey-stick divergence are <= delta."""
    delta = number("delta", delta, OPEN_UNIT)

    def low(epsilon: float) -> float:
        return max(hockey_stick(first, second, epsilon).low, hockey_stick(second, first, epsilon).low)

    def high(epsilon: float) -> float:
        return max(hockey_stick(first, second, epsilon).high, hockey_stick(second, first, epsilon).high)

    least = _crossing(low, delta)[0]
    return Bracket(least, max(least, _crossing(high, delta)[1]))


def trade_off(first: ExactLaw, second: ExactLaw, alpha: float) -> float:
    """Smallest type II error of a test of `first` (null) against `second` with type I error at most alpha.

    It is the supremum over epsilon of 1 - delta(epsilon) - exp(epsilon) alpha with delta the hockey-stick divergence
    of second from first; concave in exp(epsilon), so one search finds it.
    """
    alpha = number("alpha", alpha, PROBABILITY)

    def shortfall(epsilon: float) -> float:
        return -(1.0 - hockey_stick(second, first, epsilon).high - math.exp(epsilon) * alpha)

    _, least = golden_section(shortfall, -50.0, min(50.0, -math.log(max(alpha, 1e-22))), 1e-7)
    return max(0.0, -least)


def _crossing(delta_of: Callable[[float], float], delta: float) -> tuple[float, float]:
    """The last epsilon found above delta and the first one found at or below it, close together."""
    if delta_of(0.0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            return low, math.inf
    low, high = narrow(lambda epsilon: not delta_of(epsilon) > delta, low, high, 1e-12)
    return down(low), high
