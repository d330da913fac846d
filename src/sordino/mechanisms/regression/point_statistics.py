"""Statistics of what rows say at a point: gradients, slopes, their squares, residuals and what is cut off these.

Bounds follow from the weights of `Round`, which see the columns alone, and from the bounds of the family.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sordino.core.arrays import Array
from sordino.core.validate import instance_of
from sordino.data.scaling import row_lengths
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.families import At, Family, Poisson, Says, family_of
from sordino.mechanisms.regression.rows import UnitRows
from sordino.mechanisms.regression.statistics import (
    Histogram,
    OfWhitened,
    Products,
    Whitened,
    exponent_of,
    shorten,
    weigh,
    weighted,
)
from sordino.mechanisms.regression.tails import BINS
from sordino.noise.integer_sums import DIGITS, Contributions, Grams, Outers, Vectors, digits
from sordino.noise.whole_rows import INSIDE


@dataclass(frozen=True, eq=False)
class Round:
    """Public numbers of a round: family, point, weights.

    A row with u = g z has weight w = min(1, tau / |u|, tau far / |u|^2), so w |u| <= tau and w |u|^2 <= tau far.

    Attributes:
        family: of the target.
        declaration: columns, target and exposure.
        point: coefficients of whitened columns, (coefficients, outputs).
        at: scale and cut of residuals.
        tau: see above.
        far: see above, at least tau.
        spread: coefficients of the logarithm of a row's scale, or None.
    """

    family: str
    declaration: Declaration
    point: Array
    at: At
    tau: float
    far: float
    spread: Array | None = None

    @property
    def kind(self) -> Family:
        """The family itself."""
        return family_of(self.family)

    @property
    def gradient_bound(self) -> float:
        """The most that a unit's gradient can be."""
        return self.tau * self.kind.bound(self.declaration, self.at)

    @property
    def slope_bound(self) -> float:
        """The most that a unit's matrix of slopes can be."""
        return self.tau * self.far * self.kind.slope_bound(self.declaration, self.at)

    def scored(self, given: Whitened) -> tuple[Array, Array, Array, Array]:
        """Targets, scores, exposures and spreads of all rows."""
        rows = given.rows
        parts = rows.blocks()
        scores = np.concatenate([given.scores(self.point, part) for part in parts])
        if self.spread is None:
            spread = np.zeros(len(scores))
        else:
            spread = np.concatenate([given.scores(self.spread[:, None], part)[:, 0] for part in parts])
        y, exposure = self.kind.followed(rows.y, scores, rows.exposure, self.declaration, self.at)
        return y, scores, exposure, spread

    def asked(self, given: Whitened) -> tuple[Says, Array, Array]:
        """What rows say, their stretched lengths |u| and their weights."""
        says = self.kind.says(*self.scored(given), self.at)
        lengths = given.lengths * says.stretch
        return says, lengths, self.weights(lengths)

    def weights(self, lengths: Array) -> Array:
        """Of rows with these stretched lengths."""
        return weigh(lengths, self.tau, self.far)

    def pulls(self, given: Whitened) -> Array:
        """w |u| psi times the mass, at most tau times the bound: row by row, or for all rows of a unit together."""
        says, lengths, weights = self.asked(given)
        found = says.psi * (weights * lengths)[:, None]
        masses = given.rows.mass(slice(None))[:, None]
        if not self.kind.per_unit:
            return shorten(found, self.gradient_bound) * masses
        found = found * masses
        return found * given.rows.shares(row_lengths(found), INSIDE * self.gradient_bound)[:, None]


@dataclass(frozen=True, eq=False)
class AtPoint(OfWhitened):
    """A statistic of what rows say at a point, with a number for each coefficient unless it says otherwise."""

    round: Round

    @property
    def size(self) -> int:
        return self.round.point.size

    def residuals(self, rows: UnitRows, known: Whitened | None) -> Array:
        """Of all rows, in their scales or standard deviations."""
        own = self.round
        return own.kind.residual(*own.scored(self.whitened(rows, known)), own.at)


@dataclass(frozen=True, eq=False)
class Pulls(AtPoint):
    """A sum of directions of whitened rows times pulls, numbers of at most `bound` with the masses in them."""

    @property
    def exponent(self) -> int:
        return exponent_of(self.bound) - 2 * DIGITS

    def pulls(self, given: Whitened) -> Array:
        """Of all rows, (rows, outputs)."""
        return self.round.pulls(given)

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        given = self.whitened(rows, known)
        pulls = digits(self.pulls(given), exponent_of(self.bound))
        return Outers(len(pulls), rows.unit_of_row, given.directions.__getitem__, pulls.__getitem__)


@dataclass(frozen=True, eq=False)
class Gradient(Pulls):
    """The sum of w u psi': |w u| <= tau and |psi| <= b, so the bound is tau b; what is longer is shortened."""


@dataclass(frozen=True, eq=False)
class Slopes(AtPoint):
    """The sum of w u u' x v, v the sum of r r' over roots: w |u|^2 <= tau far and |v| <= c, so the bound is tau far c.

    Each root gives a vector sqrt(w) u x r that is cut to whole numbers; products of these add up to the matrix. With
    one root cut vectors are shorter. With several the family's bound has `cut_share` in it.
    """

    shape: ClassVar[str] = "matrix"

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(math.sqrt(self.bound)) - DIGITS)

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        given, asked = self.whitened(rows, known), self.round
        says, lengths, weights = asked.asked(given)
        most = asked.kind.slope_bound(asked.declaration, asked.at)
        reach = np.minimum(np.sqrt(weights) * lengths, INSIDE * math.sqrt(asked.tau * asked.far))
        reach = reach * np.sqrt(rows.mass(slice(None)))
        roots = says.roots
        if asked.kind.per_unit:
            shares = rows.shares(rows.mass(slice(None)) * roots[0][:, 0] ** 2, INSIDE * most)
            roots = [roots[0] * np.sqrt(shares)[:, None]]
        elif len(roots) == 1:
            roots = [np.minimum(roots[0], INSIDE * math.sqrt(most))]
        exponent = exponent_of(math.sqrt(self.bound))

        def vectors(part: slice) -> Array:
            directions, far = given.directions[part], reach[part, None]
            found = [_directed(directions, root[part] * far, exponent) for root in roots]
            return found[0] if len(found) == 1 else np.stack(found, axis=1)

        return Grams(len(reach), rows.unit_of_row, vectors, len(roots))


@dataclass(frozen=True, eq=False)
class Meat(Products, AtPoint):
    """The sum over units of q q', q a unit's gradient plus `direction` times what it adds to released means.

    Row by row q is shortened to `cut`, so the bound is cut^2 for the mean of a unit's rows as for one row.
    """

    direction: Array | None = None
    shift_cut: float = 0.0

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        given, exponent = self.whitened(rows, known), exponent_of(self.cut)
        vectors = digits(_scores_of(self, given), exponent)
        of_units = rows.per_unit(vectors)
        return Grams(len(of_units), None, of_units.__getitem__)


@dataclass(frozen=True, eq=False)
class ScoreSizes(AtPoint, Histogram):
    """A histogram of |q| for rows, q as in `Meat`."""

    most: float
    cut: float
    direction: Array | None = None
    shift_cut: float = 0.0

    @property
    def size(self) -> int:
        return BINS

    def sizes(self, rows: UnitRows, known: Whitened | None) -> tuple[Array, float]:
        return row_lengths(_scores_of(self, self.whitened(rows, known), masses=False)), self.most


def _scores_of(asked: Meat | ScoreSizes, given: Whitened, *, masses: bool = True) -> Array:
    """q for every row, times its mass; a person's rows are shortened together where the family is bounded so."""
    own, rows = asked.round, given.rows
    if own.kind.per_unit:
        return _directed(given.directions, own.pulls(given) * 2.0**-DIGITS, 0, cut=False)
    says, lengths, weights = own.asked(given)
    pulls = shorten(says.psi * (weights * lengths)[:, None], own.gradient_bound)
    found = _directed(given.directions, pulls * 2.0**-DIGITS, 0, cut=False)
    if asked.direction is not None:
        found = found + _cut_off(own, given, asked.shift_cut)[:, None] * asked.direction
    found = shorten(found, asked.cut)
    return found * rows.mass(slice(None))[:, None] if masses else found


def _cut_off(own: Round, given: Whitened, cut: float) -> Array:
    """What a row of the linear family adds to the means that correct its score, in units of the target."""
    at = own.at
    e = own.kind.residual(*own.scored(given), at)
    kept = np.clip(e, -at.cut, at.cut)
    off = np.clip(e - kept, -cut, cut)
    return at.scale * ((off - at.shift) + at.tilt * (np.abs(kept) - at.size))


def _directed(directions: Array, values: Array, exponent: int, *, cut: bool = True) -> Array:
    """Direction times values for every pair of entry and output, as whole numbers of 2^(exponent - 20)."""
    scaled = values * math.ldexp(1.0, -exponent)
    outputs = values.shape[1]
    found = np.empty((len(values), directions.shape[1] * outputs), order="F")
    for k in range(outputs):
        own = found[:, k::outputs]
        # Directions are whole numbers of 2^-20, so this product is in units of 2^(exponent - 20) already.
        np.multiply(directions, scaled[:, k, None], out=own)
        if cut:
            np.trunc(own, out=own)
    return found


@dataclass(frozen=True, eq=False)
class Residuals(AtPoint, Histogram):
    """A histogram of |residual| in its standard deviations."""

    most: float

    @property
    def size(self) -> int:
        return BINS

    def sizes(self, rows: UnitRows, known: Whitened | None) -> tuple[Array, float]:
        return np.abs(self.residuals(rows, known)), self.most


# Sizes of residuals are cut here, in scales, and centred by half of that: the scale of a row is read from them.
MOST_SIZE = 3.0


@dataclass(frozen=True, eq=False)
class Spread(Pulls):
    """The sum of w z (min(|r| / s, 3) - 3/2): |w z| <= tau, so the bound is 1.5 tau. Which rows have larger errors."""

    def pulls(self, given: Whitened) -> Array:
        own, rows = self.round, given.rows
        values = np.minimum(np.abs(self.residuals(rows, given)), MOST_SIZE) - 0.5 * MOST_SIZE
        pulls = shorten((values * own.weights(given.lengths) * given.lengths)[:, None], self.bound)
        return pulls * rows.mass(slice(None))[:, None]


@dataclass(frozen=True, eq=False)
class CutOff(AtPoint):
    """Four means of cut residuals of numbers: what is cut, over `cut`, and e inside, |c| and |e| inside, over k.

    The first is between -1 and 1. |c| <= k, and e inside is 0 where |e| >= k, so the squares of the other three add up
    to at most 3 inside and 1 outside, where alone the first is not 0: the bound is sqrt 3.
    """

    cut: float

    @property
    def size(self) -> int:
        return 4

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        most, e = self.round.at.cut, self.residuals(rows, known)
        kept, inside = np.clip(e, -most, most), np.abs(e) < most
        off = np.clip((e - kept) / self.cut, -1.0, 1.0)
        four = np.column_stack([off, *(one / most for one in (e * inside, np.abs(kept), np.abs(e) * inside))])
        return Vectors(len(rows.y), rows.unit_of_row, weighted(rows, shorten(four, self.bound)))


@dataclass(frozen=True, eq=False)
class CutCounts(AtPoint):
    """Two means of cut residuals of counts: what is cut, and what the law says is, both over `cut` and at most 1."""

    cut: float

    @property
    def size(self) -> int:
        return 2

    def contributions(self, rows: UnitRows, known: Whitened | None = None) -> Contributions:
        own = self.round
        kind = instance_of("the family", own.kind, Poisson)
        y, scores, exposure, spread = own.scored(self.whitened(rows, known))
        e = kind.residual(y, scores, exposure, spread, own.at)
        off = np.clip((e - np.clip(e, -own.at.cut, own.at.cut)) / self.cut, -1.0, 1.0)
        law = np.clip(kind.expected_cut(scores, exposure, own.at)[0] / self.cut, -1.0, 1.0)
        both = shorten(np.column_stack([off, law]), self.bound)
        return Vectors(len(rows.y), rows.unit_of_row, weighted(rows, both))
