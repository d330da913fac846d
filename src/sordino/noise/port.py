"""The port: where noise meets a statistic of private rows.

A mechanism never adds noise itself: it hands the port of its randomness the exact statistic, the scale of the noise
and a way to draw the answer, and continues with the answer it gets back. In a run the answer is the drawn one. Another
port may write the calls down, or answer them with what an earlier run was answered: that is how
`auditing/replay/port.py` measures by how much one record moves what this code noises.

Statement for sums on the host. Let s be the statistic as computed: whole numbers of a public unit, or floats, taken as
the rational numbers they are. The release is the nearest point of a public grid to s + scale * xi with xi exactly
standard Gaussian, given that the generator's bits are fair (`gaussian`). So it is post-processing of the Gaussian
mechanism on s, its guarantee is that of the theorem, and computing it costs nothing: no delta, no larger noise. The
grid removes the last bits, which would betray s however large the noise is (Mironov 2012). What is left to show is that
one record moves s *as computed* by no more than the stated sensitivity (`integer_sums`).

Compiled chains and rounds add whole-number noise to whole-number sums (`lattice`). Where neither is to be had, stable
noise for one, released draws are rounded to a grid, and the certificate says that floating point is not covered.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jax import Array as DeviceArray
from numpy.typing import ArrayLike, NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.validate import POSITIVE, Interval, number, refuse, whole_number
from sordino.noise.integer_sums import Contributions, Sums
from sordino.noise.lattice import LatticeNoise, Total, noised_exactly

if TYPE_CHECKING:
    from sordino.noise.gaussian import ExactGaussians

# Rounding to a thousandth of the noise adds a ten-millionth to its variance.
_CELLS = 1024
# An offset inside a cell is a float, exactly.
_LARGEST_SHIFT = 52
# Of floats; and of sums in units of their own, which may be as small as a later round's bound makes them.
_SCALES, _IN_UNITS = Interval(2.0**-40, 2.0**60), Interval(2.0**-40, 2.0**100)
Answer = TypeVar("Answer")


class Law(StrEnum):
    """How the answer of a call is distributed around its statistic, independently in every entry."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


class NoisedCall(NamedTuple):
    """What one call noises: the statistic, in whole numbers of `unit` or as floats, and the scale of its noise.

    `bound` is the longest contribution of a record, where it follows from earlier answers and no spec can say it.
    """

    law: Law
    statistic: NDArray[Any]
    scale: ArrayLike
    unit: float = 1.0
    bound: float | None = None


class NoisePort:
    """Answers with the noise that is drawn; two of them are the same only if they are one object."""

    def answer(self, call: NoisedCall, draw: Callable[[], Answer]) -> Answer:
        """The noised statistic; `draw` makes it, and is asked at most once."""
        del call
        return draw()

    def added(self, total: Total, scale: DeviceArray, drawn: DeviceArray | LatticeNoise) -> DeviceArray:
        """The same for a sum inside a compiled kernel, where noise on its lattice, or standard Gaussians, was drawn."""
        if isinstance(drawn, LatticeNoise):
            return noised_exactly(*total, drawn)
        return total.noised(scale * drawn)


ADDED = NoisePort()


def gaussian_call(
    statistic: NDArray[Any], scale: ArrayLike, unit: float = 1.0, bound: float | None = None
) -> NoisedCall:
    """A call with Gaussian noise of this standard deviation, one for every entry or one for all."""
    return NoisedCall(Law.GAUSSIAN, np.asarray(statistic), scale, unit, bound)


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


def noised_sums(
    sums: NDArray[Any],
    exponent: int,
    scales: ArrayLike,
    noise: "ExactGaussians",
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


def noised_numbers(values: Array, scales: ArrayLike, noise: "ExactGaussians", part: slice = slice(None)) -> Array:
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


# Vectors and counts are sums of at most 2^34 units a row and entry: 2^23 rows are below 2^62 units.
FINE = 34


def factor(shape: str, relation: Relation) -> float:
    """What a bound on contributions is multiplied by to give a sensitivity, see `Statistic`."""
    acute = math.sqrt(2.0)
    replaced = {"vector": 2.0, "nonnegative": acute, "matrix": acute, "cube": 1.0, "centre": 1.0}[shape]
    return replaced if relation is Relation.REPLACE_ONE else 1.0


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
    - *centre*: the statistic proves how far a unit moves its sum, and that is its bound.

    Matrices are released as their upper triangles. An entry off the diagonal counts twice in Frobenius' length, so its
    noise is 1 / sqrt 2 of the diagonal's.

    Attributes:
        name: of the mechanism that it is an answer of.
        bound: the most that one unit can contribute, in the length that goes with `shape`.
    """

    shape: ClassVar[str] = "vector"

    name: str
    bound: float

    @property
    def size(self) -> int:
        """Entries of the vector, or rows of the matrix."""
        return 1

    @property
    def numbers(self) -> int:
        """How many numbers are released."""
        return self.size * (self.size + 1) // 2 if self.shape == "matrix" else self.size

    @property
    def exponent(self) -> int:
        """Of the unit of the sums; public, and the same for all rows."""
        return -FINE

    def sensitivity(self, relation: Relation) -> float:
        """How far one unit moves the sum."""
        return self.bound * factor(self.shape, relation)

    def scales(self, noise: float) -> Array:
        """The standard deviation of every number's noise where that of a whole vector's entries is `noise`."""
        found = np.full(self.numbers, noise)
        if self.shape == "matrix":
            rows, columns = np.triu_indices(matrix_size(self.numbers))
            found[rows != columns] /= math.sqrt(2.0)
        return found

    def read(self, answer: Array) -> Array:
        """The noised answer as a vector, or as the symmetric matrix that it is."""
        return symmetric(answer) if self.shape == "matrix" else answer

    def whitened(self, rows: Any, known: Any = None) -> Any:
        """Whitened rows, where the statistic is about them; `known` are those of an earlier one."""
        del rows
        return known

    @abstractmethod
    def contributions(self, rows: Any, known: Any = None) -> Contributions:
        """What these rows add to the sum, in whole numbers that are not checked yet."""

    def of(self, rows: Any, known: Any = None) -> tuple[Sums, int]:
        """What these rows add, every unit within the bound, and the exponent of its unit."""
        found = self.contributions(rows, known)
        if found.shape != self.shape:
            raise AssertionError(f"{self.name} is declared as {self.shape}, computed as {found.shape}")
        return found.total(self.bound, self.exponent), self.exponent


def matrix_size(numbers: int) -> int:
    """Of a matrix whose upper triangle has so many numbers."""
    return round((math.sqrt(8.0 * numbers + 1.0) - 1.0) / 2.0)


def symmetric(upper: Array) -> Array:
    """A symmetric matrix from its upper triangle."""
    size = matrix_size(len(upper))
    found = np.zeros((size, size))
    found[np.triu_indices(size)] = upper
    return found + np.triu(found, 1).T
