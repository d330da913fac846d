"""Searches that end on a stated side."""

import math
from collections.abc import Callable


def least_true(predicate: Callable[[float], bool], low: float, high: float) -> float:
    """Smallest float above low at which a monotone predicate holds, to a relative 1e-15, from the true side.

    `high` is a first guess; a predicate that holds nowhere answers infinity.
    """
    if predicate(low):
        return low
    while not predicate(high):
        if math.isinf(high):
            return high
        low, high = high, 2 * high
    while high - low > 1e-15 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if predicate(middle) else (middle, high)
    return high
