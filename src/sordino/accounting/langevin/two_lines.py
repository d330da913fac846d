"""The cheapest shifts when a step's modulus is the smaller of two lines: far apart one counts, near by the other.

Far apart, two steps end at most rho z + 2 eta v apart, because the data part is bounded; near by, at most c z + s_k,
because it is smooth, s_k being the move of the one record where the step's batch holds it. Whichever line is used at a
step, the larger distance is a valid one, so every assignment of lines to steps is a shift problem with linear moduli,
solved exactly by `shifts.solver`. The distance rises and falls once: near lines first, far ones in between, near ones
at the end, and only the two changes are searched for. All near is composition or better, all far the drift's bound.

The general method is dynamic programming over the distance on a grid, which a test compares it with.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.shifts.solver import best_window, optimal_shift
from sordino.core.rounding import up, widen_up

Array = NDArray[np.float64]

# Longer runs are looked at through their last steps, from the largest distance there can be.
LONGEST_WINDOW = 10_000
# Windows of steps tried one by one; beyond, a refined geometric grid.
_EXHAUSTIVE = 24


@dataclass(frozen=True, eq=False)
class TwoLines:
    """Far and near modulus of every step, and its noise; arrays of one length."""

    far_contractions: Array
    far_moves: Array
    near_contractions: Array
    near_moves: Array
    noises: Array

    def last(self, count: int) -> "TwoLines":
        """The last steps."""
        return TwoLines(*(getattr(self, name)[-count:] for name in self.__dataclass_fields__))

    def farthest(self) -> float:
        """A distance that no step leads beyond, whatever the steps before: the largest 2 eta v / (1 - rho)."""
        kept = self.far_contractions.max()
        if kept >= 1.0:
            return math.inf
        # 1 - rho is exact for rho in [1/2, 1); the quotient's rounding is covered.
        return widen_up(float(np.max(self.far_moves / (1.0 - self.far_contractions))), 1e-14)


def two_line_shift(lines: TwoLines) -> float:
    """The smallest mu over all changes between the two lines, rounded up; both chains start at one point."""
    steps = len(lines.noises)
    if steps <= LONGEST_WINDOW:
        return _switched(lines, 0.0)
    start = lines.farthest()
    return math.inf if math.isinf(start) else _switched(lines.last(LONGEST_WINDOW), start)


def _switched(lines: TwoLines, start: float) -> float:
    steps = len(lines.noises)
    first = _unpushed_change(lines) if start == 0.0 else 0

    def cost(before: int, after: int) -> float:
        near = np.zeros(steps, dtype=bool)
        near[:before] = True
        near[steps - after :] = True
        contractions = np.where(near, lines.near_contractions, lines.far_contractions)
        moves = np.where(near, lines.near_moves, lines.far_moves)
        return optimal_shift(contractions, moves, lines.noises, start)

    costs = {after: cost(first, after) for after in (0, steps - first)}

    def at(after: int) -> float:
        if after not in costs:
            costs[after] = cost(first, after)
        return costs[after]

    if steps > first:
        best_window(at, steps - first, _EXHAUSTIVE)
    after = min(costs, key=lambda window: costs[window])
    least = costs[after]
    if start == 0.0 and steps > after:
        # Pushes before the distance is large put the first change off a little.
        least = min(least, best_window(lambda before: cost(before, after), steps - after, _EXHAUSTIVE))
    return least


def _unpushed_change(lines: TwoLines) -> int:
    """How many first steps of a path that is never pushed are nearer by the near line."""
    distance = 0.0
    parts = (lines.near_contractions, lines.near_moves, lines.far_contractions, lines.far_moves)
    for step, (c, s, rho, bounded) in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
        near, far = c * distance + s, rho * distance + bounded
        if far < near:
            return step
        distance = up(near)
    return len(lines.noises)
