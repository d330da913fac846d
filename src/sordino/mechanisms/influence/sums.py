"""Every sum over private rows that the mechanism releases, exact, with what one unit can move it by.

A unit is a row, or a person with several rows. Each row of a person has mass one over the number of the person's rows,
so a person contributes the mean of what rows would contribute: what bounds a row's contribution bounds a person's, and
the noise is that of one row a person. Masses see how many rows a person has, so estimating equations stay unbiased
where the mean of a residual given all the person's rows, and how many there are, is 0.

Survey weights between 0 and 1 multiply masses. A row then contributes a share of what it would have without one, and a
person the mean of such shares: points of the segments from 0, so every bound below is one on the convex hull of 0 and
the contributions of rows. Vectors, positive semidefinite matrices and histograms have the same bounds there. So has the
centre: two points of the hull are no further apart than two of its corners, and 0 is as far from a row less `shifts` as
the row is long: for numbers r, for a binary column 1/2, and for a category of L columns sqrt(L) / 2 where they are
shifted, which fewer than four are, and 1 where they are not: all below the distance of two rows.

Sensitivities, for contributions v with |v| <= r (the mean of several such is no longer):

- *vector*, sum of v: adding or removing a unit moves it by r, replacing one by 2 r.
- *psd*, sum of positive semidefinite V with Frobenius norm at most r: r and sqrt(2) r. For positive semidefinite V, V'
  the trace of V V' is not negative, so |V - V'|^2 = |V|^2 + |V'|^2 - 2 tr V V' <= 2 r^2.
- *histogram*, masses that are not negative and add up to at most 1 in each of k histograms: sqrt(k) and sqrt(2 k). Two
  such have inner products that are not negative, and each has length at most sqrt(k).
- *centre*, see `centre_bounds`.

Floating point (`exact_noise.record_sums`). Contributions are computed from one row and public numbers by elementwise
operations and exact products, shortened a hair below their bound, cut towards 0 to whole numbers of a public unit, and
added as whole numbers. What is cut towards 0 is not longer, and a matrix of products of cut vectors is still positive
semidefinite. So the sums *as computed* have the sensitivity that is stated. Exponentials and the like have to
be the same for a number wherever it stands, which is no theorem about NumPy: it is tested by comparing bits.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns
from sordino.mechanisms.influence.declaration import Declaration
from sordino.noise import integer_sums as record_sums
from sordino.noise.integer_sums import DIGITS, INSIDE, ROWS_PER_BLOCK

Sums = NDArray[np.int64]
# Sums of vectors and counts are in units of 2^-34: 2^23 rows of length 2^5 are below 2^63 of them.
FINE = 34
# The centre's numbers are shortened to this share of the half-diagonal of their box.
CENTRE_SHARE = 0.75
# Means over a person's rows are cut row by row; this much covers 4,096 rows of 8,192 columns.
_CUT = 2.0**-14
# Axes along which sizes of gradients are counted are whole numbers of 2 to the minus this.
AXIS_DIGITS = 24
# Cutting few vectors of one matrix changes its length by this share at most, see `cut_share`.
_CUT_MATRIX = 2.0**-9


def cut_share(declaration: Declaration) -> float:
    """By which share cutting the vectors of a unit's matrix can lengthen it, see `Contributions.curvature`.

    A unit has k C vectors of P numbers, for k rows and C classes, whose squared lengths add up to at most tau^2, and a
    bound of 1/2. Cutting moves each by at most sqrt(P) 2^(e - 20), with 2^e at most sqrt 2 tau. By Cauchy and Schwarz
    the matrix moves by at most 2 sqrt(k C) tau sqrt(P) 2^(e - 20), less than 5.7 sqrt(k C P) 2^-20 of tau^2 / 2; the
    square of what is cut off is far less.
    """
    classes = declaration.classes or 2
    numbers = (len(declaration.low) + 1) * classes
    return max(_CUT_MATRIX, 6.5 * math.sqrt(declaration.most_records * classes * numbers) * 2.0**-20)


def factor(shape: str, relation: Relation) -> float:
    """What a bound on contributions is multiplied by to give a sensitivity."""
    replaced = {"vector": 2.0, "psd": math.sqrt(2.0), "histogram": math.sqrt(2.0), "centre": 1.0}[shape]
    return replaced if relation is Relation.REPLACE_ONE else 1.0


def centre_radius(declaration: Declaration) -> float:
    """The length that the numbers of a row are shortened to."""
    return CENTRE_SHARE * math.sqrt(len(declaration.numbers))


def centre_bounds(declaration: Declaration, relation: Relation) -> float:
    """How far one unit moves the sum of rows less `shifts`, numbers shortened to `centre_radius` together.

    Numbers move by 2 r (replace-one) or r. A binary column less one half is at most 1/2 long and moves by at most 1. Of
    a category's L columns at most one is 1: less one half each they are sqrt(L) / 2 long, as they are 1, and two
    different levels are at most sqrt(2) apart. The parts are orthogonal, so squares add up. A person's mean lies in the
    convex hull of such rows, whose diameter and greatest length are the same.
    """
    radius, replaced = centre_radius(declaration), relation is Relation.REPLACE_ONE
    squares = (2.0 * radius if replaced else radius) ** 2
    for places in declaration.sets:
        if replaced:
            squares += 1.0 if len(places) == 1 else 2.0
        else:
            squares += len(places) / 4.0 if declaration.shifts[places[0]] else 1.0
    return math.sqrt(squares) * (1.0 + _CUT if declaration.unit else 1.0 + 2.0**-40)


class UnitRows:
    """Private rows in encoded units, targets and exposures, and the mass of each row within its unit."""

    def __init__(
        self,
        declaration: Declaration,
        X: Array,
        y: Array,
        exposure: Array | None = None,
        unit: NDArray[np.generic] | None = None,
        weights: Array | None = None,
        *,
        encoded: bool = False,
    ) -> None:
        record_sums.check_size(X)
        self.declaration = declaration
        self.masses: Array | None = weights if unit is None else None
        self._starts: NDArray[np.intp] | None = None
        if unit is not None:
            order = np.argsort(unit, kind="stable")
            _, starts, counts = np.unique(np.asarray(unit)[order], return_index=True, return_counts=True)
            most = declaration.most_records
            order = order[np.arange(len(order)) - np.repeat(starts, counts) < most]
            counts = np.minimum(counts, most)
            self.masses, self._starts = np.repeat(1.0 / counts, counts), np.cumsum(counts) - counts
            X, y = X[order], y[order]
            exposure = None if exposure is None else exposure[order]
            if weights is not None:
                self.masses = self.masses * weights[order]
        self.units = len(X) if self._starts is None else len(self._starts)
        self.x, self.y = X if encoded else declaration.encoded(X), y
        self.exposure = np.ones(len(X)) if exposure is None else exposure

    def blocks(self) -> list[slice]:
        """Parts of the rows that are summed at once; at least one, for an empty table is answered like any other."""
        return [slice(first, first + ROWS_PER_BLOCK) for first in range(0, max(1, len(self.y)), ROWS_PER_BLOCK)]

    def marked(self) -> list[Array]:
        """The numbers that sums are made of, column by column: what an engine compares between rounds."""
        more = (None if self.declaration.exposure is None else self.exposure, self.masses)
        return [self.x.T, *(each[None] for each in (self.y, *more) if each is not None)]

    def mass(self, part: slice) -> Array | float:
        """The masses of some rows."""
        return 1.0 if self.masses is None else self.masses[part]

    def centre(self) -> Sums:
        """The sum of rows less `shifts`, in units of 2^-FINE."""
        declaration, numbers = self.declaration, self.declaration.numbers
        radius, total = centre_radius(declaration), np.zeros(self.x.shape[1], np.int64)
        for part in self.blocks():
            rows = self.x[part] - declaration.shifts
            lengths = np.maximum(row_lengths(rows[:, numbers]), INSIDE * radius)
            rows[:, numbers] *= (INSIDE * radius / lengths)[:, None] if len(numbers) else 1.0
            total += _whole(_times(rows, self.mass(part))).sum(axis=0)
        return total

    def histogram(self, places: Callable[[slice], NDArray[np.intp]], bins: int, histograms: int = 1) -> Sums:
        """The masses in every bin; `places` says for some rows in which bin of each histogram they are."""
        total = np.zeros(bins * histograms, np.int64)
        first = np.arange(histograms) * bins
        for part in self.blocks():
            found = places(part).reshape(-1, histograms) + first
            if self.masses is None:
                total += np.bincount(found.ravel(), minlength=bins * histograms) << FINE
                continue
            masses = _whole(self.masses[part])
            weights = np.repeat(masses.astype(np.float64), histograms)
            # At most 2^13 masses of 2^34 units: their sum is a whole number below 2^53.
            total += np.bincount(found.ravel(), weights, bins * histograms).astype(np.int64)
        return total

    def scatter(self, centre: Array, scales: Array, rho: float) -> Sums:
        """The sum of u u', u = (x - c) / s shortened to rho: the upper triangle, in units of 2^(2 e - 40)."""
        exponent = exponent_of(rho)
        total = np.zeros((self.x.shape[1],) * 2, np.int64)
        for part in self.blocks():
            rows = (self.x[part] - centre) / scales
            rows *= (INSIDE * rho / np.maximum(row_lengths(rows), INSIDE * rho))[:, None]
            rows = _times(rows, np.sqrt(self.mass(part)))
            cut = record_sums.digits(rows, exponent)
            total += record_sums.products(cut, cut)
        return total[np.triu_indices(len(total))]

    def squares(self, centre: Array, scales: Array, rho: float) -> Sums:
        """The diagonal of the same, for tables with too many columns for a matrix."""
        exponent = exponent_of(rho)
        total = np.zeros(self.x.shape[1], np.int64)
        for part in self.blocks():
            rows = (self.x[part] - centre) / scales
            rows *= (INSIDE * rho / np.maximum(row_lengths(rows), INSIDE * rho))[:, None]
            cut = record_sums.digits(_times(rows, np.sqrt(self.mass(part))), exponent)
            total += np.square(cut).sum(axis=0).astype(np.int64)
        return total

    def shares(self, sizes: Array, most: float) -> Array:
        """For every row the share of its size that brings the sum over its unit's rows to at most `most`."""
        if self._starts is None:
            return most / np.maximum(sizes, most)
        sums = np.add.reduceat(sizes, self._starts)
        counts = np.diff(np.append(self._starts, len(sizes)))
        return np.repeat(most / np.maximum(sums, most), counts)

    def per_unit(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sums over the rows of each unit, of whole numbers."""
        return values if self._starts is None else np.add.reduceat(values, self._starts, axis=0)


def exponent_of(bound: float) -> int:
    """The exponent of the power of two above a bound."""
    return math.frexp(bound)[1]


def _whole(values: Array) -> Sums:
    return np.trunc(np.ldexp(values, FINE)).astype(np.int64)


def _times(rows: Array, mass: Array | float) -> Array:
    return rows if np.isscalar(mass) else rows * np.asarray(mass)[:, None]


class Contributions:
    """Whitened rows z = (1, (x - c) W) with weights min(1, tau^2 / |z|^2), ready to be summed over.

    With these weights w |z| <= tau and w |z|^2 <= tau^2 both hold: where |z| > tau, w |z| = tau^2 / |z| < tau. A row is
    kept as its direction, 20 digits of it, and its length.
    """

    def __init__(self, rows: UnitRows, centre: Array, whitening: Array, tau: float) -> None:
        self.rows, self.tau = rows, tau
        # Column by column in memory: most of what follows is done entry by entry, for many rows at once.
        self.directions = empty_columns(len(rows.y), 1 + whitening.shape[1])
        self.lengths = np.empty(len(rows.y))
        weights = record_sums.ExactWeights.of(whitening)
        for part in rows.blocks():
            own = self.directions[part]
            self.lengths[part] = record_sums.own_directions(rows.x[part], centre, weights, out=own)
        self.weights = np.minimum(1.0, (tau / self.lengths) ** 2)

    def scores(self, theta: Array, part: slice) -> Array:
        """z'theta for every output; the same to the last bit wherever a row stands."""
        longest = float(np.sqrt(np.sum(theta * theta, axis=0)).max())
        unit = math.frexp(longest)[1] - 32
        whole = np.trunc(np.ldexp(theta, -unit))
        return (self.directions[part] @ whole) * math.ldexp(1.0, unit - DIGITS) * self.lengths[part, None]

    def gradient(self, values: Callable[[slice], Array], bound: float, *, together: bool = False) -> tuple[Sums, int]:
        """The sum of w z psi', psi given by `values` with length at most `bound`, and the exponent of its unit.

        |w z| |psi| <= tau * bound; what is longer is shortened. `together`: the bound is on the sum of a unit's rows,
        masses included.
        """
        exponent = exponent_of(self.tau * bound)
        total: Sums | None = None
        for part, found in self._pulls(values, bound, together=together):
            summed = record_sums.products(self.directions[part], record_sums.digits(found, exponent))
            total = summed if total is None else total + summed
        assert total is not None
        return total.ravel(), exponent - 2 * DIGITS

    def _pulls(
        self, values: Callable[[slice], Array], bound: float, *, together: bool
    ) -> Iterator[tuple[slice, Array]]:
        """w |z| psi' times the row's mass, shortened to tau * bound row by row or for all rows of a unit together."""
        most = INSIDE * self.tau * bound
        blocks = self.rows.blocks()
        pulls = ((part, values(part) * (self.weights[part] * self.lengths[part])[:, None]) for part in blocks)
        if not together:
            for part, found in pulls:
                shorter = found * (most / np.maximum(row_lengths(found), most))[:, None]
                yield part, _times(shorter, self.rows.mass(part))
            return
        weighed = [_times(found, self.rows.mass(part)) for part, found in pulls]
        shares = self.rows.shares(np.concatenate([row_lengths(found) for found in weighed]), most)
        for part, found in zip(blocks, weighed, strict=True):
            yield part, found * shares[part, None]

    def curvature(
        self, roots: Callable[[slice], list[Array]], bound: float, *, together: bool = False
    ) -> tuple[Sums, int]:
        """The sum of w (z z') x R, R the sum of r r' over `roots`, with Frobenius norm of R at most `bound`.

        Each root gives vectors sqrt(w) z x r, cut to whole numbers, whose products add up to the matrix. One root: cut
        vectors are shorter, so the norm is at most tau^2 * bound. Several: the caller adds `cut_share` to its bound.
        `together`: the bound is on the sum of a unit's rows, masses included, of one root.
        """
        exponent = exponent_of(self.tau * math.sqrt(bound))
        total: Sums | None = None
        shares = np.ones(len(self.lengths))
        if together:
            squares = [_times(roots(part)[0] ** 2, self.rows.mass(part))[:, 0] for part in self.rows.blocks()]
            shares = np.sqrt(self.rows.shares(np.concatenate(squares), INSIDE * bound))
        for part in self.rows.blocks():
            stretch = np.sqrt(self.weights[part]) * self.lengths[part]
            stretch = np.minimum(stretch, INSIDE * self.tau) * np.sqrt(self.rows.mass(part)) * shares[part]
            for found in roots(part):
                # One root is the whole slope, so it is at most the root of the bound.
                root = found if together or found.shape[1] > 1 else np.minimum(found, math.sqrt(bound))
                vectors = self._vectors(part, root * stretch[:, None], exponent)
                summed = record_sums.products(vectors, vectors)
                total = summed if total is None else total + summed
        assert total is not None
        return total[np.triu_indices(len(total))], 2 * (exponent - DIGITS)

    def meat(self, values: Callable[[slice], Array], bound: float, *, together: bool = False) -> tuple[Sums, int]:
        """The sum over units of u u', u the unit's mean of w z psi': |u| <= tau * bound, norms at most its square."""
        exponent = exponent_of(self.tau * bound)
        size = 0
        total: Sums | None = None
        waiting: list[Array] = []
        for part, found in self._pulls(values, bound, together=together):
            vectors = self._vectors(part, found, exponent)
            size = vectors.shape[1]
            if self.rows.masses is not None:
                waiting.append(vectors)
                continue
            summed = record_sums.products(vectors, vectors)
            total = summed if total is None else total + summed
        if waiting:
            whole = self.rows.per_unit(np.concatenate(waiting))
            total = np.zeros((size, size), np.int64)
            for first in range(0, len(whole), ROWS_PER_BLOCK):
                block = whole[first : first + ROWS_PER_BLOCK]
                total += record_sums.products(block, block)
        assert total is not None
        return total[np.triu_indices(size)], 2 * (exponent - DIGITS)

    def likeness(self, values: Callable[[slice], Array], bound: float, axes: Array, edges: Array) -> Sums:
        """How many units have a gradient of each size along each axis: a histogram for each, in units of 2^-FINE.

        Sizes are |a'u| / (tau * bound), u as in `meat`, and a unit counts as much as its rows weigh together, at most
        1, in one bin of each histogram. So the bounds are those of histograms, whatever u is. A unit that counts as
        m < 1 is in the bin of |a'u| / sqrt(m): then the mean square is that of the meat.

        Axes are at most about 1 long and whole numbers of 2^-24, and u of 2^(exponent - 20), so that products are
        exact: a unit's sizes are the same to the last bit wherever it stands.
        """
        exponent = exponent_of(self.tau * bound)
        pulls = self._pulls(values, bound, together=False)
        whole = self.rows.per_unit(np.concatenate([self._vectors(part, found, exponent) for part, found in pulls]))
        along = np.abs(whole @ np.ldexp(axes, AXIS_DIGITS).T)
        rows = slice(0, len(self.rows.y))
        masses = self.rows.per_unit(_whole(self.rows.mass(rows) * np.ones(rows.stop)))
        stretch = np.sqrt(np.ldexp(1.0, FINE) / np.maximum(masses, 1))
        along *= (stretch * (math.ldexp(1.0, exponent - DIGITS - AXIS_DIGITS) / (self.tau * bound)))[:, None]
        found = np.zeros((len(axes), len(edges) - 1), np.int64)
        for column, own in zip(along.T, found, strict=True):
            np.add.at(own, np.searchsorted(edges[1:-1], column, side="right"), masses)
        return found.ravel()

    def _vectors(self, part: slice, values: Array, exponent: int) -> Array:
        """Direction times values for every pair of entry and output, as whole numbers of 2^(exponent - 20)."""
        scaled = values * math.ldexp(1.0, -exponent)
        # Directions are whole numbers of 2^-20, so this product is in units of 2^(exponent - 20) already.
        outputs, directions = values.shape[1], self.directions[part]
        found = np.empty((len(values), directions.shape[1] * outputs), order="F")
        for k in range(outputs):
            own = found[:, k::outputs]
            np.trunc(np.multiply(directions, scaled[:, k, None], out=own), out=own)
        return found
