"""Leaks known through single events: a test whose two probabilities are known, and two-valued releases."""

import math
from dataclasses import dataclass

from sordino.audit.trade_off import TradeOffPoint
from sordino.core.rounding import down
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, number


@dataclass(frozen=True)
class OneTest:
    """An event of probability at least `power` under the first neighbour, at most exp(`log_false`) under the second."""

    power: float
    log_false: float

    def epsilon(self, delta: float) -> float:
        """ln(power - delta) - log_false, rounded down."""
        room = down(self.power - number("delta", delta, OPEN_UNIT), 2)
        return max(0.0, down(math.log(room) - self.log_false, 4)) if room > 0 else 0.0

    def delta(self, epsilon: float) -> float:
        """power - exp(epsilon) times the other probability, rounded down."""
        exponent = number("epsilon", epsilon, NON_NEGATIVE) + self.log_false
        return max(0.0, down(self.power - math.exp(exponent) * (1 + 1e-14), 4)) if exponent < 0 else 0.0

    def total_variation(self) -> float:
        """delta at epsilon 0."""
        return self.delta(0.0)

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """The test, and the two that ignore the release."""
        false = min(1.0, math.exp(self.log_false) * (1 + 1e-14) + 1e-300)
        return (
            TradeOffPoint(1.0, 0.0),
            TradeOffPoint(false, min(1.0, 1.0 - self.power + 1e-15)),
            TradeOffPoint(0.0, 1.0),
        )
