"""Intervals of means and of new targets, from weighted draws of coefficients."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from sordino.core.arrays import Array, weighted_quantiles
from sordino.inference.contrasts import LEVEL, tails

# Scores beyond this are no rates of anything.
_LARGEST_SCORE = 50.0


@dataclass(frozen=True, eq=False)
class MeanAndNew:
    """Predictions of rows: the mean with its interval, and the interval of a new target.

    Attributes:
        mean: of the target, shape (rows,); of classes the probability of each, shape (rows, classes).
        low: lower ends of the intervals of means.
        high: upper ends.
        new_low: lower ends of the intervals of new targets; None where a target is a class.
        new_high: upper ends.
    """

    mean: Array
    low: Array
    high: Array
    new_low: Array | None = None
    new_high: Array | None = None


def predicted(
    scores: Array,
    weights: Array,
    link: str = "identity",
    level: float = LEVEL,
    *,
    residual: float | None = None,
    dispersion: float = 0.0,
    exposure: Array | float = 1.0,
) -> MeanAndNew:
    """Means of rows with intervals, and intervals of new targets.

    A new number is its mean plus a normal error; a new count follows Poisson's law around its mean, or the negative
    binomial one. Both are averaged over the draws, so that what is not known of the mean widens them.

    Args:
        scores: (draws, rows), or of several classes (draws, rows, classes).
        weights: of the draws.
        link: "identity" (scores are means), "logit" (log odds: means are probabilities) or "log" (means are rates).
        level: of both intervals.
        residual: the standard deviation of targets around their means, for the identity; None: no new targets.
        dispersion: of counts: their variance is mean + dispersion * mean^2.
        exposure: of counts, what rates are multiplied by.

    Returns:
        Means and intervals.
    """
    sides = tails(level)
    if scores.ndim == 3:
        shares = special.softmax(scores, axis=2)
        by_class = [predicted(shares[..., code], weights, "identity", level) for code in range(scores.shape[2])]
        return MeanAndNew(*(np.column_stack([getattr(one, side) for one in by_class]) for side in _SIDES))
    means = exposure * _LINKS[link](scores)
    ends = weighted_quantiles(means, weights, [*sides, *_POINTS])
    low, high, points = ends[:, 0], ends[:, 1], ends[:, 2:].T
    new = []
    if link == "log":
        new = [_new_counts(points, dispersion, tail) for tail in sides]
    elif link == "identity" and residual is not None:
        new = [_new_numbers(points, residual, tail) for tail in sides]
    return MeanAndNew(weights @ means, low, high, *new)


# A law of a mean is carried on by so many points of equal probability: all draws would take ten times as long.
_POINTS = (np.arange(199) + 0.5) / 199.0
_SIDES = ("mean", "low", "high")


def joined(parts: Sequence[MeanAndNew]) -> MeanAndNew:
    """Predictions of blocks of rows as those of all of them."""
    mean, low, high = (np.concatenate([getattr(one, side) for one in parts]) for side in _SIDES)
    ends = [(one.new_low, one.new_high) for one in parts if one.new_low is not None and one.new_high is not None]
    if not ends:
        return MeanAndNew(mean, low, high)
    return MeanAndNew(mean, low, high, *(np.concatenate(side) for side in zip(*ends, strict=True)))


def _exponential(scores: Array) -> Array:
    return np.exp(np.minimum(scores, _LARGEST_SCORE))


def means_of_scores(link: str, scores: Array) -> Array:
    """Means of scores: themselves, probabilities of log odds, or rates of their logarithms."""
    return _LINKS[link](scores)


_LINKS = {"identity": lambda scores: scores, "logit": special.expit, "log": _exponential}


def _new_numbers(means: Array, residual: float, tail: float) -> Array:
    """The value that a new target is below with probability `tail`: by halving, the law being a mixture of normals."""
    reach = residual * (abs(float(special.ndtri(tail))) + 1.0)
    low, high = means.min(axis=0) - reach, means.max(axis=0) + reach
    for _ in range(36):
        middle = 0.5 * (low + high)
        below = special.ndtr((middle - means) / residual).mean(axis=0) < tail
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def _new_counts(means: Array, dispersion: float, tail: float) -> Array:
    """The smallest count that a new one is at most with probability `tail`; the law is a mixture over means."""
    # Beyond this no mean leaves as much probability, by Chebyshev's inequality for the largest of them.
    widest = means.max(axis=0)
    low = np.full(means.shape[1], -1.0)
    high = np.ceil(widest + np.sqrt((widest + dispersion * widest**2) / (1.0 - tail)) + 1.0)
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high))
        counts = np.maximum(middle, 0.0)
        if dispersion > 0.0:
            size = 1.0 / dispersion
            reached = special.betainc(size, counts + 1.0, size / (size + means))
        else:
            reached = special.pdtr(counts, means)
        below = (reached.mean(axis=0) < tail) | (middle < 0.0)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
