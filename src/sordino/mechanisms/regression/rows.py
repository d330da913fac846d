"""Private rows ready to be summed: encoded columns, targets, exposures, and the mass of each row within its unit.

A unit is a row, or a person with several rows. Each of a person's m rows has mass 1/m, so a person contributes the mean
of what rows would contribute: a bound on a row's contribution bounds a person's, and the noise is that of one row a
person. Survey weights between 0 and 1 multiply masses: contributions then lie between 0 and what they were.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.families import family_of
from sordino.noise.integer_sums import MOST_ROWS, ROWS_PER_BLOCK, check_size
from sordino.noise.whole_rows import checked_rows
from sordino.noise.wide_sums import Summed, WideSums

if TYPE_CHECKING:
    from sordino.mechanisms.regression.plan import Plan
    from sordino.mechanisms.regression.statistics import Whitened
    from sordino.noise.port import Statistic


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
        self.masses: Array | None = weights if unit is None else None
        self.starts: NDArray[np.intp] | None = None
        if unit is not None:
            order = np.argsort(unit, kind="stable")
            _, starts, counts = np.unique(np.asarray(unit)[order], return_index=True, return_counts=True)
            most = declaration.most_records
            order = order[np.arange(len(order)) - np.repeat(starts, counts) < most]
            counts = np.minimum(counts, most)
            self.masses, self.starts = np.repeat(1.0 / counts, counts), np.cumsum(counts) - counts
            X, y = X[order], y[order]
            exposure = None if exposure is None else exposure[order]
            if weights is not None:
                self.masses = self.masses * weights[order]
        self.units = len(X) if self.starts is None else len(self.starts)
        starts = self.starts
        self.unit_of_row = None if starts is None else np.searchsorted(starts, np.arange(len(X)), side="right") - 1
        self.x, self.y = X if encoded else declaration.encoded(X), y
        self.exposure = np.ones(len(X)) if exposure is None else exposure

    def blocks(self) -> list[slice]:
        """Parts of the rows that are summed at once; at least one, because an empty table has an answer too."""
        return [slice(first, first + ROWS_PER_BLOCK) for first in range(0, max(1, len(self.y)), ROWS_PER_BLOCK)]

    def marked(self) -> list[Array]:
        """The numbers that sums are made of, column by column: what an engine compares between rounds."""
        more = (None if self.declaration.exposure is None else self.exposure, self.masses)
        return [self.x.T, *(each[None] for each in (self.y, *more) if each is not None)]

    def mass(self, part: slice) -> Array:
        """The masses of some rows."""
        return np.ones(len(self.y[part])) if self.masses is None else self.masses[part]

    def shares(self, sizes: Array, most: float) -> Array:
        """For every row the share of its size that brings the sum over its unit's rows to at most `most`."""
        if self.starts is None or not len(sizes):
            return most / np.maximum(sizes, most)
        sums = np.add.reduceat(sizes, self.starts)
        counts = np.diff(np.append(self.starts, len(sizes)))
        return np.repeat(most / np.maximum(sums, most), counts)

    def per_unit(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sums over the rows of each unit, of whole numbers."""
        if self.starts is None or not len(values):
            return values
        return np.add.reduceat(values, self.starts, axis=0)


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
    """Weights between 0 and 1, whatever is given: bounds on contributions depend on that."""
    if weight is None:
        return None
    given = np.asarray(weight, np.float64)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise refuse("weight", f"to be one finite number for each of the {size} rows", "others")
    return np.clip(given, 0.0, 1.0)


class InMemory:
    """Sums over rows that are in memory; whitened rows are kept from one statistic to the next."""

    def __init__(self, plan: "Plan", given: Given, most: int = MOST_ROWS) -> None:
        self._parts = list(unit_rows(plan.family, plan.declaration, given, most))
        self._whitened: list[Whitened | None] = [None] * len(self._parts)

    def __call__(self, statistic: "Statistic") -> Summed:
        total = WideSums.zeros(statistic.numbers)
        for place, rows in enumerate(self._parts):
            self._whitened[place] = statistic.whitened(rows, self._whitened[place])
            total.add(statistic.of(rows, self._whitened[place])[0])
        return Summed(total, statistic.exponent, sum(rows.units for rows in self._parts))
