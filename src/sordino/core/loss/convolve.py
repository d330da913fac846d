"""Composing grid laws by Fourier transform, and moving them to coarser grids, above or below.

The window is Chernoff's, on a law whose mass is moved outward to the end of its block: that only raises the bound.
"""

import math
import operator
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.loss import discretise
from sordino.core.loss.pair import GridLaw, Side, trimmed

_BLOCKS = 192
_BULK_DEVIATIONS = 8.0


Laws = list[tuple[GridLaw, int]]  # each with how often it is used


def window(laws: Laws, log_outside: float) -> tuple[int, int]:
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


def _reach(laws: Laws, moments: list[tuple[float, float]], variance: float, sign: int, log_outside: float) -> float:
    """The loss beyond which (in the direction of sign) at most exp(log_outside) lies."""
    compressed = [
        (_compressed(law, mean, math.sqrt(spread), sign), count)
        for (law, count), (mean, spread) in zip(laws, moments, strict=True)
    ]
    # A Gaussian sum wants sqrt(2 |log_outside| / variance); a sum with one big jump a multiple of 1 / jump.
    end = -1 if sign > 0 else 0
    jumps = (abs(float(points[0][end]) - mean) for (points, _), (mean, _) in zip(compressed, moments, strict=True))
    jump = max(laws[0][0].spacing, *jumps)
    gaussian, single = math.sqrt(-2 * log_outside / variance), -log_outside / jump
    arguments = np.geomspace(0.3 * min(gaussian, single), 2 * max(gaussian, single), 24)
    best = math.inf
    for s in arguments:
        total = 0.0
        for (losses, log_masses), count in compressed:
            exponents = sign * s * losses + log_masses
            peak = float(exponents.max())
            total += count * (peak + math.log(float(np.exp(exponents - peak).sum())))
        best = min(best, (total - log_outside) / s)
    return sign * best


def _compressed(law: GridLaw, mean: float, deviation: float, sign: int) -> tuple[Array, Array]:
    """The bulk point by point, the tails in blocks whose mass sits at the end that `sign` points to."""
    size = len(law.masses)
    centre, half = mean / law.spacing - law.first, _BULK_DEVIATIONS * deviation / law.spacing + 1
    start, stop = max(0, math.floor(centre - half)), min(size, math.ceil(centre + half) + 1)
    parts = ((0, start, _BLOCKS), (start, stop, min(stop - start, 4 * _BLOCKS)), (stop, size, _BLOCKS))
    cuts = np.unique(np.concatenate([np.linspace(low, high, blocks + 1).astype(int) for low, high, blocks in parts]))
    masses = np.add.reduceat(law.masses, cuts[:-1])
    ends = cuts[1:] - 1 if sign > 0 else cuts[:-1]
    positive = masses > 0
    return law.spacing * (law.first + ends[positive]), np.log(masses[positive]) + 1e-12


# Composition of grid laws by one Fourier transform, with its wrap-around and rounding errors bounded. Wrap-around: the
# transform sees losses modulo its length; the mass outside the window is bounded by Chernoff's inequality under the
# tilted law. Rounding: Higham 2002, Theorem 24.2, bounds a radix-2 transform's relative error in the 2-norm by about 7
# log2(N) units; powers by repeated squaring add about 3 units per factor.

LOG_OUTSIDE = -32.0  # log-probability outside the window; far below the rounding error it is added to
_FFT_ERROR_PER_LEVEL = 8 * UNIT_ROUNDOFF


def compose(laws: Laws) -> GridLaw:
    """The law of the sum of independent losses: each law `count` times. All share spacing and tilt."""
    if len(laws) == 1 and laws[0][1] == 1:
        return laws[0][0]
    reference = laws[0][0]
    spacing, tilt = reference.spacing, reference.tilt
    shift = sum(count * law.shift for law, count in laws)
    for law, _ in laws:
        if not law.masses.any():  # no finite loss is left to add
            return replace(law, masses=np.zeros(1), infinite=_union(laws), shift=shift)
    first, last = window(laws, LOG_OUTSIDE)
    length = 1 << max(3, math.ceil(math.log2(last - first + 1)))
    start = sum(count * law.first for law, count in laws)
    full = 1 + sum(count * (len(law.masses) - 1) for law, count in laws)
    outside = 2 * math.exp(LOG_OUTSIDE)
    if length >= full:  # everything fits: nothing wraps
        first, outside = start, 0.0

    folded = [modulo(law.masses, length) for law, _ in laws]
    norms = [float(np.linalg.norm(masses)) for masses in folded]
    forward_error = sum(count * norm for (_, count), norm in zip(laws, norms, strict=True))
    smallest = min(1.0, *norms)
    transforms = (_power(np.fft.rfft(masses), count) for masses, (_, count) in zip(folded, laws, strict=True))
    cyclic = np.fft.irfft(reduce(operator.mul, transforms), length)
    masses = np.maximum(np.roll(cyclic, (start - first) % length), 0.0)[: min(length, full)]

    uses = sum(count for _, count in laws)
    transformed = _FFT_ERROR_PER_LEVEL * math.log2(length) * (forward_error + smallest)
    two_norm = transformed + 4 * uses * UNIT_ROUNDOFF * smallest
    # delta(epsilon) weighs a mass at x by exp(-tilt (x - epsilon)) at most: their 2-norm is that of a geometric series.
    terms = min(float(length), 1 / -math.expm1(-2 * tilt * spacing)) if tilt > 0 else float(length)
    rounding = math.sqrt(terms) * two_norm
    # What lies beyond the noise level at the ends is rounding; later stages would treat it as structure.
    trim = 0.1 * rounding + 1e-17
    lead, masses = trimmed(masses, trim)
    grown = sum(count * math.log1p(law.error) for law, count in laws)
    inherited = math.expm1(grown) if grown < 700.0 else math.inf  # infinite: the curve then says nothing
    error = (1 + inherited) * (1 + rounding) * (1 + outside) - 1 + uses * 4 * UNIT_ROUNDOFF + 2 * trim
    scale = sum(count * law.log_scale for law, count in laws)
    return GridLaw(spacing, first + lead, masses, tilt, scale, _union(laws), error, shift)


def modulo(masses: Array, length: int) -> Array:
    """Masses modulo a length, as a transform sees them."""
    if len(masses) <= length:
        return np.pad(masses, (0, length - len(masses)))
    return np.pad(masses, (0, -len(masses) % length)).reshape(-1, length).sum(axis=0)


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Repeated squaring: about 3 units of rounding per factor, where exp(n log) would lose more."""
    result: NDArray[np.complex128] | None = None
    while exponent > 1:
        if exponent & 1:
            result = base if result is None else result * base
        base, exponent = base * base, exponent >> 1
    return base if result is None else result * base


def _union(laws: Laws) -> float:
    """Probability that at least one loss is infinite."""
    if any(law.infinite >= 1.0 for law, _ in laws):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-law.infinite) for law, count in laws))


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
        masses, excess = discretise.above(left, right) + on_grid, 0.0
    else:
        masses, excess = discretise.below(left, right, on_grid, step, law.tilt)
    total = float(masses.sum())
    # The new polygon lies on the right side of the stored law, so the stored law's error carries over unchanged.
    error = law.error + excess + 64 * UNIT_ROUNDOFF * (1 + law.tilt * step)
    if total == 0.0:
        return replace(law, spacing=step, first=first, masses=np.zeros(1), error=error)
    # Corners that were cut off leave points without mass at the ends; a long row of them would only cost time.
    empty, masses = trimmed(masses / total, 0.0)
    scale = law.log_scale + math.log(total)
    return GridLaw(step, first + empty, masses, law.tilt, scale, law.infinite, error / total, law.shift)
