"""The cells of a half Gaussian and their probabilities, in whole numbers: what exact draws at speed are made of.

Statement. Let i = 0, 1, 2, ... have P(i) = w_i / W with w_i = exp(-i^2 / 2^17) and W their sum, let f be uniform in
(0, 1), and keep the pair with probability exp(-f (2i + f) / 2^17), beginning anew otherwise. Then (i + f) / 256 is the
size of a standard Gaussian: the density of what is kept is proportional to w_i exp(-f (2i + f) / 2^17), which is
exp(-((i + f) / 256)^2 / 2). (Karney 2016 has cells of length 1 and keeps few; cells of 1/256 keep 99.8 %.)

Nothing here is a float. Weights are whole numbers of 2^-precision between which the true ones lie: products are cut
down, and what was cut off is counted. `CellTable` holds floor(2^32 P(i)) for the first 4,096 cells, as an alias table
of whole numbers (Walker 1977), and one outcome more for what is left of 2^32, 789 of it; `rest_of_cells` says what is
left, cell 4,096 and all later ones included, with as many digits as an answer needs.
"""

from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CELL_BITS = 8  # cells to a standard deviation: 2^8
_HALF_SQUARE = 2 * CELL_BITS + 1  # exp(-i^2 / 2^17)
COLUMN_BITS = 12
COLUMNS = 1 << COLUMN_BITS
POSITION_BITS = 20
_TABLE_BITS = COLUMN_BITS + POSITION_BITS
REST = COLUMNS  # the outcome that stands for everything the table leaves out
_TABLE_PRECISION = 192


class Enclosed(NamedTuple):
    """A number between two whole multiples of 2^-precision."""

    low: int
    high: int


def exp_of_minus(top: int, bottom_bits: int, precision: int) -> Enclosed:
    """exp(-top / 2^bottom_bits) for an argument in [0, 1], in whole numbers of 2^-precision.

    The series 1 - x + x^2 / 2 - ... alternates and its terms fall, so two neighbouring partial sums enclose the value;
    each term is cut down by less than one unit per product, which is counted on both sides.
    """
    term, total, number = 1 << precision, 1 << precision, 0
    while term:
        number += 1
        term = ((term * top) >> bottom_bits) // number
        total += -term if number % 2 else term
    # Each of `number` terms is below the true one by less than number + 1 units, and what follows is below one unit.
    off = (number + 1) * (number + 2)
    return Enclosed(max(total - off, 0), total + off)


class Weights(NamedTuple):
    """Lower ends of w_0, w_1, ..., how far below the true ones each may be, and both ends of their endless sum W."""

    lows: list[int]
    off: int
    total: Enclosed


@cache
def weights(precision: int) -> Weights:
    """Down to the first cell whose weight is below 2^-precision."""
    # w_{i+1} = w_i g_i with g_i = exp(-(2i + 1) / 2^17), and g_{i+1} = g_i exp(-2 / 2^17). Work with 64 digits more: a
    # product of two numbers below 1, each at most a and b units low, is at most a + b + 1 units low.
    digits = precision + 64
    ratio, growth = exp_of_minus(1, _HALF_SQUARE, digits), exp_of_minus(2, _HALF_SQUARE, digits)
    g, c, w = ratio.low, growth.low, 1 << digits
    g_off, c_off, w_off = ratio.high - ratio.low, growth.high - growth.low, 0
    lows = []
    while w >> 64:
        lows.append(w >> 64)
        w, w_off = (w * g) >> digits, w_off + g_off + 1
        g, g_off = (g * c) >> digits, g_off + c_off + 1
    off = 2 + (w_off >> 64)
    # From there weights fall by a factor exp(-(2i + 1) / 2^17) at least, and 1 / (1 - exp(-x)) <= 1 + 1 / x.
    tail = (1 + off) * (2 + (1 << _HALF_SQUARE) // (2 * len(lows) + 1))
    return Weights(lows, off, Enclosed(sum(lows), sum(lows) + off * len(lows) + tail))


class CellTable(NamedTuple):
    """For every column: below which position its own cell is meant, and which cell otherwise; `rest` units of 2^32."""

    thresholds: NDArray[np.uint32]
    others: NDArray[np.uint16]
    counts: tuple[int, ...]
    rest: int


@cache
def cell_table() -> CellTable:
    """The alias table of floor(2^32 P(i)) and what is left."""
    lows, off, total = weights(_TABLE_PRECISION)
    counts = []
    for low in lows[:COLUMNS]:
        least, most = (low << _TABLE_BITS) // total.high, ((low + off) << _TABLE_BITS) // total.low
        if least != most:
            raise ArithmeticError("a probability is too close to a multiple of 2^-32 for the digits used")
        counts.append(least)
    rest = (1 << _TABLE_BITS) - sum(counts)
    thresholds, others = _aliases([*counts[: COLUMNS - 1], rest])
    # The last column belongs to the rest: cell 4,095 is 16 deviations away, and its count is 0.
    others[others == COLUMNS - 1] = REST
    return CellTable(thresholds, others, tuple(counts), rest)


def _aliases(counts: list[int]) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
    """Columns of 2^20 positions each, that hold exactly these counts, which add up to 2^32; without any rounding."""
    full = 1 << POSITION_BITS
    own, other, left = [full] * COLUMNS, list(range(COLUMNS)), list(counts)
    small = [i for i, count in enumerate(left) if count < full]
    large = [i for i, count in enumerate(left) if count >= full]
    while small and large:
        low, high = small.pop(), large[-1]
        own[low], other[low] = left[low], high
        left[high] -= full - left[low]
        if left[high] < full:
            small.append(large.pop())
    return np.array(own, np.uint32), np.array(other, np.uint16)


@cache
def rest_of_cells(precision: int) -> tuple[list[int], list[int]]:
    """What the table leaves out, cell i the share 2^32 P(i) - floor(2^32 P(i)) of `rest`: both ends of running sums."""
    lows, off, total = weights(precision)
    counts = (count << precision for count in (*cell_table().counts, *[0] * len(lows)))
    digits = _TABLE_BITS + precision
    ends = [((low << digits) // total.high - count, ((low + off) << digits) // total.low + 1 - count)
            for low, count in zip(lows, counts, strict=False)]  # fmt: skip
    return list(accumulate(max(low, 0) for low, _ in ends)), list(accumulate(high for _, high in ends))
