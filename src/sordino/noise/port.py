"""The port: where noise meets a statistic of private rows. No other module draws noise for one.

Statement for sums on the host. Let s be the statistic as computed, whole numbers of a public unit, a sum over units of
which none is longer than a bound: that is checked in whole numbers (`integer_sums`). The release is the nearest point
of a public grid to s + scale * xi with xi exactly standard Gaussian, given that the generator's bits are fair
(`gaussian`), and scale = multiplier * factor(shape, relation) * bound is computed here. So it is post-processing of the
Gaussian mechanism on s with parameter mu = 1 / multiplier, its guarantee is that of the theorem, and computing it costs
nothing: no delta, no larger noise. The grid removes the last bits, which would betray s however large the noise is
(Mironov 2012). Sums have 128 bits, which hold any table.

Compiled chains, rounds and networks add whole-number noise, drawn here, to whole-number sums (`lattice`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.validate import POSITIVE, InputError, Interval, number, refuse, whole_number
from sordino.noise.device_gaussian import step_gaussians
from sordino.noise.gaussian import ExactGaussians, whole_laplace
from sordino.noise.integer_sums import Contributions, Sums
from sordino.noise.lattice import Lattice, Total, in_doubles
from sordino.noise.randomness import ADDED, Law, NoisedCall, NoisePort, Purpose, Randomness
from sordino.noise.rounded_gaussian import SCALES, rounded_gaussians
from sordino.noise.secure import key_for, standard_gaussians

_CELLS = 1024  # rounding to a thousandth of the noise adds a ten-millionth to its variance
_LARGEST_SHIFT = 52  # an offset inside a cell is a float, exactly
_IN_UNITS = Interval(2.0**-40, 2.0**100)  # a later round's bound may make sums as small as their unit
HAIR = 1.0 + 2.0**-48  # more noise than the rounding of products of multipliers and sensitivities could take away
_FINEST = -1022


def grid_below(tau: float, cells: int = 16) -> int:
    """The coarsest grid, the multiples of 2^this, with at least so many cells in one noise scale."""
    return max(_FINEST, math.frexp(number("tau", tau, POSITIVE) / whole_number("cells", cells))[1] - 1)


def on_grid(values: ArrayLike, exponent: int) -> NDArray[np.float64]:
    """The nearest multiple of 2^exponent for every value, ties to even; in double precision whatever came in."""
    given = np.asarray(values, np.float64)
    if not np.isfinite(given).all():
        raise refuse("the values to round", "to be finite", "NaN or infinity")
    # Scaling by a power of two is exact, and a float above 2^53 cells is a point of the grid already.
    return np.ldexp(np.rint(np.ldexp(given, -exponent)), exponent)


# Sums of 128 bits.

RECORD_BITS = 40  # what one record can add to an entry: two factors of 2^20 units, or 2^5 lengths of 2^34 units
MOST_RECORDS = 2 ** (127 - RECORD_BITS) - 1


def check_capacity(records: int) -> None:
    """Refuse, before a row is read, so many records that their sum might not fit."""
    if records > MOST_RECORDS:
        raise InputError(
            f"Expected at most {MOST_RECORDS} records, each of which adds up to 2^{RECORD_BITS} units to a sum of "
            f"128 bits, got {records}; release the table in parts."
        )


def wide(numbers: int) -> NDArray[np.object_]:
    """Sums to begin from, of whole numbers of any size."""
    return np.zeros(numbers, object)


def to_bytes(sums: NDArray[Any]) -> bytes:
    """Sixteen bytes a number, the least significant first, on every machine alike."""
    return b"".join(int(number).to_bytes(16, "little", signed=True) for number in sums)


def from_bytes(text: bytes, numbers: int) -> NDArray[np.object_]:
    """So many sums from their bytes."""
    if len(text) != 16 * numbers:
        raise refuse("sums", f"to be {numbers} numbers of 16 bytes", f"{len(text)} bytes")
    pieces = (text[first : first + 16] for first in range(0, len(text), 16))
    return np.array([int.from_bytes(piece, "little", signed=True) for piece in pieces], object)


class Summed(NamedTuple):
    """Sums over all rows, the exponent of their unit, and how many units the rows belong to."""

    sums: NDArray[Any]
    exponent: int
    units: int


class CheckedSum(NamedTuple):
    """A sum over units, none of them longer than a bound, and how far one unit moves it."""

    sums: NDArray[Any]
    exponent: int
    moved: float
    multiplier: float  # the noise over `moved`
    shares: ArrayLike = 1.0  # what the noise of single numbers is multiplied by, where their length is a weighted one
    times: float = 1.0  # how far a unit moves the sum over `moved`, where that is a length

    @property
    def mu(self) -> float:
        """The parameter mu of the Gaussian mechanism."""
        return self.times / self.multiplier

    @property
    def scales(self) -> Array:
        noise = self.multiplier * self.moved * HAIR
        return np.broadcast_to(noise * np.asarray(self.shares, np.float64), self.sums.shape)


class SumNoise:
    """The noise of a run's sums on the host: drawn before any of them is seen, and each used once, in order."""

    def __init__(self, drawn: ExactGaussians, port: NoisePort = ADDED) -> None:
        self._drawn, self._port, self._used = drawn, port, 0

    @classmethod
    def of(cls, randomness: Randomness, numbers: int) -> Self:
        return cls(ExactGaussians(randomness.generator(Purpose.NOISE), numbers), randomness.port)

    def statistic(
        self, asked: "Statistic", summed: Summed, multiplier: float, relation: Relation, *, later: bool = False
    ) -> Array:
        """A noised statistic; of a `later` one the port also gets the bound, which follows from earlier answers."""
        moved = asked.sensitivity(relation)
        total = CheckedSum(summed.sums, summed.exponent, moved, multiplier, asked.shares)
        return self.noised([total], asked.bound if later else None)

    def noised(self, totals: Sequence[CheckedSum], bound: float | None = None, place: int | None = None) -> Array:
        """Sums of one unit, stacked, with noise (from `place` on, if given), rounded to a grid: one call.

        One unit moves the stack, each sum over its noise, by at most the root of the sum of mu^2.
        """
        # Sums beyond 62 bits are Python's whole numbers in an array of objects, which shift, subtract and add alike.
        sums, exponent = np.concatenate([one.sums for one in totals]), totals[0].exponent
        if sums.size and -(2**61) <= sums.min() <= sums.max() < 2**61:
            sums = sums.astype(np.int64)
        spread = np.concatenate([one.scales for one in totals])
        if not spread.size:
            raise refuse("the values to noise", "to be at least one", "none")
        for end in (float(spread.min()), float(spread.max())):
            number("the noise scale", end * math.ldexp(1.0, -exponent), _IN_UNITS)
        grid = min(max(grid_below(float(spread.min()), _CELLS), exponent), exponent + _LARGEST_SHIFT)
        shift = grid - exponent
        cells = sums >> shift
        offsets = np.ldexp((sums - (cells << shift)).astype(np.float64), -shift)
        first = self._used if place is None else place
        self._used = first + len(sums)
        part, in_cells = slice(first, self._used), np.ldexp(spread, -grid)
        mu = math.sqrt(math.fsum(one.mu**2 for one in totals))
        return self._port.answer(
            NoisedCall(Law.GAUSSIAN, sums, spread, math.ldexp(1.0, exponent), bound, mu),
            lambda: np.ldexp((cells + self._drawn.rounded(part, offsets, in_cells)).astype(np.float64), grid),
        )

    def skip(self, numbers: int) -> None:
        """Leave noise that was used in an earlier run of the same plan."""
        self._used += numbers


# What is no sum over units: counts with discrete Laplace noise, averages along a chain, draws of a posterior.


class ExactDraws:
    """Noise that a mechanism asks for one by one, on numbers of which its own proof says how far a unit moves them."""

    def __init__(self, generator: np.random.Generator, port: NoisePort = ADDED) -> None:
        self.generator, self._port = generator, port

    @classmethod
    def of(cls, randomness: Randomness) -> Self:
        return cls(randomness.generator(Purpose.NOISE), randomness.port)

    def laplace(self, value: int, scale: float) -> int:
        call = NoisedCall(Law.LAPLACE, np.array([value]), scale)
        return self._port.answer(call, lambda: value + whole_laplace(self.generator, scale))

    def rounded(self, mean: Fraction, deviation: Callable[[int], tuple[Fraction, Fraction]]) -> int:
        """The whole number nearest to a Gaussian, whose deviation `deviation(k)` encloses ever better."""
        return ExactGaussians(self.generator, 1).nearest(0, mean, deviation)

    def floating(self, values: Array, law: Law, scale: float) -> Array:
        """Values plus noise, both floats: floating point is not covered."""
        drawn = self.generator.normal if law is Law.GAUSSIAN else self.generator.laplace
        return values + drawn(0.0, scale, len(values))


def noised_average(
    mean: NDArray[Any], law: Law, scale: float, exponent: int, randomness: Randomness
) -> NDArray[np.float64]:
    """Averages in units of 2^exponent, whole where they are exact, plus exact noise of a scale, as doubles."""
    in_units = float(np.ldexp(scale, -exponent))

    def answer() -> NDArray[np.float64]:
        generator = randomness.generator(Purpose.AVERAGE)
        if law is Law.GAUSSIAN:
            drawn = rounded_gaussians(generator, mean.size, in_units)
        else:
            drawn = np.array([whole_laplace(generator, in_units) for _ in range(mean.size)], np.int64)
        return np.ldexp((mean + drawn.reshape(mean.shape)).astype(np.float64), exponent)

    return randomness.port.answer(NoisedCall(law, mean, scale, float(np.ldexp(1.0, exponent))), answer)


FINE = 34  # vectors and counts are sums of at most 2^34 units a row and entry: 2^23 rows are below 2^62 units


def factor(shape: str, relation: Relation) -> float:
    """What a bound on contributions is multiplied by to give a sensitivity, see `Statistic`."""
    acute = math.sqrt(2.0)
    replaced = {"vector": 2.0, "nonnegative": acute, "matrix": acute, "cube": 1.0, "centre": 1.0}[shape]
    return replaced if relation is Relation.REPLACE_ONE else 1.0


@dataclass_transform(frozen_default=True, eq_default=False)
@dataclass(frozen=True, eq=False)
class Statistic(ABC):
    """A sum over units that is released with noise: a small public object.

    It travels to where rows are, `of` computes what some rows add, and whole numbers travel back. They add up to the
    same sum however rows were divided, as long as no unit is.

    Sensitivities follow from the *shape*, for contributions of length at most r. A unit contributes the mean of what
    its rows would contribute, times survey weights of at most 1: a point of the convex hull of 0 and such
    contributions.

    - *vector*: |v - v'| <= 2 r where a unit is replaced, r where one is added or removed.
    - *nonnegative* (histograms, squares, positive semidefinite matrices): inner products <v, v'> are not negative, so
      |v - v'|^2 = |v|^2 + |v'|^2 - 2 <v, v'> <= 2 r^2. That is sqrt 2 r and r. For matrices the inner product is
      tr V V', which is not negative for positive semidefinite V and V', and the length is Frobenius'.
    - *cube*: entries in [0, 1], or weighted so: two units are no further apart than the diagonal, which is the bound.
    - *centre*: the statistic proves how far a unit moves its sum, and that is its bound.

    Matrices are released as their upper triangles. An entry off the diagonal counts twice in Frobenius' length, so its
    noise is 1 / sqrt 2 of the diagonal's. Subclasses are frozen dataclasses.
    """

    shape: ClassVar[str] = "vector"

    name: str  # of the mechanism that it is an answer of
    bound: float  # the most that one unit can contribute, in the length that goes with `shape`

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)

    @property
    def size(self) -> int:
        """Entries of the vector, or rows of the matrix."""
        return 1

    @property
    def numbers(self) -> int:
        return self.size * (self.size + 1) // 2 if self.shape == "matrix" else self.size

    @property
    def exponent(self) -> int:
        """The exponent of the unit of the sums; public, and the same for all rows."""
        return -FINE

    def sensitivity(self, relation: Relation) -> float:
        return self.bound * factor(self.shape, relation)

    @property
    def shares(self) -> Array:
        """What every number's noise is over that of the entries of a whole vector."""
        matrix = self.shape == "matrix"
        return 1.0 / triangle_weights(matrix_size(self.numbers)) if matrix else np.ones(self.numbers)

    def read(self, answer: Array) -> Array:
        """The noised answer as a vector, or as the symmetric matrix that it is."""
        return symmetric(answer) if self.shape == "matrix" else answer

    @abstractmethod
    def contributions(self, rows: Any) -> Contributions:
        """What these rows add to the sum, in whole numbers that are not checked yet."""

    def of(self, rows: Any) -> Sums:
        """What these rows add, every unit within the bound."""
        exponent, found = self.exponent, self.contributions(rows)
        if found.shape != self.shape:
            raise AssertionError(f"{self.name} is declared as {self.shape}, computed as {found.shape}")
        return found.total(self.bound, exponent)


def matrix_size(numbers: int) -> int:
    """Of a matrix whose upper triangle has so many numbers."""
    return round((math.sqrt(8.0 * numbers + 1.0) - 1.0) / 2.0)


def triangle_weights(size: int) -> Array:
    """What an upper triangle is multiplied by so that its length is the Frobenius norm of the symmetric matrix."""
    rows, columns = np.triu_indices(size)
    return np.where(rows == columns, 1.0, math.sqrt(2.0))


def symmetric(upper: Array) -> Array:
    """A symmetric matrix from its upper triangle."""
    size = matrix_size(len(upper))
    found = np.zeros((size, size))
    found[np.triu_indices(size)] = upper
    return found + np.triu(found, 1).T


# Noise of compiled chains, rounds and networks: drawn a block of steps at a time, added inside by `NoisePort.added`.


def step_noise(
    randomness: Randomness,
    lattice: Lattice | None,
    scales: NDArray[np.float64],
    first: int,
    shape: tuple[int, ...],
    dtype: DTypeLike,
) -> Any:
    """Noise of steps `first`, ..., shape (steps, ...): on a lattice, otherwise standard Gaussians in floating point.

    `scales` are those of all steps of the run.
    """
    if lattice is None:
        return randomness.gaussians(Purpose.NOISE, first, shape[0], shape[1:], dtype)
    in_spacings = _in_units(scales, lattice.exponent)
    drawn = randomness.whole_gaussians(Purpose.NOISE, first, shape[0], in_spacings, math.prod(shape[1:]))
    return jax.tree.map(jnp.asarray, lattice.halves(drawn.reshape(shape)))


def _in_units(scales: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """Scales in units of 2^exponent, at least the least one there is: a little more noise is as private."""
    return np.maximum(np.ldexp(scales, -exponent), SCALES.low)


def keyed_noise(key: jax.Array, step: Any, size: int) -> jax.Array:
    """Standard Gaussians of a step of a pure chain, which has the caller's keys."""
    return standard_gaussians(key_for(key, Purpose.NOISE, step), (size,))


_SMALLEST = 2.0**-54  # half the resolution of a uniform draw, so that zero is never met


def stable_scales(generator: np.random.Generator, shape: tuple[int, int], alpha: float) -> NDArray[np.float64]:
    """The random scales of the next steps of stable noise, shape (steps, chains); drawn in order."""
    return np.asarray(mixing_scale(generator.random((*shape, 2)), alpha, np))


def keyed_scale(key: jax.Array, step: Any, alpha: float) -> jax.Array:
    """The random scale of a step of a pure chain with stable noise."""
    return mixing_scale(jax.random.uniform(key_for(key, Purpose.MIXING, step), (2,), jnp.float64), alpha, jnp)


def mixing_scale(draws: Any, alpha: float, numbers: Any) -> Any:
    """For uniform pairs in [0, 1) an s such that s N(0, I) has the stable law exp(-|u|^alpha), alpha > 1."""
    # Given s the characteristic function is exp(-s^2 |u|^2 / 2), so s^2 / 2 has to be positive stable of index alpha /
    # 2, with Laplace transform exp(-t^(alpha / 2)) at t = |u|^2. Its sampler is the representation of Kanter (1975,
    # Section 4), the positive case of Chambers, Mallows and Stuck (1976). At alpha = 2 the law is N(0, 2I).
    if alpha == 2.0:
        return numbers.full(draws.shape[:-1], np.sqrt(2.0))
    index = alpha / 2.0
    angle = np.pi * numbers.maximum(draws[..., 0], _SMALLEST)
    exponential = numbers.maximum(-numbers.log1p(-draws[..., 1]), _SMALLEST)
    turned = numbers.sin(index * angle) / numbers.sin(angle) ** (1.0 / index)
    positive = turned * (numbers.sin((1.0 - index) * angle) / exponential) ** ((1.0 - index) / index)
    return numbers.sqrt(2.0 * positive)


_DRAWS_AT_ONCE = 2**18  # noise of so many numbers is drawn at once, for several steps


class NetworkNoise:
    """Noise, by step, on the whole-number sums of a training run, in units of 2^exponent; whole numbers if `exact`."""

    def __init__(
        self, randomness: Randomness, noise: NDArray[np.float64], exponent: int, size: int, *, exact: bool
    ) -> None:
        self.randomness, self.noise, self.exponent, self.size, self.exact = randomness, noise, exponent, size, exact
        self.scales = _in_units(noise, exponent)
        self._as_floats: Callable[..., jax.Array] = jax.jit(
            lambda whole: (whole.astype(jnp.float64) * math.ldexp(1.0, exponent)).astype(jnp.float32)
        )
        self._drawn: tuple[int, Any] = (0, ())

    def added(self, total: jax.Array, k: int) -> jax.Array:
        """The sum of step k with its noise."""
        if not self.exact:
            gaussian = self.randomness.gaussians(Purpose.NOISE, k, 1, (self.size,), jnp.float32)[0]
            with in_doubles():
                sums = self._as_floats(total)
            scale = jnp.asarray(self.noise[k], jnp.float32)
            return self.randomness.port.added(Total(jnp.zeros_like(sums), sums), scale, gaussian)
        if self.randomness.port is ADDED:
            with in_doubles():
                return self._as_floats(total + self._noise(k))
        sums = np.asarray(total)
        call = NoisedCall(Law.GAUSSIAN, sums, self.noise[k], math.ldexp(1.0, self.exponent))
        answer = self.randomness.port.answer(
            call, lambda: np.ldexp((sums + np.asarray(self._noise(k))).astype(np.float64), self.exponent)
        )
        return jnp.asarray(np.asarray(answer), jnp.float32)

    def _noise(self, k: int) -> Any:
        """Noise of a step, which depends on its number alone; drawn for several steps at once."""
        first, drawn = self._drawn
        if not first <= k < first + len(drawn):
            steps = min(max(1, _DRAWS_AT_ONCE // self.size), len(self.noise) - k)
            if jax.default_backend() == "cpu":
                drawn = self.randomness.whole_gaussians(Purpose.NOISE, k, steps, self.scales, self.size)
            else:
                drawn = step_gaussians(self.randomness, Purpose.NOISE, k, self.scales[k : k + steps], self.size)
            first, self._drawn = k, (k, drawn)
        with in_doubles():
            return jnp.asarray(drawn[k - first])
