"""Exact sums over records, exact noise on them, and the grid that a release lies on.

The theorems speak of real numbers; a computer adds a finite set of numbers to a float. Two hazards follow.

1. *The last bits* (Mironov 2012). Which floats ``m + tau * xi`` can reach depends on m, so the last bits of
   a release may betray m however large tau is. Rounding the release to a grid of spacing g, much coarser than the
   floats and much finer than tau, removes them. For ideal noise this is post-processing and costs nothing.
2. *The noise.* Computed noise is not ideal. Mechanisms that add noise to sums on the host draw it exactly
   (`noise.exact`), at no cost.

Compiled chains and rounds have whole-number noise on whole-number sums (`noise.lattice`). Where neither is to be had,
stable noise for one, released draws are rounded to a grid (`on_release_grid`), which removes the last bits, and the
certificate says that floating point is not covered.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.algorithm.noise.exact import ExactGaussians
from sordino.algorithm.noise.randomness import gaussian_call
from sordino.core.arrays import Array
from sordino.core.validate import POSITIVE, Interval, number, refuse, whole_number
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns

_FINEST = -1022


@dataclass(frozen=True)
class Grid:
    """The multiples of a power of two; rounding to it is exact in floating point."""

    exponent: int

    @property
    def spacing(self) -> float:
        """The distance of two neighbouring points."""
        return math.ldexp(1.0, self.exponent)

    def round(self, values: Any) -> NDArray[np.float64]:
        """The nearest point of the grid for every value, ties to even; in double precision whatever came in."""
        given = np.asarray(values, np.float64)
        if not np.isfinite(given).all():
            raise refuse("the values to round", "to be finite", "NaN or infinity")
        # Scaling by a power of two is exact, and a float above 2^53 cells is a point of the grid already.
        return np.ldexp(np.rint(np.ldexp(given, -self.exponent)), self.exponent)


def grid_below(tau: float, cells: int = 16) -> Grid:
    """The coarsest grid with at least `cells` cells in one noise scale: rounding adds little to the noise's spread."""
    scale = number("tau", tau, POSITIVE) / whole_number("cells", cells)
    return Grid(max(_FINEST, math.frexp(scale)[1] - 1))


# Sums over records that are exact, of contributions that depend on one record alone.
#
# A sensitivity is proved for real numbers. Computed sums can break it in three ways, each excluded here:
#
# 1. *A contribution is longer than its bound*, by rounding. Lengths are computed with a relative error below 2^-40 (for
#    at most 8,192 columns), contributions are scaled to that much less, and digits behind 2^-20 are cut off towards 0.
# 2. *A sum is rounded*, so that a record changes how the others are rounded. Factors are whole numbers of at most 2^20
#    units, so products and sums of up to 8,192 of them are whole numbers below 2^53: in whatever order a matrix product
#    adds, nothing is rounded. Blocks add up in 64-bit whole numbers.
# 3. *A contribution depends on where its record stands*, because a fast matrix product treats the last rows of a block
#    unlike the others. Per-record numbers come from elementwise operations, which IEEE 754 rounds correctly, or from
#    exact products.

Sums = NDArray[np.int64]

DIGITS = 20
PRODUCT_EXPONENT = -2 * DIGITS
_WEIGHT_DIGITS = 32
ROWS_PER_BLOCK = 2**13
MOST_ROWS = 2**23 - 1
MOST_COLUMNS = 2**13
# Lengths are known to this relative accuracy, so a hair below a bound is within it.
ACCURACY = 2.0**-40
INSIDE = 1.0 - ACCURACY
# Rows below this length count as 0: squares of their entries are no longer accurate.
_SHORTEST = 1e-140
# Sums of squares of this many columns stay within double precision.
_LARGEST_DOUBLE = 1e150
_FAR = 300
# A float has 52 bits behind its leading one; above them stands the exponent that `frexp` gives, plus 1022.
_MANTISSA, _BIAS = 52, 1022
_EXPONENT_BITS = 0x7FF << _MANTISSA
_NEAREST, _FARTHEST = (_BIAS - _FAR << _MANTISSA), (_BIAS + _FAR << _MANTISSA)


def checked_rows(
    features: Any, target: Any, dtype: Any = None, *, known: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows as arrays, if they are finite numbers, which may be `known`, and one target belongs to each row."""
    # Numbers too large for the precision they are used in, by default JAX's, become the largest it has: infinities
    # would not be finite any more, and a refusal would tell that one record is there. Squares of double-precision
    # numbers must not overflow either, so those end at 1e150.
    X, y = np.asarray(features), np.asarray(target)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise refuse("features", "to be a table of numbers, one row for each record", f"{X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub":
        raise refuse("target", f"to hold one number for each of the {len(X)} rows", f"{y.dtype} of shape {y.shape}")
    used = jnp.zeros(()).dtype if dtype is None else dtype
    return X if known else _within(X, used), _within(y, used)


def _within(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    if values.dtype.kind != "f" or not values.size:
        return values
    # The largest and the smallest are NaN or infinite where any number is; no array of flags is needed.
    size = max(values.max(), -values.min())
    if not np.isfinite(size):
        raise refuse("features and target", "to be finite", "NaN or infinity", "encode the table with a schema first")
    largest = min(float(np.finfo(dtype).max), _LARGEST_DOUBLE)
    return values if size <= largest else np.clip(values, -largest, largest)


def check_size(X: Array) -> None:
    """Refuse what exact sums cannot hold."""
    if len(X) > MOST_ROWS:
        # How many there are is private where records may be added or removed.
        raise refuse("the number of rows", f"to be at most {MOST_ROWS}", "more", "release it in parts")
    if X.shape[1] > MOST_COLUMNS:
        raise refuse("the number of encoded columns", f"to be at most {MOST_COLUMNS}", X.shape[1])


def digits(values: Array, exponent: int = 0) -> Array:
    """Values of size at most 2^exponent as whole numbers of 2^(exponent - 20), cut off towards 0."""
    return np.trunc(values * math.ldexp(1.0, DIGITS - exponent))


def inside_ball(rows: Array) -> Array:
    """Rows brought into the unit ball, those outside by shortening, in units of 2^-20."""
    return digits(rows * (INSIDE / np.maximum(row_lengths(rows), INSIDE))[:, None])


def directions(rows: Array, out: Array | None = None) -> tuple[Array, Array]:
    """Each row's direction, of length at most 1, in units of 2^-20, and the row's length; `out` may be the rows."""
    turned, sizes = np.empty_like(rows) if out is None else out, np.empty(len(rows))
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        part = slice(first, first + ROWS_PER_BLOCK)
        found = row_lengths(rows[part])
        stretch = np.where(found > _SHORTEST, INSIDE / np.maximum(found, _SHORTEST), 0.0)
        # Times 2^20 is exact, so it may come first; what is too small for that to be so is cut to 0 either way.
        np.multiply(rows[part], (stretch * 2.0**DIGITS)[:, None], out=turned[part])
        np.trunc(turned[part], out=turned[part])
        sizes[part] = found
    return turned, sizes


def shortened(values: Array, bound: float, exponent: int) -> Array:
    """Rows of length at most `bound` <= 2^exponent, longer ones shortened, in units of 2^(exponent - 20)."""
    most = INSIDE * bound
    return digits(values * (most / np.maximum(row_lengths(values), most))[:, None], exponent)


class ExactWeights(NamedTuple):
    """Weights such that sums of 20 digits times them are exact: of a column whole numbers of `units`."""

    whole: Array
    units: NDArray[np.int32]

    @classmethod
    def of(cls, weights: Array) -> Self:
        """The weights of each column cut to whole numbers whose sizes add up to at most 2^32."""
        units = np.frexp(np.abs(weights).sum(axis=0))[1] - _WEIGHT_DIGITS
        return cls(np.trunc(np.ldexp(weights, -units)), units)


def own_products(rows: Array, weights: Array) -> Array:
    """Rows times weights; a row's products depend on that row and the weights alone, to the last bit."""
    # As in `model.contributions`, for arrays on the host: rows are cut to 20 digits below the power of two above their
    # largest entry, and sums are exact.
    whole, units = ExactWeights.of(weights)
    cut = empty_columns(*rows.shape)
    exponents = np.frexp(np.abs(rows, out=cut).max(axis=1, initial=0.0))[1]
    if _far(exponents) or _far(units):
        exact = np.trunc(np.ldexp(rows, DIGITS - exponents[:, None])) @ whole
        return np.ldexp(exact, exponents[:, None] - DIGITS + units)
    # Within these limits a power of two is a float and times it is exact, so that it may stand on either side of the
    # product: the same numbers in fewer and faster passes.
    np.multiply(rows, np.ldexp(1.0, DIGITS - exponents)[:, None], out=cut)
    np.trunc(cut, out=cut)
    cut *= np.ldexp(1.0, exponents - DIGITS)[:, None]
    return np.matmul(cut, np.ldexp(whole, units))


def own_directions(rows: Array, centre: Array, weights: ExactWeights, out: Array) -> Array:
    """Write the `directions` of rows (1, (x - centre) times weights) to `out`, and give the lengths of these rows.

    Both depend on the row and on public numbers alone, to the last bit. As in `model.contributions`, for arrays on the
    host: x - centre is cut to 20 digits below the power of two above its largest entry, and sums are exact.
    """
    centred = np.subtract(rows, centre, out=empty_columns(*rows.shape))
    room = out[:, 1:] if out.shape[1] == 1 + rows.shape[1] else empty_columns(*rows.shape)
    largest = np.abs(centred, out=room).max(axis=1, initial=0.0)
    bits = largest.view(np.int64) & _EXPONENT_BITS
    if not bits.size or not _NEAREST <= bits.min() <= bits.max() <= _FARTHEST or _far(weights.units):
        exponents = np.frexp(largest)[1]
        exact = np.trunc(np.ldexp(centred, DIGITS - exponents[:, None])) @ weights.whole
        out[:, 0] = 1.0
        np.ldexp(exact, exponents[:, None] - DIGITS + weights.units, out=out[:, 1:])
        return directions(out, out=out)[1]
    # Within these limits a power of two is a float and times it is exact, so it may stand on either side of products,
    # sums of squares, roots and quotients: rows are scaled once, and what comes of them is the same to the last bit.
    scale = 2.0 ** (DIGITS - 1) / bits.view(np.float64)  # bits of an exponent alone are half the power of two
    np.multiply(centred, scale[:, None], out=centred)
    np.trunc(centred, out=centred)
    out[:, 0] = scale
    np.matmul(centred, np.ldexp(weights.whole, weights.units), out=out[:, 1:])
    found = row_lengths(out)
    np.multiply(out, (INSIDE * 2.0**DIGITS / found)[:, None], out=out)
    np.trunc(out, out=out)
    return np.divide(found, scale, out=found)


def _far(exponents: NDArray[Any]) -> bool:
    """Whether products of such powers of two might leave the range of floats."""
    return bool(exponents.size and max(exponents.max(), -exponents.min()) > _FAR)


def products(left: Array, right: Array) -> Sums:
    """Sums over the rows of a block of left times right, exact; both hold whole numbers of at most 2^20."""
    if len(left) > ROWS_PER_BLOCK:
        raise refuse("the rows of a block", f"to be at most {ROWS_PER_BLOCK}", len(left))
    return (left.T @ right).astype(np.int64)


# A statistic plus Gaussian noise, rounded to a grid, with no error anywhere between the real numbers and the release.
#
# Statement. Let s be the statistic as computed: whole numbers of a public unit, or floats, taken as the rational
# numbers they are. The release is the nearest point of a public grid to s + scale * xi with xi exactly standard
# Gaussian, given that the generator's bits are fair. So it is post-processing of the Gaussian mechanism on s, its
# guarantee is that of the theorem, and computing it costs nothing: no delta, no larger noise. What is left to show is
# that one record moves s *as computed* by no more than the stated sensitivity, as above for sums over records.

COVERED = (
    "noise drawn from fair bits without rounding, added exactly to sums computed exactly from each record alone, and "
    "rounded to a public grid"
)
COVERED_UNITS = COVERED.replace("each record alone", "the records of each unit alone")
# Rounding to a thousandth of the noise adds a ten-millionth to its variance.
_CELLS = 1024
# An offset inside a cell is a float, exactly.
_LARGEST_SHIFT = 52
# Of floats; and of sums in units of their own, which may be as small as a later round's bound makes them.
_SCALES, _IN_UNITS = Interval(2.0**-40, 2.0**60), Interval(2.0**-40, 2.0**100)


def noised_sums(
    sums: NDArray[Any],
    exponent: int,
    scales: ArrayLike,
    noise: ExactGaussians,
    part: slice = slice(None),
    bound: float | None = None,
) -> Array:
    """The sums, whole numbers of 2^exponent, with noise of these standard deviations, rounded to a grid."""
    # `part` says which of the drawn Gaussians are used, one for each sum; none may be used twice. Sums beyond 62 bits
    # are Python's whole numbers in an array of objects, which shift, subtract and add alike.
    spread = _checked(scales, sums.shape, _IN_UNITS, math.ldexp(1.0, -exponent))
    wanted = grid_below(_least(spread), _CELLS).exponent
    grid = Grid(min(max(wanted, exponent), exponent + _LARGEST_SHIFT))
    shift = grid.exponent - exponent
    cells = sums >> shift
    offsets = np.ldexp((sums - (cells << shift)).astype(np.float64), -shift)
    return noise.port.answer(
        gaussian_call(sums, spread, math.ldexp(1.0, exponent), bound),
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


def _released(grid: Grid, cells: NDArray[Any], drawn: NDArray[np.int64]) -> Array:
    return np.ldexp((cells + drawn).astype(np.float64), grid.exponent)


def _checked(scales: ArrayLike, shape: tuple[int, ...], allowed: Interval = _SCALES, units: float = 1.0) -> Array:
    given = np.asarray(scales, np.float64)
    for end in (_least(given), -_least(-given)):
        number("the noise scale", end * units, allowed)
    return np.broadcast_to(given, shape)


def _least(values: Array) -> float:
    if not values.size:
        raise refuse("the values to noise", "to be at least one", "none")
    return float(values.min())
