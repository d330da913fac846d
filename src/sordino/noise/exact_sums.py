"""Sums over records on a public grid: whole numbers, so no order of adding, block, device or file rounds differently.

Statement. Let every record's contribution be computed from that record and the state alone, and be at most B long. Then
the sums of two tables that differ in one record differ by exactly that record's contribution on the grid, which is at
most B long: for any number of records, in any order, in blocks of any size, on any number of devices, from memory or
from a file. Nothing has to be reserved for the number of records.

Proof. Contributions are shortened to a reach r <= B. 2^E is the least power of two above 2r, the unit is 2^(E - 44).
A row over its power of two has 20 digits (`model.contributions`), so it is at most 2^20 whole numbers of 2^-20. The
values beside it are at most 2r, because a row that is not zero has length at least 1/2 over its power of two, and
become whole numbers of 2^(E - 24), at most 2^24. A vector alone is at most r and becomes whole numbers of the unit. A
group of 512 records adds up to at most 2^53 units: whole numbers that double precision holds, with all partial sums.
However a matrix product adds them, nothing is rounded. Each group's sum is split into a multiple of 2^27 units and a
rest below 2^27 units; both parts of up to 2^26 groups, which is 2^35 records, add up below 2^53 again.

Length. Where r is the `working_bound` of a clip B, values go to the nearest whole number. That moves an entry by half a
unit of the values times a row's digit, so a contribution of D entries by at most sqrt(D) 2^(E - 25) <= sqrt(D) 2^-23 r
in all; the working bound is (D / 2 + 8) 2^-23 B below the clip, which is more by 7 * 2^-23 B, and lengths in double
precision need far less than that. Where r is the certified bound itself, values are cut towards 0, which makes nothing
longer.

*What is not proved.* That a contribution is a function of its record and the state alone is proved for products of rows
and weights, and tested, by comparing bits, for everything else inside one compiled program. Another program (another
padded size of the table, another device) may round a contribution differently by parts in 2^52. That moves a value on
the grid by a unit where it happens to lie that close to an edge, and no other one. What the working bound leaves, at
least 7 * 2^-23 of the clip, is there for that.

*Noise* is a whole number too, and is added without rounding (`lattice.noised_exactly`). Where it is a float
(`Total.noised`), it goes to the rest first: rest and noise are both far below the sum, so adding them rounds by a share
of the noise and not of the sum, and adding the large part after that only rounds what was noised.

A chain whose spec states no bound on gradients has no such grid. Its sums are plain ones in double precision
(`plain_total`), off by at most (512 + n / 512) 2^-53 times the sum of all lengths.

Double precision is meant as IEEE 754 has it, on processors and GPUs; `in_doubles` switches it on for a part of a
program and asks for exact products where a device would take shorter ones (TensorFloat-32).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.validate import Interval, number
from sordino.model.clip import working_bound
from sordino.model.contributions import ROW_DIGITS, Outer, Parts, Plain, exponent_above, flat, shortened, two_to

VALUE_DIGITS = 24
# 2^20 times 2^24 times 512 is 2^53.
GROUP = 512
UNIT_DIGITS = ROW_DIGITS + VALUE_DIGITS
REST_DIGITS = 27
# Bounds whose grid is inside the range of double precision, with room for products of it.
BOUNDS = Interval(1e-100, 1e100)


@contextmanager
def in_doubles() -> Iterator[np.dtype]:
    """Double precision, and products without shortcuts, whatever the program around has chosen."""
    # Gives the precision of the program around, in which rows are stored and results released.
    around = np.dtype(jnp.zeros(()).dtype)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield around


def in_precision(values: Any, dtype: Any) -> NDArray[Any]:
    """What was computed in double precision, as it is released; what is too large for that becomes infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(dtype)


def checked_bound(name: str, bound: float) -> float:
    """A bound on contributions that has a grid."""
    return number(name, bound, BOUNDS)


class Total(NamedTuple):
    """A sum in two parts that add up to it: a multiple of 2^27 units, and a rest."""

    high: Array
    low: Array

    def plus(self, other: "Total") -> "Total":
        """Both parts added; exact for sums on one grid."""
        return Total(self.high + other.high, self.low + other.low)

    def cut_at(self, bound: Array) -> "Total":
        """The same sum on the grid of contributions up to `bound`, cut in the one way that depends on it alone."""
        rest = two_to(exponent_above(bound) + 1 - UNIT_DIGITS + REST_DIGITS)
        multiples = jnp.floor(self.high / rest) * rest
        left = self.low + (self.high - multiples)
        carried = jnp.floor(left / rest) * rest
        return Total(multiples + carried, left - carried)

    def noised(self, noise: Array) -> Array:
        """The sum plus noise; rounded only where the noise is in it already."""
        return self.high + (self.low + noise)


def no_total(shape: tuple[int, ...]) -> Total:
    """The sum over no records."""
    return Total(jnp.zeros(shape, jnp.float64), jnp.zeros(shape, jnp.float64))


def grid_total(parts: Parts, present: Array, reach: Array, *, cut: bool = False) -> Total:
    """The sum of parts of length at most `reach` over the records that are `present` (1, otherwise 0), on the grid."""
    # Values go to the nearest whole number, or are `cut` towards 0.
    exponent = exponent_above(reach) + 1
    to_whole = jnp.trunc if cut else jnp.rint
    units = []
    for part in parts:
        digits = VALUE_DIGITS if isinstance(part, Outer) else UNIT_DIGITS
        whole = to_whole(part.values * two_to(digits - exponent)) * present[:, None]
        units.append(_groups_of(*_factors(part, whole, ROW_DIGITS)))
    unit = two_to(exponent - UNIT_DIGITS)
    rest = 2.0**REST_DIGITS
    highs = [jnp.floor(each * (1.0 / rest)) * rest for each in units]
    lows = [each - high for each, high in zip(units, highs, strict=True)]
    high, low = (flat(parts, [unit * jnp.sum(each, axis=0) for each in both]) for both in (highs, lows))
    return Total(high, low)


def clipped_total(parts: Parts, present: Array, clip: Array, *, weights: Array | None = None) -> Total:
    """The sum of parts that are shortened to the clip, each record's as one vector; `weights` as in `shortened`."""
    # They are shortened to a little less, by `working_bound`.
    entries = sum(_entries(part) for part in parts) * (1 if weights is None else 2)
    reach = clip * working_bound(1.0, entries)
    return grid_total(shortened(parts, reach, weights), present, reach)


def plain_total(parts: Parts, present: Array) -> Total:
    """The same sum without a grid, for contributions of which no bound is known; what is not finite counts as zero."""
    sums = []
    for part in parts:
        values = jnp.where((present[:, None] > 0.0) & jnp.isfinite(part.values), part.values, 0.0)
        sums.append(jnp.sum(_groups_of(*_factors(part, values, 0)), axis=0))
    total = flat(parts, sums)
    return Total(total, jnp.zeros_like(total))


def _entries(part: Outer | Plain) -> int:
    return part.values.shape[1] * (part.rows.rows.shape[1] if isinstance(part, Outer) else 1)


def _factors(part: Outer | Plain, values: Array, digits: int) -> tuple[Array, Array | None]:
    """Values, and rows beside them, whose products are those of the values and the rows times 2^(digits - exponent)."""
    # The power of two goes to the values, so that rows are used as they are stored.
    if isinstance(part, Plain):
        return values, None
    return values * two_to(digits - part.rows.exponents)[:, None], part.rows.rows


def _groups_of(values: Array, rows: Array | None) -> Array:
    """The sum of each group of 512 records: (groups, values), or (groups, values, row entries) of outer products."""
    grouped = _grouped(values)
    if rows is None:
        return jnp.sum(grouped, axis=1)
    if len(grouped) == 1:
        # Not the transposed rows times values: that product is several times slower on a processor.
        return (values.T @ rows)[None]
    return jnp.einsum("grv,gre->gve", grouped, _grouped(rows))


def _grouped(values: Array) -> Array:
    records = values.shape[0]
    if records <= GROUP:
        return values[None]
    padded = jnp.pad(values, ((0, -records % GROUP), (0, 0)))
    return padded.reshape(len(padded) // GROUP, GROUP, values.shape[1])
