"""Sums of a released model's errors on private rows: losses, residuals by band, and squares of differences.

Every record becomes a vector that depends on that record and on released numbers alone, cut to 20 binary digits, so
that sums are exact. `added` and `replaced` hold for units of several records as in `questions`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import up
from sordino.core.validate import refuse
from sordino.mechanisms.statistics.questions import EXPONENT, ONE, Lengths, record_weights
from sordino.noise import integer_sums as exact
from sordino.noise.port import CheckedSum, SumNoise
from sordino.noise.randomness import Randomness

Whole = NDArray[np.int64]
Units = NDArray[np.intp] | None


class ScoredSums(NamedTuple):
    """Exact sums in whole numbers of 2^-40, and how far one unit moves them."""

    sums: Whole
    lengths: Lengths


def cube_lengths(numbers: int) -> Lengths:
    """Two vectors with so many entries in [0, 1] differ by at most 1 in each, as one and zero do: by sqrt k in all."""
    return Lengths(*(up(math.sqrt(numbers)),) * 2)


def totals(values: Array, units: Units) -> ScoredSums:
    """Sums of the columns of `values`, (records, k), each entry brought into [0, 1]; NaN counts as 1, the worst."""
    if values.ndim != 2:
        raise refuse("values", "to have one row for each record", values.shape)
    inside = np.clip(np.nan_to_num(values, nan=1.0), 0.0, 1.0)
    whole, weights = exact.digits(inside).astype(np.int64), record_weights(len(values), units)
    lengths = cube_lengths(values.shape[1])
    cubes = exact.Cubes(len(whole), units, lambda part: weights[part, None] * whole[part])
    return ScoredSums(cubes.total(lengths.added, EXPONENT), lengths)


# Norm of a vector that is (1, u) in one of several bands, u in [-1, 1]: sqrt(1 + u^2) <= sqrt 2. Two of them in one
# band are |u - u'| <= 2 apart, in two bands sqrt(1 + u^2 + 1 + u'^2) <= 2.
BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), 2.0)


def band_sums(bands: NDArray[np.intp], values: Array, units: Units, number: int) -> ScoredSums:
    """For each band the number of its records and the sum of their values, brought into [-1, 1]; NaN counts as 0."""
    places = np.clip(bands, 0, number - 1)
    whole = exact.digits(np.clip(np.nan_to_num(values, nan=0.0), -1.0, 1.0)).astype(np.int64)
    weights = record_weights(len(values), units)

    def spread(part: slice) -> Whole:
        found = np.zeros((len(places[part]), 2 * number), np.int64)
        rows = np.arange(len(found))
        found[rows, places[part]] = weights[part] * ONE
        found[rows, number + places[part]] = weights[part] * whole[part]
        return found

    return ScoredSums(exact.Cones(len(whole), units, spread).total(BAND_LENGTHS.added, EXPONENT), BAND_LENGTHS)


@dataclass(frozen=True)
class ScoreNoise:
    """The noise of one such sum: a Gaussian mechanism of parameter mu."""

    lengths: Lengths
    relation: Relation
    deviation: float

    def released(self, found: ScoredSums, randomness: Randomness) -> Array:
        """The sums with noise, one call of the port."""
        if found.lengths != self.lengths:
            raise refuse("the sums", f"to move by {self.lengths}", found.lengths)
        moved = self.lengths.under(self.relation)
        total = CheckedSum(found.sums, EXPONENT, moved, self.deviation / moved)
        return SumNoise.of(randomness, len(found.sums)).noised([total])
