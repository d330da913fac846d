"""Dominating pairs (P, Q), laws of their privacy loss on a grid, and the privacy curves of such laws.

A pair knows the law of its privacy loss log(dP/dQ) under P. Zhu, Dong & Wang 2022 (Theorem 10): pairs that dominate
each step dominate the composition.

A law on an equally spaced grid is stored exponentially tilted: its finite part has mass
``exp(log_scale - tilt * loss) * masses[i]`` at ``loss = spacing * (first + i)``. Tilting moves the bulk of the stored
masses to the losses that decide the answer, so that rounding and wrap-around errors of a Fourier transform are small
*relative to delta*, however small delta is.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, narrow
from sordino.core.spec.fields import Shape, Tagged, TaggedUnion
from sordino.core.validate import refuse, whole_number


class Side(StrEnum):
    """Which side of the exact law an approximation is on."""

    UPPER = "upper"
    LOWER = "lower"


@dataclass(frozen=True)
class GridLaw:
    """A law as the head of the file describes it; error terms travel with the masses, each bounded where it arises."""

    spacing: float
    first: int
    masses: Array
    tilt: float
    log_scale: float
    infinite: float  # mass at infinite loss
    # By how much, times exp(log_scale - tilt * epsilon), the curve may differ from that of a law on the right side.
    error: float
    shift: float  # bound on the error of the losses themselves

    @property
    def losses(self) -> Array:
        return np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * self.spacing

    def moments(self) -> tuple[float, float]:
        """Mean and variance of the tilted law (for choosing windows; not part of any bound)."""
        total = float(self.masses.sum())
        if total == 0.0:
            return 0.0, 0.0
        # Not BLAS: its threads cost more than these sums when several processes share the cores.
        losses = self.losses
        mean = float((self.masses * losses).sum()) / total
        return mean, float((self.masses * (losses - mean) ** 2).sum()) / total


def trimmed(masses: Array, trim: float) -> tuple[int, Array]:
    """Cut both ends as long as each holds at most `trim`; returns how many points went on the left."""
    left = int(np.searchsorted(np.cumsum(masses), trim, side="right"))
    right = int(np.searchsorted(np.cumsum(masses[::-1]), trim, side="right"))
    left = min(left, len(masses) - 1)
    return left, masses[left : max(len(masses) - right, left + 1)]


def unknown(side: Side, tilt: float) -> GridLaw:
    """The law that is above, or below, every law: all mass at infinite loss, or none anywhere."""
    return GridLaw(1.0, 0, np.zeros(1), tilt, 0.0, 1.0 if side is Side.UPPER else 0.0, 0.0, 0.0)


def nothing(spacing: float, tilt: float) -> GridLaw:
    """The loss of a mechanism that reads no data: 0."""
    return GridLaw(spacing, 0, np.ones(1), tilt, 0.0, 0.0, 0.0, 0.0)


def mixture(weights: tuple[float, ...], laws: list[GridLaw]) -> GridLaw:
    """The law of a mixture whose component is public: the weighted average of the laws."""
    first, last = min(law.first for law in laws), max(law.first + len(law.masses) for law in laws)
    scale = max(law.log_scale for law in laws)
    masses, error, infinite = np.zeros(last - first), 0.0, 0.0
    for weight, law in zip(weights, laws, strict=True):
        factor = weight * math.exp(law.log_scale - scale)
        start = law.first - first
        masses[start : start + len(law.masses)] += factor * law.masses
        error += factor * (law.error + 4 * UNIT_ROUNDOFF)
        infinite += weight * law.infinite
    # Where every finite loss is far below 0 nothing is left of their tilted masses, and nothing is to be scaled.
    total = float(masses.sum()) or 1.0
    infinite, shift = min(1.0, infinite * (1 + 8 * UNIT_ROUNDOFF)), max(law.shift for law in laws)
    masses, scale, error = masses / total, scale + math.log(total), error / total + len(laws) * UNIT_ROUNDOFF
    return GridLaw(laws[0].spacing, first, masses, laws[0].tilt, scale, infinite, error, shift)


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
        self._infinite = law.infinite * (1 + self._sign * 64 * UNIT_ROUNDOFF)

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
        return float(self.deltas(np.array([epsilon]))[0])

    def deltas(self, epsilons: Array) -> Array:
        law, centre = self._law, self._centre
        if not math.isfinite(law.error):
            return np.full(np.shape(epsilons), 1.0 if self._side is Side.UPPER else min(1.0, self._infinite))
        losses, plain, discounted = self._tails
        at = epsilons - self._sign * law.shift
        index = np.searchsorted(losses, at, side="right")
        first, second = np.append(plain, 0.0)[index], np.append(discounted, 0.0)[index]
        with np.errstate(over="ignore"):  # far more than `first`, which is then outweighed
            paid = np.minimum(np.exp(np.minimum(at - centre, 700.0)) * second, 1e300)
        # Cumulative sums lose at most one unit in the last place per term.
        inside = first - paid + self._sign * UNIT_ROUNDOFF * (len(law.masses) + 32) * (first + paid)
        # The error is in tilted units, where the masses that matter at `at` have weights exp(-tilt (x - at)) <= 1.
        with np.errstate(over="ignore"):  # an infinite error says nothing, and is cut off at delta = 1
            inside += self._sign * law.error * np.exp(np.minimum(law.tilt * (centre - at), _REACH))
        exponent = law.log_scale - law.tilt * centre
        scale_error = 16 * UNIT_ROUNDOFF * (1 + abs(law.log_scale) + law.tilt * (abs(centre) + np.abs(at)))
        if self._side is Side.LOWER:
            inside = np.where(at - centre > 700.0, 0.0, inside)  # growth was cut off there
        # By the root twice: the power alone may be no float where the product is one.
        root = math.exp(min(exponent, 700.0) / 2)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.maximum(inside, 0.0) * root * root * (1 + self._sign * scale_error)
        bound = np.minimum(1.0, np.nan_to_num(scaled, nan=1.0, posinf=1.0) + self._infinite)
        return np.where(at < self._floor, 1.0, bound) if self._side is Side.UPPER else bound

    def epsilon(self, delta: float) -> float:
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
        return narrow(lambda epsilon: not self.delta(epsilon) > delta, left, right, 1e-13, 60)


@dataclass(frozen=True)
class Request:
    """How an evaluation is to be made."""

    side: Side  # above or below the exact law
    tilt: float  # exponential tilt of the stored masses
    resolution: float  # grid points per standard deviation of one use
    tail: float  # probability each use may lose at each end


KINDS = TaggedUnion()


class Pair(Tagged, ABC):
    """A pair of distributions known through its privacy loss, which is recomputed from its JSON form."""

    kinds: ClassVar[TaggedUnion] = KINDS
    listed: ClassVar[bool] = False
    """Whether the law was listed elsewhere, perhaps rounded up, so that no two distributions need have it."""
    mirror: ClassVar[str] = ""
    """The kind of the pair (Q, P) with the same numbers; none of symmetric pairs."""
    stated: ClassVar[Mapping[str, str]] = {}
    """Of `infinite`, `largest_loss` and `lattice` those that are fields, and which."""

    def reversed(self) -> "Pair":
        """The pair (Q, P); symmetric pairs return themselves."""
        mirrored: Any = KINDS.table.get(self.mirror)
        return mirrored(**vars(self)) if mirrored else self

    @property
    def infinite(self) -> float:
        return getattr(self, self.stated.get("infinite", ""), 0.0)

    @property
    def largest_loss(self) -> float:
        """The largest finite loss, rounded up; infinite where there is none."""
        return getattr(self, self.stated.get("largest_loss", ""), math.inf)

    @property
    def lattice(self) -> float | None:
        """A spacing that puts every atom on the grid, where one exists."""
        return getattr(self, self.stated.get("lattice", ""), None) or None

    @property
    def parts(self) -> int:
        """How many laws its own is made of."""
        return 1

    def extent(self, tail: float) -> float:
        """Length of the grid that one use needs when tails of probability `tail` are cut off."""
        return float(np.ptp(self.sketch()[0]))

    @abstractmethod
    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        """The loss law of one use on a grid, on the requested side of the exact law."""

    @abstractmethod
    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        """A few hundred (loss, mass) points, `far` ones as rare as floats hold; they steer, and bound nothing."""


register, pair_from_dict = KINDS.register, partial(KINDS.read, "pair")

Factors = tuple[tuple[Pair, int], ...]


class Uses(Shape):
    """Pairs, each with how often it is used."""

    def read(self, path: str, value: object) -> Factors:
        if not isinstance(value, list | tuple):
            raise refuse(path, "to be a list of pairs with counts", value)
        listed = ((item["pair"], item["count"]) if isinstance(item, dict) else item for item in value)
        return tuple((KINDS.read(f"{path}.pair", pair), whole_number("count", count)) for pair, count in listed)

    def write(self, value: Factors) -> list[dict[str, object]]:
        return [{"pair": pair.to_dict(), "count": count} for pair, count in value]
