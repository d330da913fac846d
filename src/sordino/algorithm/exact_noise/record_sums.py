"""Sums over records that are exact, of contributions that depend on one record alone.

A sensitivity is proved for real numbers. Computed sums can break it in three ways, each excluded here:

1. *A contribution is longer than its bound*, by rounding. Lengths are computed with a relative error below 2^-40 (for
   at most 8,192 columns), contributions are scaled to that much less, and digits behind 2^-20 are cut off towards 0.
2. *A sum is rounded*, so that a record changes how the others are rounded. Factors are whole numbers of at most 2^20
   units, so products and sums of up to 8,192 of them are whole numbers below 2^53: whatever order a matrix product adds
   in, nothing is rounded. Blocks add up in 64-bit whole numbers.
3. *A contribution depends on where its record stands*, because a fast matrix product treats the last rows of a block
   unlike the others. Per-record numbers come from elementwise operations, which IEEE 754 rounds correctly, or from
   exact products.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import refuse
from sordino.data.row_lengths import row_lengths

Array = NDArray[np.float64]
Sums = NDArray[np.int64]

DIGITS = 20
PRODUCT_EXPONENT = -2 * DIGITS
_WEIGHT_DIGITS = 32
ROWS_PER_BLOCK = 2**13
MOST_ROWS = 2**23 - 1
MOST_COLUMNS = 2**13
# Lengths are known to this relative accuracy, so a hair below a bound is within it.
ACCURACY = 2.0**-40
INSIDE = 1.0 - ACCURACY
# Rows below this length count as 0: squares of their entries are no longer accurate.
_SHORTEST = 1e-140


def check_size(X: Array) -> None:
    """Refuse what exact sums cannot hold."""
    if len(X) > MOST_ROWS:
        raise refuse("the number of rows", f"to be at most {MOST_ROWS}", len(X), "release it in parts")
    if X.shape[1] > MOST_COLUMNS:
        raise refuse("the number of encoded columns", f"to be at most {MOST_COLUMNS}", X.shape[1])


def digits(values: Array, exponent: int = 0) -> Array:
    """Values of size at most 2^exponent as whole numbers of 2^(exponent - 20), cut off towards 0."""
    return np.trunc(values * math.ldexp(1.0, DIGITS - exponent))


def inside_ball(rows: Array) -> Array:
    """Rows brought into the unit ball, those outside by shortening, in units of 2^-20."""
    return digits(rows * (INSIDE / np.maximum(row_lengths(rows), INSIDE))[:, None])


def directions(rows: Array) -> tuple[Array, Array]:
    """Each row's direction, of length at most 1, in units of 2^-20, and the row's length."""
    turned, sizes = np.empty(rows.shape), np.empty(len(rows))
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        part = slice(first, first + ROWS_PER_BLOCK)
        found = row_lengths(rows[part])
        stretch = np.where(found > _SHORTEST, INSIDE / np.maximum(found, _SHORTEST), 0.0)
        turned[part], sizes[part] = digits(rows[part] * stretch[:, None]), found
    return turned, sizes


def shortened(values: Array, bound: float, exponent: int) -> Array:
    """Rows of length at most `bound` <= 2^exponent, longer ones shortened, in units of 2^(exponent - 20)."""
    most = INSIDE * bound
    return digits(values * (most / np.maximum(row_lengths(values), most))[:, None], exponent)


def own_products(rows: Array, weights: Array) -> Array:
    """Rows times weights; a row's products depend on that row and the weights alone, to the last bit.

    As in `model.contributions`, for arrays on the host: rows are cut to 20 digits below the power of two above their
    largest entry, the weights of a column to whole numbers whose sizes add up to at most 2^32, and sums are exact.
    """
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    units = np.frexp(np.abs(weights).sum(axis=0))[1] - _WEIGHT_DIGITS
    exact = np.trunc(np.ldexp(rows, DIGITS - exponents[:, None])) @ np.trunc(np.ldexp(weights, -units))
    return np.ldexp(exact, exponents[:, None] - DIGITS + units)


def products(left: Array, right: Array) -> Sums:
    """Sums over the rows of a block of left times right, exact; both hold whole numbers of at most 2^20."""
    if len(left) > ROWS_PER_BLOCK:
        raise refuse("the rows of a block", f"to be at most {ROWS_PER_BLOCK}", len(left))
    return (left.T @ right).astype(np.int64)
