"""Errors of a test between two neighbours, and the epsilon that they prove."""

import math
from dataclasses import dataclass

from sordino.core.rounding import down, up
from sordino.core.validate import OPEN_UNIT, PROBABILITY, number


@dataclass(frozen=True)
class TradeOffPoint:
    """A test that exists: its error probabilities are at most these (with the confidence of the audit that found it).

    `false_positive` is the chance to answer "second" when the first dataset was used, `false_negative` the converse.
    """

    false_positive: float
    false_negative: float

    def __post_init__(self) -> None:
        for name in ("false_positive", "false_negative"):
            object.__setattr__(self, name, number(name, getattr(self, name), PROBABILITY))

    def epsilon(self, delta: float) -> float:
        """The epsilon this test proves at `delta`, rounded down."""
        return epsilon_from_errors(self.false_positive, self.false_negative, delta)


def epsilon_from_errors(false_positive: float, false_negative: float, delta: float) -> float:
    """max{0, ln((1 - delta - FP) / FN), ln((1 - delta - FN) / FP)}, rounded down; infinite when an error is 0.

    An (epsilon, delta)-private mechanism satisfies FP + exp(epsilon) FN >= 1 - delta and the same with the errors
    exchanged (Kairouz, Oh & Viswanath 2017, Theorem 2.1). Give upper bounds on the errors to get a lower bound.
    """
    point = TradeOffPoint(false_positive, false_negative)
    delta = number("delta", delta, OPEN_UNIT)
    return max(
        _log_ratio(delta, point.false_positive, point.false_negative),
        _log_ratio(delta, point.false_negative, point.false_positive),
    )


def _log_ratio(delta: float, subtracted: float, divisor: float) -> float:
    power = down(1.0 - up(delta + subtracted))
    if power <= 0.0 or power <= divisor:
        return 0.0
    if divisor == 0.0:
        return math.inf
    # Two logarithms, each within a unit in the last place; their difference cannot overflow as the quotient might.
    top, bottom = math.log(power), math.log(divisor)
    return max(0.0, down(down(top, 2) - up(bottom, 2), 2))
