"""Every statistic that a fit releases: what rows add to it, in whole numbers, and how far one unit moves it.

`noise.port.Statistic` says how far one unit moves a sum of each shape, and proves it; *centre*: see `Centre`.

*Floating point.* Contributions are computed from one row (or one unit's rows) and public numbers, by elementwise
operations and exact products. They are shortened a hair below their bound and cut towards 0 to whole numbers of a
public unit; `noise.integer_sums` checks their lengths as whole numbers and adds them. So the sums *as computed* have
the stated sensitivity. That exponentials and the like are the same wherever a number stands is no theorem about NumPy:
tests compare bits.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.rows import UnitRows
from sordino.mechanisms.regression.tails import BINS, EDGES
from sordino.noise.integer_sums import (
    DIGITS,
    Centred,
    Contributions,
    Grams,
    Nonnegative,
    Sums,
    Tallies,
    Vectors,
    digits,
)
from sordino.noise.port import FINE, Statistic
from sordino.noise.whole_rows import INSIDE, ExactWeights, own_directions

# The centre's numbers are shortened to this share of the half-diagonal of their box: corners are rare.
CENTRE_SHARE = 0.75
# Means over a unit's rows are cut row by row; this much covers 4,096 rows of 8,192 columns.
_CUT = 2.0**-14


def exponent_of(bound: float) -> int:
    """The exponent of the power of two above a bound."""
    return math.frexp(bound)[1]


def whole(values: Array) -> Sums:
    """Numbers of size at most 1, or a little more, as whole numbers of 2^-FINE."""
    return np.trunc(np.ldexp(values, FINE)).astype(np.int64)


def shorten(values: Array, bound: float) -> Array:
    """Rows of length at most `bound`, a hair less; longer ones are shortened."""
    most = INSIDE * bound
    return values * (most / np.maximum(row_lengths(values), most))[:, None]


def weigh(lengths: Array, tau: float | Array, far: float | Array) -> Array:
    """min(1, tau / length, tau far / length^2)."""
    safe = np.maximum(lengths, 1e-300)
    return np.minimum(1.0, np.minimum(tau / safe, (tau / safe) * (far / safe)))


@dataclass(frozen=True, eq=False)
class Frame:
    """Where rows are centred, and the matrix that whitens them: z = (1, (x - centre) W)."""

    centre: Array
    whitening: Array


class Whitened:
    """Whitened rows: directions, in 20 digits, and lengths."""

    def __init__(self, rows: UnitRows, frame: Frame) -> None:
        self.rows, self.frame = rows, frame
        # Column by column in memory: most of what follows is done entry by entry, for many rows at once.
        self.directions = empty_columns(len(rows.y), 1 + frame.whitening.shape[1])
        self.lengths = np.empty(len(rows.y))
        weights = ExactWeights.of(frame.whitening)
        for part in rows.blocks():
            own = self.directions[part]
            self.lengths[part] = own_directions(rows.x[part], frame.centre, weights, out=own)

    def scores(self, theta: Array, part: slice) -> Array:
        """z'theta for every output; the same to the last bit wherever a row stands."""
        longest = float(np.sqrt(np.sum(theta * theta, axis=0)).max())
        unit = math.frexp(longest)[1] - 32
        cut = np.trunc(np.ldexp(theta, -unit))
        return (self.directions[part] @ cut) * math.ldexp(1.0, unit - DIGITS) * self.lengths[part, None]


def masses(rows: UnitRows, places: NDArray[np.intp], bins: int) -> Tallies:
    """Masses by place."""
    return Tallies(len(rows.y), rows.unit_of_row, places, lambda part: whole(rows.mass(part)), bins)


def weighted(rows: UnitRows, values: Array) -> Callable[[slice], Sums]:
    """Masses times vectors that are at most about 1 long, in whole numbers."""
    return lambda part: whole(values[part] * rows.mass(part)[:, None])


def grams(rows: UnitRows, values: Array, exponent: int) -> Grams:
    """v v' times masses, in units of 2^(2 exponent - 40)."""
    return Grams(
        len(rows.y),
        rows.unit_of_row,
        lambda part: digits(values[part] * np.sqrt(rows.mass(part))[:, None], exponent),
    )


@dataclass(frozen=True, eq=False)
class Histogram(Statistic):
    """How many rows have a size in each bin: one bin a row, so the bound is 1. Sizes above `most` are in the last."""

    shape: ClassVar[str] = "nonnegative"

    @property
    def size(self) -> int:
        return BINS

    @abstractmethod
    def sizes(self, rows: UnitRows, known: Whitened | None) -> tuple[Array, float]:
        """The sizes of all rows, and the largest that is distinguished."""

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        sizes, most = self.sizes(rows, known)
        places = np.clip(np.searchsorted(most * EDGES[1:-1], sizes, side="right"), 0, BINS - 1)
        return masses(rows, places, BINS)


@dataclass(frozen=True, eq=False)
class Products(Statistic):
    """The sum of v v' for vectors that are shortened to `cut`: positive semidefinite, bound cut^2."""

    shape: ClassVar[str] = "matrix"

    cut: float

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(self.cut) - DIGITS)


# ----------------------------------------------------------------------------------------------------------- columns


@dataclass(frozen=True, eq=False)
class Centre(Statistic):
    """The sum of encoded rows less `declaration.shifts`, numbers together shortened to `radius`.

    Numbers move by 2 r (replace-one) or r. A 0/1 column less one half is at most 1/2 long and moves by at most 1. At
    most one of a category's L columns is 1: less one half each they are sqrt(L) / 2 long, unshifted at most 1, and two
    levels are at most sqrt 2 apart. The parts are orthogonal, so squares add up. A unit's mean lies in the convex hull
    of such rows, whose diameter and greatest length are the same. With survey weights it lies in the hull of these and
    0, which is no further from any row than two rows can be: r, 1/2, and at most 1 for a category.
    """

    shape: ClassVar[str] = "centre"

    declaration: Declaration

    @classmethod
    def declared(cls, declaration: Declaration, relation: Relation) -> "Centre":
        """The statistic with its bound, which is the sensitivity itself."""
        radius, replaced = cls.radius(declaration), relation is Relation.REPLACE_ONE
        squares = (2.0 * radius if replaced else radius) ** 2
        for places in declaration.sets:
            if replaced:
                squares += 1.0 if len(places) == 1 else 2.0
            else:
                squares += len(places) / 4.0 if declaration.shifts[places[0]] else 1.0
        return cls("centre", math.sqrt(squares) * (1.0 + _CUT if declaration.unit else 1.0 + 2.0**-40), declaration)

    @staticmethod
    def radius(declaration: Declaration) -> float:
        """The length that the numbers of a row are shortened to."""
        return CENTRE_SHARE * math.sqrt(len(declaration.numbers))

    @property
    def size(self) -> int:
        return self.declaration.columns

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        numbers, radius = self.declaration.numbers, self.radius(self.declaration)
        centred = rows.x - self.declaration.shifts
        if len(numbers):
            centred[:, numbers] = shorten(centred[:, numbers], radius)
        sets = self.declaration.sets
        shifted = [bool(self.declaration.shifts[places[0]]) for places in sets]
        return Centred(len(rows.y), rows.unit_of_row, weighted(rows, centred), numbers, radius, sets, shifted)


def _scaled(rows: UnitRows, centre: Array, spread: Array, power: int) -> Array:
    """Columns (x - c) / s, or their squares."""
    centred = (rows.x - centre) / spread
    return centred * centred if power == 2 else centred


@dataclass(frozen=True, eq=False)
class ColumnSizes(Histogram):
    """A histogram of |((x - c) / s)^power|, a row's length with every entry to that power."""

    centre: Array
    spread: Array
    power: int
    most: float

    def sizes(self, rows: UnitRows, known: Whitened | None) -> tuple[Array, float]:
        return row_lengths(_scaled(rows, self.centre, self.spread, self.power)), self.most


@dataclass(frozen=True, eq=False)
class Squares(Statistic):
    """The sum of squared columns (x - c)^2, each row's vector shortened to `cut`, over `cut`: entries >= 0, bound 1."""

    shape: ClassVar[str] = "nonnegative"

    centre: Array
    spread: Array
    cut: float

    @property
    def size(self) -> int:
        return len(self.centre)

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        squares = _scaled(rows, self.centre, self.spread, 2)
        return Nonnegative(len(rows.y), rows.unit_of_row, weighted(rows, shorten(squares, self.cut) / self.cut))


@dataclass(frozen=True, eq=False)
class Scatter(Products):
    """The sum of u u', u = (x - c) / s shortened to `cut`: bound cut^2."""

    centre: Array
    spread: Array

    @property
    def size(self) -> int:
        return len(self.centre)

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        scaled = _scaled(rows, self.centre, self.spread, 1)
        return grams(rows, shorten(scaled, self.cut), exponent_of(self.cut))


@dataclass(frozen=True, eq=False)
class OfWhitened(Statistic):
    """What all statistics of whitened rows have: the frame in which rows are whitened."""

    frame: Frame

    def whitened(self, rows: UnitRows, known: Whitened | None = None) -> Whitened:
        if known is not None and known.frame is self.frame and known.rows is rows:
            return known
        return Whitened(rows, self.frame)


@dataclass(frozen=True, eq=False)
class Lengths(OfWhitened, Histogram):
    """A histogram of the lengths of whitened rows."""

    most: float

    def sizes(self, rows: UnitRows, known: Whitened | None) -> tuple[Array, float]:
        return self.whitened(rows, known).lengths, self.most


@dataclass(frozen=True, eq=False)
class Again(Products, OfWhitened):
    """The sum of z z' for whitened rows shortened to `cut`, the intercept included: bound cut^2."""

    @property
    def size(self) -> int:
        return 1 + self.frame.whitening.shape[1]

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        given = self.whitened(rows, known)
        short = np.minimum(given.lengths, INSIDE * self.cut) * 2.0**-DIGITS
        return grams(rows, given.directions * short[:, None], exponent_of(self.cut))


# ------------------------------------------------------------------------------------------------------------ targets


@dataclass(frozen=True, eq=False)
class TargetSizes(Histogram):
    """A histogram of |y - middle|."""

    middle: float
    most: float

    def sizes(self, rows: UnitRows, known: Whitened | None) -> tuple[Array, float]:
        return np.abs(rows.y - self.middle), self.most


@dataclass(frozen=True, eq=False)
class TargetMean(Statistic):
    """The sum of (y - middle) / cut, cut to plus and minus 1: one number, bound 1."""

    middle: float
    cut: float

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        inside = np.clip((rows.y - self.middle) / self.cut, -1.0, 1.0)
        return Vectors(len(rows.y), rows.unit_of_row, weighted(rows, inside[:, None]))


@dataclass(frozen=True, eq=False)
class ClassCounts(Statistic):
    """How many rows every class has: bound 1, one class a row."""

    shape: ClassVar[str] = "nonnegative"

    classes: int

    @property
    def size(self) -> int:
        return self.classes

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        return masses(rows, rows.y.astype(np.intp), self.classes)


@dataclass(frozen=True, eq=False)
class CountsAndExposure(Statistic):
    """The sums of min(y, cut) / cut and of exposure over its largest: two numbers of 0 to 1, bound sqrt 2."""

    shape: ClassVar[str] = "nonnegative"

    cut: float
    longest: float

    @property
    def size(self) -> int:
        return 2

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        both = np.column_stack([np.minimum(rows.y / self.cut, 1.0), np.minimum(rows.exposure / self.longest, 1.0)])
        return Nonnegative(len(rows.y), rows.unit_of_row, weighted(rows, both))
