"""Bounds that survive a cast to single precision, which is what accelerators compute in."""

import math
from fractions import Fraction

import numpy as np

from sordino.core.rounding import up

# One cast to float32 lengthens a vector by at most a factor 1 + 2^-24; twice that covers the float64 error as well.
SHRINK = 1.0 - 2.0**-23


def float32_up(value: float) -> float:
    """The smallest single-precision number that is at least `value`."""
    rounded = np.float32(value)
    return float(rounded) if float(rounded) >= value else float(np.nextafter(rounded, np.float32(math.inf)))


def add_up(first: float, second: float) -> float:
    """The sum, one step up only where rounding made it too small; so 1 + 1 stays 2."""
    total = first + second
    return up(total) if math.fsum((first, second, -total)) > 0 else total


def norm_up(parts: list[float]) -> float:
    """An upper bound on the Euclidean norm of `parts`, exact where the result is a representable number."""
    squared = sum_of_squares_up(parts)
    root = math.sqrt(squared)
    return root if Fraction(root) ** 2 >= Fraction(squared) else up(root)


def sum_of_squares_up(parts: list[float]) -> float:
    """An upper bound on the sum of squares, exact for small whole numbers."""
    total = 0.0
    for part in parts:
        square = part * part
        total = add_up(total, square if part == int(part) and abs(part) < 2**26 else up(square))
    return total
