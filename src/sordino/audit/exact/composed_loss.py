"""Steps that are all seen: the loss of the whole is the sum of independent losses, one for each step."""

from dataclasses import dataclass

from sordino.audit.trade_off import TradeOffPoint
from sordino.core.guarantee import LossDistribution
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, number


@dataclass(frozen=True)
class ComposedLoss:
    """The exact composition, read from the lower end of its brackets."""

    losses: LossDistribution

    def epsilon(self, delta: float) -> float:
        """The lower end of the bracket."""
        return self.losses.epsilon_bracket(number("delta", delta, OPEN_UNIT)).low

    def delta(self, epsilon: float) -> float:
        """The lower end of the bracket."""
        return self.losses.delta_bracket(number("epsilon", epsilon, NON_NEGATIVE)).low

    def total_variation(self) -> float:
        """delta at epsilon 0."""
        return self.delta(0.0)

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """None: a bracket of the loss says nothing about single tests."""
        return ()
