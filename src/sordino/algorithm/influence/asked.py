"""One sum over rows that a round asks for: public numbers, and the whole numbers that some rows add to it.

This is all that an engine needs. `Asked` travels to where rows are, `Asked.of` computes what some of them contribute
from each unit's own rows and public numbers alone, and whole numbers travel back. They add up to the same sum however
rows were divided, as long as no unit is divided: one kernel computes contributions for every engine, so all of them
give the same sums to the last bit.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.influence import likeness, readings
from sordino.algorithm.influence.declaration import Declaration
from sordino.algorithm.influence.families import At, family_of
from sordino.algorithm.influence.plan import Plan
from sordino.algorithm.influence.sums import FINE, Contributions, Sums, UnitRows, exponent_of
from sordino.algorithm.noise.sums import DIGITS, MOST_ROWS, checked_rows
from sordino.algorithm.noise.wide_sums import WideSums
from sordino.core.arrays import Array
from sordino.core.validate import refuse


class Summed(NamedTuple):
    """Sums over all rows, the exponent of their unit, and how many units the rows belong to."""

    sums: WideSums
    exponent: int
    units: int


Total = Callable[["Asked"], Summed]


@dataclass(frozen=True, eq=False)
class Asked:
    """A question to rows, in public numbers.

    Attributes:
        name: of the mechanism.
        numbers: how many are asked for.
        family: of the target.
        declaration: columns, target and exposure.
        tau: the length up to which whitened rows have weight 1.
        rho: the length to which standardised rows are shortened.
        in_matrix: whether the scatter is a matrix, or its diagonal.
        at: scale, clip and cap of the round.
        centre: where rows are centred, once that is known; likewise `spread`, `whitening` and `point`.
        spread: of columns.
        whitening: the matrix that whitens rows.
        point: coefficients of whitened columns.
        axes: along which sizes of units' gradients are counted.
    """

    name: str
    numbers: int
    family: str
    declaration: Declaration
    tau: float
    rho: float
    in_matrix: bool
    at: At
    centre: Array | None = None
    spread: Array | None = None
    whitening: Array | None = None
    point: Array | None = None
    axes: Array | None = None

    @property
    def exponent(self) -> int:
        """Of the unit of the sum; public, and the same for all rows."""
        kind = family_of(self.family)
        if self.name == "scatter":
            return 2 * (exponent_of(self.rho) - DIGITS)
        if self.name == "curvature":
            slope = kind.slope_bound(self.declaration, self.at)
            return 2 * (exponent_of(self.tau * math.sqrt(slope)) - DIGITS)
        if self.name == "meat" or self.name.startswith("gradients"):
            return (
                exponent_of(self.tau * kind.bound(self.declaration, self.at)) * (1 + (self.name == "meat")) - 2 * DIGITS
            )
        return -FINE

    def contributions(self, rows: UnitRows) -> Contributions | None:
        """Whitened rows, where the question is about them: the same for every question once whitening is known."""
        if self.whitening is None:
            return None
        assert self.centre is not None
        return Contributions(rows, self.centre, self.whitening, self.tau)

    def of(self, rows: UnitRows, whole: Contributions | None = None) -> tuple[Sums, int]:
        """What these rows add to the sum, and the exponent of its unit; `whole` are their `contributions`."""
        if self.name == "centre":
            return rows.centre(), -FINE
        if self.name == "scales":
            return self._column_histograms(rows), -FINE
        if self.name == "scatter":
            assert self.centre is not None
            assert self.spread is not None
            kind = rows.scatter if self.in_matrix else rows.squares
            return kind(self.centre, self.spread, self.rho), self.exponent
        if self.name == "location":
            return _histogram(rows, rows.y, readings.LOCATION_EDGES), -FINE
        if self.name == "counts":
            return _histogram(rows, rows.y, readings.COUNT_EDGES), -FINE
        given = self.contributions(rows) if whole is None else whole
        assert given is not None
        return self._at_point(rows, given)

    def _at_point(self, rows: UnitRows, whole: Contributions) -> tuple[Sums, int]:
        """Sums of what records say at the point."""
        assert self.point is not None
        at, kind, declaration = self.at, family_of(self.family), self.declaration
        theta = self.point.reshape(-1, kind.outputs(declaration))
        if self.name.startswith("residuals"):
            sizes = [
                kind.residual(rows.y[one], whole.scores(theta, one), rows.exposure[one, None], at)
                for one in rows.blocks()
            ]
            return _histogram(rows, np.abs(np.concatenate(sizes)), readings.RESIDUAL_EDGES), -FINE

        y, exposure = rows.y, rows.exposure
        if kind.per_unit:
            scores = np.concatenate([whole.scores(theta, one) for one in rows.blocks()])
            y, exposure = kind.followed(y, scores, exposure, declaration)

        def psi(part: slice) -> Array:
            return kind.psi(y[part], whole.scores(theta, part), exposure[part, None], at)

        def roots(part: slice) -> list[Array]:
            return kind.roots(y[part], whole.scores(theta, part), exposure[part, None], at)

        bound, together = kind.bound(declaration, at), kind.per_unit
        if self.name == "curvature":
            return whole.curvature(roots, kind.slope_bound(declaration, at), together=together)
        if self.name == "meat":
            return whole.meat(psi, bound, together=together)
        if self.name == "likeness":
            assert self.axes is not None
            return whole.likeness(psi, bound, self.axes, likeness.EDGES), -FINE
        return whole.gradient(psi, bound, together=together)

    def _column_histograms(self, rows: UnitRows) -> Sums:
        assert self.centre is not None
        numbers, centre = self.declaration.numbers, self.centre

        def places(part: slice) -> NDArray[np.intp]:
            return readings.bins_of(np.abs(rows.x[part][:, numbers] - centre[numbers]), readings.SCALE_EDGES)

        return rows.histogram(places, len(readings.SCALE_EDGES) - 1, len(numbers))


def _histogram(rows: UnitRows, values: Array, edges: Array) -> Sums:
    return rows.histogram(lambda part: readings.bins_of(values[part], edges), len(edges) - 1)


@dataclass(frozen=True, eq=False)
class Given:
    """Private rows as arrays: in the table's units, with exposures and units where the declaration has them.

    A weight between 0 and 1 says how much a row counts; None: every row counts as 1.
    """

    X: Any
    y: Any
    exposure: Any = None
    unit: Any = None
    weight: Any = None


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
        raise refuse(
            "unit", "to be given exactly where the declaration says that rows belong to units", given.unit is None
        )
    X = np.asarray(features, np.float64)
    y = family_of(family).target(declaration, np.asarray(target, np.float64))
    exposure = _exposure(declaration, given.exposure, len(y))
    unit = None if given.unit is None else np.asarray(given.unit)
    weight = _weights(given.weight, len(y))
    if len(y) <= most:
        yield UnitRows(declaration, X, y, exposure, unit, weight, encoded=known)
        return
    for rows in _parts(len(y), unit, most):
        own = (None if each is None else each[rows] for each in (unit, weight))
        yield UnitRows(declaration, X[rows], y[rows], exposure[rows], *own, encoded=known)


def _parts(size: int, unit: NDArray[Any] | None, most: int) -> Iterator[Any]:
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


def _exposure(declaration: Declaration, exposure: Any, size: int) -> Array:
    bounds = declaration.exposure
    if exposure is None or bounds is None:
        return np.ones(size)
    given = np.asarray(exposure, np.float64)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise refuse("exposure", f"to be one finite number for each of the {size} rows", "others")
    return np.clip(given, *bounds)


def _weights(weight: Any, size: int) -> Array | None:
    """Weights between 0 and 1, whatever is given: that is what bounds on contributions rest on."""
    if weight is None:
        return None
    given = np.asarray(weight, np.float64)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise refuse("weight", f"to be one finite number for each of the {size} rows", "others")
    return np.clip(given, 0.0, 1.0)


class InMemory:
    """Sums over rows that are in memory; whitened rows are kept from one question to the next."""

    def __init__(self, plan: Plan, given: Given, most: int = MOST_ROWS) -> None:
        self._parts = list(unit_rows(plan.family, plan.declaration, given, most))
        self._whitened: list[Contributions | None] = [None] * len(self._parts)

    def __call__(self, asked: Asked) -> Summed:
        total = WideSums.zeros(asked.numbers)
        for place, rows in enumerate(self._parts):
            if self._whitened[place] is None:
                self._whitened[place] = asked.contributions(rows)
            total.add(asked.of(rows, self._whitened[place])[0])
        return Summed(total, asked.exponent, sum(rows.units for rows in self._parts))
