"""What one record adds to a sum: computed from that record alone to the last bit, and never longer than its bound.

A private sum is noised for what one record can move it by. Three things could break that in floating point: a record's
numbers may depend on where it stands among the others, because a fast product treats the edge of a block unlike its
middle; its contribution may be longer than its bound, by rounding, overflow or underflow; and adding may round. The
first two are dealt with here, in double precision; `algorithm.exact_sums` adds without rounding.

*Products of rows and weights are exact.* A row is cut to 20 binary digits below the power of two above its largest
entry, so it is a vector of whole numbers of at most 2^20 times a power of two; the weights of a column are cut to whole
numbers whose sizes add up to at most 2^32. Products and all partial sums are whole numbers below 2^53: whatever order
they are added in, nothing is rounded, so a row's products depend on that row and the weights alone. Cutting a row is
part of the algorithm: it happens to each record by itself and makes no entry larger.

*Other numbers of a record* come from elementwise functions and from sums along one row, which compiled code evaluates
alike for every row of a block of one shape. That is tested by comparing bits, not proved, and so is everything inside a
loss of the caller's own.

*Lengths* have a relative error below 2^-40 in double precision (Higham 2002, Section 4.2, for at most 8,000 entries of
a part), far less than the `working_bound` leaves. Entries beyond 2^400 make a record count as not finite, so no square
overflows; squares that underflow belong to entries far below the grid of the sum. A record that is not finite
contributes zero, and is replaced by zero *before* anything is multiplied by it.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

ROW_DIGITS = 20
WEIGHT_DIGITS = 32
# Below, squares cannot overflow; a record with a larger number in it counts as not finite.
LARGEST = 2.0**400
_FRACTION_BITS, _BIAS = 52, 1023
_LEAST_EXPONENT, _LARGEST_EXPONENT = -900, 900


class WholeRows(NamedTuple):
    """Rows as whole numbers: row i is ``digits[i] * 2^(exponents[i] - 20)``; `lengths` are those of digits / 2^20."""

    digits: Array
    exponents: Array
    lengths: Array


class RowSizes(NamedTuple):
    """What is known of rows before they are used: the exponents and lengths of `WholeRows`."""

    exponents: Array
    lengths: Array


class Outer(NamedTuple):
    """The matrix of one record: its row's digits / 2^20 times `values`, flat in the order (row entry, value).

    With `transposed` the order is (value, row entry).
    """

    rows: WholeRows
    values: Array
    transposed: bool = False


class Plain(NamedTuple):
    """A vector of each record, shape (records, entries)."""

    values: Array


Parts = tuple[Outer | Plain, ...]


def two_to(exponents: Array) -> Array:
    """2^exponent, exactly, for whole exponents between -1022 and 1023."""
    return lax.bitcast_convert_type((exponents.astype(jnp.int64) + _BIAS) << _FRACTION_BITS, jnp.float64)


def exponent_above(values: Array) -> Array:
    """The whole number e with |value| < 2^e, the least one; clamped, so that 2^e and 2^-e are ordinary numbers."""
    bits = lax.bitcast_convert_type(jnp.abs(values.astype(jnp.float64)), jnp.int64)
    return jnp.clip((bits >> _FRACTION_BITS) - (_BIAS - 1), _LEAST_EXPONENT, _LARGEST_EXPONENT)


def row_exponents(rows: Array) -> Array:
    """The exponent of the power of two above each row's largest entry: the largest entry is found without rounding."""
    return exponent_above(jnp.max(jnp.abs(rows), axis=-1, initial=0.0))


def row_sizes(rows: Array) -> RowSizes:
    """Exponents and lengths of rows, so that a run that reads them many times computes them once."""
    found = whole_rows(rows)
    return RowSizes(found.exponents.astype(jnp.int16), found.lengths)


def whole_rows(rows: Array, sizes: RowSizes | None = None) -> WholeRows:
    """Cut rows to whole numbers; a row with an entry that is not finite, or beyond the largest, becomes zero."""
    exponents = row_exponents(rows) if sizes is None else sizes.exponents
    digits = jnp.trunc(rows.astype(jnp.float64) * two_to(ROW_DIGITS - exponents)[:, None])
    # Not finite, or too large or small for its exponent: then it is no number of so many digits.
    digits = jnp.where(jnp.abs(digits) <= 2.0**ROW_DIGITS, digits, 0.0)
    if sizes is not None:
        return WholeRows(digits, exponents, sizes.lengths)
    return WholeRows(digits, exponents, jnp.sqrt(jnp.sum(digits * digits, axis=1)) * 2.0**-ROW_DIGITS)


def products(rows: WholeRows, weights: Array) -> Array:
    """Rows times weights, shape (records, columns of weights), without any rounding of sums."""
    units = exponent_above(jnp.sum(jnp.abs(weights), axis=0)) - WEIGHT_DIGITS
    whole = jnp.trunc(weights * two_to(-units))
    return (rows.digits @ whole) * (two_to(rows.exponents - ROW_DIGITS)[:, None] * two_to(units))


def outer(rows: WholeRows, values: Array, transposed: bool = False) -> Outer:
    """The outer products of whole rows and values: the powers of two of the rows go to the values."""
    return Outer(rows, values * two_to(rows.exponents)[:, None], transposed)


def shortened(parts: Parts, bound: Array, weights: Array | None = None) -> Parts:
    """Every record's parts, made shorter together where they are longer than `bound`, and zero where not finite.

    `weights`, one for each entry of the flat sum and at least 1, say how much a squared entry counts; a weighted length
    is rounded up. Where a record has one outer product of a single value, the value is cut at both ends instead: that
    keeps a monotone value monotone, also where it overflowed to infinity.
    """
    if weights is None and len(parts) == 1 and isinstance(parts[0], Outer) and parts[0].values.shape[1] == 1:
        return (_cut(parts[0], bound),)
    squares = sum(_squares(part, one) for part, one in zip(parts, _split(parts, weights), strict=True))
    largest = [jnp.max(jnp.abs(part.values), axis=1, initial=0.0) for part in parts]
    finite = jnp.all(jnp.stack(largest) <= LARGEST, axis=0) & jnp.isfinite(squares)
    factors = jnp.where(finite, bound / jnp.maximum(jnp.sqrt(squares), bound), 0.0)

    def of(part: Outer | Plain) -> Outer | Plain:
        values = jnp.where(finite[:, None], part.values, 0.0) * factors[:, None]
        return part._replace(values=_of_rows(part, values))

    return tuple(of(part) for part in parts)


def flat(parts: Parts, sums: list[Array]) -> Array:
    """One flat vector from the sum of each part: matrices of shape (values, row entries), and vectors."""
    pieces = []
    for part, total in zip(parts, sums, strict=True):
        turned = isinstance(part, Outer) and not part.transposed
        pieces.append((total.T if turned else total).ravel())
    return jnp.concatenate(pieces)


def _cut(part: Outer, bound: Array) -> Outer:
    caps = bound / part.rows.lengths[:, None]
    values = jnp.clip(part.values, -caps, caps)
    return part._replace(values=_of_rows(part, jnp.where(jnp.abs(values) <= LARGEST, values, 0.0)))


def _of_rows(part: Outer | Plain, values: Array) -> Array:
    """Values that belong to a row of zeros are zero: their size says nothing, and the grid of the sum has an end."""
    if isinstance(part, Plain):
        return values
    return jnp.where(part.rows.lengths[:, None] > 0.0, values, 0.0)


def _squares(part: Outer | Plain, weights: Array | None) -> Array:
    values = part.values * part.values
    if isinstance(part, Plain):
        return jnp.sum(values if weights is None else values * weights, axis=1)
    if weights is None:
        return part.rows.lengths**2 * jnp.sum(values, axis=1)
    matrix = weights.reshape(values.shape[1], -1).T if part.transposed else weights.reshape(-1, values.shape[1])
    return jnp.sum(_weighted_squares(part.rows.digits, matrix) * values, axis=1)


def _weighted_squares(digits: Array, weights: Array) -> Array:
    """At least the sums of weights times squared digits / 2^40, in whole numbers like `products`, rounded up."""
    squares = jnp.ceil(digits * digits * 2.0**-ROW_DIGITS)
    units = exponent_above(jnp.sum(weights, axis=0)) - (WEIGHT_DIGITS - 1)
    whole = jnp.ceil(weights * two_to(-units))
    return (squares @ whole) * (two_to(units) * 2.0**-ROW_DIGITS)


def _split(parts: Parts, weights: Array | None) -> list[Array | None]:
    if weights is None:
        return [None] * len(parts)
    pieces, start = [], 0
    for part in parts:
        stop = start + part.values.shape[1] * (part.rows.digits.shape[1] if isinstance(part, Outer) else 1)
        pieces.append(weights[start:stop])
        start = stop
    return pieces
