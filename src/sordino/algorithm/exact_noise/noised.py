"""A statistic plus Gaussian noise, rounded to a grid, with no error anywhere between the real numbers and the release.

Statement. Let s be the statistic as computed: whole numbers of a public unit, or floats, taken as the rational numbers
they are. The release is the nearest point of a public grid to s + scale * xi with xi exactly standard Gaussian, given
that the generator's bits are fair. So it is post-processing of the Gaussian mechanism on s, its guarantee is that of
the theorem, and computing it costs nothing: no delta, no larger noise. What is left to show is that one record moves s
*as computed* by no more than the stated sensitivity; `record_sums` does that for sums over records.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.algorithm.exact_noise.gaussians import ExactGaussians
from sordino.algorithm.grid_rounding import Grid, grid_below
from sordino.algorithm.noise_port import gaussian_call
from sordino.core.validate import Interval, number, refuse

Array = NDArray[np.float64]
COVERED = (
    "noise drawn from fair bits without rounding, added exactly to sums computed exactly from each record alone, and "
    "rounded to a public grid"
)
# Rounding to a thousandth of the noise adds a ten-millionth to its variance.
_CELLS = 1024
# An offset inside a cell is a float, exactly.
_LARGEST_SHIFT = 52
_SCALES = Interval(2.0**-40, 2.0**60)


def noised_sums(
    sums: NDArray[np.int64], exponent: int, scales: ArrayLike, noise: ExactGaussians, part: slice = slice(None)
) -> Array:
    """The sums, whole numbers of 2^exponent, with noise of these standard deviations, rounded to a grid.

    `part` says which of the drawn Gaussians are used, one for each sum; none may be used twice.
    """
    spread = _checked(scales, sums.shape)
    wanted = grid_below(_least(spread), _CELLS).exponent
    grid = Grid(min(max(wanted, exponent), exponent + _LARGEST_SHIFT))
    shift = grid.exponent - exponent
    cells = sums >> shift
    offsets = np.ldexp((sums - (cells << shift)).astype(np.float64), -shift)
    return noise.port.answer(
        gaussian_call(sums, spread, math.ldexp(1.0, exponent)),
        lambda: _released(grid, cells, noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent))),
    )


def noised_numbers(values: Array, scales: ArrayLike, noise: ExactGaussians, part: slice = slice(None)) -> Array:
    """The same for floats: each is taken as the number it is, however it was computed."""
    given = np.asarray(values, np.float64)
    if not np.isfinite(given).all():
        raise refuse("the values to noise", "to be finite", "NaN or infinity")
    spread = _checked(scales, given.shape)
    grid = grid_below(_least(spread), _CELLS)
    scaled = np.ldexp(given, -grid.exponent)
    cells = np.rint(scaled)
    if np.any(np.abs(cells) >= 2.0**62):
        raise refuse("the values to noise", "to be at most 2^52 noise scales", "larger ones", "scale them down")
    # The difference of a float and the whole number nearest to it is a float.
    offsets = scaled - cells
    return noise.port.answer(
        gaussian_call(given, spread),
        lambda: _released(grid, cells.astype(np.int64), noise.rounded(part, offsets, np.ldexp(spread, -grid.exponent))),
    )


def _released(grid: Grid, cells: NDArray[np.int64], drawn: NDArray[np.int64]) -> Array:
    return np.ldexp((cells + drawn).astype(np.float64), grid.exponent)


def _checked(scales: ArrayLike, shape: tuple[int, ...]) -> Array:
    given = np.asarray(scales, np.float64)
    for end in (_least(given), -_least(-given)):
        number("the noise scale", end, _SCALES)
    return np.broadcast_to(given, shape)


def _least(values: Array) -> float:
    if not values.size:
        raise refuse("the values to noise", "to be at least one", "none")
    return float(values.min())
