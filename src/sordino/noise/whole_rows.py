"""What a row adds to a sum, from that row alone to the last bit: finite rows, exact products, shortened lengths.

Per-record numbers come from elementwise operations, which IEEE 754 rounds correctly, or from products of whole numbers,
which nothing rounds. Lengths have a relative error below 2^-40 (for at most 8,192 columns); contributions are scaled to
that much less than their bound. `integer_sums` does not rely on any of it: it checks the whole numbers that it adds.
"""

from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns
from sordino.noise.integer_sums import DIGITS, ROWS_PER_BLOCK, digits

_WEIGHT_DIGITS = 32
ACCURACY = 2.0**-40  # lengths are known to this relative accuracy, so a hair below a bound is within it
INSIDE = 1.0 - ACCURACY
_SHORTEST = 1e-140  # rows below this length count as 0: squares of their entries are no longer accurate
_LARGEST_DOUBLE = 1e150  # sums of squares of this many columns stay within double precision
_FAR = 300
# A float has 52 bits behind its leading one; above them stands the exponent that `frexp` gives, plus 1022.
_MANTISSA, _BIAS = 52, 1022
_EXPONENT_BITS = 0x7FF << _MANTISSA
_NEAREST, _FARTHEST = (_BIAS - _FAR << _MANTISSA), (_BIAS + _FAR << _MANTISSA)


def checked_rows(
    features: Any, target: Any, dtype: Any = None, *, known: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows as arrays, if they are finite numbers, which may be `known`, and one target belongs to each row."""
    # Numbers too large for the precision they are used in, by default JAX's, become the largest it has: a refusal would
    # reveal that one record is there. Squares of double-precision numbers must not overflow, so those end at 1e150.
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


def shorten(values: Array, bound: float) -> Array:
    """Rows of length at most `bound`, a hair less; longer ones are shortened."""
    most = INSIDE * bound
    return values * (most / np.maximum(row_lengths(values), most))[:, None]


def shortened(values: Array, bound: float, exponent: int) -> Array:
    """Rows of length at most `bound` <= 2^exponent, longer ones shortened, in units of 2^(exponent - 20)."""
    return digits(shorten(values, bound), exponent)


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
    # As in `models.contributions`, for arrays on the host: rows are cut to 20 digits below the power of two above their
    # largest entry, and sums are exact.
    whole, units = ExactWeights.of(weights)
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    exact = np.trunc(np.ldexp(rows, DIGITS - exponents[:, None])) @ whole
    return np.ldexp(exact, exponents[:, None] - DIGITS + units)


def own_directions(rows: Array, centre: Array, weights: ExactWeights, out: Array) -> Array:
    """Write the `directions` of (1, (x - centre) times weights), cut as in `own_products`; give the rows' lengths."""
    centred = np.subtract(rows, centre, out=empty_columns(*rows.shape))
    room = out[:, 1:] if out.shape[1] == 1 + rows.shape[1] else empty_columns(*rows.shape)
    largest = np.abs(centred, out=room).max(axis=1, initial=0.0)
    bits = largest.view(np.int64) & _EXPONENT_BITS
    if not bits.size or not _NEAREST <= bits.min() <= bits.max() <= _FARTHEST or np.abs(weights.units).max() > _FAR:
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
