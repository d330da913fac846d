"""Noise around a random shift: a chain in which chance decides when the odd record is used.

P is the law of S + Z and Q that of -S + Z or of Z alone. For normal Z the ratio of their densities increases along the
line when S >= 0, so half-lines are the best tests; for any symmetric Z every half-line gives a valid lower bound.
Where there are too many values of S they are rounded down onto a grid: that moves P to the left and Q to the right,
so both errors of a half-line can only grow, and the bound stays a bound.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sordino.auditing.exact.leak import CURVE_POINTS
from sordino.auditing.lower_bound import TradeOffPoint
from sordino.core.arrays import Array
from sordino.core.gaussian import down
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, number
from sordino.model.exact.line import NORMAL

_MOST_VALUES = 8192
_NEGLIGIBLE, _RARE = 1e-6, 1e-13
_THRESHOLDS, _FINE = 320, 65
_CHUNK = 1 << 21


@dataclass(frozen=True, eq=False)
class ShiftLaw:
    """The values of S in units of the noise, each rounded down, and their probabilities."""

    values: Array
    weights: Array

    @classmethod
    def sum_of(cls, stages: Iterable[tuple[Array, Array]]) -> "ShiftLaw":
        """The sum of independent stages, each given by its values and their probabilities."""
        listed = sorted(stages, key=lambda stage: float(np.abs(stage[0]).max()))
        largest = float(np.abs(listed[-1][0]).max())
        law = cls(np.zeros(1), np.ones(1))
        for values, weights in listed:
            # Leaving a stage of non-negative values out rounds the sum down.
            if values.min() >= 0.0 and values.max() <= _NEGLIGIBLE * largest / len(listed):
                continue
            law = law._plus(values, weights)
        return law

    def scaled(self, factor: float) -> "ShiftLaw":
        """The law of a positive multiple of S."""
        return ShiftLaw(np.asarray(factor * self.values, dtype=np.float64), self.weights)

    def coarsened(self, count: int) -> "ShiftLaw":
        """The same law with about `count` values, each rounded down to the smallest of its neighbours."""
        every = -(-len(self.values) // count)
        starts = np.arange(0, len(self.values), every)
        return ShiftLaw(self.values[starts], np.add.reduceat(self.weights, starts))

    def _plus(self, values: Array, weights: Array) -> "ShiftLaw":
        sums = (self.values[:, None] + values).reshape(-1)
        masses = (self.weights[:, None] * weights).reshape(-1)
        if len(sums) <= _MOST_VALUES:
            kept, place = np.unique(sums, return_inverse=True)
        else:
            # What is rarer than _RARE counts as the largest value that is not: rounded down, like everything else.
            low = float(sums.min())
            span = min(float(sums.max()), self._end() + float(values.max())) - low
            spacing = span / (_MOST_VALUES - 1)
            kept = low + spacing * np.arange(_MOST_VALUES, dtype=np.float64)
            place = np.minimum(((sums - low) / spacing).astype(np.int64), _MOST_VALUES - 1)
            place -= kept[place] > sums
        total = np.bincount(place.reshape(-1), weights=masses, minlength=len(kept))
        return ShiftLaw(kept, total.astype(np.float64))

    def _end(self) -> float:
        """The smallest value that is exceeded with a probability of at most _RARE."""
        above = np.cumsum(self.weights[::-1])[::-1]
        return float(self.values[max(0, int(np.searchsorted(-above, -_RARE)) - 1)])


@dataclass(frozen=True, eq=False)
class RandomShift:
    """P is S + Z; Q is -S + Z where `mirrored`, else Z; `noise_above` is the tail of Z, known to `accuracy`."""

    law: ShiftLaw
    mirrored: bool
    accuracy: float
    noise_above: Callable[[Array], Array] = NORMAL.above

    def epsilon(self, delta: float) -> float:
        """The best half-line, in both directions."""
        delta = number("delta", delta, OPEN_UNIT)

        def log_ratios(first: Array, second: Array) -> Array:
            """ln((P - delta) / Q) of each test; minus infinity for a test that shows nothing."""
            power = first - delta * (1 + 1e-15)
            useful = (power > 1e-12 * delta) & (second > 0)
            logs = np.log(np.where(useful, power, 1.0)) - np.log(np.where(useful, second, 1.0))
            return np.where(useful, logs, -np.inf)

        return max(0.0, down(self._best(log_ratios) * (1 - 1e-14), 8))

    def delta(self, epsilon: float) -> float:
        factor = math.exp(min(number("epsilon", epsilon, NON_NEGATIVE), 700.0))
        return max(0.0, down(self._best(lambda first, second: first - factor * second) - 1e-16, 2))

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Half-lines; a false positive is an answer "first" when the second was used."""
        (first, second), _ = self._tails(self._thresholds(CURVE_POINTS))
        points = zip(second, 1.0 - first, strict=True)
        return tuple(TradeOffPoint(min(1.0, float(a)), min(1.0, float(b) + 1e-15)) for a, b in points)

    def _best(self, score: Callable[[Array, Array], Array]) -> float:
        """The largest score of a half-line of either side: a coarse look, then a fine one around its best."""
        best = -math.inf
        coarse = self._thresholds(_THRESHOLDS)
        for side in (0, 1):
            scores = score(*self._tails(coarse)[side])
            at = int(np.argmax(scores))
            fine = np.linspace(coarse[max(0, at - 1)], coarse[min(len(coarse) - 1, at + 1)], _FINE)
            best = max(best, float(scores[at]), float(score(*self._tails(fine)[side]).max()))
        return best

    def _thresholds(self, count: int) -> Array:
        reach = float(self.law.values.max())
        return np.linspace((-reach if self.mirrored else 0.0) - 9.0, reach + 9.0, count)

    def _tails(self, thresholds: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """(P, Q) of right half-lines and (Q, P) of left ones; the first of each rounded down, the second up."""
        other = -1.0 if self.mirrored else 0.0
        right = self._above(thresholds, 1.0), self._above(thresholds, other)
        left = self._above(-thresholds, -other), self._above(-thresholds, -1.0)
        less, more = 1 - self.accuracy, 1 + self.accuracy
        return (less * right[0], more * right[1]), (less * left[0], more * left[1])

    def _above(self, thresholds: Array, sign: float) -> Array:
        """P(sign S + Z > threshold)."""
        if sign == 0.0:
            return self.noise_above(thresholds)
        size = max(1, _CHUNK // len(self.law.values))
        parts = [
            self.noise_above(thresholds[start : start + size, None] - sign * self.law.values) @ self.law.weights
            for start in range(0, len(thresholds), size)
        ]
        return np.concatenate(parts)
