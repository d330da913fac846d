"""Searches that end on a stated side."""

from collections.abc import Callable


def least_true(predicate: Callable[[float], bool], low: float, high: float) -> float:
    """Smallest float in [low, high] at which a monotone predicate holds, to a relative 1e-15, from the true side."""
    if predicate(low):
        return low
    while not predicate(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= 1e-15 * high:
            break
        low, high = (low, middle) if predicate(middle) else (middle, high)
    return high
