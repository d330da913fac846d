"""Any two laws whose divergences are known: Gaussians, mixtures on the line, stable laws."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sordino.audit.exact.gaussian_shift import GaussianShift
from sordino.audit.exact.leak import CURVE_POINTS
from sordino.audit.trade_off import TradeOffPoint
from sordino.core.rounding import widen_down
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, number
from sordino.model.exact import GaussianLaw, GaussianLoss, Law, hockey_stick, renyi

# The moments of a law carry the rounding of the whole chain; this much of an answer is given away for it.
ROUNDING = 1e-9
_PRECISION, _LARGEST_EPSILON, _LARGEST_LOSS = 1e-7, 1e5, 600.0
_CELLS = 4001


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
        while high - low > _PRECISION * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return low

    def delta(self, epsilon: float) -> float:
        """From the lower end of the bracket."""
        number("epsilon", epsilon, NON_NEGATIVE)
        both = (hockey_stick(self.first, self.second, epsilon), hockey_stick(self.second, self.first, epsilon))
        return max(0.0, widen_down(max(side.low for side in both), ROUNDING))

    def total_variation(self) -> float:
        """delta at epsilon 0."""
        return self.delta(0.0)

    def renyi(self, order: float) -> float:
        """The larger Rényi divergence of the two directions, rounded down."""
        number("order", order, POSITIVE)
        larger = max(renyi(self.first, self.second, order), renyi(self.second, self.first, order))
        return max(0.0, widen_down(larger, 10 * ROUNDING))

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Likelihood-ratio tests: of the loss for two Gaussians, of the cell an outcome falls into on the line."""
        return self._curve

    @cached_property
    def _curve(self) -> tuple[TradeOffPoint, ...]:
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
