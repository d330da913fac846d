"""How large contributions are, from a noised histogram of their sizes: where to cut them, and what that takes away.

A bound that is larger than all sizes is paid for in noise, a smaller one in bias. Sizes are private, so a histogram of
them is released first: one bin for each record, so its sensitivity is sqrt 2 (replace-one) or 1, whatever the sizes
are. Bins grow by sqrt 2 and end at a public bound. Where noise hides a tail, laws of known shapes stand in for it: a
wrong law costs precision and no validity, since what a cut takes away is released as well wherever it matters.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from sordino.core.arrays import Array

# 24 bins of a factor sqrt 2 reach down to 1/4096 of the largest size that can be.
BINS, RATIO = 24, math.sqrt(2.0)
EDGES = RATIO ** -np.arange(BINS, -1.0, -1.0)
EDGES[0] = 0.0
# Places of each law: the scale of a size is anywhere in the histogram.
_SCALES = 70
# How far shares of a law may be off (2 %), and by how much what it says of a tail may be (30 %).
_SHARE_ERROR, _TAIL_ERROR = 0.02, 0.3
# From so many standard errors on, a count that is seen overrules a law that has less.
_SEEN = 3.0


@lru_cache(maxsize=1)
def _laws() -> tuple[Array, Array]:
    """Survival functions at the edges (rows), and the logarithms of their weights.

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
    return whole, np.repeat(np.log(weights), _SCALES)


class Tail:
    """Above every cut: how many sizes there are, how much of them is cut off, and how much of their squares.

    Attributes:
        cuts: places of a cut, four a bin.
        above: how many sizes are larger, for each cut.
        lost: the sum of what is cut off sizes.
        lost_squares: the sum of what is cut off squared sizes.
        middles: of the bins, with the number of sizes `inside` each.
        square: the mean squared size.
        records: how many sizes there are.
    """

    def __init__(self, counts: Array, most: float, noise: float, records: float) -> None:
        edges, n = most * EDGES, records
        curves, prior = _laws()
        share = -np.diff(curves, axis=1)
        variance = noise**2 + n * share + (_SHARE_ERROR * n) ** 2 * share
        logs = prior + (-0.5 * (counts - n * share) ** 2 / variance - 0.5 * np.log(variance)).sum(axis=1)
        weights = np.exp(logs - logs.max())
        law = n * (weights @ curves)[:-1] / weights.sum()
        seen, error = np.cumsum(counts[::-1])[::-1], noise * np.sqrt(np.arange(BINS, 0, -1.0))
        own = _TAIL_ERROR * law + 1e-9 * n
        above = (seen / error**2 + law / own**2) / (1.0 / error**2 + 1.0 / own**2)
        above = np.where(seen > _SEEN * error, np.maximum(above, seen), above)
        above = np.minimum(np.maximum.accumulate(np.maximum(above, 0.0)[::-1])[::-1], n)
        above[0] = n
        low, middles = edges[:-1], 0.5 * (edges[:-1] + edges[1:])
        inside = above - np.append(above[1:], 0.0)
        lost = [inside[j:] @ (middles[j:] - low[j]) for j in range(BINS)]
        squares = [inside[j:] @ (middles[j:] ** 2 - low[j] ** 2) for j in range(BINS)]
        at = np.append(edges[1] / 2.0, low[1:])
        self.records, self.middles, self.inside = n, middles, inside
        self.square = float(inside @ middles**2 / n)
        self.cuts = np.geomspace(at[0], 0.999 * edges[-1], 4 * BINS)
        self.above = np.interp(np.log(self.cuts), np.log(at), above)
        self.lost = np.interp(self.cuts, at, np.array(lost))
        self.lost_squares = np.interp(self.cuts, at, np.array(squares))

    def best(
        self, noise: float, *, square: bool = False, weight: float = 1.0, least: float = 0.0
    ) -> tuple[float, float]:
        """The cut at which noise, in units of the bound, and what is cut are least together; and what is cut.

        With `square`, contributions are squared sizes. A weight below 1 says that what is cut is no bias but spread.
        """
        size, lost = (self.cuts**2, self.lost_squares) if square else (self.cuts, self.lost)
        cost = (noise * size) ** 2 + (weight * lost) ** 2
        place = int(np.argmin(np.where(self.cuts < min(least, self.cuts[-1]), np.inf, cost)))
        return float(self.cuts[place]), float(lost[place])

    def quantile(self, share: float) -> float:
        """This share of all sizes is below it."""
        return float(np.exp(np.interp(-(1.0 - share) * self.records, -self.above, np.log(self.cuts))))

    def beyond(self, share: float) -> float:
        """The first cut with at most this share of sizes above it."""
        return float(self.cuts[int(np.argmax(self.above < share * self.records))])
