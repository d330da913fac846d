"""Pairs known by their probabilities between given losses, and how their law is put on a grid, above or below it."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.loss import dots
from sordino.core.loss.grid_law import GridLaw, Side, trimmed
from sordino.core.loss.pair import Pair, Request
from sordino.core.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]

# exp() of larger losses overflows; what lies beyond counts as infinite loss (above) or is moved here (below).
LARGEST_LOSS = 600.0
_TRIM = 1e-16  # tilted mass given up at each end, below the rounding of the rest
_ON_GRID = 1e-9  # an atom this close to a grid point (in spacings) is moved onto it; `shift` pays for it


@dataclass(frozen=True)
class Bins:
    """Probabilities of the open intervals between consecutive edges, with bounds on their absolute error."""

    p: Array
    q: Array
    p_below: float
    p_above: float
    p_error: Array
    q_error: Array


@dataclass(frozen=True)
class Atoms:
    """Point masses of P at finite losses."""

    losses: Array
    masses: Array


NO_ATOMS = Atoms(np.empty(0), np.empty(0))


class IntervalPair(Pair):
    """A pair that answers how much probability P and Q put between losses, and which atoms it has."""

    def atoms(self) -> Atoms:
        """Point masses."""
        return NO_ATOMS

    @abstractmethod
    def support(self, tail: float) -> tuple[float, float]:
        """Losses outside which the continuous part of P has probability at most `tail` on each side."""

    @abstractmethod
    def bins(self, edges: Array) -> Bins:
        """Probabilities of the continuous part between the edges (increasing losses)."""

    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        return _discretise(self, spacing, request.tail, request.side, request.tilt)


def _discretise(pair: IntervalPair, spacing: float, tail: float, side: Side, tilt: float) -> GridLaw:
    low, high = (max(-LARGEST_LOSS, min(LARGEST_LOSS, end)) for end in pair.support(tail))
    first = math.floor(low / spacing + _ON_GRID)
    last = max(math.ceil(high / spacing - _ON_GRID), first + 1)
    edges = np.arange(first, last + 1, dtype=np.float64) * spacing
    bins = pair.bins(edges)
    atoms, off_grid = _split(pair.atoms(), spacing, first, last)

    left, right = _shares(bins.p, bins.q, bins.p_error, bins.q_error, edges, spacing, side)
    left, right = left + off_grid[0], right + off_grid[1]
    weights, log_peak = _weights(edges, tilt)
    left, right, atoms = left * weights[:-1], right * weights[1:], atoms * weights
    if side is Side.UPPER:
        points, excess = dots.above(left, right) + atoms, 0.0
        points[0] += bins.p_below * weights[0]
        infinite = pair.infinite + bins.p_above
    else:
        points, excess = dots.below(left, right, atoms, spacing, tilt)
        # The cut-off right tail counts at the last point, a smaller loss; the left tail is dropped.
        points[-1] += bins.p_above * (1 - 1e-11) * weights[-1]
        infinite = pair.infinite
    moved = spacing * _ON_GRID if atoms.any() else 0.0
    shift = moved + 16 * UNIT_ROUNDOFF * (1 + max(abs(low), abs(high)))
    total = float(points.sum())
    if total == 0.0:
        return GridLaw(spacing, first, np.zeros(1), tilt, 0.0, min(1.0, infinite), 0.0, shift)
    relative = UNIT_ROUNDOFF * (64 + 4 * tilt * float(np.abs(edges).max()) + 2 * math.log2(len(points)))
    lead, masses = trimmed(points / total, _TRIM)
    error = relative + excess / total + 2 * _TRIM
    return GridLaw(spacing, first + lead, masses, tilt, log_peak + math.log(total), min(1.0, infinite), error, shift)


def _weights(edges: Array, tilt: float) -> tuple[Array, float]:
    """exp(tilt * edge) divided by its peak, and the log of that peak."""
    exponents = tilt * edges
    peak = float(exponents.max())
    return np.exp(exponents - peak), peak


def _shares(
    p: Array, q: Array, p_error: Array, q_error: Array, edges: Array, spacing: float, side: Side
) -> tuple[Array, Array]:
    """Split each bin between its two grid points, keeping P and Q mass; errors push towards the safe point."""
    rise = np.exp(edges[1:])
    step = math.expm1(spacing)
    left = (q * rise - p) / step
    left_error = (q_error * rise + p_error + 8 * UNIT_ROUNDOFF * (q * rise + p)) / step
    if side is Side.UPPER:
        left = np.clip(left - left_error, 0.0, p)
        return left, p + p_error - left
    mass = np.maximum(p - p_error, 0.0)
    left = np.clip(left + left_error, 0.0, mass)
    return left, mass - left


def _split(atoms: Atoms, spacing: float, first: int, last: int) -> tuple[Array, tuple[Array, Array]]:
    """Atoms on the grid as point masses; atoms off it as bin shares (see `dots`)."""
    points, left, right = np.zeros(last - first + 1), np.zeros(last - first), np.zeros(last - first)
    position = np.clip(atoms.losses / spacing - first, 0, last - first)
    nearest = np.rint(position).astype(int)
    on_grid = np.abs(position - nearest) <= _ON_GRID
    np.add.at(points, nearest[on_grid], atoms.masses[on_grid])
    index = np.floor(position[~on_grid]).astype(int)
    from_left = (position[~on_grid] - index) * spacing
    share = (np.exp(-from_left) - math.exp(-spacing)) / -math.expm1(-spacing)
    np.add.at(left, index, atoms.masses[~on_grid] * share)
    np.add.at(right, index, atoms.masses[~on_grid] * (1 - share))
    return points, (left, right)
