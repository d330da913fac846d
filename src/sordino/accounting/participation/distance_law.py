"""The law of the distance that random participation leaves between two coupled chains, rounded up.

Every step contracts a distance by c and, with probability q and independently of the others, adds one move. After t
steps the distance, in moves, is Z_t = sum_{j<t} c^j B_j with independent Bernoulli(q) variables B_j. The law computed
here is stochastically larger: every position is rounded up onto a grid, and whatever leaves the grid counts as the
largest possible distance. Sums and products of positive numbers only, so that tails keep their relative accuracy.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.core.rounding import up, widen_up

Array = NDArray[np.float64]

_CELLS = 1 << 15  # grid of the first steps, added one by one
_COARSE_CELLS = 1 << 12  # grid of the later ones, added as scaled copies of the first
_FEW_STEPS = 32  # so many steps are always added one by one
_FEW_USES = 16.0  # the first steps hold about this many moves
_MOST_SINGLE = 1 << 12
_CUT = 1e-20  # probability of leaving the grid that each operation may add
_FORGOTTEN = 1e-3  # share of the mean distance that may come from steps so old that all of them are charged
# A few thousand additions and products of positive numbers.
_ACCURACY = 1e-11


@dataclass(frozen=True)
class DistanceLaw:
    """P(Z = values[i]) = weights[i], values increasing; stochastically above the law it stands for."""

    values: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class _Gridded:
    """Masses at 0, spacing, 2 spacing, ..., and the mass lost beyond the grid."""

    spacing: float
    masses: Array
    lost: float

    @property
    def top(self) -> float:
        return (len(self.masses) - 1) * self.spacing

    def moved(self, factor: float, spacing: float) -> Array:
        """Masses of factor * Z on another grid, rounded up."""
        places = np.arange(len(self.masses)) * (self.spacing * factor / spacing)
        # A position 1e-13 above a grid point is put on it; the grid is stretched by more than that at the end.
        cells = np.ceil(places * (1 - 1e-13)).astype(np.int64)
        return np.bincount(cells, weights=self.masses).astype(np.float64)

    def cut(self) -> "_Gridded":
        """Without the far end that holds next to nothing."""
        beyond = np.cumsum(self.masses[::-1])
        dropped = int(np.searchsorted(beyond, _CUT, side="right"))
        if dropped == 0:
            return self
        return _Gridded(self.spacing, self.masses[:-dropped], self.lost + float(beyond[dropped - 1]))


def largest_distance(contraction: float, steps: int) -> float:
    """sum_{j<steps} c^j, rounded up: the distance if every step moves."""
    if contraction >= 1.0:
        return float(steps)
    log = math.log(contraction)
    return widen_up(math.expm1(steps * log) / math.expm1(log), 1e-13)


@lru_cache(maxsize=64)
def distance_law(contraction: float, rate: float, steps: int, most: int = 160) -> DistanceLaw:
    """The law of Z_steps on at most about `most` values, stochastically above the exact one; c <= 1."""
    largest = largest_distance(contraction, steps)
    if steps == 0:
        return DistanceLaw((0.0,), (1.0,))
    recent = _remembered(contraction, rate, steps)
    law = _recent(contraction, rate, recent)
    carried = largest - largest_distance(contraction, recent) * (1 - 1e-12) if recent < steps else 0.0
    values = np.minimum(np.arange(len(law.masses)) * law.spacing * (1 + 1e-10) + max(carried, 0.0), largest)
    return _thinned(values, law.masses, law.lost, largest, most)


def _remembered(contraction: float, rate: float, steps: int) -> int:
    """How many of the last steps are followed one by one; all older ones are charged as if they moved."""
    if contraction >= 1.0:
        return steps
    # c^n / (1 - c) <= share * max(1, q / (1 - c)): the charge is small beside one move or the mean distance.
    slow = -math.expm1(math.log(contraction))
    enough = math.log(_FORGOTTEN * max(slow, rate)) / math.log(contraction)
    return min(steps, max(1, math.ceil(enough)))


@lru_cache(maxsize=16)
def _recent(contraction: float, rate: float, steps: int) -> _Gridded:
    """Z_steps = Z_n + c^n Z'_n with n half the steps; short runs step by step, on a grid that is fine for them."""
    if steps <= min(_MOST_SINGLE, max(_FEW_STEPS, math.ceil(_FEW_USES / rate))):
        return _single(contraction, rate, steps)
    half = _recent(contraction, rate, steps // 2)
    doubled = _joined(half, half, contraction ** (steps // 2))
    return doubled if steps % 2 == 0 else _joined(_single(contraction, rate, 1), doubled, contraction)


def _single(contraction: float, rate: float, steps: int) -> _Gridded:
    """Z_steps, one Bernoulli variable after the other: only moves that happen are rounded."""
    mean = largest_distance(contraction, steps) * rate
    # Chernoff for sums of variables in [0, 1]: beyond this lies less than the cut.
    reach = min(mean + 10 * math.sqrt(mean) + 48.0, largest_distance(contraction, steps))
    # Every move is rounded up by less than a cell; all of them together still fit.
    spacing = max(reach, 1.0) / (_CELLS - 2 - steps)
    masses, lost = np.zeros(_CELLS), 0.0
    masses[0], held = 1.0, 1
    for step in range(steps):
        jump = math.ceil(contraction**step / spacing * (1 + 1e-13))
        moved = rate * masses[:held]
        masses[:held] -= moved
        room = max(0, min(held, _CELLS - jump))
        masses[jump : jump + room] += moved[:room]
        lost += float(moved[room:].sum())
        held = max(held, min(_CELLS, held + jump))
        held = _last_held(masses, held)
    return _Gridded(spacing, masses[:held], lost).cut()


def _last_held(masses: Array, held: int) -> int:
    """Forget nothing, but do not walk over cells that underflowed to 0."""
    while held > 1 and masses[held - 1] == 0.0:
        held -= 1
    return held


def _joined(near: _Gridded, far: _Gridded, factor: float) -> _Gridded:
    """near + factor * far, independent."""
    factor = min(1.0, up(factor * (1 + 1e-13)))
    spacing = max(near.spacing, (near.top + factor * far.top) / _COARSE_CELLS)
    masses = np.convolve(near.moved(1.0, spacing), far.moved(factor, spacing))
    return _Gridded(spacing, masses, near.lost + far.lost).cut()


def _thinned(values: Array, masses: Array, lost: float, largest: float, most: int) -> DistanceLaw:
    """Round up onto few values: dense where the probability is, sparse in the tail."""
    beyond = np.cumsum(masses[::-1])[::-1] + lost
    bulk = int(np.searchsorted(-beyond, -1e-9)) - 1
    tail = len(values) - 1
    inner = np.linspace(0, max(bulk, 0), most * 3 // 4)
    outer = np.linspace(max(bulk, 0), tail, most // 4)
    ends = np.unique(np.ceil(np.concatenate([inner, outer])).astype(np.int64))
    # P(Z > values[end]) rounded up, then differences: a law that is above in the stochastic order, whatever the errors.
    exceeding = np.append(beyond[1:], lost)[ends]
    survival = np.minimum(exceeding * (1 + _ACCURACY), 1.0)
    survival[-1] = min(1.0, survival[-1] + _CUT)
    weights = -np.diff(np.concatenate([[1.0], survival, [0.0]]))
    kept = weights > 0
    placed = np.append(values[ends], largest)
    return DistanceLaw(tuple(placed[kept].tolist()), tuple(weights[kept].tolist()))
