"""The least noise that is enough, for experiments that calibrate many times."""

import math
from collections.abc import Callable

from sordino.core.errors import InputError

_WITHIN = 1e-3


def least_noise(enough: Callable[[float], bool], wanted: str) -> float:
    """The least noise, to one part in a thousand and from the safe side, that is enough.

    `enough` holds from some noise on; `wanted` completes the refusal where it never does.
    """
    low, high = 0.0, 1e-3
    while not enough(high):
        low, high = high, 4 * high
        if high > 1e9:
            raise InputError(f"Expected {wanted}, got no such noise.")
    low = max(low, high / 4096)
    while high > low * (1 + _WITHIN):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
