"""How noised histograms and matrices are read.

*Histograms* of sizes of contributions say where to cut these, and what that takes away. A bound that is larger than all
sizes is paid for in noise, a smaller one in bias. Sizes are private, so a histogram of them is released first: one bin
for each record, so its sensitivity is sqrt 2 (replace-one) or 1, whatever the sizes are. Bins grow by sqrt 2 and end at
a public bound. Where noise hides a tail, laws of known shapes stand in for it: a wrong law costs precision and no
validity, since what a cut takes away is released as well wherever it matters.

*Matrices* are drawn to what is known about them as far as noise explains the difference, and kept positive.
"""

import contextlib
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array

# 24 bins of a factor sqrt 2 reach down to 1/4096 of the largest size that can be.
BINS, RATIO = 24, math.sqrt(2.0)
EDGES = RATIO ** -np.arange(BINS, -1.0, -1.0)
EDGES[0] = 0.0
_SCALES = 70  # places of each law: the scale of a size is anywhere in the histogram
# How far shares of a law may be off (2 %), and by how much what it says of a tail may be (30 %).
_SHARE_ERROR, _TAIL_ERROR = 0.02, 0.3
_SEEN = 3.0  # from so many standard errors on, a count that is seen overrules a law that has less


@cache
def _laws() -> tuple[Array, Array, Array]:
    """Survival functions at the edges (rows), the logarithms of their weights, and those of their scales.

    Shapes: nearly equal sizes, log-normal ones, half-normal, exponential and t with 3 degrees of freedom. One sixth of
    the weight goes to the same with a few far larger sizes: 0/1 columns, zero-inflated columns and outliers.
    """
    shapes = [
        *(lambda x, s=s: special.ndtr(-np.log(np.maximum(x, 1e-300)) / s) for s in (0.12, 0.3, 0.7)),
        lambda x: special.erfc(x / math.sqrt(2.0)),
        lambda x: np.exp(-x),
        lambda x: 2.0 * special.stdtr(3.0, -x),
    ]
    places = EDGES / np.geomspace(EDGES[1], 1.0, _SCALES)[:, None]
    found, weights = [], []
    for shape in shapes:
        found.append(shape(places))
        weights.append(5.0 / 6.0)
        for share in (0.005, 0.02, 0.08):
            for far in (3.0, 6.0):
                found.append((1.0 - share) * shape(places) + share * shape(places / far))
                weights.append(1.0 / 36.0)
    whole = np.concatenate(found)
    whole[:, 0], whole[:, -1] = 1.0, 0.0
    logs = np.log(np.append(EDGES[1] / 2.0, EDGES[1:]))
    scales = np.array([np.interp([-0.5, -0.1], -curve, logs).mean() for curve in whole])
    return whole, np.repeat(np.log(weights), _SCALES), scales


class Beyond(NamedTuple):
    """Above a cut: how many sizes there are, and the sums of what is cut off them and off their squares."""

    above: float
    lost: float
    lost_squares: float


class Tail:
    """For each of `cuts`, four a bin: how many sizes are `above`, and the sums `lost` of them and of their squares.

    `inside` are the numbers of sizes in each bin, by their `middles`; `square` is the mean squared size.
    """

    def __init__(self, counts: Array, most: float, noise: float, records: float) -> None:
        edges, n = most * EDGES, records
        curves, prior, scales = _laws()
        share = -np.diff(curves, axis=1)
        variance = noise**2 + n * share + (_SHARE_ERROR * n) ** 2 * share
        logs = prior + (-0.5 * (counts - n * share) ** 2 / variance - 0.5 * np.log(variance)).sum(axis=1)
        weights = np.exp(logs - logs.max())
        law = n * (weights @ curves)[:-1] / weights.sum()
        # How far the scale of sizes is known, as a share: how it differs between laws.
        middle = float(weights @ scales) / float(weights.sum())
        self.scale_error = math.sqrt(float(weights @ (scales - middle) ** 2) / float(weights.sum()))
        seen, error = np.cumsum(counts[::-1])[::-1], noise * np.sqrt(np.arange(BINS, 0, -1.0))
        own = _TAIL_ERROR * law + 1e-9 * n
        above = (seen / error**2 + law / own**2) / (1.0 / error**2 + 1.0 / own**2)
        above = np.where(seen > _SEEN * error, np.maximum(above, seen), above)
        above = np.minimum(np.maximum.accumulate(np.maximum(above, 0.0)[::-1])[::-1], n)
        above[0] = n
        low, middles = edges[:-1], 0.5 * (edges[:-1] + edges[1:])
        inside = -np.diff(above, append=0.0)
        at = np.append(edges[1] / 2.0, low[1:])
        self.records, self.middles, self.inside = n, middles, inside
        self.square = float(inside @ middles**2 / n)
        self.cuts = np.geomspace(at[0], 0.999 * edges[-1], 4 * BINS)
        self.above = np.interp(np.log(self.cuts), np.log(at), above)
        self.lost, self.lost_squares = (
            np.interp(self.cuts, at, [inside[j:] @ (middles[j:] ** p - low[j] ** p) for j in range(BINS)])
            for p in (1, 2)
        )

    def best(
        self, noise: float, *, square: bool = False, weight: float = 1.0, least: float = 0.0
    ) -> tuple[float, float]:
        """The cut at which noise, in units of the bound, and what is cut are least together; and what is cut.

        With `square`, contributions are squared sizes. A weight below 1 says that what is cut is no bias but spread.
        """
        size, lost = (self.cuts**2, self.lost_squares) if square else (self.cuts, self.lost)
        place = self.least((noise * size) ** 2 + (weight * lost) ** 2, min(least, self.cuts[-1]))
        return float(self.cuts[place]), float(lost[place])

    def least(self, cost: Array, least: float) -> int:
        """The place of the cut of least cost, of those that are not below `least`."""
        return int(np.argmin(np.where(self.cuts < least, np.inf, cost)))

    def at(self, cut: float) -> Beyond:
        return Beyond(*(float(np.interp(cut, self.cuts, one)) for one in (self.above, self.lost, self.lost_squares)))

    def quantile(self, share: float) -> float:
        """This share of all sizes is below it."""
        return float(np.exp(np.interp(-(1.0 - share) * self.records, -self.above, np.log(self.cuts))))

    def beyond(self, share: float) -> float:
        """The first cut with at most this share of sizes above it."""
        return float(self.cuts[int(np.argmax(self.above < share * self.records))])


# A group of entries that noise hides altogether is taken to lie at least this share of its prior spread away.
_LEAST_LEVEL = 0.3
_SPREADS = 24  # places at which the spread of such a group is looked at
_RIDGE = 1e-10  # in units of the diagonal: far above rounding, far below what anything is known to


def power(matrix: Array, exponent: float) -> Array:
    """A power of a positive definite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    # Far below anything that is known, and far above rounding.
    return (vectors * np.maximum(values, 1e-12 * max(values[-1], 1e-280)) ** exponent) @ vectors.T


def inverse_of(matrix: Array) -> Array:
    """The inverse of a positive definite matrix of any scales; one that noise made singular has an answer."""
    scale = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    both = scale[:, None] * scale
    return np.asarray(np.linalg.inv(matrix / both + _RIDGE * np.eye(len(matrix))) / both, np.float64)


def roots_of_precisions(precisions: Array) -> tuple[Array, Array]:
    """For a stack of precisions P: matrices R with R'R the inverse of P, each times the scale that is returned."""
    scale = np.sqrt(np.maximum(np.diagonal(precisions, axis1=1, axis2=2), 1e-300))
    scaled = precisions / (scale[:, :, None] * scale[:, None, :])
    scaled = 0.5 * (scaled + np.swapaxes(scaled, 1, 2))
    # Rounding can be far above what it should be where answers are not those of any table; there is an answer still.
    for ridge in (_RIDGE, 1e-7, 1e-4, float(precisions.shape[1])):
        with contextlib.suppress(np.linalg.LinAlgError):
            lower = np.linalg.cholesky(scaled + ridge * np.eye(precisions.shape[1]))
            return np.asarray(np.linalg.inv(lower), np.float64), scale
    return np.broadcast_to(np.eye(precisions.shape[1]), scaled.shape), scale


def floored(matrix: Array, like: Array, least: float) -> Array:
    """The matrix with no direction below `least` times what `like` has there; for stacks of matrices too."""
    half, less = power(like, 0.5), power(like, -0.5)
    values, vectors = np.linalg.eigh(less @ ((matrix + np.swapaxes(matrix, -1, -2)) / 2.0) @ less)
    kept = vectors * np.maximum(values, least)[..., None, :]
    return half @ (kept @ np.swapaxes(vectors, -1, -2)) @ half


def on_and_off(matrix: Array) -> tuple[float, float]:
    """The mean of the diagonal, and that of the entries off it."""
    size, on = len(matrix), float(np.mean(np.diag(matrix)))
    return on, max(float(matrix.sum()) - size * on, 0.0) / max(size * (size - 1), 1)


def shrunk(
    matrix: Array,
    noise: float,
    near: tuple[float, float],
    far: tuple[float, float],
    floor: float,
    like: Array,
    outputs: int = 1,
    level: float | None = None,
) -> tuple[Array, Array]:
    """A noised matrix of coefficients, intercepts first, drawn to a multiple of `like`, and the variances left open.

    Entries of a kind (slopes' diagonal, slopes off it, intercept with slope) are taken to lie around the same place of
    `like`. How far is read off them: between `near` and `far` of the diagonal (or as far as they are seen, less two
    standard errors of the noise), nothing likelier before. The intercept's own block is seen better than noise hides.
    `noise` is its standard deviation on the diagonal, `floor` the least share of `like` in any direction, and `level`
    the mean of the slopes' diagonal where it is known better than from the matrix.
    """
    size, k = len(matrix), outputs
    if level is None:
        level = max(float(np.mean(np.diag(matrix)[k:])), _LEAST_LEVEL * noise) if size > k else 1.0
    scale = float(np.mean(np.diag(like)[k:])) if size > k else 1.0
    to = like * (level / scale)
    found, left = matrix.copy(), np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    on, inner, cross = rows == columns, columns < k, (rows < k) & (columns >= k)
    for chosen, least, most in (
        (on & ~inner, near[0], far[0]),
        (~on & ~inner & ~cross, near[1], far[1]),
        (cross, near[0], far[0]),
        (inner & on, 1.0, 1.0),
        (inner & ~on, 1.0, 1.0),
    ):
        if not chosen.any():
            continue
        i, j = rows[chosen], columns[chosen]
        variance = noise**2 if i[0] == j[0] else noise**2 / 2.0
        # Entries of several outputs differ in size with their classes' shares: each in units of its own diagonal.
        unit = np.sqrt(np.abs(np.diag(to)[i] * np.diag(to)[j]))
        away, mean = matrix[i, j] - to[i, j], float(np.mean(unit))
        square = float(np.mean(away**2))
        seen = math.sqrt(max(square - variance * (1.0 + 2.0 * math.sqrt(2.0 / len(i))), 0.0))
        ends = least * mean, max(least * mean, most * mean, seen)
        spreads = np.linspace(*ends, _SPREADS) ** 2
        logs = -0.5 * len(i) * (np.log(spreads + variance) + square / (spreads + variance))
        weights = np.exp(logs - logs.max())
        own = weights @ spreads / weights.sum() * np.maximum(1.0, unit / max(mean, 1e-300)) ** 2
        kept = own / (own + variance)
        found[i, j] = found[j, i] = to[i, j] + kept * away
        left[i, j] = left[j, i] = kept * variance
    return floored(found, to, floor), left
