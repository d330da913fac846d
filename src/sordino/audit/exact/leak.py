"""What every exactly known pair of neighbours can answer, always from below."""

from typing import Protocol

from sordino.audit.trade_off import TradeOffPoint

CURVE_POINTS = 81


class Leak(Protocol):
    """How far two laws can be told apart; every answer is a lower bound, errors of tests are upper bounds."""

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that is not refuted at `delta`, rounded down."""
        ...

    def delta(self, epsilon: float) -> float:
        """The smallest delta that is not refuted at `epsilon`, rounded down."""
        ...

    def total_variation(self) -> float:
        """delta at epsilon 0."""
        ...

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Tests of falling false-positive rate, errors rounded up; empty where none are computed."""
        ...
