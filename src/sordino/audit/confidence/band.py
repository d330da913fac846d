"""Limits that hold for every threshold at once, so that the best one may be picked from the same scores.

The k-th smallest of n scores of the law F has F(below it) at most as large as the k-th smallest of n uniform numbers,
a Beta(k, n + 1 - k) variable. Ranks 1, 2, 3, 5, 8, 11, ..., about a standard deviation apart, get shares 1/2, 1/6,
1/12, ... (1 / ((j + 1)(j + 2)), which sum to 1) of the failure probability, and a threshold uses the next such rank
above its number of errors. The price of the free choice is thus a factor 2 in the failure probability where there are
no errors, and a few standard deviations where there are many.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.audit.confidence.attack_bound import epsilon_from_rates
from sordino.audit.confidence.clopper_pearson import upper_end
from sordino.audit.confidence.error_counts import ErrorCounts, each_failure
from sordino.audit.confidence.thresholds import Scores, error_curve
from sordino.audit.trade_off import TradeOffPoint
from sordino.core.validate import OPEN_UNIT, number, whole_number


def simultaneous_ends(trials: int, failure: float) -> NDArray[np.float64]:
    """Upper ends of an error rate by number of errors 0, ..., `trials`, valid for all thresholds together."""
    trials, failure = whole_number("trials", trials), number("failure", failure, OPEN_UNIT)
    ends = np.ones(trials + 1)
    before, level = 0, 0
    while before < trials:
        rank = min(1 + level * (level + 3) // 4, trials)
        ends[before:rank] = upper_end(rank - 1, trials, failure / ((level + 1) * (level + 2)))
        before, level = rank, level + 1
    return np.minimum.accumulate(ends[::-1])[::-1]


def band_epsilon(first: Scores, second: Scores, delta: float, confidence: float) -> NDArray[np.float64]:
    """The best bound over all thresholds of one score that was fixed beforehand, shape (...).

    Every model is counted: nothing is held back for the choice of a threshold.
    """
    curve = error_curve(first, second)
    failure = each_failure(confidence)
    first_ends = simultaneous_ends(np.shape(first)[-1], failure)
    second_ends = simultaneous_ends(np.shape(second)[-1], failure)
    bound = epsilon_from_rates(first_ends[curve.false_positives], second_ends[curve.false_negatives], delta)
    return np.where(curve.distinct, bound, 0.0).max(axis=-1)


class BandTest(NamedTuple):
    """One threshold: its errors as counted, and their upper ends, which hold together with those of all others."""

    counts: ErrorCounts
    point: TradeOffPoint


def band_tests(first: Scores, second: Scores, confidence: float) -> tuple[BandTest, ...]:
    """The thresholds worth keeping, by false positives: no other has both ends as low."""
    curve = error_curve(first, second)
    first_models, second_models = len(first), len(second)
    failure = each_failure(confidence)
    ends = [
        simultaneous_ends(trials, failure)[errors]
        for trials, errors in ((first_models, curve.false_positives), (second_models, curve.false_negatives))
    ]
    # Cuts run from low to high, so false positives fall and false negatives grow along them.
    kept: dict[float, BandTest] = {}
    for place in np.flatnonzero(curve.distinct):
        point = TradeOffPoint(float(ends[0][place]), float(ends[1][place]))
        counts = ErrorCounts(
            int(curve.false_positives[place]), first_models, int(curve.false_negatives[place]), second_models
        )
        kept.setdefault(point.false_positive, BandTest(counts, point))
    tests: list[BandTest] = []
    for test in kept.values():
        if tests and tests[-1].point.false_negative == test.point.false_negative:
            tests.pop()
        tests.append(test)
    return tuple(reversed(tests))


def band_cap(first_models: int, second_models: int, delta: float, confidence: float) -> float:
    """The most that a score fixed beforehand can prove with so many models, all thresholds tried."""
    failure = each_failure(confidence)
    ends = (float(simultaneous_ends(trials, failure)[0]) for trials in (first_models, second_models))
    return TradeOffPoint(*ends).epsilon(delta)
