"""Private rows ready to be summed: encoded, whitened and weighted, with the mass of each row within its unit.

A unit is a row, or a person with several rows. Each of a person's m rows has mass 1/m, so a person contributes the mean
of what rows would contribute: a bound on a row's contribution bounds a person's, and the noise is that of one row a
person. Survey weights between 0 and 1 multiply masses: contributions then lie between 0 and what they were.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.families import At, Family, Says, family_of
from sordino.noise.integer_sums import (
    DIGITS,
    INSIDE,
    MOST_ROWS,
    ROWS_PER_BLOCK,
    ExactWeights,
    check_size,
    checked_rows,
    own_directions,
    shorten,
)
from sordino.noise.port import Summed, wide

if TYPE_CHECKING:
    from sordino.mechanisms.regression.plan import Plan
    from sordino.noise.port import Statistic


def exponent_of(bound: float) -> int:
    """The exponent of the power of two above a bound."""
    return math.frexp(bound)[1]


@dataclass(frozen=True, eq=False)
class Frame:
    """Where rows are centred, and the matrix that whitens them: z = (1, (x - centre) W)."""

    centre: Array
    whitening: Array


class Whitened:
    """Whitened rows: directions, in 20 digits, and lengths."""

    def __init__(self, x: Array, frame: Frame) -> None:
        self.frame = frame
        # Column by column in memory: most of what follows is done entry by entry, for many rows at once.
        self.directions = empty_columns(len(x), 1 + frame.whitening.shape[1])
        self.lengths = np.empty(len(x))
        weights = ExactWeights.of(frame.whitening)
        for part in self._blocks():
            own = self.directions[part]
            self.lengths[part] = own_directions(x[part], frame.centre, weights, out=own)

    def _blocks(self) -> list[slice]:
        """Parts of the rows; at least one, because an empty table has an answer too."""
        return [slice(first, first + ROWS_PER_BLOCK) for first in range(0, max(1, len(self.lengths)), ROWS_PER_BLOCK)]

    def scores(self, theta: Array) -> Array:
        """z'theta for every output; the same to the last bit wherever a row stands."""
        unit = exponent_of(float(np.sqrt(np.sum(theta * theta, axis=0)).max())) - 32
        cut = np.trunc(np.ldexp(theta, -unit))
        scaled = np.concatenate([self.directions[part] @ cut for part in self._blocks()])
        return scaled * math.ldexp(1.0, unit - DIGITS) * self.lengths[:, None]


class UnitRows:
    """Rows of whole units, sorted by unit where there are units with several rows."""

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
        check_size(X)
        self.declaration = declaration
        self.masses, self.units = weights, len(X)
        self.starts: NDArray[np.intp] | None = None
        self.unit_of_row: NDArray[np.intp] | None = None
        if unit is not None:
            order = np.argsort(unit, kind="stable")
            _, starts, counts = np.unique(np.asarray(unit)[order], return_index=True, return_counts=True)
            most = declaration.most_records
            order = order[np.arange(len(order)) - np.repeat(starts, counts) < most]
            counts = np.minimum(counts, most)
            self.units, self.starts = len(counts), np.cumsum(counts) - counts
            self.unit_of_row = np.repeat(np.arange(len(counts)), counts)
            self.masses = np.repeat(1.0 / counts, counts)
            X, y = X[order], y[order]
            exposure = None if exposure is None else exposure[order]
            if weights is not None:
                self.masses = self.masses * weights[order]
        self.x, self.y = X if encoded else declaration.encoded(X), y
        self.exposure = np.ones(len(X)) if exposure is None else exposure
        self._whitened: Whitened | None = None

    def whitened(self, frame: Frame) -> Whitened:
        """Whitened rows, kept from one statistic to the next."""
        if self._whitened is None or self._whitened.frame is not frame:
            self._whitened = Whitened(self.x, frame)
        return self._whitened

    def marked(self) -> list[Array]:
        """The numbers that sums are made of, column by column: what an engine compares between rounds."""
        more = (None if self.declaration.exposure is None else self.exposure, self.masses)
        return [self.x.T, *(each[None] for each in (self.y, *more) if each is not None)]

    def mass(self, part: slice) -> Array:
        return np.ones(len(self.y[part])) if self.masses is None else self.masses[part]

    def shares(self, sizes: Array, most: float) -> Array:
        """For every row the share of its size that brings the sum over its unit's rows to at most `most`."""
        shares = most / np.maximum(self.per_unit(sizes), most)
        return shares if self.unit_of_row is None else shares[self.unit_of_row]

    def per_unit(self, values: Array) -> Array:
        """Sums over the rows of each unit."""
        if self.starts is None or not len(values):
            return values
        return np.add.reduceat(values, self.starts, axis=0)


def weigh(lengths: Array, tau: float | Array, far: float | Array) -> Array:
    """min(1, tau / length, tau far / length^2)."""
    safe = np.maximum(lengths, 1e-300)
    return np.minimum(1.0, np.minimum(tau / safe, (tau / safe) * (far / safe)))


@dataclass(frozen=True, eq=False)
class FitRound:
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

    def residuals(self, rows: UnitRows) -> Array:
        """Residuals of all rows, in their scales or standard deviations."""
        return self.kind.residual(*self.scored(rows), self.at)

    def asked(self, rows: UnitRows) -> tuple[Says, Array, Array]:
        """What rows say, their stretched lengths |u| and their weights."""
        says = self.kind.says(*self.scored(rows), self.at)
        lengths = rows.whitened(self.frame).lengths * says.stretch
        return says, lengths, weigh(lengths, self.tau, self.far)

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


@dataclass(frozen=True, eq=False)
class Given:
    """Private rows as arrays: in the table's units, with exposures and units where the declaration has them.

    A weight between 0 and 1 says how much a row counts; None: every row counts as 1.
    """

    X: ArrayLike
    y: ArrayLike
    exposure: ArrayLike | None = None
    unit: ArrayLike | None = None
    weight: ArrayLike | None = None


def unit_rows(family: str, declaration: Declaration, given: Given, most: int = MOST_ROWS) -> Iterator[UnitRows]:
    """Rows ready to be summed, at most so many at a time; no unit is divided.

    Sums of 64 bits hold `MOST_ROWS` rows; what several such parts add up to is summed with 128 bits.
    """
    # Rows that are encoded already are finite: they were just looked at.
    known = isinstance(given.X, np.ndarray) and given.X.dtype == np.float64 and declaration.are_encoded(given.X)
    features, target = checked_rows(given.X, given.y, np.float64, known=known)
    if features.shape[1] != declaration.columns:
        raise refuse("the rows", f"to have {declaration.columns} columns", f"{features.shape[1]}")
    if (given.unit is None) is declaration.unit:
        wanted = "to be given exactly where the declaration says that rows belong to units"
        raise refuse("unit", wanted, given.unit is None)
    X, size = np.asarray(features, np.float64), len(target)
    y = family_of(family, declaration).target(np.asarray(target, np.float64))
    exposure = _clipped("exposure", given.exposure, declaration.exposure, size)
    unit = None if given.unit is None else np.asarray(given.unit)
    # Bounds on contributions depend on weights between 0 and 1, whatever is given.
    weight = _clipped("weight", given.weight, (0.0, 1.0), size)
    if size <= most:
        yield UnitRows(declaration, X, y, exposure, unit, weight, encoded=known)
        return
    for rows in _parts(size, unit, most):
        own = (None if each is None else each[rows] for each in (exposure, unit, weight))
        yield UnitRows(declaration, X[rows], y[rows], *own, encoded=known)


def _parts(size: int, unit: NDArray[np.generic] | None, most: int) -> Iterator[slice | NDArray[np.intp]]:
    if unit is None:
        yield from (slice(first, first + most) for first in range(0, size, most))
        return
    order = np.argsort(unit, kind="stable")
    starts = np.append(np.flatnonzero(np.append(True, np.diff(unit[order]) != 0)), size)
    first = 0
    while first < size:
        stop = int(starts[np.searchsorted(starts, first + most, side="right") - 1])
        # A unit with more rows than fit is a part of its own; of its rows only the first few are used.
        stop = stop if stop > first else int(starts[np.searchsorted(starts, first, side="right")])
        yield np.sort(order[first:stop])
        first = stop


def _clipped(name: str, values: ArrayLike | None, bounds: tuple[float, float] | None, size: int) -> Array | None:
    if values is None or bounds is None:
        return None
    given = np.asarray(values, np.float64)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise refuse(name, f"to be one finite number for each of the {size} rows", "others")
    return np.clip(given, *bounds)


class InMemory:
    """Sums over rows that are in memory."""

    def __init__(self, plan: "Plan", given: Given, most: int = MOST_ROWS) -> None:
        self._parts = list(unit_rows(plan.family, plan.declaration, given, most))

    def __call__(self, statistic: "Statistic") -> Summed:
        total = wide(statistic.numbers)
        for rows in self._parts:
            total += statistic.of(rows)
        return Summed(total, statistic.exponent, sum(rows.units for rows in self._parts))
