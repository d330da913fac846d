"""Composition of grid laws by one Fourier transform, with its wrap-around and rounding errors bounded.

Wrap-around: the transform sees losses modulo its length; the mass outside the window is bounded by Chernoff's
inequality under the tilted law. Rounding: Higham 2002, Theorem 24.2, bounds a radix-2 transform's relative error in the
2-norm by about 7 log2(N) units; powers by repeated squaring add about 3 units per factor.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sordino.core.loss.grid_law import GridLaw, trimmed
from sordino.core.loss.window import window
from sordino.core.rounding import UNIT_ROUNDOFF

Array = NDArray[np.float64]

# Log-probability outside the window; far below the rounding error it is added to.
_LOG_OUTSIDE = -32.0
_FFT_ERROR_PER_LEVEL = 8 * UNIT_ROUNDOFF


def compose(laws: list[tuple[GridLaw, int]]) -> GridLaw:
    """The law of the sum of independent losses: each law `count` times. All share spacing and tilt."""
    if len(laws) == 1 and laws[0][1] == 1:
        return laws[0][0]
    reference = laws[0][0]
    spacing, tilt = reference.spacing, reference.tilt
    if any(not law.masses.any() for law, _ in laws):  # no finite loss is left to add
        empty = next(law for law, _ in laws if not law.masses.any())
        shift = sum(count * law.shift for law, count in laws)
        return replace(empty, masses=np.zeros(1), infinite=_union(laws), shift=shift)
    first, last = window(laws, _LOG_OUTSIDE)
    length = 1 << max(3, math.ceil(math.log2(last - first + 1)))
    start = sum(count * law.first for law, count in laws)
    full = 1 + sum(count * (len(law.masses) - 1) for law, count in laws)
    outside = 2 * math.exp(_LOG_OUTSIDE)
    if length >= full:  # everything fits: nothing wraps
        first, outside = start, 0.0

    spectrum: NDArray[np.complex128] | None = None
    forward_error, smallest = 0.0, 1.0
    for law, count in laws:
        folded = _folded(law.masses, length)
        norm = float(np.linalg.norm(folded))
        transform = _power(np.fft.rfft(folded), count)
        spectrum = transform if spectrum is None else spectrum * transform
        forward_error += count * norm
        smallest = min(smallest, norm)
    if spectrum is None:
        raise ValueError("compose needs at least one law")
    cyclic = np.fft.irfft(spectrum, length)
    masses = np.maximum(np.roll(cyclic, (start - first) % length), 0.0)[: min(length, full)]

    uses = sum(count for _, count in laws)
    levels = math.log2(length)
    two_norm = _FFT_ERROR_PER_LEVEL * levels * (forward_error + smallest) + 4 * uses * UNIT_ROUNDOFF * smallest
    # delta(epsilon) weighs a mass at x by exp(-tilt (x - epsilon)) at most: their 2-norm is that of a geometric series.
    terms = min(float(length), 1 / -math.expm1(-2 * tilt * spacing)) if tilt > 0 else float(length)
    rounding = math.sqrt(terms) * two_norm
    # What lies beyond the noise level at the ends is rounding; later stages would treat it as structure.
    trim = 0.1 * rounding + 1e-17
    lead, masses = trimmed(masses, trim)
    grown = sum(count * math.log1p(law.error) for law, count in laws)
    inherited = math.expm1(grown) if grown < 700.0 else math.inf  # infinite: the curve then says nothing
    return GridLaw(
        spacing,
        first + lead,
        masses,
        tilt,
        sum(count * law.log_scale for law, count in laws),
        _union(laws),
        (1 + inherited) * (1 + rounding) * (1 + outside) - 1 + uses * 4 * UNIT_ROUNDOFF + 2 * trim,
        sum(count * law.shift for law, count in laws),
    )


def _folded(masses: Array, length: int) -> Array:
    if len(masses) <= length:
        return np.pad(masses, (0, length - len(masses)))
    padded = np.pad(masses, (0, -len(masses) % length))
    return padded.reshape(-1, length).sum(axis=0)


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Repeated squaring: about 3 units of rounding per factor, where exp(n log) would lose more."""
    result: NDArray[np.complex128] | None = None
    while True:
        if exponent & 1:
            result = base.copy() if result is None else result * base
        exponent >>= 1
        if exponent == 0:
            return base if result is None else result
        base = base * base


def _union(laws: list[tuple[GridLaw, int]]) -> float:
    """Probability that at least one loss is infinite."""
    if any(law.infinite >= 1.0 for law, _ in laws):
        return 1.0
    log_none = sum(count * math.log1p(-law.infinite) for law, count in laws)
    return -math.expm1(log_none)
