"""Whole numbers nearest to ``scale * xi``, xi exactly standard Gaussian, many at once: exact noise for lattices.

Statement. Given fair and independent bits, a draw is k with probability Phi((k + 1/2) / s) - Phi((k - 1/2) / s) for
every whole number k, s being the float `scale`: not up to an error, but as real numbers. So a whole number S plus a
draw is S + s xi rounded to a whole number, post-processing of the Gaussian mechanism on S.

Proof. A draw is a fair sign, a cell i and a fraction f that is kept or not, as stated below, and then rounded.
Words of random bits are only ever *compared* with numbers, and a comparison is decided by floats where an enclosure of
both sides says so, otherwise by whole numbers of Python with ever more bits:

1. the cell: 12 bits choose a column of an alias table of whole numbers and 20 bits a position in it; one outcome in
   5 million stands for everything the table leaves out, and is drawn with as many digits as it needs;
2. keeping: v < exp(-t), t = f (2i + f) / 2^17. As exp(-t) >= 1 - t >= 1 - (2i + 1) / 2^17, eleven bits of v decide
   in whole numbers for all but about 1 in 270. For those the alternating series up to t^3 and t^4 encloses exp(-t)
   for 0 <= t <= 1; it is evaluated in double precision, where a dozen operations on numbers below 1 are off by less
   than 2^-48, which is added on both sides;
3. rounding: s (i + f) / 256 + 1/2 is computed with an error that the comments bound, and its whole part is taken where
   both ends of that error agree.

What this needs of the machine: IEEE 754 products, sums and comparisons in double precision, and exact whole numbers. No
logarithm, exponential or root of any library. Bits are as fair as their generator: ChaCha20 in secure runs.

*Cells.* Let i = 0, 1, 2, ... have P(i) = w_i / W with w_i = exp(-i^2 / 2^17) and W their sum, let f be uniform in
(0, 1), and keep the pair with probability exp(-f (2i + f) / 2^17), beginning anew otherwise. Then (i + f) / 256 is the
size of a standard Gaussian: the density of what is kept is proportional to w_i exp(-f (2i + f) / 2^17), which is
exp(-((i + f) / 256)^2 / 2). (Karney 2016 has cells of length 1 and keeps few; cells of 1/256 keep 99.8 %.)

Nothing of that is a float. Weights are whole numbers of 2^-precision between which the true ones lie: products are cut
down, and what was cut off is counted. `CellTable` holds floor(2^32 P(i)) for the first 4,096 cells, as an alias table
of whole numbers (Walker 1977), and one outcome more for what is left of 2^32, 789 of it; `rest_of_cells` says what is
left, cell 4,096 and all later ones included, with as many digits as an answer needs.
"""

from bisect import bisect_right
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.validate import Interval, number, refuse

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


Whole = NDArray[np.int64]
Words = NDArray[np.uint64]

SCALES = Interval(2.0**-40, 2.0**54)
_FRACTION_BITS, _KEEP_BITS = 20, 11
_POSITIONS, _FRACTIONS = np.uint32((1 << POSITION_BITS) - 1), np.uint32((1 << _FRACTION_BITS) - 1)
_KEEPS = np.uint32((1 << _KEEP_BITS) - 1)
_T_BITS = 2 * CELL_BITS + 1
# Eleven bits of v in units of 2^-17, and where they leave doubt.
_T_SHIFT = _FRACTION_BITS - (_T_BITS - _KEEP_BITS)
_T_KEEPS = np.uint32(((1 << _KEEP_BITS) - 1) << (_T_BITS - _KEEP_BITS))
_DOUBT = np.uint32((1 << _T_BITS) - (1 << (_T_BITS - _KEEP_BITS)))
# Up to this scale the 20 bits of a fraction nearly always decide; beyond it a second word gives 53 more.
_ONE_WORD = 2.0**10
_MORE_BITS = 53
_UNIT = 2.0 ** -(CELL_BITS + _FRACTION_BITS)
CHUNK = 1 << 14  # so many at a time stay in a processor's cache
_NO_TAIL = np.uint64(2**64 - 1)


def rounded_gaussians(generator: np.random.Generator, size: int, scale: ArrayLike) -> Whole:
    """So many independent draws; `scale` is one number, or one for each draw.

    Examples:
        >>> import numpy as np
        >>> drawn = rounded_gaussians(np.random.default_rng(0), 100_000, 2.0**40)
        >>> drawn.dtype.name, bool(abs(drawn.std() / 2.0**40 - 1.0) < 0.01)
        ('int64', True)
    """
    scales = checked_scales(scale, size)
    found = np.empty(size, np.int64)
    for first in range(0, size, CHUNK):
        part = slice(first, min(first + CHUNK, size))
        own, given = found[part], scales if scales.ndim == 0 else scales[part]
        places = np.arange(len(own))
        while places.size:  # what is not kept is drawn again
            left = _attempt(generator, places, given if given.ndim == 0 else given[places], own)
            places = _settle(generator, left, given, own)
    return found


def checked_scales(scale: ArrayLike, size: int) -> NDArray[np.float64]:
    """Scales for which whole numbers of 64 bits hold every draw that can be met."""
    scales = np.asarray(scale, np.float64)
    if scales.ndim and scales.shape != (size,):
        raise refuse("the scale of the noise", f"to be one number, or one for each of {size} draws", scales.shape)
    for end in (scales.min(initial=1.0), scales.max(initial=1.0)):
        number("the scale of the noise, in units of the lattice", float(end), SCALES)
    return scales


class _Open(NamedTuple):
    """What floats did not settle: where it stands, its cell, sign and bits, and whether it is surely kept."""

    places: NDArray[np.intp]
    cells: NDArray[np.uint32]
    low: NDArray[np.uint32]
    tails: Words
    doubtful: NDArray[np.bool_]
    sure: NDArray[np.bool_]


def _attempt(
    generator: np.random.Generator, places: NDArray[np.intp], scales: NDArray[np.float64], found: Whole
) -> _Open:
    """Try once for each of these places; answers with those that are open."""
    table, words = cell_table(), _words(generator, len(places))
    high, low = (words >> np.uint64(32)).astype(np.uint32), words.astype(np.uint32)
    columns = (words >> np.uint64(32 + POSITION_BITS)).view(np.int64)
    own = (high & _POSITIONS) < table.thresholds.take(columns, mode="wrap")
    cells = np.where(own, high >> np.uint32(POSITION_BITS), table.others.take(columns, mode="wrap"))
    # Kept whatever the fraction is, where v + 2^-11 <= 1 - (2i + 1) / 2^17; the rest of the cells is never sure.
    keep = (low >> np.uint32(_T_SHIFT)) & _T_KEEPS
    doubtful = keep + (cells << np.uint32(1)) >= _DOUBT
    doubtful |= cells >= np.uint32(COLUMNS - 1)
    heads = ((cells << np.uint32(_FRACTION_BITS)) | (low & _FRACTIONS)).astype(np.float64)
    wide = bool(scales.max(initial=0.0) > _ONE_WORD)
    tails = (_words(generator, len(places)) >> np.uint64(64 - _MORE_BITS)) if wide else None
    sizes, sure = wide_sizes(heads, tails, scales) if tails is not None else _narrow_sizes(heads, scales)
    # Two's complement: turning all bits and adding 1 is the negative.
    minus = (low.view(np.int32) >> np.int32(31)).astype(np.int64)
    sizes ^= minus
    sizes -= minus
    if len(places) and places[-1] - places[0] == len(places) - 1:
        found[places[0] : places[-1] + 1] = sizes
    else:
        found[places] = sizes
    rest = np.flatnonzero(doubtful | ~sure)
    more = np.full(len(rest), _NO_TAIL) if tails is None else tails[rest]
    return _Open(places[rest], cells[rest], low[rest], more, doubtful[rest], sure[rest])


def _settle(generator: np.random.Generator, left: _Open, scales: NDArray[np.float64], found: Whole) -> NDArray[np.intp]:
    """Decide what is open, by floats where they can, otherwise by whole numbers; answers with what is dropped."""
    rest = np.flatnonzero(left.doubtful)
    keep, fractions = (left.low >> np.uint32(_FRACTION_BITS)) & _KEEPS, left.low & _FRACTIONS
    again, undecided = _kept(_words(generator, len(rest)), rest, left.cells, keep, fractions)
    sure = left.sure.copy()
    sure[again] = True  # whatever it is: dropped
    sure[list(undecided)] = True  # settled with the question whether they are kept
    for at, known in (*dict.fromkeys(np.flatnonzero(~sure).tolist()).items(), *undecided.items()):
        place, more, prefix = int(left.places[at]), int(left.tails[at]), (int(fractions[at]), _FRACTION_BITS)
        if more != _NO_TAIL:
            prefix = (prefix[0] << _MORE_BITS) | more, _FRACTION_BITS + _MORE_BITS
        value = settled(
            generator, int(left.cells[at]), prefix, known, float(scales if scales.ndim == 0 else scales[place])
        )
        if value is None:
            again.append(at)
        else:
            found[place] = -value if left.low[at] >> np.uint32(31) else value
    return left.places[sorted(again)]


def _narrow_sizes(heads: NDArray[np.float64], scales: NDArray[np.float64]) -> tuple[Whole, NDArray[np.bool_]]:
    """floor(s (i + f) / 256 + 1/2) from 20 bits of f, and where it is sure."""
    # The product of a whole number below 2^33 and a scale is rounded once, by a share 2^-53; 2^-50 on either side
    # covers that and the rounding of the sum with 1/2 wherever the sum is above 5/8, and below that the answer is 0.
    steps = scales * _UNIT
    values = heads * steps
    most = values + steps
    values *= 1.0 - 2.0**-50
    most *= 1.0 + 2.0**-50
    for ends in (values, most):
        np.add(ends, 0.5, out=ends)
        np.floor(ends, out=ends)
    return values.astype(np.int64), values == most


def wide_sizes(heads: Any, tails: Any, scales: Any, numbers: Any = np) -> tuple[Any, Any]:
    """The same from 73 bits of f, for scales up to 2^54; also on a device."""
    # The scale is taken apart into 21 bits and the rest, so the large product is exact: 32 bits times 21.
    coarse = (scales.view(np.uint64) & np.uint64(2**64 - 2**32)).view(np.float64)
    left = heads * (coarse * _UNIT)
    whole = numbers.floor(left)
    left -= whole
    left += heads * ((scales - coarse) * _UNIT)
    left += tails * (scales * (_UNIT * 2.0**-_MORE_BITS))
    left += 0.5
    # `left` is below s 2^-15 + 3 for cells below 4,096, a sum of four terms with three roundings each at most, and
    # what f has beyond 73 bits adds less than s 2^-80.
    off = 2.0**-49 * (scales * 2.0**-15 + 4.0) + scales * 2.0**-80
    least, most = numbers.floor(left - off), numbers.floor(left + off)
    found = whole.astype(np.int64)
    found += least.astype(np.int64)
    return found, least == most


def kept_between(cell: Any, least: Any) -> tuple[Any, Any]:
    """Both ends of the chance that a cell, and a fraction of which 20 bits are known, are kept."""
    most = least + 2.0**-_FRACTION_BITS
    t_high, t_low = most * (2.0 * cell + most) * 2.0**-_T_BITS, least * (2.0 * cell + least) * 2.0**-_T_BITS
    low = 1.0 - t_high + t_high**2 / 2.0 - t_high**3 / 6.0 - 2.0**-48
    return low, 1.0 - t_low + t_low**2 / 2.0 - t_low**3 / 6.0 + t_low**4 / 24.0 + 2.0**-48


def _kept(
    more: Words, rest: NDArray[np.intp], cells: NDArray[Any], keep: NDArray[np.uint32], fractions: NDArray[np.uint32]
) -> tuple[list[int], dict[int, tuple[int, int]]]:
    """Which doubtful ones are dropped, and which need more bits of v, with the 75 they have; `more` has 64 for each."""
    v = (keep[rest] + more * 2.0**-64) * 2.0**-_KEEP_BITS
    low, high = kept_between(cells[rest].astype(np.float64), fractions[rest] * 2.0**-_FRACTION_BITS)
    known = cells[rest] < COLUMNS - 1
    dropped = known & (v >= high)
    certain = known & (v + 2.0**-50 <= low)
    undecided = np.flatnonzero(~dropped & ~certain)
    held = {int(rest[k]): ((int(keep[rest[k]]) << 64) | int(more[k]), _KEEP_BITS + 64) for k in undecided}
    return rest[dropped].tolist(), held


Known = tuple[int, int]  # what is known of a number's bits, and how many they are


def settled(generator: np.random.Generator, cell: int, fraction: Known, keep: Known | None, scale: float) -> int | None:
    """The size of a draw, in whole numbers with ever more bits, or None if it is dropped; without `keep` it is kept."""
    if cell >= COLUMNS - 1:
        cell = _cell_of_rest(generator)
    while keep is not None:
        (f, f_bits), (v, v_bits) = fraction, keep
        far, near = (part * ((2 * cell << f_bits) + part) for part in (f + 1, f))
        bottom, precision = _T_BITS + 2 * f_bits, v_bits + 16
        if (v + 1) << 16 <= exp_of_minus(far, bottom, precision).low:
            break
        if v << 16 >= exp_of_minus(near, bottom, precision).high:
            return None
        fraction, keep = _longer(generator, fraction), _longer(generator, keep)
    while True:
        f, bits = fraction
        parts = 1 << (bits + CELL_BITS)
        low, high = (Fraction(scale) * Fraction((cell << bits) + f + end, parts) + Fraction(1, 2) for end in (0, 1))
        # Strictly between the ends, but for an event of probability 0.
        if low.__floor__() == high.__ceil__() - 1:
            return low.__floor__()
        fraction = _longer(generator, fraction)


def _longer(generator: np.random.Generator, known: Known) -> Known:
    return (known[0] << 64) | int(_words(generator, 1)[0]), known[1] + 64


def _cell_of_rest(generator: np.random.Generator) -> int:
    """A cell from what the table leaves out: a uniform number below the rest, with digits until its cell is known."""
    known, precision = int(generator.integers(0, cell_table().rest)), 0
    while True:
        for _ in range(2):
            known = (known << 64) | int(_words(generator, 1)[0])
        precision += 128
        # It is in cell i if it is at or above every possible end of cell i - 1 and below every possible one of cell i.
        lows, highs = rest_of_cells(precision)
        cell = bisect_right(lows, known + 1)
        if cell < len(lows) and (not cell or known >= highs[cell - 1]):
            return cell


def _words(generator: np.random.Generator, size: int) -> Words:
    return generator.integers(0, 2**64 - 1, size, dtype=np.uint64, endpoint=True)
