"""Reading delta(epsilon) and epsilon(delta) off a composed grid law, on the side the law is on."""

import math
from functools import cached_property

import numpy as np

from sordino.core.loss.grid_law import Array, GridLaw, Side
from sordino.core.rounding import UNIT_ROUNDOFF

# Exponents up to this are evaluated; their exponentials times any error bound stay within the range of floats.
_REACH = 600.0


class Curve:
    """The privacy curve of one grid law; an upper law answers from above, a lower law from below."""

    def __init__(self, law: GridLaw, side: Side) -> None:
        self._law, self._side = law, side
        self._sign = 1 if side is Side.UPPER else -1
        self._centre = law.moments()[0]
        # Losses far below the centre would overflow: no more is known there than delta <= 1.
        self._floor = self._centre - _REACH / (1.0 + law.tilt)

    @cached_property
    def _tails(self) -> tuple[Array, Array, Array]:
        """Losses, tail sums of masses exp(-tilt (x - c)) and of the same times exp(-(x - c)), c being the centre."""
        law, centre = self._law, self._centre
        losses = law.losses
        keep = losses >= max(self._floor, -law.spacing - law.shift)
        losses, masses = losses[keep], law.masses[keep]
        weights = masses * np.exp(-law.tilt * (losses - centre))
        plain = np.cumsum(weights[::-1])[::-1]
        discounted = np.cumsum((weights * np.exp(centre - losses))[::-1])[::-1]
        return losses, plain, discounted

    def delta(self, epsilon: float) -> float:
        """A bound on delta at this epsilon."""
        return float(self.deltas(np.array([epsilon]))[0])

    def deltas(self, epsilons: Array) -> Array:
        """Bounds on delta at many epsilons."""
        law, centre = self._law, self._centre
        if not math.isfinite(law.error):
            return np.full(np.shape(epsilons), 1.0 if self._side is Side.UPPER else min(1.0, self._infinite))
        losses, plain, discounted = self._tails
        at = epsilons - self._sign * law.shift
        index = np.searchsorted(losses, at, side="right")
        first, second = np.append(plain, 0.0)[index], np.append(discounted, 0.0)[index]
        growth = np.exp(np.minimum(at - centre, 700.0))
        # Cumulative sums lose at most one unit in the last place per term.
        rounding = UNIT_ROUNDOFF * (len(law.masses) + 32) * (first + growth * second)
        inside = first - growth * second + self._sign * rounding
        # The error is in tilted units, where the masses that matter at `at` have weights exp(-tilt (x - at)) <= 1.
        inside += self._sign * law.error * np.exp(np.minimum(law.tilt * (centre - at), _REACH))
        exponent = law.log_scale - law.tilt * centre
        scale_error = 16 * UNIT_ROUNDOFF * (1 + abs(law.log_scale) + law.tilt * (abs(centre) + np.abs(at)))
        if self._side is Side.LOWER:
            inside = np.where(at - centre > 700.0, 0.0, inside)  # growth was cut off there
        scaled = np.maximum(inside, 0.0) * math.exp(min(exponent, 700.0)) * (1 + self._sign * scale_error)
        bound = np.minimum(1.0, scaled + self._infinite)
        return np.where(at < self._floor, 1.0, bound) if self._side is Side.UPPER else bound

    @property
    def _infinite(self) -> float:
        return self._law.infinite * (1 + self._sign * 64 * UNIT_ROUNDOFF)

    def epsilon(self, delta: float) -> float:
        """A bound on the smallest epsilon >= 0 with delta(epsilon) <= delta."""
        if self._infinite > delta:
            return math.inf
        losses = self._tails[0]
        grid = np.append(0.0, losses[losses > 0])
        private = self.deltas(grid) <= delta
        if self._side is Side.UPPER:
            # Any private point is an upper bound: take the first one and walk back inside its bin.
            if not private.any():
                return math.inf
            index = int(np.argmax(private))
            return 0.0 if index == 0 else self._crossing(float(grid[index - 1]), float(grid[index]), delta)[1]
        # Any point that is certainly not private is a lower bound: take the last one and walk on inside its bin.
        if private.all():
            return 0.0
        index = len(grid) - 1 - int(np.argmin(private[::-1]))
        end = float(grid[index + 1]) if index + 1 < len(grid) else float(grid[index])
        return self._crossing(float(grid[index]), end, delta)[0]

    def _crossing(self, left: float, right: float, delta: float) -> tuple[float, float]:
        for _ in range(60):
            middle = 0.5 * (left + right)
            if not left < middle < right or right - left <= 1e-13 * right:
                break
            left, right = (middle, right) if self.delta(middle) > delta else (left, middle)
        return left, right
