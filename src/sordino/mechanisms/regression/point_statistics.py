"""Statistics of what rows say at a point: gradients, slopes, their squares, residuals and what is cut off these.

Bounds follow from the weights of `Round`, which see the columns alone, and from the bounds of the family.
"""

import math
from dataclasses import dataclass

import numpy as np

from sordino.core.arrays import Array
from sordino.core.validate import instance_of
from sordino.data.scaling import row_lengths
from sordino.mechanisms.regression import statistics as of
from sordino.mechanisms.regression.families import At, Family, Poisson, Says
from sordino.mechanisms.regression.rows import Frame, UnitRows, exponent_of
from sordino.mechanisms.regression.statistics import vectors
from sordino.noise.integer_sums import DIGITS, Contributions, Grams, Outers, digits
from sordino.noise.port import Statistic
from sordino.noise.whole_rows import INSIDE, shorten

# Sizes of residuals are cut here, in scales, and centred by half of that: the scale of a row is read from them.
MOST_SIZE = 3.0


@dataclass(frozen=True, eq=False)
class Round:
    """Public numbers of a round: family, point, weights.

    A row with u = g z has weight w = min(1, tau / |u|, tau far / |u|^2), so w |u| <= tau and w |u|^2 <= tau far.
    """

    kind: Family
    frame: Frame
    point: Array  # coefficients of whitened columns, (coefficients, outputs)
    at: At
    tau: float
    far: float  # at least tau
    spread: Array | None = None  # coefficients of the logarithm of a row's scale

    @property
    def gradient_bound(self) -> float:
        """The most that a unit's gradient can be."""
        return self.tau * self.kind.bound(self.at)

    @property
    def slope_bound(self) -> float:
        """The most that a unit's matrix of slopes can be."""
        return self.tau * self.far * self.kind.slope_bound(self.at)

    def scored(self, rows: UnitRows) -> tuple[Array, Array, Array, Array]:
        """Targets, scores, exposures and spreads of all rows."""
        given = rows.whitened(self.frame)
        scores = given.scores(self.point)
        spread = np.zeros(len(scores)) if self.spread is None else given.scores(self.spread[:, None])[:, 0]
        y, exposure = self.kind.followed(rows.y, scores, rows.exposure, self.at)
        return y, scores, exposure, spread

    def asked(self, rows: UnitRows) -> tuple[Says, Array, Array]:
        """What rows say, their stretched lengths |u| and their weights."""
        says = self.kind.says(*self.scored(rows), self.at)
        lengths = rows.whitened(self.frame).lengths * says.stretch
        return says, lengths, of.weigh(lengths, self.tau, self.far)

    def pulls(self, rows: UnitRows) -> Array:
        """w |u| psi, at most tau times the bound where that bounds single rows."""
        says, lengths, weights = self.asked(rows)
        found = says.psi * (weights * lengths)[:, None]
        return found if self.kind.per_unit else shorten(found, self.gradient_bound)

    def pulls_in_units(self, rows: UnitRows) -> Array:
        """Pulls times masses; where the bound is one on all rows of a unit, these are shortened together."""
        found = self.pulls(rows) * rows.mass(slice(None))[:, None]
        if not self.kind.per_unit:
            return found
        return found * rows.shares(row_lengths(found), INSIDE * self.gradient_bound)[:, None]


class AtPoint(Statistic):
    """A statistic of what rows say at a point, with a number for each coefficient unless it says otherwise."""

    round: Round

    @property
    def size(self) -> int:
        return self.round.point.size

    def residuals(self, rows: UnitRows) -> Array:
        """Of all rows, in their scales or standard deviations."""
        return self.round.kind.residual(*self.round.scored(rows), self.round.at)


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
        pulls = digits(pulls, exponent_of(self.bound))
        return Outers(len(pulls), rows.unit_of_row, directions.__getitem__, pulls.__getitem__)


class Spread(Gradient):
    """The sum of w z (min(|r| / s, 3) - 3/2): |w z| <= tau, so the bound is 1.5 tau. Which rows have larger errors."""

    def pulls(self, rows: UnitRows) -> Array:
        lengths = rows.whitened(self.round.frame).lengths
        values = np.minimum(np.abs(self.residuals(rows)), MOST_SIZE) - 0.5 * MOST_SIZE
        values = values * of.weigh(lengths, self.round.tau, self.round.far) * lengths
        return shorten(values[:, None], self.bound) * rows.mass(slice(None))[:, None]


class Slopes(of.Products, AtPoint):
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

        return Grams(len(reach), rows.unit_of_row, of_roots, len(roots))


def _directed(directions: Array, values: Array) -> Array:
    """Direction times values for every pair of entry and output."""
    outputs = values.shape[1]
    found = np.empty((len(values), directions.shape[1] * outputs), order="F")
    for k in range(outputs):
        np.multiply(directions, values[:, k, None], out=found[:, k::outputs])
    return found


class Scores(AtPoint):
    """A statistic of q, a row's gradient plus `direction` times what it adds to released means."""

    direction: Array | None
    shift_cut: float

    def scores(self, rows: UnitRows, most: float) -> Array:
        """q for every row, shortened to `most`."""
        own, at = self.round, self.round.at
        found = _directed(rows.whitened(own.frame).directions, own.pulls(rows) * 2.0**-DIGITS)
        if self.direction is not None:
            # The means that correct the scores of the linear family, in units of the target.
            e = self.residuals(rows)
            kept = np.clip(e, -at.cut, at.cut)
            off = np.clip(e - kept, -self.shift_cut, self.shift_cut)
            moved = at.scale * ((off - at.shift) + at.tilt * (np.abs(kept) - at.size))
            found = found + moved[:, None] * self.direction
        return shorten(found, most)


class ScoreSizes(of.Histogram, Scores):
    """A histogram of |q| for rows."""

    def sizes(self, rows: UnitRows) -> Array:
        return row_lengths(self.scores(rows, self.most))


class Meat(of.Products, Scores):
    """The sum over units of q q', q the mean of their rows', which are shortened to `cut` each: the bound is cut^2.

    Where the family bounds the sum over a unit's rows, these are shortened together, to at most `cut`.
    """

    def contributions(self, rows: UnitRows) -> Contributions:
        own = self.round
        if own.kind.per_unit:
            found = _directed(rows.whitened(own.frame).directions, own.pulls_in_units(rows) * 2.0**-DIGITS)
        else:
            found = self.scores(rows, self.cut) * rows.mass(slice(None))[:, None]
        of_units = rows.per_unit(digits(found, exponent_of(self.cut)))
        return Grams(len(of_units), None, of_units.__getitem__)


class Residuals(of.Histogram, AtPoint):
    """A histogram of |residual| in its standard deviations."""

    def sizes(self, rows: UnitRows) -> Array:
        return np.abs(self.residuals(rows))


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
        most, e = self.round.at.cut, self.residuals(rows)
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
