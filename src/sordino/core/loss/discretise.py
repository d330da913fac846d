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
_LONGEST = 2**20  # points of one grid
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

    def extent(self, tail: float) -> float:
        low, high = _ends(self, tail)
        return high - low

    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        return _discretise(self, spacing, request.tail, request.side, request.tilt)


def _ends(pair: IntervalPair, tail: float) -> tuple[float, float]:
    low, high = pair.support(tail)
    return max(-LARGEST_LOSS, min(LARGEST_LOSS, low)), max(-LARGEST_LOSS, min(LARGEST_LOSS, high))


def _discretise(pair: IntervalPair, spacing: float, tail: float, side: Side, tilt: float) -> GridLaw:
    low, high = _ends(pair, tail)
    first = math.floor(low / spacing + _ON_GRID)
    last = min(max(math.ceil(high / spacing - _ON_GRID), first + 1), max(first, 0) + _LONGEST)
    # A long left tail counts at the first point kept (above) or not at all (below); 0 stays on the grid.
    first = max(first, min(-1, last - _LONGEST))
    edges = np.arange(first, last + 1, dtype=np.float64) * spacing
    bins = pair.bins(edges)
    near, inside, far = _within(
        pair.atoms(), float(edges[0]) - spacing * _ON_GRID, float(edges[-1]) + spacing * _ON_GRID
    )
    atoms, off_grid = _split(inside, spacing, first, last)

    left, right = _shares(bins.p, bins.q, bins.p_error, bins.q_error, edges, spacing, side)
    left, right = left + off_grid[0], right + off_grid[1]
    held = dots.above(left, right) + atoms
    held[0], held[-1] = held[0] + bins.p_below + near, held[-1] + bins.p_above + far
    weights, log_peak = _weights(edges, held, tilt)
    left, right, atoms = left * weights[:-1], right * weights[1:], atoms * weights
    if side is Side.UPPER:
        points, excess = dots.above(left, right) + atoms, 0.0
        points[0] += (bins.p_below + near) * weights[0]
        infinite = pair.infinite + bins.p_above + far
    else:
        points, excess = dots.below(left, right, atoms, spacing, tilt)
        # The cut-off right tail counts at the last point, a smaller loss; the left tail is dropped.
        points[-1] += (bins.p_above + far) * (1 - 1e-11) * weights[-1]
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


def _weights(edges: Array, masses: Array, tilt: float) -> tuple[Array, float]:
    """exp(tilt * edge), scaled so that the largest tilted mass is 1, and the log of the scale.

    Scaling by the largest weight would not do: the mass may lie so far from it that all of it underflows.
    """
    exponents = tilt * edges
    held = masses > 0
    peak = float((exponents[held] + np.log(masses[held])).max(initial=-math.inf))
    if not math.isfinite(peak):
        return np.zeros_like(edges), 0.0
    return np.exp(np.minimum(exponents - peak, 700.0)), peak


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


def _within(atoms: Atoms, low: float, high: float) -> tuple[float, Atoms, float]:
    """The mass of the atoms below the grid, the atoms on it, and the mass of those above it."""
    below, above = atoms.losses < low, atoms.losses > high
    inside = ~below & ~above
    near, far = float(atoms.masses[below].sum()), float(atoms.masses[above].sum())
    return near, Atoms(atoms.losses[inside], atoms.masses[inside]), far


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
