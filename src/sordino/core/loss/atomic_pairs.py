"""Pairs with atoms: randomised response (any pure, approximate or total-variation guarantee), Laplace, explicit."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.loss.discretise import Atoms, Bins, IntervalPair
from sordino.core.loss.pair import Pair, register
from sordino.core.validate import InputError

_BARELY = 1e-300  # a sketch keeps every atom, so that it shows the whole range
_TOTAL_ERROR = 1e-9  # of a law whose masses were rounded


class _AtomicPair(IntervalPair):
    """A pair all of whose mass is in atoms."""

    def support(self, tail: float) -> tuple[float, float]:
        del tail
        losses = self.atoms().losses
        return float(losses[0]), float(losses[-1])

    def bins(self, edges: Array) -> Bins:
        empty = np.zeros(len(edges) - 1)
        return Bins(empty, empty, 0.0, 0.0, empty, empty)

    def sketch(self) -> tuple[Array, Array]:
        atoms = self.atoms()
        return atoms.losses, np.maximum(atoms.masses, _BARELY)


@register
@dataclass(frozen=True)
class ResponsePair(_AtomicPair):
    """Randomised response that fails with probability delta: dominates every (epsilon, delta) mechanism."""

    kind: ClassVar[str] = "response"
    ranges: ClassVar = {"epsilon": validate.NON_NEGATIVE, "delta": validate.PROBABILITY}
    epsilon: float
    delta: float

    @property
    def infinite(self) -> float:
        return self.delta

    @property
    def largest_loss(self) -> float:
        return self.epsilon

    @property
    def lattice(self) -> float | None:
        return self.epsilon or None

    def atoms(self) -> Atoms:
        yes = (1 - self.delta) / (1 + math.exp(-self.epsilon))
        no = (1 - self.delta) / (1 + math.exp(self.epsilon)) if self.epsilon < 700 else 0.0
        if self.epsilon == 0.0:
            return Atoms(np.zeros(1), np.array([1 - self.delta]))
        return Atoms(np.array([-self.epsilon, self.epsilon]), np.array([no, yes]))


@register
@dataclass(frozen=True)
class LaplacePair(IntervalPair):
    """Laplace noise with scale sensitivity/epsilon: atoms at +-epsilon and an exponential density between."""

    kind: ClassVar[str] = "laplace"
    ranges: ClassVar = {"epsilon": validate.POSITIVE}
    epsilon: float

    @property
    def largest_loss(self) -> float:
        return self.epsilon

    @property
    def lattice(self) -> float | None:
        return self.epsilon

    def atoms(self) -> Atoms:
        return Atoms(np.array([-self.epsilon, self.epsilon]), np.array([math.exp(-self.epsilon) / 2, 0.5]))

    def support(self, tail: float) -> tuple[float, float]:
        del tail
        return -self.epsilon, self.epsilon

    def bins(self, edges: Array) -> Bins:
        inside = np.clip(edges, -self.epsilon, self.epsilon)
        width = np.diff(inside)
        # P(L <= t) = exp((t - epsilon)/2)/2 and Q has the mirrored density; expm1 avoids cancellation.
        p = 0.5 * np.exp((inside[:-1] - self.epsilon) / 2) * np.expm1(width / 2)
        q = 0.5 * np.exp(-(inside[:-1] + self.epsilon) / 2) * -np.expm1(-width / 2)
        edge_error = UNIT_ROUNDOFF * (np.abs(edges[1:]) + self.epsilon)
        error = 8 * UNIT_ROUNDOFF * (1 + self.epsilon)
        below = 0.5 * (math.exp((inside[0] - self.epsilon) / 2) - math.exp(-self.epsilon))
        above = -0.5 * math.expm1((inside[-1] - self.epsilon) / 2)
        return Bins(p, q, below, above, error * p + edge_error * p, error * q + edge_error * q)

    def sketch(self) -> tuple[Array, Array]:
        edges = np.linspace(-self.epsilon, self.epsilon, 201)
        atoms = self.atoms()
        middle = (edges[1:] + edges[:-1]) / 2
        return np.concatenate([middle, atoms.losses]), np.concatenate([self.bins(edges).p, atoms.masses])


@register
@dataclass(frozen=True)
class ExplicitPair(_AtomicPair):
    """A finite list of losses and P-masses, with the same for the reversed pair; how foreign laws come in."""

    kind: ClassVar[str] = "explicit"
    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite_mass: float
    reverse_losses: tuple[float, ...] | None = None
    reverse_masses: tuple[float, ...] | None = None
    reverse_infinite_mass: float = 0.0

    def __post_init__(self) -> None:
        if len(self.losses) != len(self.masses) or not self.losses:
            raise InputError(f"Expected as many masses as losses, got {len(self.masses)} and {len(self.losses)}.")
        if not min(self.masses) >= 0 or not 0 <= self.infinite_mass <= 1:
            raise InputError("Expected masses to be non-negative and the infinite mass in [0, 1].")
        total = math.fsum((*self.masses, self.infinite_mass))
        if not abs(total - 1) <= _TOTAL_ERROR:
            raise InputError(f"Expected the masses, with the infinite one, to add to 1, got {total}.")
        if not all(a < b for a, b in pairwise(self.losses)) or not math.isfinite(self.losses[0] + self.losses[-1]):
            raise InputError("Expected losses to be finite and to increase strictly.")

    @property
    def infinite(self) -> float:
        return self.infinite_mass

    @property
    def largest_loss(self) -> float:
        return self.losses[-1]

    @property
    def lattice(self) -> float | None:
        """The common spacing of an equally spaced list that contains 0."""
        if len(self.losses) < 2:
            return None
        losses = np.asarray(self.losses)
        spacing = float(losses[-1] - losses[0]) / (len(losses) - 1)
        steps = losses / spacing
        return spacing if np.allclose(steps, np.rint(steps), rtol=0.0, atol=1e-6) else None

    def reversed(self) -> Pair:
        if self.reverse_losses is None or self.reverse_masses is None:
            return self
        mirrored = (self.reverse_losses, self.reverse_masses, self.reverse_infinite_mass)
        return ExplicitPair(*mirrored, self.losses, self.masses, self.infinite_mass)

    def atoms(self) -> Atoms:
        return Atoms(np.asarray(self.losses), np.asarray(self.masses))

    def to_dict(self) -> dict[str, Any]:
        data = {"kind": self.kind, **_law(self.losses, self.masses, self.infinite_mass)}
        if self.reverse_losses is not None and self.reverse_masses is not None:
            data["reverse"] = _law(self.reverse_losses, self.reverse_masses, self.reverse_infinite_mass)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        forward, reverse = (tuple(data["losses"]), tuple(data["masses"]), data["infinite"]), data.get("reverse")
        if reverse is None:
            return cls(*forward)
        return cls(*forward, tuple(reverse["losses"]), tuple(reverse["masses"]), reverse["infinite"])


def _law(losses: tuple[float, ...], masses: tuple[float, ...], infinite: float) -> dict[str, Any]:
    return {"losses": list(losses), "masses": list(masses), "infinite": infinite}


_ROUNDING, _UNDERFLOW = 1e-11, 1e-250


def pair_from_curve(epsilons: ArrayLike, deltas: ArrayLike) -> ExplicitPair:
    """The pair whose privacy curve passes through the convex hull of the given upper bounds.

    The curve bounds both orders of the pair, so it is mirrored: H(y) = 1 - y + y H(1/y) for y = exp(epsilon) < 1. The
    lower hull of upper bounds on a convex function is still an upper bound. Past the last epsilon the curve is flat.
    """
    epsilons, deltas = np.asarray(epsilons, float), np.asarray(deltas, float)
    if epsilons.ndim != 1 or epsilons.shape != deltas.shape or len(epsilons) == 0:
        raise InputError("Expected as many deltas as epsilons, at least one.")
    if epsilons[0] != 0.0 or np.any(np.diff(epsilons) <= 0) or np.any((deltas < 0) | (deltas > 1)):
        raise InputError("Expected epsilons to start at 0 and increase, and deltas in [0, 1].")
    # A curve never rises. The masses are second differences; a little more covers their rounding and underflow, and
    # keeps the pair above the given curve.
    deltas = np.minimum.accumulate(deltas)
    deltas = np.where(deltas > 0, np.minimum(1.0, deltas * (1 + _ROUNDING) + _UNDERFLOW), 0.0)
    y = np.exp(epsilons)
    mirrored = -np.expm1(-epsilons[:0:-1]) + np.exp(-epsilons[:0:-1]) * deltas[:0:-1]
    ys = np.concatenate([[0.0], 1 / y[:0:-1], y])
    values = np.concatenate([[1.0], mirrored, deltas])
    keep = _lower_hull(ys, values)
    ys, values = ys[keep], values[keep]
    slopes = np.append(np.diff(values) / np.diff(ys), 0.0)
    kinks = np.maximum(np.diff(slopes), 0.0)
    losses, masses = np.log(ys[1:]), ys[1:] * kinks
    # Rounding must not lose mass: what is missing from 1 is given to the largest loss.
    masses[-1] += max(0.0, 1.0 - float(values[-1]) - math.fsum(masses))
    return ExplicitPair(tuple(losses.tolist()), tuple(masses.tolist()), float(values[-1]))


def _lower_hull(x: Array, y: Array) -> list[int]:
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
