"""Every statistic that a fit releases: what rows add to it, in whole numbers, and how far one unit moves it.

A statistic is a small public object. It travels to where rows are, `of` computes what some rows add, and whole numbers
travel back; they add up to the same sum however rows were divided, as long as no unit is.

Sensitivities follow from the *shape*, for contributions of length at most r. A unit contributes the mean of what its
rows would contribute, times survey weights of at most 1: a point of the convex hull of 0 and such contributions.

- *vector*: |v - v'| <= 2 r where a unit is replaced, r where one is added or removed.
- *nonnegative* (histograms, squares, positive semidefinite matrices): inner products <v, v'> are not negative, so
  |v - v'|^2 = |v|^2 + |v'|^2 - 2 <v, v'> <= 2 r^2. That is sqrt 2 r and r. For matrices the inner product is tr V V',
  which is not negative for positive semidefinite V and V', and the length is Frobenius'.
- *centre*: see `Centre`.

Matrices are released as their upper triangles. An entry off the diagonal counts twice in Frobenius' length, so its
noise is 1 / sqrt 2 of the diagonal's.

*Floating point.* Contributions are computed from one row (or one unit's rows) and public numbers, by elementwise
operations and exact products. They are shortened a hair below their bound, cut towards 0 to whole numbers of a public
unit, and added as whole numbers (`noise.sums`). Cutting towards 0 lengthens nothing, and a matrix of products of cut
vectors is still positive semidefinite. So the sums *as computed* have the stated sensitivity. That exponentials and the
like are the same wherever a number stands is no theorem about NumPy: tests compare bits.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.validate import instance_of
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.families import At, Family, Poisson, Says, family_of
from sordino.mechanisms.regression.rows import UnitRows
from sordino.mechanisms.regression.tails import BINS, EDGES
from sordino.noise.integer_sums import DIGITS, INSIDE, ExactWeights, digits, own_directions, products

Sums = NDArray[np.int64]
# Vectors and counts are sums of at most 2^34 units a row and entry: 2^23 rows are below 2^62 units.
FINE = 34
# The centre's numbers are shortened to this share of the half-diagonal of their box: corners are rare.
CENTRE_SHARE = 0.75
# Means over a unit's rows are cut row by row; this much covers 4,096 rows of 8,192 columns.
_CUT = 2.0**-14


def factor(shape: str, relation: Relation) -> float:
    """What a bound on contributions is multiplied by to give a sensitivity, see above."""
    replaced = {"vector": 2.0, "nonnegative": math.sqrt(2.0), "matrix": math.sqrt(2.0), "centre": 1.0}[shape]
    return replaced if relation is Relation.REPLACE_ONE else 1.0


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


@dataclass(frozen=True, eq=False)
class Statistic(ABC):
    """A sum over rows that is released with noise.

    Attributes:
        name: of the mechanism that it is an answer of.
        bound: the most that one unit can contribute, in the length that goes with `shape`.
    """

    shape: ClassVar[str] = "vector"

    name: str
    bound: float

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers are released."""

    @property
    def exponent(self) -> int:
        """Of the unit of the sums; public, and the same for all rows."""
        return -FINE

    def sensitivity(self, relation: Relation) -> float:
        """How far one unit moves the sum."""
        return self.bound * factor(self.shape, relation)

    def scales(self, noise: float) -> Array:
        """The standard deviation of every number's noise where that of a whole vector's entries is `noise`."""
        found = np.full(self.numbers, noise)
        if self.shape == "matrix":
            rows, columns = np.triu_indices(matrix_size(self.numbers))
            found[rows != columns] /= math.sqrt(2.0)
        return found

    def read(self, answer: Array) -> Array:
        """The noised answer as a vector, or as the symmetric matrix that it is."""
        return symmetric(answer) if self.shape == "matrix" else answer

    def whitened(self, rows: UnitRows, known: Whitened | None = None) -> Whitened | None:
        """Whitened rows, where the statistic is about them; `known` are those of an earlier one."""
        del rows
        return known

    @abstractmethod
    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        """What these rows add to the sum, and the exponent of its unit."""


def matrix_size(numbers: int) -> int:
    """Of a matrix whose upper triangle has so many numbers."""
    return round((math.sqrt(8.0 * numbers + 1.0) - 1.0) / 2.0)


def symmetric(upper: Array) -> Array:
    """A symmetric matrix from its upper triangle."""
    size = matrix_size(len(upper))
    found = np.zeros((size, size))
    found[np.triu_indices(size)] = upper
    return found + np.triu(found, 1).T


def _histogram(rows: UnitRows, sizes: Array, most: float) -> Sums:
    """Masses by the bin of a size; sizes above `most` are in the last bin."""
    places = np.clip(np.searchsorted(most * EDGES[1:-1], sizes, side="right"), 0, BINS - 1)
    return _masses(rows, places, BINS)


def _masses(rows: UnitRows, places: NDArray[np.intp], bins: int) -> Sums:
    """Masses by place: at most 2^13 masses of 2^34 units at once, whose sum is a whole number below 2^53."""
    total = np.zeros(bins, np.int64)
    for part in rows.blocks():
        weights = whole(rows.mass(part)).astype(np.float64)
        total += np.bincount(places[part], weights, bins).astype(np.int64)
    return total


def _vectors(rows: UnitRows, values: Array) -> Sums:
    """The sum of masses times vectors that are at most about 1 long."""
    total = np.zeros(values.shape[1], np.int64)
    for part in rows.blocks():
        total += whole(values[part] * rows.mass(part)[:, None]).sum(axis=0)
    return total


def _squares(rows: UnitRows, values: Array, exponent: int) -> Sums:
    """The sum of v v' times masses: the upper triangle, in units of 2^(2 exponent - 40)."""
    total = np.zeros((values.shape[1],) * 2, np.int64)
    for part in rows.blocks():
        cut = digits(values[part] * np.sqrt(rows.mass(part))[:, None], exponent)
        total += products(cut, cut)
    return total[np.triu_indices(len(total))]


# ----------------------------------------------------------------------------------------------------------- columns


@dataclass(frozen=True, eq=False)
class Centre(Statistic):
    """The sum of encoded rows less `declaration.shifts`, numbers together shortened to `radius`.

    Numbers move by 2 r (replace-one) or r. A 0/1 column less one half is at most 1/2 long and moves by at most 1. Of a
    category's L columns at most one is 1: less one half each they are sqrt(L) / 2 long, unshifted at most 1, and two
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
    def numbers(self) -> int:
        return self.declaration.columns

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        numbers, radius = self.declaration.numbers, self.radius(self.declaration)
        centred = rows.x - self.declaration.shifts
        if len(numbers):
            centred[:, numbers] = shorten(centred[:, numbers], radius)
        return _vectors(rows, centred), self.exponent


@dataclass(frozen=True, eq=False)
class ColumnSizes(Statistic):
    """A histogram of |((x - c) / s)^power|, a row's length with every entry to that power: bound 1, one bin a row."""

    shape: ClassVar[str] = "nonnegative"

    centre: Array
    spread: Array
    power: int
    most: float

    @property
    def numbers(self) -> int:
        return BINS

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        return _histogram(rows, row_lengths(_powers(rows, self)), self.most), self.exponent


def _powers(rows: UnitRows, asked: "ColumnSizes | Squares | Scatter") -> Array:
    centred = (rows.x - asked.centre) / asked.spread
    return centred * centred if isinstance(asked, ColumnSizes | Squares) and asked.power == 2 else centred


@dataclass(frozen=True, eq=False)
class Squares(Statistic):
    """The sum of squared columns (x - c)^2, each row's vector shortened to `cut`, over `cut`: entries >= 0, bound 1."""

    shape: ClassVar[str] = "nonnegative"

    centre: Array
    spread: Array
    cut: float
    power: int = 2

    @property
    def numbers(self) -> int:
        return len(self.centre)

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        return _vectors(rows, shorten(_powers(rows, self), self.cut) / self.cut), self.exponent


@dataclass(frozen=True, eq=False)
class Scatter(Statistic):
    """The sum of u u', u = (x - c) / s shortened to `cut`: positive semidefinite, bound cut^2."""

    shape: ClassVar[str] = "matrix"

    centre: Array
    spread: Array
    cut: float

    @property
    def numbers(self) -> int:
        return len(self.centre) * (len(self.centre) + 1) // 2

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(self.cut) - DIGITS)

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        return _squares(rows, shorten(_powers(rows, self), self.cut), exponent_of(self.cut)), self.exponent


@dataclass(frozen=True, eq=False)
class OfWhitened(Statistic):
    """What all statistics of whitened rows have: the frame in which rows are whitened."""

    frame: Frame

    def whitened(self, rows: UnitRows, known: Whitened | None = None) -> Whitened:
        if known is not None and known.frame is self.frame and known.rows is rows:
            return known
        return Whitened(rows, self.frame)


@dataclass(frozen=True, eq=False)
class Lengths(OfWhitened):
    """A histogram of the lengths of whitened rows: bound 1, one bin a row."""

    shape: ClassVar[str] = "nonnegative"

    most: float

    @property
    def numbers(self) -> int:
        return BINS

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        return _histogram(rows, self.whitened(rows, known).lengths, self.most), self.exponent


@dataclass(frozen=True, eq=False)
class Again(OfWhitened):
    """The sum of z z' for whitened rows shortened to `cut`, the intercept included: bound cut^2."""

    shape: ClassVar[str] = "matrix"

    cut: float

    @property
    def numbers(self) -> int:
        size = 1 + self.frame.whitening.shape[1]
        return size * (size + 1) // 2

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(self.cut) - DIGITS)

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        given = self.whitened(rows, known)
        short = np.minimum(given.lengths, INSIDE * self.cut) * 2.0**-DIGITS
        return _squares(rows, given.directions * short[:, None], exponent_of(self.cut)), self.exponent


# ------------------------------------------------------------------------------------------------------------ targets


@dataclass(frozen=True, eq=False)
class TargetSizes(Statistic):
    """A histogram of |y - middle|: bound 1, one bin a row."""

    shape: ClassVar[str] = "nonnegative"

    middle: float
    most: float

    @property
    def numbers(self) -> int:
        return BINS

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        return _histogram(rows, np.abs(rows.y - self.middle), self.most), self.exponent


@dataclass(frozen=True, eq=False)
class TargetMean(Statistic):
    """The sum of (y - middle) / cut, cut to plus and minus 1: one number, bound 1."""

    middle: float
    cut: float

    @property
    def numbers(self) -> int:
        return 1

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        return _vectors(rows, np.clip((rows.y - self.middle) / self.cut, -1.0, 1.0)[:, None]), self.exponent


@dataclass(frozen=True, eq=False)
class ClassCounts(Statistic):
    """How many rows every class has: bound 1, one class a row."""

    shape: ClassVar[str] = "nonnegative"

    classes: int

    @property
    def numbers(self) -> int:
        return self.classes

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        return _masses(rows, rows.y.astype(np.intp), self.classes), self.exponent


@dataclass(frozen=True, eq=False)
class CountsAndExposure(Statistic):
    """The sums of min(y, cut) / cut and of exposure over its largest: two numbers of 0 to 1, bound sqrt 2."""

    shape: ClassVar[str] = "nonnegative"

    cut: float
    longest: float

    @property
    def numbers(self) -> int:
        return 2

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        both = np.column_stack([np.minimum(rows.y / self.cut, 1.0), np.minimum(rows.exposure / self.longest, 1.0)])
        return _vectors(rows, both), self.exponent


# ------------------------------------------------------------------------------------------------- at a point: rounds


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


def weigh(lengths: Array, tau: float | Array, far: float | Array) -> Array:
    """min(1, tau / length, tau far / length^2)."""
    safe = np.maximum(lengths, 1e-300)
    return np.minimum(1.0, np.minimum(tau / safe, (tau / safe) * (far / safe)))


@dataclass(frozen=True, eq=False)
class AtPoint(OfWhitened):
    """A statistic of what rows say at a point."""

    round: Round

    @property
    def coefficients(self) -> int:
        """How many there are."""
        return self.round.point.size


@dataclass(frozen=True, eq=False)
class Gradient(AtPoint):
    """The sum of w u psi': |w u| <= tau and |psi| <= b, so the bound is tau b; what is longer is shortened."""

    @property
    def numbers(self) -> int:
        return self.coefficients

    @property
    def exponent(self) -> int:
        return exponent_of(self.bound) - 2 * DIGITS

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        given = self.whitened(rows, known)
        pulls = digits(self.round.pulls(given), exponent_of(self.bound))
        total = np.zeros((given.directions.shape[1], pulls.shape[1]), np.int64)
        for part in rows.blocks():
            total += products(given.directions[part], pulls[part])
        return total.ravel(), self.exponent


@dataclass(frozen=True, eq=False)
class Slopes(AtPoint):
    """The sum of w u u' x v, v the sum of r r' over roots: w |u|^2 <= tau far and |v| <= c, so the bound is tau far c.

    Each root gives a vector sqrt(w) u x r that is cut to whole numbers; products of these add up to the matrix. With
    one root cut vectors are shorter. With several the family's bound has `cut_share` in it.
    """

    shape: ClassVar[str] = "matrix"

    @property
    def numbers(self) -> int:
        return self.coefficients * (self.coefficients + 1) // 2

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(math.sqrt(self.bound)) - DIGITS)

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
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
        total = np.zeros((self.coefficients,) * 2, np.int64)
        for root in roots:
            for part in rows.blocks():
                vectors = _directed(given.directions[part], root[part] * reach[part, None], exponent)
                total += products(vectors, vectors)
        return total[np.triu_indices(len(total))], self.exponent


@dataclass(frozen=True, eq=False)
class Meat(AtPoint):
    """The sum over units of q q', q a unit's gradient plus `direction` times what it adds to released means.

    Row by row q is shortened to `cut`, so the bound is cut^2 for the mean of a unit's rows as for one row.
    """

    shape: ClassVar[str] = "matrix"

    cut: float
    direction: Array | None = None
    shift_cut: float = 0.0

    @property
    def numbers(self) -> int:
        return self.coefficients * (self.coefficients + 1) // 2

    @property
    def exponent(self) -> int:
        return 2 * (exponent_of(self.cut) - DIGITS)

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        given, exponent = self.whitened(rows, known), exponent_of(self.cut)
        vectors = digits(_scores_of(self, given), exponent)
        whole_units = rows.per_unit(vectors) if rows.starts is not None else vectors
        total = np.zeros((self.coefficients,) * 2, np.int64)
        for part in rows.blocks():
            block = whole_units[part]
            if len(block):
                total += products(block, block)
        return total[np.triu_indices(len(total))], self.exponent


@dataclass(frozen=True, eq=False)
class ScoreSizes(AtPoint):
    """A histogram of |q| for rows, q as in `Meat`: bound 1, one bin a row."""

    shape: ClassVar[str] = "nonnegative"

    most: float
    cut: float
    direction: Array | None = None
    shift_cut: float = 0.0

    @property
    def numbers(self) -> int:
        return BINS

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        sizes = row_lengths(_scores_of(self, self.whitened(rows, known), masses=False))
        return _histogram(rows, sizes, self.most), self.exponent


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
class Residuals(AtPoint):
    """A histogram of |residual| in its standard deviations: bound 1, one bin a row."""

    shape: ClassVar[str] = "nonnegative"

    most: float

    @property
    def numbers(self) -> int:
        return BINS

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        own = self.round
        sizes = np.abs(own.kind.residual(*own.scored(self.whitened(rows, known)), own.at))
        return _histogram(rows, sizes, self.most), self.exponent


# Sizes of residuals are cut here, in scales, and centred by half of that: the scale of a row is read from them.
MOST_SIZE = 3.0


@dataclass(frozen=True, eq=False)
class Spread(AtPoint):
    """The sum of w z (min(|r| / s, 3) - 3/2): |w z| <= tau, so the bound is 1.5 tau. Which rows have larger errors."""

    @property
    def numbers(self) -> int:
        return self.coefficients

    @property
    def exponent(self) -> int:
        return exponent_of(self.bound) - 2 * DIGITS

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        given, own = self.whitened(rows, known), self.round
        sizes = np.abs(own.kind.residual(*own.scored(given), own.at))
        values = np.minimum(sizes, MOST_SIZE) - 0.5 * MOST_SIZE
        pulls = shorten((values * own.weights(given.lengths) * given.lengths)[:, None], self.bound)
        cut = digits(pulls * rows.mass(slice(None))[:, None], exponent_of(self.bound))
        total = np.zeros((given.directions.shape[1], 1), np.int64)
        for part in rows.blocks():
            total += products(given.directions[part], cut[part])
        return total.ravel(), self.exponent


@dataclass(frozen=True, eq=False)
class CutOff(AtPoint):
    """Four means of cut residuals of numbers: what is cut, over `cut`, and e inside, |c| and |e| inside, over k.

    The first is between -1 and 1. |c| <= k, and e inside is 0 where |e| >= k, so the squares of the other three add up
    to at most 3 inside and 1 outside, where alone the first is not 0: the bound is sqrt 3.
    """

    cut: float

    @property
    def numbers(self) -> int:
        return 4

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        own = self.round
        e = own.kind.residual(*own.scored(self.whitened(rows, known)), own.at)
        kept, inside = np.clip(e, -own.at.cut, own.at.cut), np.abs(e) < own.at.cut
        off = np.clip((e - kept) / self.cut, -1.0, 1.0)
        four = np.column_stack([off, *(one / own.at.cut for one in (e * inside, np.abs(kept), np.abs(e) * inside))])
        return _vectors(rows, shorten(four, self.bound)), self.exponent


@dataclass(frozen=True, eq=False)
class CutCounts(AtPoint):
    """Two means of cut residuals of counts: what is cut, and what the law says is, both over `cut` and at most 1."""

    cut: float

    @property
    def numbers(self) -> int:
        return 2

    def of(self, rows: UnitRows, known: Whitened | None = None) -> tuple[Sums, int]:
        own = self.round
        kind = instance_of("the family", own.kind, Poisson)
        y, scores, exposure, spread = own.scored(self.whitened(rows, known))
        e = kind.residual(y, scores, exposure, spread, own.at)
        off = np.clip((e - np.clip(e, -own.at.cut, own.at.cut)) / self.cut, -1.0, 1.0)
        law = np.clip(kind.expected_cut(scores, exposure, own.at)[0] / self.cut, -1.0, 1.0)
        return _vectors(rows, shorten(np.column_stack([off, law]), self.bound)), self.exponent
