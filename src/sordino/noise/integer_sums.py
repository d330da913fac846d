"""Exact sums over units on the host: whole numbers whose lengths are checked before they are added.

Statement. `Contributions.total(bound, exponent)` is the sum over units of vectors of whole numbers of 2^exponent, one
for each unit, none longer than the bound *as the whole numbers they are*, whatever computed them. A unit that would
exceed the bound, or whose numbers are not finite, counts as zero. So a wrong clip elsewhere costs accuracy; the
sensitivity of the sum, which follows from the bound and the kind of the contributions (`port.factor`), holds.

Proof. *Lengths.* A unit's vector is the sum of its rows', so it is at most as long as their lengths together. Of
`tallies` and of `grams` with one vector a row, lengths are whole numbers that double precision holds. Other lengths are
computed from the whole numbers with a relative error below (D + 16) 2^-52 for D entries (Higham 2002, Section 4.2).
Where that error leaves open whether the bound holds, whole numbers of Python decide (`_exactly`).

*Sums.* Factors are whole numbers of at most 2^20 units, which is checked, so products and sums of up to 8,192 of them
are whole numbers below 2^53: in whatever order a matrix product adds, nothing is rounded. Blocks add up in whole
numbers of 64 bits, which hold 2^23 - 1 records, or of 128 bits (`port.wide`), which hold any table.

What is left to show is that a contribution depends on its own unit alone. Per-record numbers come from elementwise
operations, which IEEE 754 rounds correctly, or from products of whole numbers, which nothing rounds. Lengths have a
relative error below 2^-40 (for at most 8,192 columns); contributions are scaled to that much less than their bound.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns

COVERED = (
    "noise drawn from fair bits without rounding, added exactly to sums computed exactly from each record alone, and "
    "rounded to a public grid"
)
COVERED_UNITS = COVERED.replace("each record alone", "the records of each unit alone")

Sums = NDArray[np.int64]

DIGITS = 20
PRODUCT_EXPONENT = -2 * DIGITS
ROWS_PER_BLOCK = MOST_COLUMNS = 2**13
MOST_ROWS = 2**23 - 1


def check_size(X: Array) -> None:
    """Refuse what exact sums cannot hold."""
    if len(X) > MOST_ROWS:
        # How many there are is private where records may be added or removed.
        raise refuse("the number of rows", f"to be at most {MOST_ROWS}", "more", "release it in parts")
    if X.shape[1] > MOST_COLUMNS:
        raise refuse("the number of encoded columns", f"to be at most {MOST_COLUMNS}", X.shape[1])


def digits(values: Array, exponent: int = 0) -> Array:
    """Values of size at most 2^exponent as whole numbers of 2^(exponent - 20), cut off towards 0."""
    return np.trunc(values * math.ldexp(1.0, DIGITS - exponent))


def products(left: Array, right: Array) -> Sums:
    """Sums over the rows of a block of left times right, exact; both hold whole numbers of at most 2^20."""
    if len(left) > ROWS_PER_BLOCK:
        raise refuse("the rows of a block", f"to be at most {ROWS_PER_BLOCK}", len(left))
    return (left.T @ right).astype(np.int64)


Flags = NDArray[np.bool_]
Numbers = NDArray[Any]
Units = NDArray[np.intp] | None  # the number of the unit that each row belongs to; None where every row is one
Block = Callable[[slice], Numbers]  # the whole numbers of some rows, as integers or as floats that hold them
_LARGEST_FACTOR = 2.0**DIGITS
_ROOT_BITS = 64
_total = partial(np.sum, axis=0)


class Measure(NamedTuple):
    """What of each row is bounded, by default a length, and in how many roundings; none where it is a whole number."""

    sizes: Numbers
    roundings: int = 0

    def where(self, allowed: Any) -> "Measure":
        """Infinite for rows of another kind."""
        return self._replace(sizes=np.where(allowed, self.sizes, np.inf))


@dataclass(frozen=True, eq=False)
class Contributions:
    """What rows add to a sum, in whole numbers, to be checked and added."""

    shape: str
    rows: int
    units: Units
    read: Callable[[slice], tuple[Numbers, ...]]
    measures: Sequence[Callable[..., Measure]]  # of the rows that were read, also as whole numbers of Python
    summed: Callable[..., Sums]  # over the rows that were read; those that do not count are zeros
    limits: Sequence[float] = ()  # what each measure of a unit may be at most; by default the bound

    def total(self, bound: float, exponent: int) -> Sums:
        """The sum over units, in units of 2^exponent; those beyond the bound count as zero."""
        total, measures = self._pass(None)
        refused = np.zeros(self.rows, bool)
        for which, limit in enumerate(self.limits or (bound,)):
            refused |= self._beyond(Fraction(limit) / Fraction(2) ** exponent, which, [one[which] for one in measures])
        return self._pass(~refused)[0] if refused.any() else total

    def _pass(self, counted: Flags | None) -> tuple[Sums, list[list[Measure]]]:
        total, measures = 0, list[list[Measure]]()
        for first in range(0, max(1, self.rows), ROWS_PER_BLOCK):
            part = slice(first, min(first + ROWS_PER_BLOCK, self.rows))
            with np.errstate(invalid="ignore", over="ignore"):  # numbers that are not finite are refused here
                found = self.read(part)
                measures.append([measure(*found) for measure in self.measures])
                total = total + self.summed(*(found if counted is None else only(found, counted[part])))
        return np.asarray(total), measures

    def _beyond(self, limit: Fraction, which: int, blocks: Sequence[Measure]) -> Flags:
        """The rows of units whose sizes add up to more than the limit."""
        sizes, roundings, most = np.concatenate([one.sizes for one in blocks]), blocks[0].roundings, 1
        if self.units is not None:
            counts = np.bincount(self.units)
            sizes, most = np.bincount(self.units, sizes, len(counts)), int(counts.max(initial=1))
        if not roundings:
            within = sizes <= math.floor(limit)
        else:
            off = (roundings + most + 16) * 2.0**-52
            within = sizes * (1.0 + off) <= float(limit)
            for unit in np.flatnonzero(~within & (sizes * (1.0 - off) <= float(limit))).tolist():
                rows = [unit] if self.units is None else np.flatnonzero(self.units == unit).tolist()
                within[unit] = sum(self._exactly(row, which) for row in rows) <= limit * 2**_ROOT_BITS
        return ~within if self.units is None else ~within[self.units]

    def _exactly(self, row: int, which: int) -> int:
        """A row's length in whole numbers of 2^-64, rounded up."""
        found = (numbers.astype(np.int64).astype(object) for numbers in self.read(slice(row, row + 1)))
        return self.measures[which](*found).sizes[0]


def only(found: Sequence[Numbers], counted: Flags) -> list[Numbers]:
    """What was read, with zeros for rows that do not count."""
    return [np.where(counted.reshape(-1, *(1,) * (one.ndim - 1)), one, 0) for one in found]


def _roots(squares: Numbers, roundings: int, digits: int = 0) -> Measure:
    """Square roots of whole numbers, in units of 2^-digits; of Python's, whole numbers of 2^-64, rounded up."""
    if squares.dtype != object:
        return Measure(np.sqrt(squares) * 2.0**-digits, roundings)
    wide = [square << 2 * (_ROOT_BITS - digits) for square in squares]
    return Measure(np.array([math.isqrt(square - 1) + 1 if square else 0 for square in wide], object), roundings)


def _lengths(found: Numbers) -> Measure:
    """Lengths of rows of whole numbers; of a single number its size."""
    values = found if found.dtype == object else found.astype(np.float64)
    if values.shape[1] == 1:
        return Measure(np.abs(values[:, 0]))
    return _roots(np.einsum("ij,ij->i", values, values), values.shape[1])


def _squares(found: Numbers) -> Numbers:
    return np.einsum("rd,rd->r", found, found)


def _factors(found: Numbers) -> Flags:
    """Rows of numbers that products add without rounding."""
    return np.abs(found).max(axis=tuple(range(1, found.ndim)), initial=0.0) <= _LARGEST_FACTOR


def _triangle(total: Sums) -> Sums:
    return total[np.triu_indices(len(total))]


def _whole(numbers: Block, part: slice) -> tuple[Numbers, ...]:
    return (numbers(part).astype(np.int64),)


def vectors(rows: int, units: Units, numbers: Block) -> Contributions:
    """A vector of each row, at most as long as the bound."""
    return Contributions("vector", rows, units, partial(_whole, numbers), (_lengths,), _total)


def nonnegative(rows: int, units: Units, numbers: Block) -> Contributions:
    """Vectors without a negative entry, so that inner products of two of them are not negative."""

    def length(found: Numbers) -> Measure:
        return _lengths(found).where((found >= 0).all(axis=1))

    return Contributions("nonnegative", rows, units, partial(_whole, numbers), (length,), _total)


def cones(rows: int, units: Units, numbers: Block, *, values_first: bool = False) -> Contributions:
    """Numbers n >= 0 and as many values v, |v| <= n one by one; a row's n add up to its weight.

    So a unit is at most sqrt 2 long, the bound, and inner products n n' + v v' are not negative.
    """

    def weight(found: Numbers) -> Measure:
        counts, values = np.split(found, 2, axis=1)[:: -1 if values_first else 1]
        return Measure(counts.sum(axis=1)).where((np.abs(values) <= counts).all(axis=1))

    return Contributions("nonnegative", rows, units, partial(_whole, numbers), (weight,), _total, (1.0,))


def cubes(rows: int, units: Units, numbers: Block) -> Contributions:
    """Vectors of k entries in [0, 1], weighted: two units are at most sqrt k apart, which is the bound."""

    def largest(found: Numbers) -> Measure:
        return Measure(found.max(axis=1, initial=0)).where((found >= 0).all(axis=1))

    return Contributions("cube", rows, units, partial(_whole, numbers), (largest,), _total, (1.0,))


def centred(
    rows: int,
    units: Units,
    numbers: Block,
    columns: NDArray[np.intp],
    radius: float,
    sets: Sequence[tuple[NDArray[np.intp], bool]],
) -> Contributions:
    """Columns together at most `radius` long, and sets of 0/1 columns of which one at most is 1, each less a shift.

    A row of a set is h (2 e - 1) where it is shifted, otherwise h e, with e zero or a vector with a single 1; the h of
    a unit add up to at most 1/2 or 1. So a unit's part is in the convex hull of 0 and of e - 1/2, or of e. The
    statistic proves how far apart two such sums are, and that is the bound.
    """
    measures = (lambda found: _lengths(found[:, columns]), *(partial(_one_of, *one) for one in sets))
    limits = (radius, *(0.5 if shifted else 1.0 for _, shifted in sets))
    return Contributions("centre", rows, units, partial(_whole, numbers), measures, _total, limits)


def _one_of(places: NDArray[np.intp], shifted: bool, found: Numbers) -> Measure:
    """The h of a set."""
    own = found[:, places]
    largest = np.abs(own).max(axis=1)
    alike = (np.abs(own) == largest[:, None]).all(axis=1) if shifted else (own >= 0).all(axis=1)
    return Measure(largest).where(alike & ((own > 0).sum(axis=1) <= 1))


def tallies(rows: int, units: Units, places: NDArray[np.intp], weights: Block, size: int) -> Contributions:
    """A weight at one of several places: a histogram. Lengths of a unit are at most its weights together."""
    return Contributions(
        "nonnegative",
        rows,
        units,
        lambda part: (weights(part).astype(np.float64), places[part]),
        (lambda found, _: Measure(found).where(found >= 0.0),),
        lambda found, at: np.bincount(at, found, size)[:size].astype(np.int64),
    )


def grams(rows: int, units: Units, block: Block, several: int = 1) -> Contributions:
    """The sum of v v' over the one or `several` vectors v of a row: positive semidefinite, upper triangle."""

    def length(found: Numbers) -> Measure:
        if several == 1:
            return Measure(_squares(found if found.ndim == 2 else found[:, 0])).where(_factors(found))
        alike = np.einsum("rkd,rld->rkl", found, found)
        return _roots(np.einsum("rkl,rkl->r", alike, alike), several**2).where(_factors(found))

    def summed(found: Numbers) -> Sums:
        ways = (found,) if found.ndim == 2 else (found[:, k] for k in range(found.shape[1]))
        total = sum(products(each, each) for each in ways)
        return _triangle(np.asarray(total))

    return Contributions("matrix", rows, units, lambda part: (block(part),), (length,), summed)


def pairs(rows: int, units: Units, block: Block) -> Contributions:
    """Grams of (x, y), x at most 1 long and y one number in [-1, 1]: the entries of x x', then y x and y^2."""

    def summed(found: Numbers) -> Sums:
        total = products(found, found)
        return np.concatenate([_triangle(total[:-1, :-1]), total[:, -1]])

    def square(own: slice, found: Numbers) -> Measure:
        return Measure(_squares(found[:, own])).where(_factors(found))

    measures = partial(square, slice(-1)), partial(square, slice(-1, None))
    return Contributions("matrix", rows, units, lambda part: (block(part),), measures, summed, (1.0, 1.0))


def shared_grams(rows: int, units: Units, block: Block, weights: NDArray[np.int64]) -> Contributions:
    """The sum of (v w) v', upper triangle, w a share and v w cut to whole numbers: a vector of length w |v|^2."""

    def length(found: Numbers, shares: Numbers) -> Measure:
        lengths = _squares(found) * shares
        return _roots(lengths * lengths, 4, DIGITS).where(_factors(found) & (shares >= 0))

    def summed(found: Numbers, shares: Numbers) -> Sums:
        return _triangle(products(np.trunc(found * (shares * 2.0**-DIGITS)[:, None]), found))

    return Contributions("vector", rows, units, lambda part: (block(part), weights[part]), (length,), summed)


def outers(rows: int, units: Units, left: Block, right: Block) -> Contributions:
    """The matrix z v' of each row, flat: its length is that of z times that of v."""
    return Contributions(
        "vector",
        rows,
        units,
        lambda part: (left(part), right(part)),
        (lambda z, v: _roots(_squares(z) * _squares(v), 4).where(_factors(z) & _factors(v)),),
        lambda z, v: products(z, v).ravel(),
    )


# What a row adds, from that row alone to the last bit: finite rows, exact products, shortened lengths.
_WEIGHT_DIGITS = 32
ACCURACY = 2.0**-40  # lengths are known to this relative accuracy, so a hair below a bound is within it
INSIDE = 1.0 - ACCURACY
_SHORTEST = 1e-140  # rows below this length count as 0: squares of their entries are no longer accurate
_LARGEST_DOUBLE = 1e150  # sums of squares of this many columns stay within double precision
_FAR = 300
# A float has 52 bits behind its leading one; above them stands the exponent that `frexp` gives, plus 1022.
_MANTISSA, _BIAS = 52, 1022
_EXPONENT_BITS = 0x7FF << _MANTISSA
_NEAREST, _FARTHEST = (_BIAS - _FAR << _MANTISSA), (_BIAS + _FAR << _MANTISSA)


def checked_rows(features: Any, target: Any, dtype: Any = None, *, known: bool = False) -> tuple[Numbers, Numbers]:
    """The rows as arrays, if they are finite numbers, which may be `known`, and one target belongs to each row."""
    # Numbers too large for the precision they are used in, by default JAX's, become the largest it has: a refusal would
    # reveal that one record is there. Squares of double-precision numbers must not overflow, so those end at 1e150.
    X, y = np.asarray(features), np.asarray(target)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise refuse("features", "to be a table of numbers, one row for each record", f"{X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub":
        raise refuse("target", f"to hold one number for each of the {len(X)} rows", f"{y.dtype} of shape {y.shape}")
    used = jnp.zeros(()).dtype if dtype is None else dtype
    return X if known else _within(X, used), _within(y, used)


def _within(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    if values.dtype.kind != "f" or not values.size:
        return values
    size = max(values.max(), -values.min())
    if not np.isfinite(size):
        raise refuse("features and target", "to be finite", "NaN or infinity", "encode the table with a schema first")
    largest = min(float(np.finfo(dtype).max), _LARGEST_DOUBLE)
    return values if size <= largest else np.clip(values, -largest, largest)


def directions(rows: Array, out: Array | None = None) -> tuple[Array, Array]:
    """Each row's direction, of length at most 1, in units of 2^-20, and the row's length; `out` may be the rows."""
    turned, sizes = np.empty_like(rows) if out is None else out, np.empty(len(rows))
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        part = slice(first, first + ROWS_PER_BLOCK)
        found = row_lengths(rows[part])
        stretch = np.where(found > _SHORTEST, INSIDE / np.maximum(found, _SHORTEST), 0.0)
        # Times 2^20 is exact, so it may come first; what is too small for that to be so is cut to 0 either way.
        np.multiply(rows[part], (stretch * 2.0**DIGITS)[:, None], out=turned[part])
        np.trunc(turned[part], out=turned[part])
        sizes[part] = found
    return turned, sizes


def shorten(values: Array, bound: float) -> Array:
    """Rows of length at most `bound`, a hair less; longer ones are shortened."""
    most = INSIDE * bound
    return values * (most / np.maximum(row_lengths(values), most))[:, None]


def shortened(values: Array, bound: float, exponent: int) -> Array:
    """Rows of length at most `bound` <= 2^exponent, longer ones shortened, in units of 2^(exponent - 20)."""
    return digits(shorten(values, bound), exponent)


class ExactWeights(NamedTuple):
    """Weights such that sums of 20 digits times them are exact: of a column whole numbers of `units`."""

    whole: Array
    units: NDArray[np.int32]

    @classmethod
    def of(cls, weights: Array) -> Self:
        """The weights of each column cut to whole numbers whose sizes add up to at most 2^32."""
        units = np.frexp(np.abs(weights).sum(axis=0))[1] - _WEIGHT_DIGITS
        return cls(np.trunc(np.ldexp(weights, -units)), units)


def own_products(rows: Array, weights: Array) -> Array:
    """Rows times weights; a row's products depend on that row and the weights alone, to the last bit."""
    # Rows are cut to 20 digits below the power of two above their largest entry, and sums are exact.
    whole, units = ExactWeights.of(weights)
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    exact = np.trunc(np.ldexp(rows, DIGITS - exponents[:, None])) @ whole
    return np.ldexp(exact, exponents[:, None] - DIGITS + units)


def own_directions(rows: Array, centre: Array, weights: ExactWeights, out: Array) -> Array:
    """Write the `directions` of (1, (x - centre) times weights), cut as in `own_products`; give the rows' lengths."""
    centred = np.subtract(rows, centre, out=empty_columns(*rows.shape))
    room = out[:, 1:] if out.shape[1] == 1 + rows.shape[1] else empty_columns(*rows.shape)
    largest = np.abs(centred, out=room).max(axis=1, initial=0.0)
    bits = largest.view(np.int64) & _EXPONENT_BITS
    if not bits.size or not _NEAREST <= bits.min() <= bits.max() <= _FARTHEST or np.abs(weights.units).max() > _FAR:
        exponents = np.frexp(largest)[1]
        exact = np.trunc(np.ldexp(centred, DIGITS - exponents[:, None])) @ weights.whole
        out[:, 0] = 1.0
        np.ldexp(exact, exponents[:, None] - DIGITS + weights.units, out=out[:, 1:])
        return directions(out, out=out)[1]
    # Within these limits a power of two is a float and times it is exact, so it may stand on either side of products,
    # sums of squares, roots and quotients: rows are scaled once, and what comes of them is the same to the last bit.
    scale = 2.0 ** (DIGITS - 1) / bits.view(np.float64)  # bits of an exponent alone are half the power of two
    np.multiply(centred, scale[:, None], out=centred)
    np.trunc(centred, out=centred)
    out[:, 0] = scale
    np.matmul(centred, np.ldexp(weights.whole, weights.units), out=out[:, 1:])
    found = row_lengths(out)
    np.multiply(out, (INSIDE * 2.0**DIGITS / found)[:, None], out=out)
    np.trunc(out, out=out)
    return np.divide(found, scale, out=found)
