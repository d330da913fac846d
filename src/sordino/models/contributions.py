"""What one record adds to a sum: computed from that record alone to the last bit, and never longer than its bound.

A private sum is noised for what one record can move it by. Three things could break that in floating point: a record's
numbers may depend on where it stands, because a fast product treats the edge of a block unlike its middle; its
contribution may exceed its bound by rounding, overflow or underflow; and adding may round. The first two are dealt with
here, in double precision; `noise.lattice` adds without rounding.

*Products of rows and weights are exact.* A row is cut to 20 binary digits below the power of two 2^e above its largest
entry: whole numbers of at most 2^20 times 2^(e - 20). The weights of a column are cut to whole numbers, times a power
of two, whose sizes add up to at most 2^32. Products and all partial sums are whole numbers below 2^53 times a power of
two, so nothing is rounded in any order. Cutting a row is part of the algorithm: it happens to each record by itself and
makes no entry larger.

*Other numbers of a record* come from elementwise functions and from sums along one row, which compiled code evaluates
alike for every row of a block. That is tested by comparing bits, not proved, and so is everything inside a custom loss.

*Lengths* have a relative error below 2^-40 (Higham 2002, Section 4.2, for at most 8,000 entries of a part), far less
than the `working_bound` leaves. Entries beyond 2^400 make a record count as not finite, so no square overflows; squares
that underflow belong to entries far below the grid of the sum. A record that is not finite contributes zero, and is
replaced by zero *before* anything is multiplied by it.
"""

from itertools import accumulate
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

ROW_DIGITS = 20
WEIGHT_DIGITS = 32
_REST_DIGITS = 20  # of the weights behind those: up to 8,000 entries of each, times 20 digits, stay below 2^53
# Below, squares cannot overflow; a record with a larger number in it counts as not finite.
LARGEST = 2.0**400
_FRACTION_BITS, _BIAS = 52, 1023
_EXPONENTS = (-900, 900)
# Rows whose largest entry is below this count as zero: cut rows must be ordinary numbers in single precision too.
_LEAST_ROW_EXPONENT = -100


class WholeRows(NamedTuple):
    """Rows whose entries are whole numbers of at most 2^20 times 2^(exponent - 20); `lengths` are over 2^exponent."""

    rows: Array
    exponents: Array
    lengths: Array


class RowSizes(NamedTuple):
    """What is known of rows that were cut before: the exponents and lengths of `WholeRows`."""

    exponents: Array
    lengths: Array


class Outer(NamedTuple):
    """The matrix of one record: its row over 2^exponent times `values`, flat in the order (row entry, value).

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
    return jnp.clip((bits >> _FRACTION_BITS) - (_BIAS - 1), *_EXPONENTS)


def whole_rows(rows: Array, sizes: RowSizes | None = None) -> WholeRows:
    """Rows in double precision, cut unless they come with the sizes of rows that were cut before.

    A row that is not finite, or as a whole beyond 2^900 or below 2^-101, becomes zero; every other row is at least half
    as long as its power of two.
    """
    given = rows.astype(jnp.float64)
    if sizes is not None:
        return WholeRows(given, *sizes)
    largest = jnp.max(jnp.abs(given), axis=1, initial=0.0)  # found without rounding
    used = (largest >= 2.0 ** (_LEAST_ROW_EXPONENT - 1)) & (largest < 2.0 ** _EXPONENTS[1])
    exponents = jnp.where(used, exponent_above(largest), 0)
    digits = jnp.trunc(jnp.where(used[:, None], given, 0.0) * two_to(ROW_DIGITS - exponents)[:, None])
    lengths = jnp.sqrt(jnp.sum(digits * digits, axis=1)) * 2.0**-ROW_DIGITS
    return WholeRows(digits * two_to(exponents - ROW_DIGITS)[:, None], exponents, lengths)


def products(rows: WholeRows, weights: Array) -> Array:
    """Rows times weights, shape (records, columns of weights), without any rounding of sums."""
    units = exponent_above(jnp.sum(jnp.abs(weights), axis=0)) - WEIGHT_DIGITS
    scaled = weights * two_to(-units)
    first = jnp.trunc(scaled)
    # Another 32 digits, added with one rounding: what is left out of a column is below 2^-31 of its last unit.
    both = rows.rows @ jnp.concatenate([first, jnp.trunc((scaled - first) * 2.0**_REST_DIGITS)], axis=1)
    columns = weights.shape[1]
    return (both[:, :columns] + both[:, columns:] * 2.0**-_REST_DIGITS) * two_to(units)


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
    squares = sum(_squares(part, weight) for part, weight in zip(parts, _split(parts, weights), strict=True))
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
    return jnp.sum(_weighted_squares(part.rows, matrix) * values, axis=1)


def _weighted_squares(rows: WholeRows, weights: Array) -> Array:
    """At least the sums of weights times squares of rows over 2^exponent, in whole numbers like `products`."""
    # Weights that are all one number must not come here: on processors JAX 0.10.2 to 0.11.2 fuse a product with such a
    # matrix and the sum over columns that follows into a piece that reads memory that nothing was written to.
    # (jax.jit(lambda x, v: jnp.sum((x @ jnp.ones((9, 10))) * v, axis=1)) shows it on 512 rows.)
    scaled = rows.rows * two_to(ROW_DIGITS // 2 - rows.exponents)[:, None]
    squares = jnp.ceil(scaled * scaled)
    units = exponent_above(jnp.sum(weights, axis=0)) - (WEIGHT_DIGITS - 1)
    return (squares @ jnp.ceil(weights * two_to(-units))) * (two_to(units) * 2.0**-ROW_DIGITS)


def _split(parts: Parts, weights: Array | None) -> list[Array | None]:
    if weights is None:
        return [None] * len(parts)
    sizes = (part.values.shape[1] * (part.rows.rows.shape[1] if isinstance(part, Outer) else 1) for part in parts)
    return [*jnp.split(weights, list(accumulate(sizes))[:-1])]
