"""Several iterates of one chain: given the last kept one, what follows is a new run, so squared mus add over segments.

The kept iterates t_1 < t_2 < ... cut the steps into segments; both chains start a segment at the same point.
"""

import math

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.shifts.chain_steps import Identical, Listed
from sordino.accounting.shifts.closed_forms import cyclic_shift, full_shift, uses_of
from sordino.accounting.shifts.solver import optimal_shift, optimal_shifts
from sordino.core.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]

# Segments that do not complete a cycle of phases are added one by one up to this much work, else rounded up to a cycle.
_MOST_WORK = 20_000_000


def kept_shifts(steps: Identical | Listed, kept: range, period: int) -> Array:
    """The mu of all kept iterates together for each position of the record in a pass of `period` batches, rounded up.

    `kept` numbers iterates from 1: the first step makes iterate 1. Positions beyond the last one have no entry.
    """
    period = min(period, kept[-1])
    if isinstance(steps, Listed):
        return np.array([_listed(_of_position(steps, position, period), kept) for position in range(period)])
    if period == 1:
        first, rest = (full_shift(steps.contraction, steps.ratio, length) ** 2 for length in (kept[0], kept.step))
        return _root(np.array([first + (len(kept) - 1) * rest]), 4)
    first = _energies(steps, period, kept[0])
    return _root(first + _later_segments(_energies(steps, period, kept.step), kept), 4 + min(len(kept), period))


def _energies(steps: Identical, period: int, length: int) -> Array:
    """Squared mu of a segment of `length` steps whose step number o is the record's first, for o = 0, 1, ..."""
    return np.array(
        [
            cyclic_shift(steps.contraction, steps.ratio, period, *uses_of(length, period, offset)) ** 2
            for offset in range(period)
        ]
    )


def _later_segments(energies: Array, kept: range) -> Array:
    """The sum over all segments but the first, for each position; segment i starts at step t_1 + (i - 1) thin."""
    period, count = len(energies), len(kept) - 1
    common = math.gcd(kept.step, period)
    cycle = period // common
    whole, rest = divmod(count, cycle)
    if rest * period > _MOST_WORK:
        whole, rest = whole + 1, 0
    # Over a cycle a position meets every offset of its residue class once.
    classes = energies.reshape(cycle, common).sum(axis=0)
    total = whole * np.roll(np.tile(classes, cycle), kept[0])
    for segment in range(rest):
        total = total + np.roll(energies, kept[0] + segment * kept.step)
    return total


def _of_position(steps: Listed, position: int, period: int) -> Listed:
    moves = np.zeros(len(steps.moves))
    moves[position::period] = steps.moves[position::period]
    return Listed(steps.contractions, moves, steps.noises)


def _listed(steps: Listed, kept: range) -> float:
    first, shape = kept[0], (len(kept) - 1, kept.step)
    mu = optimal_shift(steps.contractions[:first], steps.moves[:first], steps.noises[:first])
    if len(kept) == 1:
        return mu
    parts = (steps.contractions, steps.moves, steps.noises)
    later = optimal_shifts(*(part[first : kept[-1]].reshape(shape) for part in parts))
    return float(_root(np.array([mu**2 + float(np.sum(later**2))]), 64)[0])


def _root(energies: Array, additions: int) -> Array:
    return np.sqrt(energies) * (1 + (additions + 8) * UNIT_ROUNDOFF)
