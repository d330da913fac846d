"""Every statistic that a fit releases: what rows add to it, in whole numbers, and the most that one unit can add.

`noise.port.Statistic` says how far one unit moves a sum of each shape, and proves it; *centre*: see `Centre`. Bounds of
what rows say at a point follow from the weights of `FitRound`, which see columns alone, and from the family's bounds.

*Floating point.* Contributions are computed from one row (or one unit's rows) and public numbers, by elementwise
operations and exact products. They are shortened a hair below their bound and cut towards 0 to whole numbers of a
public unit; `noise.integer_sums` checks their lengths as whole numbers and adds them. So the sums *as computed* have
the stated sensitivity. That exponentials and the like are the same wherever a number stands is no theorem about NumPy:
tests compare bits.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.validate import instance_of
from sordino.data.scaling import row_lengths
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.families import Poisson
from sordino.mechanisms.regression.noised import BINS, EDGES
from sordino.mechanisms.regression.rows import FitRound, Frame, UnitRows, exponent_of, weigh
from sordino.noise import integer_sums as exact
from sordino.noise.integer_sums import DIGITS, INSIDE, Contributions, nonnegative, shorten
from sordino.noise.port import FINE, Statistic

# The centre's numbers are shortened to this share of the half-diagonal of their box: corners are rare.
CENTRE_SHARE = 0.75
_CUT = 2.0**-14  # means over a unit's rows are cut row by row; this much covers 4,096 rows of 8,192 columns
# Sizes of residuals are cut here, in scales, and centred by half of that: the scale of a row is read from them.
MOST_SIZE = 3.0


def _whole(values: Array) -> exact.Sums:
    """Numbers of size at most 1, or a little more, as whole numbers of 2^-FINE."""
    return np.trunc(np.ldexp(values, FINE)).astype(np.int64)


def tallies(rows: UnitRows, places: NDArray[np.intp], bins: int) -> Contributions:
    """Masses by place."""
    return exact.tallies(len(rows.y), rows.unit_of_row, places, lambda part: _whole(rows.mass(part)), bins)


def vectors(
    rows: UnitRows, values: Array, kind: Callable[..., Contributions] = exact.vectors, **more: object
) -> Contributions:
    """Masses times vectors that are at most about 1 long."""
    return kind(len(rows.y), rows.unit_of_row, lambda part: _whole(values[part] * rows.mass(part)[:, None]), **more)


class Histogram(Statistic):
    """How many rows have a size in each bin: one bin a row, so the bound is 1. Sizes above `most` are in the last."""

    shape = "nonnegative"
    most: float
    sizes: Callable[[UnitRows], Array]  # of all rows, each from its own row

    @property
    def size(self) -> int:
        return BINS

    def contributions(self, rows: UnitRows) -> Contributions:
        places = np.searchsorted(self.most * EDGES[1:-1], self.sizes(rows), side="right")
        return tallies(rows, np.clip(places, 0, BINS - 1), BINS)


def target_sizes(rows: UnitRows) -> Array:
    """Sizes |y| of targets."""
    return np.abs(rows.y)


def column_sizes(centre: Array, spread: Array, power: int, rows: UnitRows) -> Array:
    """Lengths of rows (x - c) / s with every entry to that power."""
    return row_lengths(((rows.x - centre) / spread) ** power)


def whitened_lengths(frame: Frame, rows: UnitRows) -> Array:
    """Lengths of whitened rows."""
    return rows.whitened(frame).lengths


def residual_sizes(point: FitRound, rows: UnitRows) -> Array:
    """Sizes of residuals in their scales or standard deviations."""
    return np.abs(point.residuals(rows))


class MatrixSum(Statistic):
    """The sum of v v' for vectors that are shortened to `cut`: positive semidefinite, bound cut^2."""

    shape = "matrix"

    @property
    def cut(self) -> float:
        return math.sqrt(self.bound)  # exact: the root of a rounded square is what was squared

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(self.cut) - DIGITS)

    def grams(self, rows: UnitRows, values: Array) -> Contributions:
        """v v' times masses, for v that are short enough."""
        exponent = exponent_of(self.cut)
        return exact.grams(
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
        shifted = [(places, bool(self.declaration.shifts[places[0]])) for places in sets]
        return vectors(rows, centred, exact.centred, columns=numbers, radius=radius, sets=shifted)


class OfColumns(Statistic):
    """A statistic of columns (x - c) / s."""

    centre: Array
    spread: Array

    @property
    def size(self) -> int:
        return len(self.centre)

    def scaled(self, rows: UnitRows) -> Array:
        return (rows.x - self.centre) / self.spread


class Squares(OfColumns):
    """The sum of squared columns (x - c)^2, each row's vector shortened to `cut`, over `cut`: entries >= 0, bound 1."""

    shape = "nonnegative"
    cut: float

    def contributions(self, rows: UnitRows) -> Contributions:
        return vectors(rows, shorten(self.scaled(rows) ** 2, self.cut) / self.cut, nonnegative)


class Scatter(MatrixSum, OfColumns):
    """The sum of u u', u = (x - c) / s shortened to `cut`: bound cut^2."""

    def contributions(self, rows: UnitRows) -> Contributions:
        return self.grams(rows, shorten(self.scaled(rows), self.cut))


class Again(MatrixSum):
    """The sum of z z' for whitened rows shortened to `cut`, the intercept included: bound cut^2."""

    frame: Frame

    @property
    def size(self) -> int:
        return 1 + self.frame.whitening.shape[1]

    def contributions(self, rows: UnitRows) -> Contributions:
        given = rows.whitened(self.frame)
        short = np.minimum(given.lengths, INSIDE * self.cut) * 2.0**-DIGITS
        return self.grams(rows, given.directions * short[:, None])


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
        return vectors(rows, both, nonnegative)


class AtPoint(Statistic):
    """A statistic of what rows say at a point, with a number for each coefficient unless it says otherwise."""

    round: FitRound

    @property
    def size(self) -> int:
        return self.round.point.size


class Gradient(AtPoint):
    """The sum of w u psi': |w u| <= tau and |psi| <= b, so the bound is tau b; what is longer is shortened."""

    @property
    def exponent(self) -> int:
        return exponent_of(self.bound) - 2 * DIGITS

    def pulls(self, rows: UnitRows) -> Array:
        """What the directions of whitened rows are multiplied by, (rows, outputs), with the masses in them."""
        return self.round.pulls_in_units(rows)

    def contributions(self, rows: UnitRows) -> Contributions:
        pulls, directions = self.pulls(rows), rows.whitened(self.round.frame).directions
        pulls = exact.digits(pulls, exponent_of(self.bound))
        return exact.outers(len(pulls), rows.unit_of_row, directions.__getitem__, pulls.__getitem__)


class Spread(Gradient):
    """The sum of w z (min(|r| / s, 3) - 3/2): |w z| <= tau, so the bound is 1.5 tau. Which rows have larger errors."""

    def pulls(self, rows: UnitRows) -> Array:
        lengths = rows.whitened(self.round.frame).lengths
        values = np.minimum(np.abs(self.round.residuals(rows)), MOST_SIZE) - 0.5 * MOST_SIZE
        values = values * weigh(lengths, self.round.tau, self.round.far) * lengths
        return shorten(values[:, None], self.bound) * rows.mass(slice(None))[:, None]


class SlopeMatrix(MatrixSum, AtPoint):
    """The sum of w u u' x v, v the sum of r r' over roots: w |u|^2 <= tau far and |v| <= c, so the bound is tau far c.

    Each root gives a vector sqrt(w) u x r that is cut to whole numbers; products of these add up to the matrix. With
    one root cut vectors are shorter. With several the family's bound has `cut_share` in it.
    """

    def contributions(self, rows: UnitRows) -> Contributions:
        asked, masses, all_directions = self.round, rows.mass(slice(None)), rows.whitened(self.round.frame).directions
        says, lengths, weights = asked.asked(rows)
        most = asked.kind.slope_bound(asked.at)
        reach = np.minimum(np.sqrt(weights) * lengths, INSIDE * math.sqrt(asked.tau * asked.far)) * np.sqrt(masses)
        roots = says.roots
        if asked.kind.per_unit:
            shares = rows.shares(masses * roots[0][:, 0] ** 2, INSIDE * most)
            roots = [roots[0] * np.sqrt(shares)[:, None]]
        elif len(roots) == 1:
            roots = [np.minimum(roots[0], INSIDE * math.sqrt(most))]
        unit = math.ldexp(1.0, -exponent_of(self.cut))

        def of_roots(part: slice) -> Array:
            directions, far = all_directions[part], reach[part, None] * unit
            # Directions are whole numbers of 2^-20, so products are in units of that times the bound's already.
            found = [np.trunc(_directed(directions, root[part] * far)) for root in roots]
            return found[0] if len(found) == 1 else np.stack(found, axis=1)

        return exact.grams(len(reach), rows.unit_of_row, of_roots, len(roots))


def _directed(directions: Array, values: Array) -> Array:
    """Direction times values for every pair of entry and output."""
    outputs = values.shape[1]
    found = np.empty((len(values), directions.shape[1] * outputs), order="F")
    for k in range(outputs):
        np.multiply(directions, values[:, k, None], out=found[:, k::outputs])
    return found


class Scores(NamedTuple):
    """A row's gradient q plus `direction` times what it adds to released means, which are cut at `shift_cut`."""

    round: FitRound
    direction: Array | None
    shift_cut: float

    def of(self, most: float, rows: UnitRows) -> Array:
        """q for every row, shortened to `most`."""
        own, at = self.round, self.round.at
        found = _directed(rows.whitened(own.frame).directions, own.pulls(rows) * 2.0**-DIGITS)
        if self.direction is not None:
            # The means that correct the scores of the linear family, in units of the target.
            e = own.residuals(rows)
            kept = np.clip(e, -at.cut, at.cut)
            off = np.clip(e - kept, -self.shift_cut, self.shift_cut)
            moved = at.scale * ((off - at.shift) + at.tilt * (np.abs(kept) - at.size))
            found = found + moved[:, None] * self.direction
        return shorten(found, most)

    def sizes(self, most: float, rows: UnitRows) -> Array:
        return row_lengths(self.of(most, rows))


class Meat(MatrixSum):
    """The sum over units of q q', q the mean of their rows', which are shortened to `cut` each: the bound is cut^2.

    Where the family bounds the sum over a unit's rows, these are shortened together, to at most `cut`.
    """

    scores: Scores

    @property
    def size(self) -> int:
        return self.scores.round.point.size

    def contributions(self, rows: UnitRows) -> Contributions:
        own = self.scores.round
        if own.kind.per_unit:
            found = _directed(rows.whitened(own.frame).directions, own.pulls_in_units(rows) * 2.0**-DIGITS)
        else:
            found = self.scores.of(self.cut, rows) * rows.mass(slice(None))[:, None]
        of_units = rows.per_unit(exact.digits(found, exponent_of(self.cut)))
        return exact.grams(len(of_units), None, of_units.__getitem__)


class CutOff(AtPoint):
    """Four means of cut residuals of numbers: what is cut, over `cut`, and e inside, |c| and |e| inside, over k.

    The first is between -1 and 1. |c| <= k, and e inside is 0 where |e| >= k, so the squares of the other three add up
    to at most 3 inside and 1 outside, where alone the first is not 0: the bound is sqrt 3.
    """

    cut: float

    @property
    def size(self) -> int:
        return 4

    def contributions(self, rows: UnitRows) -> Contributions:
        most, e = self.round.at.cut, self.round.residuals(rows)
        kept, inside = np.clip(e, -most, most), np.abs(e) < most
        off = np.clip((e - kept) / self.cut, -1.0, 1.0)
        four = np.column_stack([off, *(one / most for one in (e * inside, np.abs(kept), np.abs(e) * inside))])
        return vectors(rows, shorten(four, self.bound))


class CutCounts(AtPoint):
    """Two means of cut residuals of counts: what is cut, and what the law says is, both over `cut` and at most 1."""

    cut: float

    @property
    def size(self) -> int:
        return 2

    def contributions(self, rows: UnitRows) -> Contributions:
        own, kind = self.round, instance_of("the family", self.round.kind, Poisson)
        y, scores, exposure, spread = own.scored(rows)
        e = kind.residual(y, scores, exposure, spread, own.at)
        off = e - np.clip(e, -own.at.cut, own.at.cut)
        law, _ = kind.expected_cut(scores, exposure, own.at)
        both = np.clip(np.column_stack([off, law]) / self.cut, -1.0, 1.0)
        return vectors(rows, shorten(both, self.bound))
