"""Epsilon at a delta of two exact laws: searched for with their hockey-stick divergence."""

import math
from collections.abc import Callable

from sordino.core.gaussian import Bracket, down, narrow
from sordino.core.validate import OPEN_UNIT, number
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
