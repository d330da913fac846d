"""Moving a grid law to a coarser grid, above or below it, so that composition can go on at constant cost."""

import math
from dataclasses import replace

import numpy as np

from sordino.core.loss import dots
from sordino.core.loss.grid_law import GridLaw, Side, trimmed
from sordino.core.rounding import UNIT_ROUNDOFF


def coarsen(law: GridLaw, factor: int, side: Side) -> GridLaw:
    """The same law on every `factor`-th grid point."""
    if factor == 1:
        return law
    first = law.first // factor
    lead = law.first - first * factor
    rows = -(-(lead + len(law.masses)) // factor)
    table = np.zeros(rows * factor)
    table[lead : lead + len(law.masses)] = law.masses
    table = table.reshape(rows, factor)
    step = law.spacing * factor
    offset = law.spacing * np.arange(1, factor)
    share = (np.exp(-offset) - math.exp(-step)) / -math.expm1(-step)
    left = (table[:, 1:] * (share * np.exp(-law.tilt * offset))).sum(axis=1)
    right = (table[:, 1:] * ((1 - share) * np.exp(law.tilt * (step - offset)))).sum(axis=1)
    on_grid = np.append(table[:, 0], 0.0)
    if side is Side.UPPER:
        masses, excess = dots.above(left, right) + on_grid, 0.0
    else:
        masses, excess = dots.below(left, right, on_grid, step, law.tilt)
    total = float(masses.sum())
    # The new polygon lies on the right side of the stored law, so the stored law's error carries over unchanged.
    error = law.error + excess + 64 * UNIT_ROUNDOFF * (1 + law.tilt * step)
    if total == 0.0:
        return replace(law, spacing=step, first=first, masses=np.zeros(1), error=error)
    # Corners that were cut off leave points without mass at the ends; a long row of them would only cost time.
    empty, masses = trimmed(masses / total, 0.0)
    return replace(
        law,
        spacing=step,
        first=first + empty,
        masses=masses,
        log_scale=law.log_scale + math.log(total),
        error=error / total,
    )
