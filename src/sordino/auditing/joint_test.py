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
_ROUNDING = 1e-9
# Numbers of errors that matter together lie this many standard deviations around their mean.
_WIDE = 9.0


def joint_epsilon(counts: ErrorCounts, delta: float, confidence: float) -> float:
    """The largest epsilon that these errors refute at `delta`, rounded down; 0 when they refute none.

    >>> round(joint_epsilon(ErrorCounts(0, 250, 0, 250), 1e-9, 0.90), 2)
    5.37
    """
    counts = instance_of("counts", counts, ErrorCounts)
    return _joint(counts, number("delta", delta, OPEN_UNIT), number("confidence", confidence, OPEN_UNIT))


def joint_cap(first_models: int, second_models: int, delta: float, confidence: float) -> float:
    """The most that one rule on so many models can prove: the bound of one that never errs."""
    return joint_epsilon(ErrorCounts(0, first_models, 0, second_models), delta, confidence)


@lru_cache(maxsize=4096)
def _joint(counts: ErrorCounts, delta: float, confidence: float) -> float:
    least = epsilon_lower(counts, delta, confidence)
    if least == 0.0:
        return 0.0
    most_second = _outer(counts, least, delta, confidence)
    failure = 1.0 - confidence

    def allowed(epsilon: float) -> bool:
        return _possible(counts, most_second, epsilon, delta, failure)

    if allowed(least):
        return least
    step = 0.5
    while not allowed(least + step):
        step *= 2
    return narrow(allowed, least, least + step, near=0.0, halvings=24)[0]


def _outer(counts: ErrorCounts, level: float, delta: float, confidence: float) -> NDArray[np.int64]:
    """The most errors on the second side, by errors on the first, with which the limits prove `level`; -1 for none."""
    failure = each_failure(confidence)
    first = upper_end(np.arange(counts.first_models + 1), counts.first_models, failure)
    second = upper_end(np.arange(counts.second_models + 1), counts.second_models, failure)
    # A little less than the level, so that rounding leaves no outcome out that is as far.
    level *= 1 - 1e-12
    room = np.maximum((1 - delta - first) * math.exp(-level), 1 - delta - math.exp(level) * first)
    return np.searchsorted(second, room * (1 + 1e-12), side="right").astype(np.int64) - 1


def _possible(
    counts: ErrorCounts, most_second: NDArray[np.int64], epsilon: float, delta: float, failure: float
) -> bool:
    """Whether some rates on the edge of what epsilon allows make an outcome so far out likelier than `failure`."""
    corner = (1 - delta) / (1 + math.exp(epsilon))
    inside = np.flatnonzero(most_second >= 0)
    if not len(inside):
        return False

    def chance(long: float, short: float, flipped: bool) -> float:
        rates = (short, long) if flipped else (long, short)
        return _chance(counts, inside, most_second[inside], *rates) * (1 + _ROUNDING)

    # From the corner f = g along both edges, where one error grows to 1 - delta and the other falls to 0.
    ends = corner + (1 - delta - corner) * np.linspace(0.0, 1.0, _CELLS + 1) ** 3
    cells = [
        (float(low), float(high), 0, flipped) for low, high in zip(ends[:-1], ends[1:], strict=True) for flipped in (0, 1)
    ]
    while cells:
        low, high, depth, flipped = cells.pop()
        # A cell has at least the smaller of the longer error, and the smaller of the shorter one.
        shortest = max((1 - delta - high) * math.exp(-epsilon), 0.0)
        if chance(low, shortest, bool(flipped)) <= failure:
            continue
        on_edge = max((1 - delta - low) * math.exp(-epsilon), 0.0)
        if depth == _HALVINGS or chance(low, on_edge, bool(flipped)) > failure:
            return True
        middle = 0.5 * (low + high)
        cells += [(middle, high, depth + 1, flipped), (low, middle, depth + 1, flipped)]
    return False


def _chance(counts: ErrorCounts, errors: NDArray[np.int64], room: NDArray[np.int64], f: float, g: float) -> float:
    """P[errors on the second side <= what the first side leaves room for], rounded up."""
    n = counts.first_models
    # Neither side alone is further out than both: cheap, and enough for most cells.
    either = min(special.bdtr(float(errors[-1]), n, f), special.bdtr(float(room.max()), counts.second_models, g))
    if either < 1e-12:
        return float(either)
    middle, wide = n * f, _WIDE * math.sqrt(n * f * (1 - f)) + 40
    near = slice(*np.searchsorted(errors, [middle - wide, middle + wide]))
    errors, room = errors[near], room[near]
    log_mass = (
        special.gammaln(n + 1.0)
        - special.gammaln(errors + 1.0)
        - special.gammaln(n - errors + 1.0)
        + special.xlogy(errors, f)
        + special.xlog1py(n - errors, -f)
    )
    return float(np.exp(log_mass) @ special.bdtr(room.astype(float), counts.second_models, g)) + 1e-15
