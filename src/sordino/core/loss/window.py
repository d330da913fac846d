"""Where the tilted composed mass lies: Chernoff's bound, optimised over its argument on a compressed law.

Compressing moves mass outward to the far end of its block, which can only raise the bound: the window stays valid.
"""

import math
from dataclasses import dataclass

import numpy as np

from sordino.core.loss.grid_law import Array, GridLaw

_BLOCKS = 192
_BULK_DEVIATIONS = 8.0


def window(laws: list[tuple[GridLaw, int]], log_outside: float) -> tuple[int, int]:
    """Grid indices outside which the composed tilted law has at most exp(log_outside) on each side."""
    low = sum(count * law.first for law, count in laws)
    high = low + sum(count * (len(law.masses) - 1) for law, count in laws)
    moments = [law.moments() for law, _ in laws]
    variance = sum(count * variance for (_, count), (_, variance) in zip(laws, moments, strict=True))
    if variance == 0.0:
        return low, high
    spacing = laws[0][0].spacing
    right = _reach(laws, moments, variance, 1, log_outside) / spacing
    left = _reach(laws, moments, variance, -1, log_outside) / spacing
    high, low = min(high, math.ceil(right)), max(low, math.floor(left))
    return (low, high) if low < high else (low, low + 1)


def _reach(
    laws: list[tuple[GridLaw, int]],
    moments: list[tuple[float, float]],
    variance: float,
    sign: int,
    log_outside: float,
) -> float:
    """The loss beyond which (in the direction of sign) at most exp(log_outside) lies."""
    compressed = [
        (_compressed(law, mean, math.sqrt(spread), sign), count)
        for (law, count), (mean, spread) in zip(laws, moments, strict=True)
    ]
    # A Gaussian sum wants sqrt(2 |log_outside| / variance); a sum with one big jump a multiple of 1 / jump.
    jump = max(
        laws[0][0].spacing,
        *(
            abs(float(points.losses[-1 if sign > 0 else 0]) - mean)
            for (points, _), (mean, _) in zip(compressed, moments, strict=True)
        ),
    )
    gaussian, single = math.sqrt(-2 * log_outside / variance), -log_outside / jump
    arguments = np.geomspace(0.3 * min(gaussian, single), 2 * max(gaussian, single), 24)
    ends = [
        (sum(count * points.log_generating(sign * s) for points, count in compressed) - log_outside) / s
        for s in arguments
    ]
    return sign * min(ends)


@dataclass(frozen=True)
class _Points:
    losses: Array
    log_masses: Array

    def log_generating(self, argument: float) -> float:
        exponents = argument * self.losses + self.log_masses
        peak = float(exponents.max())
        return peak + math.log(float(np.exp(exponents - peak).sum()))


def _compressed(law: GridLaw, mean: float, deviation: float, sign: int) -> _Points:
    """The bulk point by point, the tails in blocks whose mass sits at the end that `sign` points to."""
    size = len(law.masses)
    centre, half = mean / law.spacing - law.first, _BULK_DEVIATIONS * deviation / law.spacing + 1
    start, stop = max(0, math.floor(centre - half)), min(size, math.ceil(centre + half) + 1)
    cuts = np.unique(
        np.concatenate(
            [
                np.linspace(0, start, _BLOCKS + 1).astype(int),
                np.linspace(start, stop, min(stop - start, 4 * _BLOCKS) + 1).astype(int),
                np.linspace(stop, size, _BLOCKS + 1).astype(int),
            ]
        )
    )
    masses = np.add.reduceat(law.masses, cuts[:-1])
    ends = cuts[1:] - 1 if sign > 0 else cuts[:-1]
    positive = masses > 0
    losses = law.spacing * (law.first + ends[positive])
    return _Points(losses, np.log(masses[positive]) + 1e-12)
