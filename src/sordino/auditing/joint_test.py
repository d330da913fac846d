"""Both errors of one rule in one exact test, instead of two limits that share the failure probability.

A release that is (epsilon, delta)-private has f + e^epsilon g >= 1 - delta and g + e^epsilon f >= 1 - delta for the two
error rates f and g of any rule. Outcomes (errors on either side) are ordered by what two Clopper-Pearson limits would
prove, and epsilon is refuted when outcomes at least as far out are rarer than the failure probability for *all* rates
that it allows. Fewer errors are further out, so the chance falls in f and in g, and the largest is on the edge of the
allowed rates; the edge is cut into cells, and each cell is taken at its lower left corner, which is on the safe side.

Without errors the corner f = g decides: epsilon = log((1 - delta) / (1 - failure^(1 / 2n)) - 1) for n models a side,
5.378 instead of 4.418 for 250 of them at 90 %. With the order of the limits themselves the test is never weaker than
they are, so the larger of the two is reported.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.auditing.confidence import ErrorCounts, each_failure, epsilon_lower, upper_end
from sordino.core.gaussian import narrow
from sordino.core.validate import OPEN_UNIT, instance_of, number

# How often a cell of the edge is halved, at most.
_HALVINGS = 9
_CELLS = 16
# With more models the two limits are as good to a few thousandths, unless there are no errors at all, and quicker.
_MOST_MODELS = 5000
# Halvings of the interval of epsilon: an answer is at most so little below what the test allows.
_STEPS = 12
# Bounds so small are good enough as they are.
_RARE = 1e-9
_ROUNDING = 1e-9
# Numbers of errors that matter together lie this many standard deviations around their mean.
_WIDE = 9.0


def joint_epsilon(counts: ErrorCounts, delta: float, confidence: float) -> float:
    """The largest epsilon that these errors refute at `delta`, rounded down; 0 when they refute none.

    >>> round(joint_epsilon(ErrorCounts(0, 250, 0, 250), 1e-9, 0.90), 1)
    5.4
    """
    counts = instance_of("counts", counts, ErrorCounts)
    return _joint(counts, number("delta", delta, OPEN_UNIT), number("confidence", confidence, OPEN_UNIT))


def joint_cap(first_models: int, second_models: int, delta: float, confidence: float) -> float:
    """The most that one rule on so many models can prove: the bound of one that never errs."""
    return joint_epsilon(ErrorCounts(0, first_models, 0, second_models), delta, confidence)


@lru_cache(maxsize=4096)
def _joint(counts: ErrorCounts, delta: float, confidence: float) -> float:
    least = epsilon_lower(counts, delta, confidence)
    many = max(counts.first_models, counts.second_models) > _MOST_MODELS
    if least == 0.0 or (many and counts.false_positives + counts.false_negatives > 0):
        return least
    outcomes = _Outcomes.beyond(counts, least, delta, confidence)
    failure = 1.0 - confidence

    def allowed(epsilon: float) -> bool:
        return _possible(outcomes, epsilon, delta, failure)

    if allowed(least):
        return least
    step = 0.25
    while not allowed(least + step):
        step *= 2
    return narrow(allowed, least, least + step, near=0.0, halvings=_STEPS)[0]


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Numbers of errors at least as far out: `first` of them on one side, and then at most `second` on the other."""

    counts: ErrorCounts
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    log_ways: NDArray[np.float64]

    @classmethod
    def beyond(cls, counts: ErrorCounts, level: float, delta: float, confidence: float) -> "_Outcomes":
        """All for which the two limits prove `level` at least."""
        failure, n = each_failure(confidence), counts.first_models
        limits = [upper_end(np.arange(models + 1), models, failure) for models in (n, counts.second_models)]
        # A little less than the level, so that rounding leaves no outcome out that is as far.
        level *= 1 - 1e-12
        room = np.maximum((1 - delta - limits[0]) * math.exp(-level), 1 - delta - math.exp(level) * limits[0])
        most = np.searchsorted(limits[1], room * (1 + 1e-12), side="right") - 1
        first = np.flatnonzero(most >= 0).astype(float)
        ways = special.gammaln(n + 1.0) - special.gammaln(first + 1.0) - special.gammaln(n - first + 1.0)
        return cls(counts, first, most[most >= 0].astype(float), ways)

    def chances(self, f: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
        """P[so far out] for pairs of error rates, rounded up."""
        n, models = self.counts.first_models, self.counts.second_models
        # Neither side alone is further out than both: cheap, and enough for most pairs.
        chances = np.minimum(special.bdtr(self.first[-1], n, f), special.bdtr(self.second.max(), models, g))
        for place in np.flatnonzero(chances > _RARE):
            # Sums of errors so far from their mean are left out: less than the slack.
            middle, wide = n * f[place], _WIDE * math.sqrt(n * f[place] * (1 - f[place])) + 40
            near = slice(*np.searchsorted(self.first, [middle - wide, middle + wide]))
            errors = self.first[near]
            log_mass = self.log_ways[near] + special.xlogy(errors, f[place]) + special.xlog1py(n - errors, -f[place])
            chances[place] = np.exp(log_mass) @ special.bdtr(self.second[near], models, g[place])
        return chances * (1 + _ROUNDING) + 1e-15


def _possible(outcomes: _Outcomes, epsilon: float, delta: float, failure: float) -> bool:
    """Whether some rates on the edge of what epsilon allows make an outcome so far out likelier than `failure`."""
    corner = (1 - delta) / (1 + math.exp(epsilon))
    # From the corner f = g along both edges, where one error grows to 1 - delta and the other falls to 0.
    ends = corner + (1 - delta - corner) * np.linspace(0.0, 1.0, _CELLS + 1) ** 3
    low, high = np.tile(ends[:-1], 2), np.tile(ends[1:], 2)
    flipped = np.repeat([False, True], _CELLS)
    for _ in range(_HALVINGS):
        # Whether a point of the edge itself is likelier decides; a cell that is rarer at its corner is done with.
        if np.any(_at(outcomes, low, _shorter(low, epsilon, delta), flipped) > failure):
            return True
        open_ = _at(outcomes, low, _shorter(high, epsilon, delta), flipped) > failure
        if not open_.any():
            return False
        low, high, flipped = low[open_], high[open_], np.tile(flipped[open_], 2)
        middle = 0.5 * (low + high)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return True


def _shorter(long: NDArray[np.float64], epsilon: float, delta: float) -> NDArray[np.float64]:
    return np.maximum((1 - delta - long) * math.exp(-epsilon), 0.0)


def _at(
    outcomes: _Outcomes, long: NDArray[np.float64], short: NDArray[np.float64], flipped: NDArray[np.bool_]
) -> NDArray[np.float64]:
    return outcomes.chances(np.where(flipped, short, long), np.where(flipped, long, short))
