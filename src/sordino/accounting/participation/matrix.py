"""How far one unit moves a matrix mechanism: the longest sum of the columns of the steps that may use it.

With contributions of norm at most 1, |C x|^2 = sum over i, j of <x_i, x_j> G_ij <= sum over i, j of |G_ij|, G = C' C,
over the steps i, j that use the unit (Choquette-Choo et al. 2023).
"""

import math

import numpy as np

from sordino.core.arrays import Array
from sordino.core.gaussian import up
from sordino.core.spec.mechanisms import MOST_STEPS, MatrixMechanism, Participation, ParticipationScheme

_ROUNDING = 1e-12


def sensitivity(run: MatrixMechanism) -> float | str:
    """The largest move under the participation, for contributions of norm 1; or why it is not found."""
    participation, steps = run.participation, run.steps
    if participation.scheme is ParticipationScheme.SINGLE or participation.uses == 1:
        return _root(float(run.strategy.squares(steps).max()))
    uses = participation.uses or participation.most_uses(steps)
    column = run.strategy.first_column(steps)
    if column is not None and _falling(column):
        return _root(_comb(column, participation.separation or steps, uses))
    if steps > MOST_STEPS:
        return f"evaluates matrices other than falling Toeplitz ones up to {MOST_STEPS} steps, and there are {steps}"
    return _root(_by_gram(np.abs(run.strategy.gram(steps)), participation, uses))


def attained(run: MatrixMechanism) -> float | None:
    """The same where a unit whose contributions all point one way moves that far; None where it may not."""
    found, column = sensitivity(run), run.strategy.first_column(run.steps)
    if isinstance(found, str):
        return None
    once = run.participation.scheme is ParticipationScheme.SINGLE or run.participation.uses == 1
    if once or (column is not None and _falling(column)):
        return found
    alike = bool(np.all(run.strategy.gram(run.steps) >= 0))
    return found if alike and run.participation.scheme is ParticipationScheme.EPOCHS else None


def _root(square: float) -> float:
    return up(math.sqrt(square * (1 + _ROUNDING)), 2)


def _falling(column: Array) -> bool:
    """Entries that are not negative and do not rise: columns far apart then overlap most when they begin early."""
    return bool(column[-1] >= 0 and np.all(np.diff(column) <= 0))


def _comb(column: Array, separation: int, uses: int) -> float:
    """Squared length of the sum of columns 0, b, 2b, ...: the largest for falling columns (Kalinin & Lampert 2024)."""
    rows = np.pad(column, (0, -len(column) % separation)).reshape(-1, separation)
    sums = np.cumsum(rows, axis=0)
    sums[uses:] -= sums[:-uses].copy() if uses < len(sums) else 0.0
    return float((sums.ravel()[: len(column)] ** 2).sum())


def _by_gram(gram: Array, participation: Participation, uses: int) -> float:
    separation, steps = participation.separation or len(gram), len(gram)
    if participation.scheme is ParticipationScheme.EPOCHS:
        places = (np.arange(first, steps, separation) for first in range(min(separation, steps)))
        return max(float(gram[np.ix_(place, place)].sum()) for place in places)
    # Any window of `separation` steps holds one use at most: the others' share of a use is the sum of the largest
    # entries of the windows to either side of it, of which there are uses - 1 at most.
    shares = np.diag(gram).copy()
    for step in range(steps):
        right, left = gram[step, step + separation :], gram[step, : max(step - separation + 1, 0)][::-1]
        tops = np.concatenate([_window_tops(side, separation) for side in (right, left)])
        shares[step] += np.sort(tops)[::-1][: uses - 1].sum()
    return _best_apart(shares, separation, uses)


def _window_tops(entries: Array, width: int) -> Array:
    return np.maximum.reduceat(entries, np.arange(0, len(entries), width)) if len(entries) else entries


def _best_apart(values: Array, separation: int, uses: int) -> float:
    """The largest sum of at most `uses` values that stand `separation` apart."""
    best = np.zeros(len(values) + separation)
    for _ in range(uses):
        taken = np.maximum.accumulate(values + best[: len(values)])
        best = np.concatenate([np.zeros(separation), taken])
    return float(best.max())
