"""Cox regression by time bins: events in each bin are counts with exposure, all rows of a person are one unit.

Time is cut into J public bins. A person has J rows, one for each bin, with the time at risk in it (0 after the end) and
whether the event fell into it. With the hazard constant in a bin and score s_j = baseline_j + x'b, the event count of a
row less exposure * exp(s_j) has mean 0 given what happened before (a martingale difference), although exposures depend
on the outcome; so psi must be linear in the count:

    psi_j = d_j - t_j exp(s_j)   until exp(s) summed over the time at risk has reached C, and 0 after that.

Where a person stops is known before the event is, so the sum of psi over bins still has mean 0, and no correction is
needed. Every person has as many rows, so masses 1/J say nothing about the outcome.

*Bound.* A person has at most one event, and the expected events t_j exp(s_j) add up to at most C: the sizes of psi add
up to at most 1 + C, those of the slopes t_j exp(s_j) to at most C. With masses 1/J the person's gradient is at most tau
(1 + C) / J long and the slopes tau^2 C / J; sums over a person's rows that are larger (rows that no person can have)
are shortened together.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.mechanisms.influence.declaration import Declaration
from sordino.mechanisms.influence.families import At, Family, PsiLaw, register

# C: a person is followed until so many events were to be expected.
MOST_EXPECTED = 2.5
_LARGEST_SCORE = 30.0
_NO_TIME = 1e-9
# The share of people that are taken to be censored by the last edge, and how far baselines of bins may be apart.
_CENSORED, _FAR = 0.3, 4.0
_TYPICAL_EVENTS = 0.5


class PersonBins(NamedTuple):
    """Rows of a release: every person once for each bin."""

    X: Array
    y: Array
    exposure: Array
    unit: NDArray[np.int64]


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


def person_bins(X: ArrayLike, time: ArrayLike, event: ArrayLike, edges: ArrayLike) -> PersonBins:
    """Every person's time at risk and event in each bin; what is beyond the last edge is censored there."""
    limits = _edges(edges)
    rows, until = np.asarray(X, np.float64), np.clip(np.asarray(time, np.float64), limits[0], limits[-1])
    happened = (np.asarray(event, np.float64) > 0.5) & (np.asarray(time, np.float64) <= limits[-1])
    bins = len(limits) - 1
    exposure = np.clip(until[:, None] - limits[:-1], 0.0, np.diff(limits))
    place = np.clip(np.searchsorted(limits, until, side="left") - 1, 0, bins - 1)
    counts = (happened[:, None] & (place[:, None] == np.arange(bins))).astype(np.float64)
    flags = np.tile(np.eye(bins)[:, 1:], (len(rows), 1))
    long = np.hstack([np.repeat(rows, bins, axis=0), flags])
    return PersonBins(long, counts.ravel(), exposure.ravel(), np.repeat(np.arange(len(rows)), bins))


def _edges(edges: ArrayLike) -> Array:
    found = np.asarray(edges, np.float64)
    if found.ndim != 1 or len(found) < 3 or not np.isfinite(found).all() or (np.diff(found) <= 0).any():
        raise refuse("the edges of time bins", "to be at least three finite numbers that rise", "others")
    return found


@register
class Cox(Family):
    """Proportional hazards with a baseline that is constant in each bin; coefficients are log hazard ratios."""

    name = "cox"
    budget = "counts"
    reads = "rate"
    per_unit = True
    open_slope = 0.4
    open_entries = 3.0

    def check(self, declaration: Declaration) -> None:
        if declaration.exposure is None or not declaration.unit:
            raise refuse("the declaration", "to have time bins for the family cox", None, "make it with `with_bins`")

    def typical_exposure(self, low: float, high: float, even: Array) -> Array:
        """Most bins are passed in full, some in part, and some begin after the end."""
        return np.maximum(high * np.clip((even - 0.25) / 0.15, 0.0, 1.0), low)

    def typical_rate(self, declaration: Declaration) -> float:
        """Half of all people are taken to have the event, in any bin alike."""
        return _TYPICAL_EVENTS / declaration.most_records

    def at_risk(self, declaration: Declaration, flags: NDArray[np.bool_], scores: Array, effects: Array) -> Array:
        """The time that a unit is expected to spend at risk in a row's bin, if hazards are those of `scores`.

        With the hazard summed up to H_a at the start of a bin and H_b at its end, both cut at C, where people are left,
        that is (exp(-H_a) - exp(-H_b)) over the hazard, less what is censored before.
        """
        lengths, bins = np.array(declaration.time_bins), np.column_stack([~flags.any(axis=1), flags]).argmax(axis=1)
        baseline = np.clip(np.append(0.0, effects[-len(lengths) + 1 :]), -_FAR, _FAR)
        hazard = np.exp(np.clip(scores[:, 0], -_LARGEST_SCORE, _LARGEST_SCORE))
        heaped = np.concatenate([[0.0], np.cumsum(lengths * np.exp(baseline))])
        first = np.minimum(hazard * np.exp(-baseline[bins]) * heaped[bins], MOST_EXPECTED)
        last = np.minimum(first + hazard * lengths[bins], MOST_EXPECTED)
        kept = 1.0 - _CENSORED * (bins + 0.5) / len(lengths)
        least = lengths.max() * _NO_TIME
        return np.maximum(kept * (np.exp(-first) - np.exp(-last)) / hazard, least)[:, None]

    def intercept_scale(self, declaration: Declaration) -> float:
        return 1.0 + self.effect_scale(declaration)

    def target(self, declaration: Declaration, y: Array) -> Array:
        return (y > 0.5).astype(np.float64)

    def followed(self, y: Array, score: Array, exposure: Array, declaration: Declaration) -> tuple[Array, Array]:
        bins = declaration.most_records
        if len(y) % bins:
            raise refuse("the rows of the family cox", f"to be {bins} for each person", "others", "use `person_bins`")
        rate = np.exp(np.minimum(score[:, 0], _LARGEST_SCORE)).reshape(-1, bins)
        time, events = exposure.reshape(-1, bins), y.reshape(-1, bins)
        before = np.zeros(time.shape)
        # Bin by bin: a person's sums depend on that person alone.
        for k in range(1, bins):
            before[:, k] = before[:, k - 1] + time[:, k - 1] * rate[:, k - 1]
        left = np.maximum(MOST_EXPECTED - before, 0.0) / rate
        return np.where(time <= left, events, 0.0).ravel(), np.minimum(time, left).ravel()

    def bound(self, declaration: Declaration, at: At) -> float:
        return (1.0 + MOST_EXPECTED) / declaration.most_records

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return MOST_EXPECTED / declaration.most_records

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        return y[:, None] - exposure * np.exp(np.minimum(score, _LARGEST_SCORE))

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        return [np.sqrt(exposure * np.exp(np.minimum(score, _LARGEST_SCORE)))]

    def law(self, score: Array, prepared: Any, exposure: Array, at: At) -> PsiLaw:
        rate = exposure * np.exp(np.minimum(score, _LARGEST_SCORE))
        away = rate - exposure * np.exp(np.minimum(prepared, _LARGEST_SCORE))
        return PsiLaw(away, rate[..., None], (rate + away**2)[..., None])

    def released_slope(self, prepared: Any, exposure: Array, at: At) -> Array:
        return (exposure * np.exp(np.minimum(prepared, _LARGEST_SCORE)))[..., None]
