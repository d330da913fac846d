"""Exact divergences between two laws; of mixtures on the line by adaptive cells with a rigorous discretisation error.

`hockey_stick(first, second, epsilon)` is sup_S P(S) - exp(epsilon) Q(S), P the first law and Q the second: one
direction. A pair of neighbours has two, and privacy needs the larger.

delta(epsilon) is the integral of the positive part of f = p - exp(epsilon) q. On a cell where f provably keeps its
sign (its values at the ends exceed the curvature bound K h^2 / 8) the cdfs give that integral exactly. A cell where the
sign is in doubt contributes at most min(int f_+, int f_-) of error, which shrinks fast as the cell is halved.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.gaussian import Bracket
from sordino.core.validate import POSITIVE, number
from sordino.models.exact.gaussian_law import GaussianLaw, GaussianLoss
from sordino.models.exact.line import LineMixture, SignedMixture

_FIRST_CELLS = 256
_MOST_CELLS = 1 << 20
_ROUNDS = 80


def delta(first: LineMixture, second: LineMixture, epsilon: float, width: float | None = None) -> Bracket:
    """Bracket of the hockey-stick divergence, of absolute width about `width` unless rounding is larger."""
    accuracy = first.family.accuracy
    width = max(1e-10, 1e4 * accuracy) if width is None else number("width", width, POSITIVE)
    f = SignedMixture.difference(first, second, math.exp(number("epsilon", epsilon)))
    if f.positive_total == 0.0 or f.negative_total == 0.0:
        slack = 4 * accuracy * f.positive_total
        return Bracket(max(0.0, f.positive_total - slack), min(1.0, f.positive_total + slack))
    edges = _edges(f, width / (8 * (f.positive_total + f.negative_total)))
    cells = _Cells.on(f, edges[:-1], edges[1:])
    for _ in range(_ROUNDS):
        doubtful = cells.gaps > width / (4 * max(1, np.count_nonzero(cells.gaps)))
        doubtful &= np.isfinite(cells.left) & np.isfinite(cells.right)
        if cells.gaps.sum() <= width / 2 or not doubtful.any() or len(cells.gaps) > _MOST_CELLS:
            break
        cells = cells.halved(f, doubtful)
    return cells.integral(f)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Intervals that cover the line, whether f is positive over each, and what a doubtful sign may hide."""

    left: Array
    right: Array
    positive: NDArray[np.bool_]
    gaps: Array

    @classmethod
    def on(cls, f: SignedMixture, left: Array, right: Array) -> "_Cells":
        plus, minus = f.masses(left, right)
        gaps = np.minimum(plus, minus)
        inner = np.isfinite(left) & np.isfinite(right)
        a, b = left[inner], right[inner]
        f_a, f_b = f.density(a), f.density(b)
        bow = f.curvature(a, b) * (b - a) ** 2 / 8
        highest, lowest = np.maximum(f_a, f_b) + bow, np.minimum(f_a, f_b) - bow
        hidden = (b - a) * np.minimum(np.maximum(highest, 0.0), np.maximum(-lowest, 0.0))
        gaps[inner] = np.minimum(gaps[inner], hidden)
        return cls(left, right, plus > minus, gaps)

    def halved(self, f: SignedMixture, chosen: NDArray[np.bool_]) -> "_Cells":
        left, right = self.left[chosen], self.right[chosen]
        middle = (left + right) / 2
        new = _Cells.on(f, np.concatenate([left, middle]), np.concatenate([middle, right]))
        columns = ("left", "right", "positive", "gaps")
        return _Cells(*(np.concatenate([getattr(self, name)[~chosen], getattr(new, name)]) for name in columns))

    def integral(self, f: SignedMixture) -> Bracket:
        """The integral where f is positive, adjacent cells joined so that rounding errors do not add up."""
        order = np.argsort(self.left)
        positive = np.concatenate([[False], self.positive[order], [False]])
        starts = np.flatnonzero(positive[1:] & ~positive[:-1])
        ends = np.flatnonzero(positive[:-1] & ~positive[1:]) - 1
        left, right = self.left[order][starts], self.right[order][ends]
        plus, minus = f.masses(left, right)
        value = float(np.sum(plus - minus))
        rounding = 4 * f.positive.family.accuracy * float(np.sum(plus + minus + _tails(f, left, right)))
        high = max(0.0, value) + float(self.gaps.sum()) + rounding
        return Bracket(min(1.0, max(0.0, value - rounding)), min(1.0, high))


def _tails(f: SignedMixture, left: Array, right: Array) -> Array:
    """The probabilities whose rounding errors the masses of these intervals inherit."""
    positive = f.positive_total * np.minimum(f.positive.above(left), f.positive.cdf(right))
    return positive + f.negative_total * np.minimum(f.negative.above(left), f.negative.cdf(right))


def _edges(f: SignedMixture, tail: float) -> Array:
    """Cells spaced like sinh around the middle, out to where both tails are negligible, and two unbounded ones."""
    locations = np.concatenate([f.positive.locations, f.negative.locations])
    scales = np.concatenate([f.positive.scales, f.negative.scales])
    reach = f.positive.family.reach(min(tail, 0.5))
    low, high = float((locations - reach * scales).min()), float((locations + reach * scales).max())
    middle, unit = float(np.median(locations)), float(scales.min())
    ends = np.arcsinh((np.array([low, high]) - middle) / unit)
    inner = middle + unit * np.sinh(np.linspace(ends[0], ends[1], _FIRST_CELLS))
    return np.concatenate([[-math.inf], np.unique(inner), [math.inf]])


class ExactLaw(Protocol):
    """A law with a density that can be written as a mixture on the line; two Gaussians may have any dimension."""

    def line(self) -> LineMixture: ...


def hockey_stick(first: ExactLaw, second: ExactLaw, epsilon: float, width: float | None = None) -> Bracket:
    """sup over sets S of P(S) - exp(epsilon) Q(S), at any real epsilon.

    Two Gaussians: relative error about 1e-13. Mixtures on the line: absolute error `width`, 1e-10 for normal and 1e-8
    for stable components unless given.
    """
    if isinstance(first, GaussianLaw) and isinstance(second, GaussianLaw):
        return GaussianLoss.between(first, second).delta(epsilon)
    return delta(first.line(), second.line(), epsilon, width)
