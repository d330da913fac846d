"""Compiled sums over records on a public lattice, and whole-number noise on them: nothing is rounded on the way.

*Sums.* Let every contribution be computed from its record and the state alone, and be at most B long. Then the sums of
two tables that differ in one record differ by exactly its contribution on the grid, which is at most B long: for any
number of records, in any order, in blocks of any size, on any number of devices.

Proof. Contributions are shortened to a reach r <= B. 2^E is the least power of two above 2r, the unit is 2^(E - 44).
A row over its power of two is at most 2^20 whole numbers of 2^-20 (`models.contributions`). The values beside it are at
most 2r, because a row that is not zero has length at least 1/2 over its power of two, and become whole numbers of
2^(E - 24), at most 2^24; a vector alone becomes whole numbers of the unit. So a group of 512 records adds up to at most
2^53 units, which double precision holds with all partial sums, in any order. Each group's sum is split into a multiple
of 2^27 units and a rest; both parts of up to 2^26 groups, 2^35 records, stay below 2^53 again.

Length. Where r is the `working_bound` of a clip B, values go to the nearest whole number. That moves a contribution of
D entries by at most sqrt(D) 2^(E - 25) <= sqrt(D) 2^-23 r; the working bound leaves (D / 2 + 8) 2^-23 B, which is more
by 7 * 2^-23 B. Where r is the certified bound itself, values are cut towards 0.

*Noise.* Let sums be floored to a public lattice and whole-number Gaussians of scale s be added (`rounded_gaussian`),
and let all else of a run follow from such answers and public numbers. Then the run has the law of adaptively composed
Gaussian mechanisms of sensitivity B + sqrt(D) * spacing (add-remove; 2 B + sqrt(D) * spacing under replace-one),
post-processed, whatever floating point did before contributions were rounded and after noise was added.

Proof. The sums of neighbours are whole numbers that differ by one contribution, or by the difference of two. Flooring
moves each entry of that by less than one spacing. A whole number plus a whole-number Gaussian is the Gaussian mechanism
rounded. `Lattice.of` refuses a spacing that needs more than 2^-23 of the bound, which the working bound of a clip, and
the reach of a certified bound, leave.

Assumed, besides fair bits and IEEE 754 double precision on the device:

- *own bits*: a contribution as computed depends on its record and the state alone. That is proved for products of rows
  and weights. Tests compare bit by bit that elementwise operations treat all places of a block alike
  (`tests/noise/test_exact_sums.py`);
- *one program*: the step after the noise has the same bits on two neighbours, because they run the same program. Under
  add-remove that holds where both tables fit one padded size; where they do not, equal sub-programs are taken to round
  alike, which tests compare as well. A contribution that rounds differently moves a value by one unit at most, for
  which the working bound leaves room.

Where noise is a float (`Total.noised`), it goes to the rest first, so that adding rounds by a share of the noise. A
chain whose spec states no bound on gradients has no grid: its sums are plain ones (`plain_total`), off by at most
(512 + n / 512) 2^-53 times the sum of all lengths.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.validate import InputError, Interval, number, whole_number
from sordino.models.clip import working_bound
from sordino.models.contributions import ROW_DIGITS, Outer, Parts, Plain, exponent_above, flat, shortened, two_to

COVERED = (
    "noise from fair bits, without rounding, on exact sums of whole numbers on a public lattice, each computed from "
    "its own record and what was released before; what follows reads noised sums alone"
)
# Noise of at most this many spacings; draws beyond 32 of those would leave the whole numbers that a double holds.
_MOST_SPACINGS = 48
_SLACK = 2.0**-23
_EXPONENTS = Interval(-900, 900)
VALUE_DIGITS = 24
GROUP = 512  # 2^20 times 2^24 times 512 is 2^53
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
    unit, rest = two_to(exponent - UNIT_DIGITS), 2.0**REST_DIGITS
    highs = [jnp.floor(each * (1.0 / rest)) * rest for each in units]
    lows = [each - high for each, high in zip(units, highs, strict=True)]
    high, low = (flat(parts, [unit * jnp.sum(each, axis=0) for each in both]) for both in (highs, lows))
    return Total(high, low)


def clipped_total(parts: Parts, present: Array, clip: Array, *, weights: Array | None = None) -> Total:
    """The sum of parts that are shortened to the clip, each record's as one vector; `weights` as in `shortened`."""
    # They are shortened to a little less, by `working_bound`.
    sizes = (part.values.shape[1] * (part.rows.rows.shape[1] if isinstance(part, Outer) else 1) for part in parts)
    entries = sum(sizes) * (1 if weights is None else 2)
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
    if len(values) <= GROUP:
        return values[None]
    padded = jnp.pad(values, ((0, -len(values) % GROUP), (0, 0)))
    return padded.reshape(len(padded) // GROUP, GROUP, values.shape[1])


@dataclass(frozen=True)
class Lattice:
    """The multiples of 2^exponent that sums are floored to; `rest` is where a sum in two parts is cut."""

    exponent: int
    rest_exponent: int

    @classmethod
    def of(cls, bound: float, entries: int, noise: float) -> Self:
        """For contributions of this bound and this many entries, and noise of this scale, the largest of a run."""
        unit = math.frexp(bound)[1] + 1 - UNIT_DIGITS
        # frexp(2^-k) has exponent 1 - k, so 2^exponent is above the noise.
        exponent = max(unit, math.frexp(noise)[1] - _MOST_SPACINGS)
        spacing, room = math.ldexp(1.0, exponent), _SLACK * bound
        if math.sqrt(entries) * spacing > room or exponent > unit + REST_DIGITS:
            most = math.ldexp(room / math.sqrt(entries), _MOST_SPACINGS)
            raise InputError(
                f"Expected noise of at most {most:.3g} on sums of {entries} numbers whose contributions are at most "
                f"{bound:.6g} long, so that whole numbers of 2^{_MOST_SPACINGS} hold it, got {noise:.6g}; use fewer "
                "rounds, or a larger epsilon."
            )
        return cls(exponent, unit + REST_DIGITS)

    @property
    def spacing(self) -> float:
        return math.ldexp(1.0, self.exponent)

    @property
    def end(self) -> float:
        """Where iterates on the lattice are cut, on either side."""
        return math.ldexp(1.0, self.rest_exponent - 1)

    def halves(self, drawn: NDArray[np.int64]) -> "LatticeNoise":
        """Whole-number noise as two doubles whose sum it is: multiples of `rest`, and what is left."""
        bits = self.rest_exponent - self.exponent
        high, each = drawn >> bits, (*drawn.shape[:-1], 1)
        if np.any(np.abs(high) >= 2**53):
            raise ArithmeticError("noise beyond 2^53 times the rest of a sum")
        upper = np.ldexp(high.astype(np.float64), self.rest_exponent)
        lower = np.ldexp((drawn - (high << bits)).astype(np.float64), self.exponent)
        rest = np.full(each, math.ldexp(1.0, self.rest_exponent))
        return LatticeNoise(upper, lower, np.full(each, self.spacing), rest)


class LatticeNoise(NamedTuple):
    """Noise on a lattice in two parts that add up to it, the spacing of the lattice, and where sums are cut."""

    high: Any
    low: Any
    spacing: Any
    rest: Any


def noised_exactly(high: Any, low: Any, noise: LatticeNoise, numbers: Any = jnp) -> Any:
    """The sum high + low, floored to the lattice, plus noise: one rounding, of a whole number that holds the noise."""
    # Where the parts are whole numbers of a unit that divides the spacing, all but the last addition is exact, and the
    # answer is the double nearest to floor(sum) + noise, however the sum was cut in two. (Where they were multiplied
    # by public numbers before, they are cut in two in one way, and floored each.)
    multiples = numbers.floor(high / noise.rest) * noise.rest
    left = low + (high - multiples)
    floored = numbers.floor(left / noise.spacing) * noise.spacing + noise.low
    carried = numbers.floor(floored / noise.rest) * noise.rest
    return (multiples + noise.high + carried) + (floored - carried)


# Lattices of sums that are whole numbers of 64 bits.


def lattice_exponent(bound: float, entries: int, noise: float) -> int:
    """The lattice for contributions and noise: rounding shortens by at most 2^-23, and 64 bits hold the noise."""
    # A clip of at least 2^24 sqrt(D) spacings does not round to zero.
    room = checked_bound("the clip", bound) * _SLACK
    exponent = math.frexp(room / math.sqrt(whole_number("the entries", entries)))[1] - 1
    widest = math.ldexp(1.0, exponent + _MOST_SPACINGS)
    if noise > widest:
        raise InputError(
            f"Expected noise of at most {widest:.3g} for a clip of {bound:.6g} and {entries} entries, so that whole "
            f"numbers hold it, got {noise:.6g}; use fewer rounds, or a larger epsilon."
        )
    return int(number("the exponent of the lattice", exponent, _EXPONENTS))


def check_sums(records: int, bound: float, exponent: int) -> None:
    """Refuse, before a row is read, so many records that a sum of 64 bits could overflow."""
    most = int(math.ldexp(1.0, 61 + exponent) / bound)
    if records > most:
        raise InputError(
            f"Expected at most {most} records, each of which adds up to {bound * 2.0**-exponent:.3g} whole numbers to "
            f"a sum of 64 bits, got {records}; use a coarser lattice or smaller batches."
        )
