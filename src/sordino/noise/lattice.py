"""Releases that rest on whole numbers alone: contributions on a public lattice, exact sums, exact noise, public steps.

Statement. Let every record contribute whole numbers of a public spacing, a function of that record and of what was
released before alone, of length at most B. Let their sum be floored to a public lattice and whole-number Gaussians of
scale s be added (`rounded_gaussian`), and let everything else of a run be a function of such answers and of public
numbers. Then the run has the law of adaptively composed Gaussian mechanisms of sensitivity B + sqrt(D) * spacing
(add-remove; 2 B + sqrt(D) * spacing under replace-one), post-processed: what is certified, with nothing to add to delta
and whatever floating point did before contributions were rounded and after noise was added.

Proof. The sums S and S' of neighbours are whole numbers; S - S' is one contribution (or the difference of two), since
all others are the same whole numbers and adding whole numbers rounds nothing. Flooring moves each entry of the
difference by less than one spacing. A whole number plus a whole-number Gaussian is the Gaussian mechanism rounded. The
room for flooring is taken from the bound: `Lattice.of` refuses a spacing that needs more than 2^-23 of it, which is
what the working bound of a clip, and the reach of a certified bound, leave.

What this assumes, besides fair bits and IEEE 754 double precision on the device:

- *own bits*: a contribution as computed depends on its record and the state alone. Rows of one block are worked on by
  one compiled program of a fixed shape, whose products are exact in any order; that its elementwise operations treat
  all places of a block alike is what tests compare bit by bit (`tests/noise/test_exact_sums.py`);
- *one program*: the step after the noise has the same bits on both of two neighbours: they run the same compiled
  program. Under add-remove that holds where both tables fit the same padded size, which changes at few sizes; at those,
  equal sub-programs are taken to round alike, which tests compare as well;
- *wide enough*: whole numbers stay below 2^53 spacings in each half of a sum (`exact_sums`), for up to 2^35 records.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from sordino.core.validate import InputError, Interval, number, whole_number
from sordino.noise.exact_sums import REST_DIGITS, UNIT_DIGITS
from sordino.noise.rounded_gaussian import SCALES, rounded_gaussians

COVERED = (
    "noise from fair bits, without rounding, on exact sums of whole numbers on a public lattice, each computed from "
    "its own record and what was released before; what follows reads noised sums alone"
)
# Noise of at most this many spacings; draws beyond 32 of those would leave the whole numbers that a double holds.
_MOST_SPACINGS = 48
_SLACK = 2.0**-23
_EXPONENTS = Interval(-900, 900)


@dataclass(frozen=True)
class Lattice:
    """The multiples of 2^exponent that sums are floored to; `rest` is where a sum in two parts is cut."""

    exponent: int
    rest_exponent: int

    @classmethod
    def of(cls, bound: float, entries: int, noise: float) -> "Lattice":
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
        """The distance of two neighbouring points."""
        return math.ldexp(1.0, self.exponent)

    @property
    def end(self) -> float:
        """Where iterates on the lattice are cut, on either side."""
        return math.ldexp(1.0, self.rest_exponent - 1)

    def in_spacings(self, scales: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scales of noise in spacings, at least the least one there is: a little more noise is as private."""
        return np.maximum(np.ldexp(scales, -self.exponent), SCALES.low)

    def halves(self, drawn: NDArray[np.int64]) -> "LatticeNoise":
        """Whole-number noise as two doubles whose sum it is: multiples of `rest`, and what is left."""
        bits = self.rest_exponent - self.exponent
        high = drawn >> bits
        if np.any(np.abs(high) >= 2**53):
            raise ArithmeticError("noise beyond 2^53 times the rest of a sum")
        return LatticeNoise(
            np.ldexp(high.astype(np.float64), self.rest_exponent),
            np.ldexp((drawn - (high << bits)).astype(np.float64), self.exponent),
            np.full((*drawn.shape[:-1], 1), self.spacing),
            np.full((*drawn.shape[:-1], 1), math.ldexp(1.0, self.rest_exponent)),
        )


class LatticeNoise(NamedTuple):
    """Noise on a lattice in two parts that add up to it, the spacing of the lattice, and where sums are cut."""

    high: Any
    low: Any
    spacing: Any
    rest: Any

    def at(self, k: Any) -> "LatticeNoise":
        """That of step k of a block."""
        return LatticeNoise(*(part[k] for part in self))


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


# Contributions of any other work, as whole numbers: what a trainer of its own needs.


def round_to_lattice(contributions: Any, bound: float, exponent: int) -> Array:
    """Rows of numbers as whole numbers of 2^exponent whose length is at most `bound`, as whole numbers are.

    Statement: for every row, the answer k has |k| 2^exponent <= bound, whatever was computed before: the squares of the
    whole numbers are added in double precision, and a row for which that sum, and all that rounding may have taken from
    it, could exceed the bound is replaced by zeros. What is not finite counts as zero. Shorter rows are cut towards 0.

    Args:
        contributions: shape (records, entries), computed from each record and released numbers alone.
        bound: the public clip.
        exponent: of the lattice, as `lattice_exponent` chooses it.

    Returns:
        Whole numbers of 64 bits, inside `in_doubles`; their sums are exact in any order for so many records that
        `check_sums` lets pass.
    """
    given = jnp.asarray(contributions, jnp.float64)
    entries = given.shape[1]
    most = bound * 2.0**-exponent
    finite = jnp.all(jnp.abs(given) < 2.0**400, axis=1, keepdims=True)
    kept = jnp.where(finite, given, 0.0) * 2.0**-exponent
    inside = most * (1.0 - (entries + 8) * 2.0**-51)
    lengths = jnp.sqrt(jnp.sum(kept * kept, axis=1, keepdims=True))
    whole = jnp.trunc(kept * (inside / jnp.maximum(lengths, inside)))
    # A sum of D squares in double precision, in any order, is at least the true one times 1 - D 2^-53.
    checked = jnp.sum(whole * whole, axis=1, keepdims=True) * (1.0 + (entries + 8) * 2.0**-52) <= most * most
    return jnp.where(checked, whole, 0.0).astype(jnp.int64)


def lattice_exponent(bound: float, entries: int, noise: float) -> int:
    """The lattice for contributions and noise: rounding shortens by at most 2^-23, and 64 bits hold the noise."""
    # A clip of at least 2^24 sqrt(D) spacings does not round to zero.
    size = number("the clip", bound, Interval(1e-100, 1e100))
    exponent = math.frexp(size * _SLACK / math.sqrt(whole_number("the entries", entries)))[1] - 1
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


def noised_on_lattice(
    sums: NDArray[np.int64], exponent: int, scale: ArrayLike, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Sums in whole numbers of 2^exponent plus Gaussian noise of this standard deviation, in whole numbers again.

    Examples:
        >>> import numpy as np
        >>> sums = np.array([2**30, -(2**20)])
        >>> noised = noised_on_lattice(sums, -20, 3.0, np.random.default_rng(0))
        >>> bool(np.all(np.abs(noised - sums) < 30 * 2**20))
        True
    """
    scales = np.broadcast_to(np.ldexp(np.asarray(scale, np.float64), -exponent), sums.shape).ravel()
    return sums + rounded_gaussians(generator, sums.size, scales).reshape(sums.shape)
