"""From error rates to epsilon, with a joint confidence, and the most that so many models could have shown.

Upper ends of both error rates give a lower bound on epsilon (`sordino.audit.trade_off`); they hold together with the
stated confidence, and so does the bound, at every delta at once.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.audit.confidence.error_counts import ErrorCounts
from sordino.audit.trade_off import TradeOffPoint
from sordino.core.validate import OPEN_UNIT, number, whole_number

_ROUNDING = 1e-14


def trade_off_point(counts: ErrorCounts, confidence: float) -> TradeOffPoint:
    """The test with its upper ends: with this joint confidence it errs no more often than that."""
    return TradeOffPoint(*counts.upper_ends(confidence))


def epsilon_lower(counts: ErrorCounts, delta: float, confidence: float) -> float:
    """Lower bound on epsilon at `delta` that holds with joint confidence `confidence`."""
    return trade_off_point(counts, confidence).epsilon(delta)


def cap(first_models: int, second_models: int, delta: float, confidence: float) -> float:
    """The most an attack on so many models can prove: the bound of one that never errs.

    >>> round(cap(500, 500, 1e-9, 0.90), 2)
    5.11
    """
    counts = ErrorCounts(0, whole_number("first_models", first_models), 0, whole_number("second_models", second_models))
    return epsilon_lower(counts, delta, confidence)


def epsilon_from_rates(false_positive: ArrayLike, false_negative: ArrayLike, delta: float) -> NDArray[np.float64]:
    """`epsilon_from_errors` of many tests at once; both rates are above 0."""
    delta = number("delta", delta, OPEN_UNIT)
    first, second = np.broadcast_arrays(np.asarray(false_positive, float), np.asarray(false_negative, float))
    return np.maximum(_one_side(first, second, delta), _one_side(second, first, delta))


def _one_side(subtracted: NDArray[np.float64], divisor: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    power = np.maximum(1.0 - delta - subtracted, 0.0)
    epsilon = np.log(np.maximum(power / divisor, 1.0))
    return np.maximum(epsilon - _ROUNDING * (1 + epsilon) / np.maximum(power, 1e-3), 0.0)
