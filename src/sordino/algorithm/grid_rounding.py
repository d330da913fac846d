"""Rounding a release to a grid, and what floating-point noise costs.

The theorems speak of real numbers; a computer adds a finite set of numbers to a float. Two hazards follow.

1. *The last bits* (Mironov 2012). Which floats ``m + tau * xi`` can reach depends on m, so the last bits of
   a release may betray m however large tau is. Rounding the release to a grid of spacing g, much coarser than the
   floats and much finer than tau, removes them. For ideal noise this is post-processing and costs nothing.
2. *The noise.* Computed noise is not ideal. Mechanisms that add noise to sums on the host draw it exactly
   (`exact_noise`), at no cost. Elsewhere the cost is what `Grid.total_variation` says: the computed release and the
   rounded ideal one differ only where the ideal value lies so close to the edge of a cell that the error of the
   computation takes it across. A bound within that distance is charged for with `with_total_variation`.

A compiled chain has neither: its steps are computed with errors too, on hidden iterates, and with noise in single
precision the cost of a draw that is off by up to 5e-6 would be far from negligible (in double, fifty numbers on a
grid of sixteen cells cost about 2e-9). Its released draws are rounded to a grid (`release_grid`), which removes the
last bits, and its certificate says that floating point is not covered.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.normal_quantile import DRAW_ERROR, LARGEST_DRAW, RANDOM_BITS
from sordino.core.rounding import sum_up, up
from sordino.core.validate import NON_NEGATIVE, POSITIVE, PROBABILITY, number, refuse, whole_number

# The standard Gaussian density at its mode, rounded up.
_MODE = up(1.0 / math.sqrt(2.0 * math.pi))
# Intervals around cell edges whose cell-long segment towards the mode does not lie on one side of it.
_NEAR_MODE = 3
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

    def total_variation(self, tau: float, error: float, values: int) -> float:
        """An upper bound on the distance of the computed, rounded release from the ideal one, rounded alike.

        Statement: let X = m + tau * xi with xi standard Gaussian; let X' be computed from the 64-bit quantile in whose
        cell xi falls, with ``|error|`` at most `error` beyond that. Rounded to this grid, X and X' differ with
        probability at most ``2 error / g + 3 * 2 error / (tau sqrt(2 pi)) + 2^-63 (3 E + 2)`` for each of the `values`
        released numbers, whatever m is; E is the number of cell edges of the grid within reach of the noise.

        Proof: without the error of the quantile's cell, they differ only if X is within `error` of an edge. These
        intervals have length 2 error and lie g apart. Where the density falls, an interval holds at most 2 error / g
        of the mass of the segment of length g that ends with it, and those segments are disjoint, so together such
        intervals hold at most 2 error / g. At most three intervals have a segment that is not on one side of the mode;
        each holds at most 2 error times the largest density. The quantile's cells have probability 2^-63 each: one
        holds each edge, two the ends of its interval, and two all that is out of reach. Given everything before the
        last noise the coordinates are independent of each other, and the probabilities add up.
        """
        scale = number("tau", tau, POSITIVE)
        width = up(2.0 * number("error", error, NON_NEGATIVE))
        if width >= self.spacing:
            return 1.0
        edges = up(up(2.0 * LARGEST_DRAW * up(scale / self.spacing)) + 2.0)
        each = sum_up(
            [
                up(width / self.spacing),
                up(_NEAR_MODE * up(up(width / scale) * _MODE), 2),
                up(math.ldexp(1.0, -RANDOM_BITS) * up(3.0 * edges + 2.0, 2)),
            ]
        )
        return min(1.0, up(whole_number("values", values) * each))


def grid_below(tau: float, cells: int = 16) -> Grid:
    """The coarsest grid with at least `cells` cells in one noise scale: rounding adds little to the noise's spread."""
    scale = number("tau", tau, POSITIVE) / whole_number("cells", cells)
    return Grid(max(_FINEST, math.frexp(scale)[1] - 1))


def noise_error(tau: float, reach: float, dtype: np.dtype) -> float:
    """How far ``m + tau * xi`` is off as computed by secure randomness, where ``|m| <= reach``.

    The error of the draw, the rounding of the product and of the sum. The draw's own error is checked numerically over
    its whole range, not proved.
    """
    scale, far = number("tau", tau, POSITIVE), number("reach", reach, NON_NEGATIVE)
    unit = float(np.finfo(dtype).eps) / 2.0
    draw = up(DRAW_ERROR[np.dtype(dtype).name] * LARGEST_DRAW)
    product = up(scale * up(LARGEST_DRAW + draw), 2)
    rounded = up(unit * product)
    return sum_up([up(scale * draw), rounded, up(unit * sum_up([far, product, rounded]), 2)])


def with_total_variation(epsilon: float, delta: float, distance: float) -> float:
    """The delta of a release whose law is within `distance`, on every dataset, of one with (epsilon, delta).

    P'(S) <= P(S) + t <= e^epsilon Q(S) + delta + t <= e^epsilon (Q'(S) + t) + delta + t.
    """
    apart = number("distance", distance, PROBABILITY)
    added = up(up(1.0 + up(math.exp(number("epsilon", epsilon, NON_NEGATIVE)), 2)) * apart, 2)
    return min(1.0, sum_up([number("delta", delta, NON_NEGATIVE), added]))
