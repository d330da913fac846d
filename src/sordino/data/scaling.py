"""Public scalings of declared ranges, the cap on the length of a row, and bounds that hold in single precision too."""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from sordino.core.gaussian import up
from sordino.core.spec.fields import Flag, Number, Section
from sordino.core.validate import Interval

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
    squared = 0.0
    for part in parts:
        square = part * part  # exact for small whole numbers
        squared = add_up(squared, square if part == int(part) and abs(part) < 2**26 else up(square))
    root = math.sqrt(squared)
    return root if Fraction(root) ** 2 >= Fraction(squared) else up(root)


_ROWS_AT_ONCE = 8192


def row_lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The length of each row, the same to the last bit wherever the row stands and however many others there are."""
    # Each operation works entry by entry and is rounded as IEEE 754 says, so a row's length depends on that row alone.
    # A reduction along rows would be faster, and may add in another order where there are few rows.
    squares = np.empty(len(rows))
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        columns = rows[first : first + _ROWS_AT_ONCE].T
        # Rows that lie column by column are taken as they lie.
        columns = columns if rows.strides[0] == rows.itemsize else np.ascontiguousarray(columns)
        total, square = np.zeros((2, columns.shape[1]))
        for column in columns:
            np.multiply(column, column, out=square)
            np.add(total, square, out=total)
        squares[first : first + _ROWS_AT_ONCE] = total
    return np.sqrt(squares, out=squares)


RAW_RANGE = Interval(-1e30, 1e30)  # beyond these a square overflows in single precision
SMALLEST_SCALE = 1e-100  # a coefficient per unit of less is no finite number
LARGEST_ENCODED = 1e15


class Scaling(StrEnum):
    """Encoded = (value - centre) / scale: bounds become [-1, 1] or [0, 1], or values stay as they are."""

    SYMMETRIC = "symmetric"
    UNIT = "unit"
    NONE = "none"

    def affine(self, low: float, high: float) -> tuple[float, float]:
        if self is Scaling.SYMMETRIC:
            return low / 2 + high / 2, high / 2 - low / 2
        return (low, high - low) if self is Scaling.UNIT else (0.0, 1.0)

    def limits(self, low: float, high: float) -> tuple[float, float]:
        """The encoded bounds; floating-point subtraction and division are monotone, so no value lands outside."""
        if self is Scaling.SYMMETRIC:
            return -1.0, 1.0
        return (0.0, 1.0) if self is Scaling.UNIT else (low, high)


SYMMETRIC, UNIT, UNSCALED = Scaling


@dataclass(frozen=True)
class RowNorm(Section):
    """A cap on |x|; `includes_intercept` says whether the intercept's 1 counts towards it."""

    cap: Annotated[float, Number(Interval(1e-9, 1e15)), "cap on the length of a row"]
    includes_intercept: Annotated[bool, Flag(), "whether the intercept's 1 counts towards it"]

    def total(self, intercept: bool) -> float:
        """The cap on the whole record, rounded up: R, whose square includes the intercept's 1."""
        return self.cap if self.includes_intercept or not intercept else norm_up([self.cap, 1.0])


def clip_rows(rows: NDArray[np.float64], cap: float) -> None:
    """Shorten, in place, every row longer than `cap`.

    Rows are brought to at most ``cap * (1 - 2^-23)``, so that their exact length is at most `cap` in float64 and also
    after a cast to float32. Entries must be within 1e15.
    """
    lengths = row_lengths(rows)
    safe = cap * SHRINK
    long = np.flatnonzero(lengths > safe)
    rows[long] *= (safe / lengths[long])[:, None]
