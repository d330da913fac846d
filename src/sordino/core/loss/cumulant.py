"""The cumulant function of a composed loss, from sketches of its parts: where to tilt, and how fine a grid to use.

It enters no bound; a poor choice costs width, never validity.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sordino.core.arrays import Array
from sordino.core.gaussian import narrow
from sordino.core.loss.pair import Factors

_AS_NEAR = 0.5
_SKETCHED = 1e-20  # what lies beyond the sketches that do not reach far
_FARTHEST = 10.0  # standard deviations; further out a narrow bracket of delta is not worth its cost


@dataclass(frozen=True)
class Cumulant:
    """K(t) = sum over factors of count * log E exp(t L), under P, on the sketched losses."""

    parts: tuple[tuple[Array, Array, int], ...]  # losses, log masses, count

    @classmethod
    def of(cls, factors: Factors, *, far: bool = False) -> "Cumulant":
        """From the sketches; `far`: from those that reach as far out as floats do."""
        parts = []
        for pair, count in factors:
            losses, masses = pair.far_sketch() if far else pair.sketch()
            keep = masses > 0
            parts.append((losses[keep], np.log(masses[keep] / masses.sum()), count))
        return cls(tuple(parts))

    @classmethod
    def for_delta(cls, factors: Factors, delta: float) -> "Cumulant":
        """From sketches that reach as far out as what decides at this delta."""
        return cls.of(factors, far=delta < _SKETCHED)

    def at(self, tilt: float) -> tuple[float, float, tuple[float, ...]]:
        """Value, derivative, and the tilted variance of one use of each factor."""
        value, mean, variances = 0.0, 0.0, []
        for losses, logs, count in self.parts:
            exponents = logs + tilt * losses
            peak = float(exponents.max(initial=-math.inf))
            if peak == -math.inf:
                variances.append(0.0)
                continue
            weights = np.exp(exponents - peak)
            total = float(weights.sum())
            one_mean = float((weights * losses).sum()) / total
            variances.append(float((weights * (losses - one_mean) ** 2).sum()) / total)
            value += count * (peak + math.log(total))
            mean += count * one_mean
        return value, mean, tuple(variances)

    def tilt_for_delta(self, delta: float) -> float:
        """t with exp(K(t) - t K'(t)) = delta / s: the tilt that centres the law where delta is decided.

        The left side is about the probability of a loss near K'(t); s is what such a loss contributes to delta, a
        standard deviation or 1, whichever is less.
        """
        spread = self._spread()
        target = math.log(delta) + (math.log1p(1 / spread) if spread > 0 else 0.0)

        def gap(tilt: float) -> float:
            value, mean, _ = self.at(tilt)
            return value - tilt * mean - target

        return self._root(gap, math.sqrt(max(-2 * target, 0.0)))

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """t with K'(t) = epsilon, or 0 when epsilon is below the mean loss or beyond the largest."""
        if epsilon >= self.largest:
            return 0.0
        spread = self._spread() or 1.0
        return self._root(lambda tilt: (epsilon - self.at(tilt)[1]) / spread, _FARTHEST)

    def scales(self, tilt: float) -> tuple[float, ...]:
        """Width of one use of each factor: the smallest of two standard deviations and a central quantile range.

        A sampled mechanism's loss is a narrow bulk with a long thin tail; a grid made for its variance alone would put
        the whole bulk into one bin.
        """
        plain, leaning = self.at(0.0)[2], self.at(tilt)[2]
        central = [_central_width(losses, logs) for losses, logs, _ in self.parts]
        return tuple(
            min(w for w in (math.sqrt(a), math.sqrt(b), c) if w > 0) if a > 0 else 0.0
            for a, b, c in zip(plain, leaning, central, strict=True)
        )

    def reaches(self, most: float) -> tuple[float, ...]:
        """How far each factor's losses lie from 0, at most `most`; 0 is on the grid, so it is part of the range."""
        return tuple(min(most, float(np.abs(losses).max(initial=0.0))) for losses, _, _ in self.parts)

    def within(self, ends: list[float]) -> "Cumulant":
        """The same without losses beyond an end, one for each factor; a factor with no others keeps them."""
        near = [losses <= end for (losses, _, _), end in zip(self.parts, ends, strict=True)]
        kept = [some if some.any() else np.ones_like(some) for some in near]
        cut = ((losses[one], logs[one], count) for (losses, logs, count), one in zip(self.parts, kept, strict=True))
        return Cumulant(tuple(cut))

    @property
    def largest(self) -> float:
        """Largest sketched loss of the composition."""
        return sum(count * float(losses.max(initial=-math.inf)) for losses, _, count in self.parts)

    def _spread(self) -> float:
        """Standard deviation of the composed loss."""
        return math.sqrt(sum(c * v for (_, _, c), v in zip(self.parts, self.at(0.0)[2], strict=True)))

    def _root(self, gap: Callable[[float], float], deviations: float) -> float:
        if gap(0.0) <= 0:
            return 0.0
        scale = self._spread()
        if scale == 0.0:
            return 0.0
        low, high = 0.0, 1.0 / scale
        # A Gaussian needs tilt * scale = deviations; more only amplifies rounding of bounded laws.
        ceiling = (deviations + 2) / scale
        missed = [(0.0, gap(0.0))]
        while (now := gap(high)) > 0 and high < ceiling:
            missed.append((high, now))
            low, high = high, 2 * high
        if now > 0:  # a bounded law may never get there: the least tilt that comes as near
            return next((tilt for tilt, short in missed if short <= now + _AS_NEAR), high)
        # A tilt good to a few per cent is enough.
        return 0.5 * sum(narrow(lambda tilt: not gap(tilt) > 0, low, high, 0.0, 12))


def _central_width(losses: Array, logs: Array) -> float:
    """Distance of the 2 % and 98 % quantiles in units of a Gaussian's, 0 when an atom hides it or nothing is known."""
    if len(losses) == 0:
        return 0.0
    order = np.argsort(losses)
    cumulative = np.cumsum(np.exp(logs[order]))
    low, high = np.interp([0.02 * cumulative[-1], 0.98 * cumulative[-1]], cumulative, losses[order])
    return float(high - low) / 4.1
