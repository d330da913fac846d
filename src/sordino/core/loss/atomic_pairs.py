"""Pairs with atoms or a bounded loss: randomised response, Laplace, whole-number noise, lists, intervals of losses."""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.binomial import at_least
from sordino.core.gaussian import UNIT_ROUNDOFF, up
from sordino.core.loss.discretise import Atoms, Bins, IntervalPair
from sordino.core.loss.normal_pairs import exponent_of, log_mixture
from sordino.core.loss.pair import register
from sordino.core.spec.fields import Contradiction, Number, Numbers, Spelled
from sordino.core.validate import InputError

_BARELY = 1e-300  # a sketch keeps every atom, so that it shows the whole range
_REACH, _BEYOND = 28.0, 1e-160  # deviations of a discrete Gaussian that are listed, and what lies beyond them
_TOTAL_ERROR = 1e-9  # of a law whose masses were rounded


class AtomicPair(IntervalPair):
    """A pair all of whose mass is in atoms."""

    def support(self, tail: float) -> tuple[float, float]:
        losses = self.atoms().losses
        return float(losses[0]), float(losses[-1])

    def bins(self, edges: Array) -> Bins:
        empty = np.zeros(len(edges) - 1)
        return Bins(empty, empty, 0.0, 0.0, empty, empty)

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        atoms = self.atoms()
        return atoms.losses, np.maximum(atoms.masses, _BARELY)


@register("response")
class ResponsePair(AtomicPair):
    """Randomised response that fails with probability delta: dominates every (epsilon, delta) mechanism."""

    stated: ClassVar = {"infinite": "delta", "largest_loss": "epsilon", "lattice": "epsilon"}
    epsilon: Annotated[float, validate.NON_NEGATIVE]
    delta: Annotated[float, validate.PROBABILITY]

    def atoms(self) -> Atoms:
        yes = (1 - self.delta) / (1 + math.exp(-self.epsilon))
        no = (1 - self.delta) / (1 + math.exp(self.epsilon)) if self.epsilon < 700 else 0.0
        if self.epsilon == 0.0:
            return Atoms(np.zeros(1), np.array([1 - self.delta]))
        return Atoms(np.array([-self.epsilon, self.epsilon]), np.array([no, yes]))


@register("laplace")
class LaplacePair(IntervalPair):
    """Laplace noise with scale sensitivity/epsilon: atoms at +-epsilon and an exponential density between."""

    stated: ClassVar = {"largest_loss": "epsilon", "lattice": "epsilon"}
    epsilon: Annotated[float, validate.POSITIVE]

    def atoms(self) -> Atoms:
        return Atoms(np.array([-self.epsilon, self.epsilon]), np.array([math.exp(-self.epsilon) / 2, 0.5]))

    def support(self, tail: float) -> tuple[float, float]:
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


@register("poisson-laplace")
class PoissonLaplacePair(IntervalPair):
    """(1-q) Q + q P against Q for Laplace noise (P, Q): a Poisson-sampled Laplace answer, the record being removed.

    Its loss is log(1 - q + q e^L) of the loss L of Laplace noise, so bins of the one are bins of the other.
    """

    mirror: ClassVar = "poisson-laplace-add"
    rate: Annotated[float, validate.OPEN_UNIT]
    epsilon: Annotated[float, validate.POSITIVE]

    @property
    def largest_loss(self) -> float:
        return up(float(self._loss(np.array([self.epsilon]))[0]) * (1 + 1e-14), 2)

    def atoms(self) -> Atoms:
        both = LaplacePair(self.epsilon).atoms()
        return Atoms(self._loss(both.losses), both.masses * (self.rate + (1 - self.rate) * np.exp(-both.losses)))

    def support(self, tail: float) -> tuple[float, float]:
        low, high = self._loss(np.array([-self.epsilon, self.epsilon]))
        return float(low), float(high)

    def bins(self, edges: Array) -> Bins:
        with_record, without, wrong = self._between(edges)
        p = self.rate * with_record + (1 - self.rate) * without
        below, above = self._outside(edges, self.rate)
        return Bins(p, without, below, above, wrong, wrong)

    def _loss(self, base: Array) -> Array:
        return log_mixture(self.rate, base)

    def _base(self, losses: Array) -> tuple[Array, Array]:
        """The losses of the Laplace noise itself, and how far they may be off."""
        base = exponent_of(self.rate, losses)
        # A loss off by a few units of itself, and of 1, moves the base by e^(loss - base) / q times as much.
        with np.errstate(over="ignore", invalid="ignore"):
            steep = np.nan_to_num(np.exp(losses - base), nan=np.inf, posinf=np.inf) / self.rate
            off = 8 * UNIT_ROUNDOFF * (1 + np.abs(losses)) * steep
        inside = np.clip(base, -self.epsilon, self.epsilon)
        return inside, np.minimum(off + 8 * UNIT_ROUNDOFF * (1 + self.epsilon), 2 * self.epsilon)

    def _between(self, edges: Array) -> tuple[Array, Array, Array]:
        """Probabilities between edges with the record and without it, and a bound on the error of both."""
        base, off = self._base(edges)
        found = LaplacePair(self.epsilon).bins(base)
        # No density of the loss of Laplace noise is above 1/4.
        wrong = np.maximum(found.p_error, found.q_error) + (off[1:] + off[:-1]) / 4 + 4 * UNIT_ROUNDOFF * found.p
        return found.p, found.q, wrong

    def _outside(self, edges: Array, rate: float) -> tuple[float, float]:
        """Bounds of the mass beyond the edges of the mixture that has the record with chance `rate`."""
        (low, high), off = self._base(edges[[0, -1]])
        found = LaplacePair(self.epsilon).bins(np.array([-self.epsilon, low, high, self.epsilon]))
        masses = rate * found.p + (1 - rate) * found.q + off.max() / 2
        return float(masses[0]) if low > -self.epsilon else 0.0, float(masses[2]) if high < self.epsilon else 0.0


@register("poisson-laplace-add")
class PoissonLaplaceAddPair(PoissonLaplacePair):
    """The same pair the other way round: Q against (1-q) Q + q P, the record being added."""

    mirror: ClassVar = "poisson-laplace"

    @property
    def largest_loss(self) -> float:
        return up(-float(self._loss(np.array([-self.epsilon]))[0]) * (1 + 1e-14), 2)

    def atoms(self) -> Atoms:
        both = LaplacePair(self.epsilon).atoms()
        return Atoms(-self._loss(both.losses)[::-1], (both.masses * np.exp(-both.losses))[::-1])

    def support(self, tail: float) -> tuple[float, float]:
        low, high = super().support(tail)
        return -high, -low

    def bins(self, edges: Array) -> Bins:
        with_record, without, wrong = self._between(-edges[::-1])
        q = self.rate * with_record + (1 - self.rate) * without
        above, below = self._outside(-edges[::-1], 0.0)
        return Bins(without[::-1], q[::-1], below, above, wrong[::-1], wrong[::-1])


@register("discrete-laplace")
class DiscreteLaplacePair(AtomicPair):
    """Whole-number noise with P(x) proportional to e^(-rate |x|), moved by `shift` against not moved."""

    stated: ClassVar = {"lattice": "rate"}
    rate: Annotated[float, validate.POSITIVE]
    shift: Annotated[int, validate.COUNT]

    @property
    def largest_loss(self) -> float:
        return self.rate * self.shift

    def atoms(self) -> Atoms:
        # Between the two centres the loss rises in steps of twice the rate; beyond them it stays.
        inner = np.arange(1, self.shift)
        ratio = math.exp(-self.rate)
        masses = -math.expm1(-self.rate) / (1 + ratio) * np.exp(-self.rate * (self.shift - inner))
        ends = math.exp(-self.rate * self.shift) / (1 + ratio), 1 / (1 + ratio)
        losses = self.rate * np.concatenate([[-self.shift], 2 * inner - self.shift, [self.shift]])
        return Atoms(losses, np.concatenate([[ends[0]], masses, [ends[1]]]))


@register("discrete-gaussian")
class DiscreteGaussianPair(AtomicPair):
    """Whole-number noise with P(x) proportional to e^(-x^2 / (2 sigma^2)), moved by `shift` against not moved."""

    sigma: Annotated[float, validate.POSITIVE]
    shift: Annotated[int, validate.COUNT]

    @property
    def infinite(self) -> float:
        """What lies beyond the listed points: less than e^(-reach^2 / 2) times a few."""
        return _BEYOND

    @property
    def lattice(self) -> float | None:
        return self.shift / (2 * self.sigma * self.sigma)

    def atoms(self) -> Atoms:
        reach = math.ceil(_REACH * self.sigma) + 1
        x = np.arange(-reach, reach + 1, dtype=np.float64)
        weights = np.exp(-((x / self.sigma) ** 2) / 2)
        losses = (x / self.sigma + self.shift / (2 * self.sigma)) * (self.shift / self.sigma)
        return Atoms(losses, weights / math.fsum(weights))


@register("explicit")
class ExplicitPair(AtomicPair):
    """A finite list of losses and P-masses, and the mass of infinite loss; the pair is its own mirror image."""

    listed: ClassVar[bool] = True
    stated: ClassVar = {"infinite": "infinite_mass"}
    losses: Annotated[tuple[float, ...], Numbers(Number())]
    masses: Annotated[tuple[float, ...], Numbers(Number(validate.NON_NEGATIVE))]
    infinite_mass: Annotated[float, validate.PROBABILITY, Spelled("infinite")]

    def contradictions(self) -> Iterator[Contradiction]:
        if len(self.losses) != len(self.masses):
            yield Contradiction("masses", f"to be {len(self.losses)}, as many as losses", len(self.masses))
        total = math.fsum((*self.masses, self.infinite_mass))
        if not abs(total - 1) <= _TOTAL_ERROR:
            yield Contradiction("masses", "to add to 1 with the infinite one", total)
        if not all(a < b for a, b in pairwise(self.losses)):
            yield Contradiction("losses", "to increase strictly", len(self.losses))

    @property
    def largest_loss(self) -> float:
        return self.losses[-1]

    @property
    def lattice(self) -> float | None:
        if len(self.losses) < 2:
            return None
        losses = np.asarray(self.losses)
        spacing = float(losses[-1] - losses[0]) / (len(losses) - 1)
        steps = losses / spacing
        return spacing if np.allclose(steps, np.rint(steps), rtol=0.0, atol=1e-6) else None

    def atoms(self) -> Atoms:
        return Atoms(np.asarray(self.losses), np.asarray(self.masses))


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
    # A curve never rises. The masses are second differences; a little more covers their rounding: the pair stays above.
    deltas = np.minimum.accumulate(deltas)
    deltas = np.where(deltas > 0, np.minimum(1.0, deltas * (1 + _ROUNDING) + _UNDERFLOW), 0.0)
    y = np.exp(epsilons)
    mirrored = -np.expm1(-epsilons[:0:-1]) + np.exp(-epsilons[:0:-1]) * deltas[:0:-1]
    ys = np.concatenate([[0.0], 1 / y[:0:-1], y])
    values = np.concatenate([[1.0], mirrored, deltas])
    keep = _lower_hull(ys, values)
    ys, values = ys[keep], values[keep]
    slopes = np.append(np.diff(values) / np.diff(ys), 0.0)
    losses, masses = np.log(ys[1:]), ys[1:] * np.maximum(np.diff(slopes), 0.0)
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


# Losses in an interval of length r: the pair of one adaptive use, and several draws from one law.
#
# **Draws** (Dong, Durfee & Rogers 2020). delta(epsilon) of k independent draws is the largest, over t in [0, r], of the
# delta of k uses of the pair whose loss is t with probability p_t = (1 - e^(t-r)) / (1 - e^-r), else t - r.
#
# **Proof.** Let [t - r, t] hold the log ratio log(dP/dQ); the ratio has mean 1 under Q, so 0 <= t <= r. Hockey-stick
# divergences are means under Q of convex functions of the ratio, hence largest, given its mean and its range, for the
# law on the two ends; so that pair dominates one draw, and its product k of them (Zhu, Dong & Wang 2022, Theorem 10).
# All draws have the same law and share t; the other order of the pair has r - t. With l the largest number of low
# losses at which the sum exceeds epsilon, delta = max over l of f_l(t), f_l(t) = P_t(at most l low) - e^epsilon Q_t(at
# most l low), and f_l'(t) has the sign of e^(epsilon + (l+1) r - (k+1) t) - 1: f_l is largest at t_l = (epsilon + (l+1)
# r) / (k+1), or at the end of [0, r] that is nearer.


@register("bounded-range")
class BoundedRangePair(IntervalPair):
    """Dominates every mechanism whose loss lies in some interval of length `length`: its density is e^(loss / 2).

    For one use delta(epsilon) = (1 - e^((epsilon - r) / 2))^2 / (1 - e^-r) is attained at every epsilon (Dong, Durfee &
    Rogers 2020); that curve is convex in e^epsilon and its own mirror image, so it is the curve of a pair.
    """

    stated: ClassVar = {"largest_loss": "length", "lattice": "length"}
    length: Annotated[float, validate.POSITIVE]

    def support(self, tail: float) -> tuple[float, float]:
        return -self.length, self.length

    def bins(self, edges: Array) -> Bins:
        inside = np.clip(edges, -self.length, self.length)
        half = np.diff(inside) / 2
        # P(L <= t) = (e^((t - r) / 2) - e^-r) / (1 - e^-r); Q has the mirrored density.
        whole = -math.expm1(-self.length)
        p = np.exp((inside[1:] - self.length) / 2) * -np.expm1(-half) / whole
        q = np.exp(-(inside[:-1] + self.length) / 2) * -np.expm1(-half) / whole
        error = 8 * UNIT_ROUNDOFF * (2 + self.length) + UNIT_ROUNDOFF * np.abs(edges[1:])
        # A bin narrower than the rounding of its own edges has a relative error of its own.
        narrow = 4 * UNIT_ROUNDOFF * (np.abs(inside[1:]) + np.abs(inside[:-1])) / np.maximum(half, 1e-300)
        error = error + np.where(half > 0, np.minimum(narrow, 1.0), 0.0)
        below = max(0.0, math.exp((inside[0] - self.length) / 2) - math.exp(-self.length)) / whole
        return Bins(p, q, below, -math.expm1((inside[-1] - self.length) / 2) / whole, error * p, error * q)


_LARGEST_EXPONENT = 700.0  # of e that a float can hold
_SMALLEST_WIDTH = 1e-12  # where e^-r and 1 still differ; smaller ones are rounded up to it


def one_draw_delta(width: float, epsilon: float) -> float:
    """The delta of one draw, rounded up: t = (epsilon + r) / 2, in closed form; epsilon < r."""
    share = -math.expm1((epsilon - width) / 2)
    return min(1.0, up(share * share / -math.expm1(-width), 16))


@lru_cache(maxsize=4096)
def worst_delta(width: float, draws: int, epsilon: float) -> float:
    """The delta of several draws, max over l of f_l(t_l), rounded up."""
    width, lows = max(width, _SMALLEST_WIDTH), np.arange(draws, dtype=np.float64)
    top = np.clip((epsilon + (lows + 1) * width) / (draws + 1), 0.0, width)
    # Probabilities of high and of low losses under both laws, each computed directly: 1 minus another would cancel.
    rises, falls = -np.expm1(top - width) / -math.expm1(-width), -np.expm1(-top) / -math.expm1(-width)
    error = (16 + 4 * width) * UNIT_ROUNDOFF
    _, mine = at_least(
        draws - lows, draws, np.minimum(rises * (1 + error), 1.0), falls * np.exp(top - width) * (1 - error)
    )
    other, _ = at_least(draws - lows, draws, rises * np.exp(-top) * (1 - error), np.minimum(falls * (1 + error), 1.0))
    # Where e^epsilon overflows the other law's part is left out, which rounds up.
    growth = math.exp(epsilon) * (1 - 4 * UNIT_ROUNDOFF) if epsilon < _LARGEST_EXPONENT else 0.0
    return min(1.0, up(max(0.0, float((mine - growth * other).max()))))
