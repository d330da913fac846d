"""What an exactly known pair of neighbours can answer, always from below.

Two laws that differ like N(mu, 1) and N(0, 1), which is what every chain in a fixed order comes down to; any two laws
whose divergences are known; and steps that are all seen, whose losses add up.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.auditing.lower_bound import TradeOffPoint
from sordino.core import gaussian
from sordino.core.arrays import Array
from sordino.core.gaussian import down, narrow, widen_down
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, number
from sordino.model.exact import GaussianLaw, GaussianLoss, Law, hockey_stick, renyi

CURVE_POINTS = 81
_ERROR = 1e-13  # relative accuracy of a normal tail at an argument rounded to double precision
# The moments of a law carry the rounding of the whole chain; this much of an answer is given away for it.
ROUNDING = 1e-9
_PRECISION, _LARGEST_EPSILON, _LARGEST_LOSS = 1e-7, 1e5, 600.0
_CELLS = 4001


class Leak(Protocol):
    """How far two laws can be told apart; every answer is a lower bound, errors of tests are upper bounds."""

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that is not refuted at `delta`, rounded down."""
        ...

    def delta(self, epsilon: float) -> float:
        """The smallest delta that is not refuted at `epsilon`, rounded down."""
        ...

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Tests of falling false-positive rate, errors rounded up; empty where none are computed."""
        ...


@dataclass(frozen=True, eq=False)
class Placed:
    """Where a record stands decides what it shows: batches of `size` of the `records`, in a fixed order.

    Attributes:
        mus: the distance in standard deviations that the odd record leaves when it stands in each batch, rounded down.
    """

    records: int
    size: int
    mus: Array

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first record of each batch."""
        return np.arange(len(self.mus), dtype=np.int64) * self.size

    def at(self, records: NDArray[np.int64]) -> Array:
        """The distance that each of these records leaves."""
        return self.mus[records // self.size]


@dataclass(frozen=True, eq=False)
class Finding:
    """How far two neighbours can be told apart, and which they are, in words.

    `placed` says what other records would have shown, where that depends on the record; absent, every record shows
    the same.
    """

    leak: Leak
    neighbours: str
    placed: Placed | None = None


@dataclass(frozen=True)
class GaussianShift:
    """`mu` is a lower bound on the true distance; everything follows from it in closed form.

    >>> round(GaussianShift(1.0).epsilon(1e-5), 4)
    4.3772
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", number("mu", self.mu, NON_NEGATIVE))

    def epsilon(self, delta: float) -> float:
        return gaussian.epsilon_lower(self.mu, number("delta", delta, OPEN_UNIT))

    def delta(self, epsilon: float) -> float:
        return float(gaussian.delta_range(self.mu, number("epsilon", epsilon, NON_NEGATIVE))[0])

    def renyi(self, order: float) -> float:
        """Rényi divergence: order mu^2 / 2, rounded down."""
        return down(number("order", order, POSITIVE) * self.mu * self.mu / 2, 4)

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Thresholds spread evenly over both laws."""
        thresholds = np.linspace(-4.5, self.mu + 4.5, CURVE_POINTS)
        slack = _ERROR * (1 + thresholds * thresholds + self.mu * self.mu)
        false_positive = np.minimum(1.0, special.ndtr(-thresholds) * (1 + slack))
        false_negative = np.minimum(1.0, special.ndtr(thresholds - self.mu) * (1 + slack))
        return tuple(TradeOffPoint(float(a), float(b)) for a, b in zip(false_positive, false_negative, strict=True))


def composed_down(mus: ArrayLike) -> float:
    """The root of the sum of squares, rounded down: independent shifts seen together."""
    return math.sqrt(math.fsum(np.square(np.asarray(mus, float)).tolist())) * (1 - 1e-14)


@dataclass(frozen=True, eq=False)
class LawPair:
    """The laws of what is seen under two neighbours; every answer holds in the worse of the two directions."""

    first: Law
    second: Law

    def epsilon(self, delta: float) -> float:
        """The last point of a bisection at which delta is certainly exceeded."""
        delta = number("delta", delta, OPEN_UNIT)
        low, high = 0.0, 1.0
        if self.delta(low) <= delta:
            return 0.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > _LARGEST_EPSILON:
                return low
        return narrow(lambda epsilon: self.delta(epsilon) <= delta, low, high, _PRECISION)[0]

    def delta(self, epsilon: float) -> float:
        number("epsilon", epsilon, NON_NEGATIVE)
        both = (hockey_stick(self.first, self.second, epsilon), hockey_stick(self.second, self.first, epsilon))
        return max(0.0, widen_down(max(side.low for side in both), ROUNDING))

    def renyi(self, order: float) -> float:
        """The larger Rényi divergence of the two directions, rounded down."""
        number("order", order, POSITIVE)
        larger = max(renyi(self.first, self.second, order), renyi(self.second, self.first, order))
        return max(0.0, widen_down(larger, 10 * ROUNDING))

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Likelihood-ratio tests: of the loss for two Gaussians, of the cell an outcome falls into on the line."""
        if isinstance(self.first, GaussianLaw) and isinstance(self.second, GaussianLaw) and self.first.dim > 1:
            return _of_losses(GaussianLoss.between(self.first, self.second))
        return _of_cells(self.first, self.second)


def _of_losses(loss: GaussianLoss) -> tuple[TradeOffPoint, ...]:
    """Tests that answer "first" when the loss exceeds a level."""
    if len(loss.ratios) == 0:
        return GaussianShift(loss.shift * (1 - ROUNDING)).curve()
    reach = min(_LARGEST_LOSS, loss.renyi(1.0) + 5 * np.sqrt(2 * loss.renyi(1.0)) + 1e-9)
    points = [
        (loss.above_under_second(level).high, 1.0 - loss.above(level).low)
        for level in np.linspace(-reach, reach, CURVE_POINTS)
    ]
    return tuple(TradeOffPoint(min(1.0, a + ROUNDING), min(1.0, b + ROUNDING)) for a, b in points)


def _of_cells(first: Law, second: Law) -> tuple[TradeOffPoint, ...]:
    """Cut the line into cells and put those with the largest ratio into the test first."""
    laws = first.line(), second.line()
    locations = np.concatenate([law.locations for law in laws])
    scale = float(np.concatenate([law.scales for law in laws]).min())
    reach = laws[0].family.reach(1e-9)
    ends = np.arcsinh((np.array([locations.min(), locations.max()]) + reach * scale * np.array([-1, 1])) / scale)
    edges = np.concatenate([[-np.inf], scale * np.sinh(np.linspace(ends[0], ends[1], _CELLS)), [np.inf]])
    p, q = (np.maximum(law.mass(edges[:-1], edges[1:]), 0.0) for law in laws)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.nan_to_num(p / q, nan=1.0), kind="stable")
    power, false = np.cumsum(p[order]), np.cumsum(q[order])
    # Evenly along the curve: its two ends are equally worth showing.
    along = np.searchsorted(power + false, np.linspace(0.0, 2.0, CURVE_POINTS)[1:-1])
    chosen = np.unique(np.clip(along, 0, len(p) - 1))
    slack = 1e-8
    return tuple(
        TradeOffPoint(min(1.0, float(false[i]) + slack), min(1.0, max(0.0, 1.0 - float(power[i])) + slack))
        for i in chosen
    )


@dataclass(frozen=True)
class ComposedLoss:
    """The exact composition, read from the lower end of its brackets."""

    losses: LossDistribution

    @classmethod
    def of_draws(cls, rate: float, moves: Array, times: int, *, mirrored: bool) -> "ComposedLoss":
        """Steps that draw the odd record at a rate and are then moved so far, each `times` over.

        Where `mirrored`, the two neighbours move half as far each, in opposite directions.
        """
        factors = []
        for move, count in zip(*np.unique(moves[moves > 0], return_counts=True), strict=True):
            drawn = PoissonReplacePair(rate, float(move) / 2) if mirrored else PoissonRemovePair(rate, float(move))
            factors.append((GaussianPair(float(move)) if rate >= 1.0 else drawn, int(count) * times))
        return cls(LossDistribution(tuple(factors)))

    def epsilon(self, delta: float) -> float:
        return self.losses.epsilon_bracket(number("delta", delta, OPEN_UNIT)).low

    def delta(self, epsilon: float) -> float:
        return self.losses.delta_bracket(number("epsilon", epsilon, NON_NEGATIVE)).low

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """None: a bracket of the loss says nothing about single tests."""
        return ()
