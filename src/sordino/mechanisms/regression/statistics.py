"""Every statistic of columns and targets: what rows add to it, in whole numbers, and how far one unit moves it.

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

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.data.scaling import row_lengths
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.noised import BINS, EDGES
from sordino.mechanisms.regression.rows import Frame, UnitRows, exponent_of
from sordino.noise import integer_sums as exact
from sordino.noise.integer_sums import DIGITS, Contributions, Nonnegative
from sordino.noise.port import FINE, Statistic
from sordino.noise.whole_rows import INSIDE, shorten

# The centre's numbers are shortened to this share of the half-diagonal of their box: corners are rare.
CENTRE_SHARE = 0.75
# Means over a unit's rows are cut row by row; this much covers 4,096 rows of 8,192 columns.
_CUT = 2.0**-14


def weigh(lengths: Array, tau: float | Array, far: float | Array) -> Array:
    """min(1, tau / length, tau far / length^2)."""
    safe = np.maximum(lengths, 1e-300)
    return np.minimum(1.0, np.minimum(tau / safe, (tau / safe) * (far / safe)))


def _whole(values: Array) -> exact.Sums:
    """Numbers of size at most 1, or a little more, as whole numbers of 2^-FINE."""
    return np.trunc(np.ldexp(values, FINE)).astype(np.int64)


def tallies(rows: UnitRows, places: NDArray[np.intp], bins: int) -> exact.Tallies:
    """Masses by place."""
    return exact.Tallies(len(rows.y), rows.unit_of_row, places, lambda part: _whole(rows.mass(part)), bins)


def vectors(
    rows: UnitRows, values: Array, kind: Callable[..., Contributions] = exact.Vectors, **more: object
) -> Contributions:
    """Masses times vectors that are at most about 1 long."""
    return kind(len(rows.y), rows.unit_of_row, lambda part: _whole(values[part] * rows.mass(part)[:, None]), **more)


class Histogram(Statistic):
    """How many rows have a size in each bin: one bin a row, so the bound is 1. Sizes above `most` are in the last."""

    shape = "nonnegative"
    most: float

    @property
    def size(self) -> int:
        return BINS

    @abstractmethod
    def sizes(self, rows: UnitRows) -> Array:
        """The sizes of all rows."""

    def contributions(self, rows: UnitRows) -> Contributions:
        places = np.searchsorted(self.most * EDGES[1:-1], self.sizes(rows), side="right")
        return tallies(rows, np.clip(places, 0, BINS - 1), BINS)


class Products(Statistic):
    """The sum of v v' for vectors that are shortened to `cut`: positive semidefinite, bound cut^2."""

    shape = "matrix"

    @property
    def cut(self) -> float:
        return math.sqrt(self.bound)  # exact: the root of a rounded square is what was squared

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(self.cut) - DIGITS)

    def grams(self, rows: UnitRows, values: Array) -> exact.Grams:
        """v v' times masses, for v that are short enough."""
        exponent = exponent_of(self.cut)
        return exact.Grams(
            len(rows.y),
            rows.unit_of_row,
            lambda part: exact.digits(values[part] * np.sqrt(rows.mass(part))[:, None], exponent),
        )


class Centre(Statistic):
    """The sum of encoded rows less `declaration.shifts`, numbers together shortened to `radius`.

    Numbers move by 2 r (replace-one) or r. A 0/1 column less one half is at most 1/2 long and moves by at most 1. At
    most one of a category's L columns is 1: less one half each they are sqrt(L) / 2 long, unshifted at most 1, and two
    levels are at most sqrt 2 apart. The parts are orthogonal, so squares add up. A unit's mean lies in the convex hull
    of such rows, whose diameter and greatest length are the same. With survey weights it lies in the hull of these and
    0, which is no further from any row than two rows can be: r, 1/2, and at most 1 for a category.
    """

    shape = "centre"
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

    def contributions(self, rows: UnitRows) -> Contributions:
        numbers, sets, radius = self.declaration.numbers, self.declaration.sets, self.radius(self.declaration)
        centred = rows.x - self.declaration.shifts
        if len(numbers):
            centred[:, numbers] = shorten(centred[:, numbers], radius)
        shifted = [bool(self.declaration.shifts[places[0]]) for places in sets]
        return vectors(rows, centred, exact.Centred, columns=numbers, radius=radius, sets=sets, shifted=shifted)


class OfColumns(Statistic):
    """A statistic of columns (x - c) / s."""

    centre: Array
    spread: Array

    @property
    def size(self) -> int:
        return len(self.centre)

    def scaled(self, rows: UnitRows) -> Array:
        return (rows.x - self.centre) / self.spread


class ColumnSizes(Histogram, OfColumns):
    """A histogram of |((x - c) / s)^power|, a row's length with every entry to that power."""

    power: int

    def sizes(self, rows: UnitRows) -> Array:
        return row_lengths(self.scaled(rows) ** self.power)


class Squares(OfColumns):
    """The sum of squared columns (x - c)^2, each row's vector shortened to `cut`, over `cut`: entries >= 0, bound 1."""

    shape = "nonnegative"
    cut: float

    def contributions(self, rows: UnitRows) -> Contributions:
        return vectors(rows, shorten(self.scaled(rows) ** 2, self.cut) / self.cut, Nonnegative)


class Scatter(Products, OfColumns):
    """The sum of u u', u = (x - c) / s shortened to `cut`: bound cut^2."""

    def contributions(self, rows: UnitRows) -> Contributions:
        return self.grams(rows, shorten(self.scaled(rows), self.cut))


class Lengths(Histogram):
    """A histogram of the lengths of whitened rows."""

    frame: Frame

    def sizes(self, rows: UnitRows) -> Array:
        return rows.whitened(self.frame).lengths


class Again(Products):
    """The sum of z z' for whitened rows shortened to `cut`, the intercept included: bound cut^2."""

    frame: Frame

    @property
    def size(self) -> int:
        return 1 + self.frame.whitening.shape[1]

    def contributions(self, rows: UnitRows) -> Contributions:
        given = rows.whitened(self.frame)
        short = np.minimum(given.lengths, INSIDE * self.cut) * 2.0**-DIGITS
        return self.grams(rows, given.directions * short[:, None])


class TargetSizes(Histogram):
    """A histogram of |y|."""

    def sizes(self, rows: UnitRows) -> Array:
        return np.abs(rows.y)


class TargetMean(Statistic):
    """The sum of (y - middle) / cut, cut to plus and minus 1: one number, bound 1."""

    middle: float
    cut: float

    def contributions(self, rows: UnitRows) -> Contributions:
        return vectors(rows, np.clip((rows.y - self.middle) / self.cut, -1.0, 1.0)[:, None])


class ClassCounts(Statistic):
    """How many rows every class has: bound 1, one class a row."""

    shape = "nonnegative"
    classes: int

    @property
    def size(self) -> int:
        return self.classes

    def contributions(self, rows: UnitRows) -> Contributions:
        return tallies(rows, rows.y.astype(np.intp), self.classes)


class CountsAndExposure(Statistic):
    """The sums of min(y, cut) / cut and of exposure over its largest: two numbers of 0 to 1, bound sqrt 2."""

    shape = "nonnegative"
    cut: float
    longest: float

    @property
    def size(self) -> int:
        return 2

    def contributions(self, rows: UnitRows) -> Contributions:
        both = np.column_stack([np.minimum(rows.y / self.cut, 1.0), np.minimum(rows.exposure / self.longest, 1.0)])
        return vectors(rows, both, Nonnegative)
