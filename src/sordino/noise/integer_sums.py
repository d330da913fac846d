"""Exact sums over records on the host: whole numbers of 128 bits, each contribution computed from one record alone.

A sensitivity is proved for real numbers. Computed sums can break it in three ways, each excluded here:

1. *A contribution is longer than its bound*, by rounding. Lengths are computed with a relative error below 2^-40 (for
   at most 8,192 columns), contributions are scaled to that much less, and digits behind 2^-20 are cut off towards 0.
2. *A sum is rounded*, so that a record changes how the others are rounded. Factors are whole numbers of at most 2^20
   units, so products and sums of up to 8,192 of them are whole numbers below 2^53: in whatever order a matrix product
   adds, nothing is rounded. Blocks add up in whole numbers of 64 bits, which hold 2^23 - 1 records, or of 128 bits
   (`WideSums`), which hold any table.
3. *A contribution depends on where its record stands*, because a fast matrix product treats the last rows of a block
   unlike the others. Per-record numbers come from elementwise operations, which IEEE 754 rounds correctly, or from
   exact products.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.validate import InputError, refuse
from sordino.data.scaling import row_lengths
from sordino.data.table import empty_columns

COVERED = (
    "noise drawn from fair bits without rounding, added exactly to sums computed exactly from each record alone, and "
    "rounded to a public grid"
)
COVERED_UNITS = COVERED.replace("each record alone", "the records of each unit alone")

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
BITS = 128
# What one record can add to an entry: two factors of 2^20 units, or 2^5 lengths of 2^34 units.
RECORD_BITS = 40
MOST_RECORDS = 2 ** (BITS - 1 - RECORD_BITS) - 1
_BYTES = BITS // 8


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
    # As in `models.contributions`, for arrays on the host: rows are cut to 20 digits below the power of two above their
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

    Both depend on the row and on public numbers alone, to the last bit. As in `models.contributions`, for arrays on the
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


def check_capacity(records: int, record_bits: int = RECORD_BITS) -> None:
    """Refuse, before a row is read, so many records that their sum might not fit."""
    most = 2 ** (BITS - 1 - record_bits) - 1
    if records > most:
        raise InputError(
            f"Expected at most {most} records, each of which adds up to 2^{record_bits} units to a sum of {BITS} bits, "
            f"got {records}; release the table in parts."
        )


class WideSums:
    """An array of whole numbers of 128 bits, to which arrays of 64 bits are added.

    Examples:
        >>> total = WideSums.zeros(2)
        >>> for _ in range(4):
        ...     total.add(np.array([2**62, -(2**62)]))
        >>> total.integers().tolist() == [2**64, -(2**64)]
        True
    """

    __slots__ = ("high", "low")

    def __init__(self, high: NDArray[np.int64], low: NDArray[np.uint64]) -> None:
        self.high, self.low = high, low

    @classmethod
    def zeros(cls, size: int) -> Self:
        """The sum over no records."""
        return cls(np.zeros(size, np.int64), np.zeros(size, np.uint64))

    @classmethod
    def of(cls, values: Iterable[int]) -> Self:
        """Whole numbers of any size below 2^127; what is larger is refused."""
        given = [int(value) for value in values]
        if any(not -(2 ** (BITS - 1)) <= value < 2 ** (BITS - 1) for value in given):
            raise refuse("a sum", f"to fit into {BITS} bits", "a larger one", "release the table in parts")
        return cls.from_bytes(b"".join(value.to_bytes(_BYTES, "little", signed=True) for value in given))

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """What `to_bytes` wrote."""
        if len(text) % _BYTES:
            raise refuse("sums", f"to be {_BYTES} bytes each", f"{len(text)} bytes")
        halves = np.frombuffer(text, "<u8").reshape(-1, 2)
        return cls(halves[:, 1].astype(np.uint64).view(np.int64).copy(), halves[:, 0].astype(np.uint64).copy())

    def to_bytes(self) -> bytes:
        """Sixteen bytes a number, the least significant first, on every machine alike."""
        return np.column_stack([self.low, self.high.view(np.uint64)]).astype("<u8").tobytes()

    def __len__(self) -> int:
        return len(self.high)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WideSums) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def add(self, values: NDArray[np.int64]) -> None:
        """Add numbers of 64 bits."""
        self._add(np.where(values < 0, np.int64(-1), np.int64(0)), values.astype(np.int64).view(np.uint64))

    def add_wide(self, other: "WideSums") -> None:
        """Add another sum of as many numbers."""
        self._add(other.high, other.low)

    def _add(self, high: NDArray[np.int64], low: NDArray[np.uint64]) -> None:
        if len(low) != len(self.low):
            raise refuse("sums", f"to be {len(self.low)} numbers", f"{len(low)}")
        with np.errstate(over="ignore"):  # halves wrap round: that is the carry
            added = self.low + low
            carried = (added < low).view(np.int8).astype(np.uint64)
            self.high = (self.high.view(np.uint64) + high.view(np.uint64) + carried).view(np.int64)
        self.low = added

    @property
    def narrow(self) -> bool:
        """Whether all numbers fit into 62 bits, which is what arithmetic of 64 bits has room for."""
        sign = self.low.view(np.int64) >> np.int64(61)
        return bool(((self.high == 0) & (sign == 0) | (self.high == -1) & (sign == -1)).all())

    def integers(self) -> NDArray[Any]:
        """The numbers, of 64 bits where all of them are narrow, otherwise as Python's own."""
        if self.narrow:
            return self.low.view(np.int64).copy()
        found = np.empty(len(self), object)
        found[:] = [(int(high) << 64) + int(low) for high, low in zip(self.high, self.low, strict=True)]
        return found


class Summed(NamedTuple):
    """Sums over all rows, the exponent of their unit, and how many units the rows belong to."""

    sums: WideSums
    exponent: int
    units: int
