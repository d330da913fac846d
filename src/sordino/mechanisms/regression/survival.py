"""Cox regression by time bins: events in each bin are counts with exposure, and all rows of a person are one unit.

Time is cut into J public bins. A person has J rows, one for each bin, with the time at risk in it (0 after the end) and
whether the event fell into it. With the hazard constant in a bin and score s_j = baseline_j + x'b, the event of a row
less exposure * exp(s_j) has mean 0 given what happened before (a martingale difference), although exposures depend on
the outcome; so psi must be linear in the event:

    psi_j = d_j - t_j exp(s_j)   until exp(s) summed over the time at risk has reached C, and 0 after that.

Where a person stops is known before the event is, so the sum of psi over bins still has mean 0.

*Bound.* A person has at most one event, and the expected events t_j exp(s_j) add up to at most C: the sizes of psi add
up to at most 1 + C, those of the slopes to at most C. With masses 1/J the person's gradient is at most tau (1 + C) / J
long and the slopes tau far C / J. Sums over a person's rows that are larger (rows that no person can have) are
shortened together.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.mechanisms.regression.declaration import Declaration
from sordino.mechanisms.regression.families import LARGEST_SCORE, At, Family, Says
from sordino.mechanisms.regression.rows import Given

# C is so many times the released mean of events a person, within limits: few people with ordinary scores reach it, and
# noise is proportional to 1 + C. Of people who are followed until 2.5 events were to be expected, 92 % have had theirs.
FOLLOW, LEAST_FOLLOW, MOST_FOLLOW = 3.0, 0.5, 2.5
_NO_TIME = 1e-9  # the least exposure that is declared, as a share of the longest bin: some people have none


def with_bins(declaration: Declaration, edges: ArrayLike, time: str = "time") -> Declaration:
    """The declaration of the rows that `person_bins` makes: a 0/1 column for every bin but the first, and units."""
    limits = _edges(edges)
    lengths = np.diff(limits)
    more, group = len(lengths) - 1, max((0, *declaration.groups)) + 1
    return replace(
        declaration,
        low=declaration.low + (0.0,) * more,
        high=declaration.high + (1.0,) * more,
        kinds=declaration.kinds + ("category",) * more,
        groups=declaration.groups + (group,) * more,
        names=declaration.names + tuple(f"{time} {a:g} to {b:g}" for a, b in pairwise(limits[1:])),
        exposure=(float(lengths.max()) * _NO_TIME, float(lengths.max())),
        unit=True,
        most_records=len(lengths),
        time_bins=tuple(lengths.tolist()),
    )


def person_bins(X: ArrayLike, time: ArrayLike, event: ArrayLike, edges: ArrayLike) -> Given:
    """Every person once for each bin, with time at risk and event; what is beyond the last edge is censored there."""
    limits = _edges(edges)
    rows, until = np.asarray(X, np.float64), np.clip(np.asarray(time, np.float64), limits[0], limits[-1])
    happened = (np.asarray(event, np.float64) > 0.5) & (np.asarray(time, np.float64) <= limits[-1])
    bins = len(limits) - 1
    exposure = np.clip(until[:, None] - limits[:-1], 0.0, np.diff(limits))
    place = np.clip(np.searchsorted(limits, until, side="left") - 1, 0, bins - 1)
    counts = (happened[:, None] & (place[:, None] == np.arange(bins))).astype(np.float64)
    flags = np.tile(np.eye(bins)[:, 1:], (len(rows), 1))
    long = np.hstack([np.repeat(rows, bins, axis=0), flags])
    return Given(long, counts.ravel(), exposure.ravel(), np.repeat(np.arange(len(rows)), bins))


def _edges(edges: ArrayLike) -> Array:
    found = np.asarray(edges, np.float64)
    if found.ndim != 1 or len(found) < 3 or not np.isfinite(found).all() or (np.diff(found) <= 0).any():
        raise refuse("the edges of time bins", "to be at least three finite numbers that rise", "others")
    return found


class Cox(Family):
    """Proportional hazards with a baseline that is constant in each bin; coefficients are log hazard ratios."""

    name = "cox"
    start = "events"
    per_unit = True
    curve = "log"
    reach = 2.5
    typical = 0.5, 0.5, 3.5  # half of all people have their event

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        if declaration.exposure is None or not declaration.time_bins:
            raise refuse("the declaration", "to have time bins for the family cox", None, "make it with `with_bins`")

    def followed(self, y: Array, score: Array, exposure: Array, at: At) -> tuple[Array, Array]:
        bins = self.declaration.most_records
        if len(y) % bins:
            raise refuse("the rows of the family cox", f"to be {bins} for each person", "others", "use `person_bins`")
        rate = np.exp(np.clip(score[:, 0], -LARGEST_SCORE, LARGEST_SCORE)).reshape(-1, bins)
        time, events = exposure.reshape(-1, bins), y.reshape(-1, bins)
        before = np.zeros(time.shape)
        # Bin by bin: a person's sums depend on that person alone.
        np.cumsum(time[:, :-1] * rate[:, :-1], axis=1, out=before[:, 1:])
        left = np.maximum(at.follow - before, 0.0) / rate
        return np.where(time <= left, events, 0.0).ravel(), np.minimum(time, left).ravel()

    def bound(self, at: At) -> float:
        return (1.0 + at.follow) / self.declaration.most_records

    def slope_bound(self, at: At) -> float:
        return at.follow / self.declaration.most_records

    def says(self, y: Array, score: Array, exposure: Array, spread: Array, at: At) -> Says:
        expected = exposure * np.exp(np.clip(score[:, 0], -LARGEST_SCORE, LARGEST_SCORE))
        return Says((y - expected)[:, None], np.ones(len(y)), [np.sqrt(expected)[:, None]])
