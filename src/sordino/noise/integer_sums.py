"""Exact sums over units on the host: whole numbers whose lengths are checked before they are added.

Statement. `Contributions.total(bound, exponent)` is the sum over units of vectors of whole numbers of 2^exponent, one
for each unit, none longer than the bound *as the whole numbers they are*, whatever computed them. A unit that would
exceed the bound, or whose numbers are not finite, counts as zero. So a wrong clip elsewhere costs accuracy; the
sensitivity of the sum, which follows from the bound and the kind of the contributions (`port.factor`), holds.

Proof. *Lengths.* A unit's vector is the sum of its rows', so it is at most as long as their lengths together. Of
`Tallies` and of `Grams` with one vector a row, lengths are whole numbers that double precision holds. Other lengths are
computed from the whole numbers with a relative error below (D + 16) 2^-52 for D entries (Higham 2002, Section 4.2).
Where that error leaves open whether the bound holds, whole numbers of Python decide (`square`).

*Sums.* Factors are whole numbers of at most 2^20 units, which is checked, so products and sums of up to 8,192 of them
are whole numbers below 2^53: in whatever order a matrix product adds, nothing is rounded. Blocks add up in whole
numbers of 64 bits, which hold 2^23 - 1 records, or of 128 bits (`port.WideSums`), which hold any table.

What is left to show is that a contribution depends on its own unit alone (`whole_rows`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.validate import refuse

COVERED = (
    "noise drawn from fair bits without rounding, added exactly to sums computed exactly from each record alone, and "
    "rounded to a public grid"
)
COVERED_UNITS = COVERED.replace("each record alone", "the records of each unit alone")

Sums = NDArray[np.int64]

DIGITS = 20
PRODUCT_EXPONENT = -2 * DIGITS
ROWS_PER_BLOCK = 2**13
MOST_ROWS = 2**23 - 1
MOST_COLUMNS = 2**13


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
Limits = Sequence[Fraction]
# The whole numbers of some rows, as integers or as floats that hold them.
Block = Callable[[slice], NDArray[Any]]
_LARGEST_FACTOR = 2.0**DIGITS


@dataclass(frozen=True, eq=False)
class Contributions(ABC):
    """What rows add to a sum, in whole numbers, to be checked and added."""

    shape: ClassVar[str] = "vector"
    whole: ClassVar[bool] = False  # whether measures are whole numbers, which floats hold

    rows: int
    units: NDArray[np.intp] | None  # the number of the unit that each row belongs to; None where every row is one

    def total(self, bound: float, exponent: int) -> Sums:
        """The sum over units, in units of 2^exponent; those beyond the bound count as zero."""
        limits = self.limits(Fraction(bound), Fraction(2) ** exponent)
        total, sizes = self._pass(None)
        refused = np.zeros(self.rows, bool)
        for which, (found, limit) in enumerate(zip(sizes, limits, strict=True)):
            refused |= self._beyond(found, limit, which, self.entries(len(total), which))
        return self._pass(~refused)[0] if refused.any() else total

    def limits(self, bound: Fraction, unit: Fraction) -> Limits:
        """What each measure of a unit may be at most, in units."""
        return (bound / unit,)

    @abstractmethod
    def added(self, part: slice, counted: Flags | None) -> tuple[Sums, Sequence[Array]]:
        """The sum over the rows `counted`, and the measures of all, by default lengths; infinite of another kind."""

    @abstractmethod
    def square(self, row: int, which: int) -> int:
        """The square of a row's measure, exactly."""

    def entries(self, size: int, which: int) -> int | None:
        """How many numbers a measure is computed from, of a sum of some size; None where it is a whole number."""
        return None if self.whole or size == 1 else size

    def _pass(self, counted: Flags | None) -> tuple[Sums, list[Array]]:
        total, sizes = None, list[Sequence[Array]]()
        for first in range(0, max(1, self.rows), ROWS_PER_BLOCK):
            part = slice(first, min(first + ROWS_PER_BLOCK, self.rows))
            with np.errstate(invalid="ignore", over="ignore"):  # numbers that are not finite are refused here
                found, measured = self.added(part, None if counted is None else counted[part])
            total = found if total is None else total + found
            sizes.append(measured)
        return np.asarray(total), [np.concatenate(each) for each in zip(*sizes, strict=True)]

    def _beyond(self, sizes: Array, limit: Fraction, which: int, entries: int | None) -> Flags:
        """The rows of units whose sizes add up to more than the limit."""
        if self.units is None:
            sums, most = sizes, 1
        else:
            counts = np.bincount(self.units)
            sums, most = np.bincount(self.units, sizes, len(counts)), int(counts.max(initial=1))
        if entries is None:
            within = sums <= math.floor(limit)
        else:
            off = (entries + most + 16) * 2.0**-52
            within = sums * (1.0 + off) <= float(limit)
            for unit in np.flatnonzero(~within & (sums * (1.0 - off) <= float(limit))).tolist():
                within[unit] = self._exactly_within(unit, which, limit)
        return ~within if self.units is None else ~within[self.units]

    def _exactly_within(self, unit: int, which: int, limit: Fraction) -> bool:
        if self.units is None:
            return self.square(unit, which) <= limit * limit
        # Roots are rounded up to whole numbers of 2^-64.
        rows = np.flatnonzero(self.units == unit).tolist()
        return sum(math.isqrt(self.square(row, which) << 128) + 1 for row in rows) <= limit * 2**64


def _counted(values: NDArray[Any], counted: Flags | None) -> NDArray[Any]:
    """The values of the rows that are counted, and zeros in the place of the others."""
    if counted is None:
        return values
    return np.where(counted.reshape(-1, *(1,) * (values.ndim - 1)), values, 0)


def _square_of(numbers: NDArray[Any]) -> int:
    return sum(int(number) ** 2 for number in numbers)


@dataclass(frozen=True, eq=False)
class Vectors(Contributions):
    """A vector of each row, at most as long as the bound."""

    numbers: Block

    def added(self, part: slice, counted: Flags | None) -> tuple[Sums, Sequence[Array]]:
        found = self.numbers(part).astype(np.int64)
        return _counted(found, counted).sum(axis=0), self.measures(found)

    def measures(self, found: Sums) -> Sequence[Array]:
        return (lengths_of(found),)

    def square(self, row: int, which: int) -> int:
        return _square_of(self.numbers(slice(row, row + 1)).astype(np.int64)[0])


def lengths_of(found: Sums) -> Array:
    """Lengths of rows of whole numbers; of a single number its size."""
    values = found.astype(np.float64)
    return np.abs(values[:, 0]) if values.shape[1] == 1 else np.sqrt(np.einsum("ij,ij->i", values, values))


@dataclass(frozen=True, eq=False)
class Nonnegative(Vectors):
    """Vectors without a negative entry, so that inner products of two of them are not negative."""

    shape: ClassVar[str] = "nonnegative"

    def measures(self, found: Sums) -> Sequence[Array]:
        return (np.where((found >= 0).all(axis=1), lengths_of(found), np.inf),)


@dataclass(frozen=True, eq=False)
class Cones(Vectors):
    """Numbers n >= 0 and as many values v, |v| <= n one by one; a row's n add up to its weight.

    So a unit is at most sqrt 2 long, the bound, and inner products n n' + v v' are not negative.
    """

    shape: ClassVar[str] = "nonnegative"
    whole: ClassVar[bool] = True

    values_first: bool = False

    def limits(self, bound: Fraction, unit: Fraction) -> Limits:
        return (1 / unit,)

    def measures(self, found: Sums) -> Sequence[Array]:
        numbers, values = np.split(found, 2, axis=1)[:: -1 if self.values_first else 1]
        return (np.where((np.abs(values) <= numbers).all(axis=1), numbers.sum(axis=1), np.inf),)


@dataclass(frozen=True, eq=False)
class Cubes(Vectors):
    """Vectors of k entries in [0, 1], weighted: two units are at most sqrt k apart, which is the bound."""

    shape: ClassVar[str] = "cube"
    whole: ClassVar[bool] = True

    def limits(self, bound: Fraction, unit: Fraction) -> Limits:
        return (1 / unit,)

    def measures(self, found: Sums) -> Sequence[Array]:
        return (np.where((found >= 0).all(axis=1), found.max(axis=1, initial=0), np.inf),)


@dataclass(frozen=True, eq=False)
class Centred(Vectors):
    """Numbers together at most `radius` long, and sets of 0/1 columns of which one at most is 1, each less a shift.

    A row of a set is h (2 e - 1) or h e, with e zero or a vector with a single 1; the h of a unit add up to at most 1/2
    or 1. So a unit's part is in the convex hull of 0 and of e - 1/2, or of e. The statistic proves how far apart two
    such sums are, and that is the bound.
    """

    shape: ClassVar[str] = "centre"

    columns: NDArray[np.intp]
    radius: float
    sets: Sequence[NDArray[np.intp]]
    shifted: Sequence[bool]

    def limits(self, bound: Fraction, unit: Fraction) -> Limits:
        return (Fraction(self.radius) / unit, *(Fraction(1, 2 if shift else 1) / unit for shift in self.shifted))

    def measures(self, found: Sums) -> Sequence[Array]:
        sizes = [lengths_of(found[:, self.columns]) if len(self.columns) else np.zeros(len(found))]
        for places, shift in zip(self.sets, self.shifted, strict=True):
            own = found[:, places]
            largest = np.abs(own).max(axis=1)
            alike = (np.abs(own) == largest[:, None]).all(axis=1) if shift else (own >= 0).all(axis=1)
            sizes.append(np.where(alike & ((own > 0).sum(axis=1) <= 1), largest, np.inf))
        return sizes

    def square(self, row: int, which: int) -> int:
        return _square_of(self.numbers(slice(row, row + 1))[0][self.columns])

    def entries(self, size: int, which: int) -> int | None:
        return None if which or len(self.columns) == 1 else len(self.columns)


@dataclass(frozen=True, eq=False)
class Tallies(Contributions):
    """A weight at one of several places: a histogram. Lengths of a unit are at most its weights together."""

    shape: ClassVar[str] = "nonnegative"
    whole: ClassVar[bool] = True

    places: NDArray[np.intp]
    weights: Block
    size: int

    def added(self, part: slice, counted: Flags | None) -> tuple[Sums, Sequence[Array]]:
        weights = self.weights(part).astype(np.float64)
        found = np.bincount(self.places[part], _counted(weights, counted), self.size)[: self.size].astype(np.int64)
        return found, (np.where(weights >= 0.0, weights, np.inf),)

    def square(self, row: int, which: int) -> int:
        return int(self.weights(slice(row, row + 1))[0]) ** 2


@dataclass(frozen=True, eq=False)
class Grams(Contributions):
    """The sum of v v' over the one or `several` vectors v of a row: positive semidefinite, upper triangle."""

    shape: ClassVar[str] = "matrix"

    vectors: Block
    several: int = 1

    def added(self, part: slice, counted: Flags | None) -> tuple[Sums, Sequence[Array]]:
        found = self.vectors(part)
        several = found if found.ndim == 3 else found[:, None]
        kept = _counted(several, counted)
        total = np.sum([products(kept[:, k], kept[:, k]) for k in range(several.shape[1])], axis=0)
        if self.several == 1:
            lengths = np.einsum("rd,rd->r", several[:, 0], several[:, 0])
        else:
            alike = np.einsum("rkd,rld->rkl", several, several)
            lengths = np.sqrt(np.einsum("rkl,rkl->r", alike, alike))
        return total[np.triu_indices(len(total))], (_with_factors(lengths, found),)

    def square(self, row: int, which: int) -> int:
        found = self.vectors(slice(row, row + 1))[0]
        several = [[int(number) for number in one] for one in np.atleast_2d(found)]
        return sum(sum(a * b for a, b in zip(one, two, strict=True)) ** 2 for one in several for two in several)

    def entries(self, size: int, which: int) -> int | None:
        return None if self.several == 1 else self.several**2


@dataclass(frozen=True, eq=False)
class Pairs(Grams):
    """Grams of (x, y), x at most 1 long and y one number in [-1, 1]: the entries of x x', then y x and y^2."""

    def limits(self, bound: Fraction, unit: Fraction) -> Limits:
        return (1 / unit, 1 / unit)

    def added(self, part: slice, counted: Flags | None) -> tuple[Sums, Sequence[Array]]:
        total, found = super().added(part, counted)[0], self.vectors(part)
        last = np.triu_indices(found.shape[1])[1] == found.shape[1] - 1
        squares = np.einsum("rd,rd->r", found[:, :-1], found[:, :-1]), found[:, -1] ** 2
        return np.concatenate([total[~last], total[last]]), [_with_factors(square, found) for square in squares]


@dataclass(frozen=True, eq=False)
class SharedGrams(Grams):
    """The sum of (v w) v', upper triangle, w a share and v w cut to whole numbers: a vector of length w |v|^2."""

    shape: ClassVar[str] = "vector"

    weights: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def added(self, part: slice, counted: Flags | None) -> tuple[Sums, Sequence[Array]]:
        found, weights = self.vectors(part), self.weights[part] * 2.0**-DIGITS
        left = np.trunc(found * _counted(weights, counted)[:, None])
        lengths = np.einsum("rd,rd->r", found, found) * np.where(weights >= 0.0, weights, np.inf)
        total = products(left, _counted(found, counted))
        return total[np.triu_indices(len(total))], (_with_factors(lengths, found),)

    def square(self, row: int, which: int) -> int:
        found = self.vectors(slice(row, row + 1))[0]
        length = Fraction(_square_of(found) * int(self.weights[row]), 2**DIGITS)
        return math.ceil(length * length)

    def entries(self, size: int, which: int) -> int:
        return 4


@dataclass(frozen=True, eq=False)
class Outers(Contributions):
    """The matrix z v' of each row, flat: its length is that of z times that of v."""

    left: Block
    right: Block

    def added(self, part: slice, counted: Flags | None) -> tuple[Sums, Sequence[Array]]:
        left, right = self.left(part), self.right(part)
        squares = [np.einsum("rd,rd->r", side, side) for side in (left, right)]
        lengths = _with_factors(_with_factors(np.sqrt(squares[0]) * np.sqrt(squares[1]), left), right)
        return products(_counted(left, counted), _counted(right, counted)).ravel(), (lengths,)

    def square(self, row: int, which: int) -> int:
        part = slice(row, row + 1)
        return math.prod(_square_of(side(part)[0]) for side in (self.left, self.right))

    def entries(self, size: int, which: int) -> int:
        return 4


def _with_factors(lengths: Array, found: Array) -> Array:
    """Infinite where a factor is beyond what products add without rounding."""
    largest = np.abs(found).max(axis=tuple(range(1, found.ndim)), initial=0.0)
    return np.where(largest <= _LARGEST_FACTOR, lengths, np.inf)
