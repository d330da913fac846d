"""Two-sided answers: refine the grid until the upper and the lower law agree to the asked width."""

import math

import numpy as np

from sordino.core.loss.cumulant import Cumulant
from sordino.core.loss.evaluate import Factors, curve, tail_for
from sordino.core.loss.grid_law import Array, Side
from sordino.core.loss.pair import Request
from sordino.core.rounding import Bracket, sum_up, up

_START, _FINEST = 18.0, 800.0
_ROUNDS = 6
_STALLED = 0.8  # a finer grid that gains less than this is fighting rounding
_HOPELESS = 0.9  # a relative width that no finer grid has yet mended
_MISLED = 30.0  # a bracket this much wider than asked for has another cause than its grid
_OTHER_TILTS = (0.0, 0.4, 1.8, 3.5, 8.0)
# Far out in the tail a narrow bracket of delta costs much and tells little.
_DELTA_FINEST = 150.0
# Longer compositions pass through more stages and start on a finer grid.
_LONG = 20_000


def epsilon_bracket(factors: Factors, delta: float, width: float) -> Bracket:
    """Bracket of the smallest epsilon at `delta`, over both orders of the pair, of relative width `width`."""
    forward = _epsilon(factors, delta, width)
    backward = tuple((pair.reversed(), count) for pair, count in factors)
    if backward == factors:
        return forward
    # The other order usually loses clearly; then one upper bound is enough to dismiss it.
    cumulant = Cumulant.of(backward)
    request = Request(Side.UPPER, cumulant.tilt_for_delta(delta), _START, tail_for(delta, backward))
    if curve(backward, request, cumulant).epsilon(delta) <= forward.low:
        return forward
    other = _epsilon(backward, delta, width)
    return Bracket(max(forward.low, other.low), max(forward.high, other.high))


def delta_bracket(factors: Factors, epsilon: float, width: float) -> Bracket:
    """Bracket of delta at `epsilon`, over both orders of the pair, of relative width `width`."""
    forward = _delta(factors, epsilon, width)
    backward = tuple((pair.reversed(), count) for pair, count in factors)
    if backward == factors:
        return forward
    other = _delta(backward, epsilon, width)
    return Bracket(max(forward.low, other.low), max(forward.high, other.high))


def delta_curve(factors: Factors, epsilons: Array) -> Array:
    """Upper bounds on delta at many epsilons, from a few tilts: each law is valid everywhere and sharp nearby."""
    anchors = np.unique(np.quantile(epsilons, np.linspace(0, 1, 12), method="nearest"))
    sides = {factors, tuple((pair.reversed(), count) for pair, count in factors)}
    worst = np.zeros_like(epsilons)
    for direction in sides:
        cumulant, best = Cumulant.of(direction), np.ones_like(epsilons)
        for anchor in anchors:
            tilt = cumulant.tilt_for_epsilon(float(anchor))
            request = Request(Side.UPPER, tilt, _START, tail_for(_guess(cumulant, tilt, float(anchor)), direction))
            best = np.minimum(best, curve(direction, request, cumulant).deltas(epsilons))
        worst = np.maximum(worst, best)
    return worst


def _epsilon(factors: Factors, delta: float, width: float) -> Bracket:
    cumulant = Cumulant.of(factors)
    tilt, tail = cumulant.tilt_for_delta(delta), tail_for(delta, factors)
    low, high, resolution = 0.0, _largest_loss(factors, delta), _first_resolution(factors, width)
    now = math.inf
    for _ in range(_ROUNDS):
        upper = curve(factors, Request(Side.UPPER, tilt, resolution, tail), cumulant).epsilon(delta)
        lower = curve(factors, Request(Side.LOWER, tilt, resolution, tail), cumulant).epsilon(delta)
        low, high = max(low, lower), min(high, upper)
        before, now = now, high - low if high > low else 0.0
        done = now <= width * high or resolution >= _FINEST
        hopeless = math.isinf(high) or now > _HOPELESS * high
        if done or hopeless or (math.isfinite(before) and now > _STALLED * before):
            break
        resolution = _finer(resolution, now / high, width)
    if low < high and (math.isinf(high) or high - low > _MISLED * width * high):
        # The sketch chose a poor tilt (a loss with a narrow bulk and rare jumps); every tilt gives a valid answer.
        uppers = {
            factor * tilt: curve(factors, Request(Side.UPPER, factor * tilt, _START, tail), cumulant).epsilon(delta)
            for factor in _OTHER_TILTS
        }
        best = min(uppers, key=lambda other: uppers[other])
        lower = curve(factors, Request(Side.LOWER, best, _START, tail), cumulant).epsilon(delta)
        low, high = max(low, lower), min(high, uppers[best])
    return Bracket(min(low, high), high)


def _largest_loss(factors: Factors, delta: float) -> float:
    """What epsilon can never exceed: the sum of the largest losses, where infinite ones are rarer than delta."""
    if sum_up(count * pair.infinite for pair, count in factors) > delta * (1 - 1e-9):
        return math.inf
    return max(0.0, sum_up(up(count * pair.largest_loss) for pair, count in factors))


def _delta(factors: Factors, epsilon: float, width: float) -> Bracket:
    cumulant = Cumulant.of(factors)
    tilt = cumulant.tilt_for_epsilon(epsilon)
    tail = tail_for(_guess(cumulant, tilt, epsilon), factors)
    low, high, resolution = 0.0, 1.0, _START
    for _ in range(_ROUNDS):
        upper = curve(factors, Request(Side.UPPER, tilt, resolution, tail), cumulant).delta(epsilon)
        lower = curve(factors, Request(Side.LOWER, tilt, resolution, tail), cumulant).delta(epsilon)
        before, low, high = high - low, max(low, lower), min(high, upper)
        if high - low <= width * high or resolution >= _DELTA_FINEST or high - low > _STALLED * before:
            break
        resolution = min(_DELTA_FINEST, _finer(resolution, (high - low) / high, width))
    return Bracket(min(low, high), high)


def _first_resolution(factors: Factors, width: float) -> float:
    """A grid that usually reaches `width` at once; long compositions pass through more stages and need more."""
    usual = _START if sum(count for _, count in factors) <= _LONG else 1.7 * _START
    return min(_FINEST, max(6.0, usual * math.sqrt(1e-3 / width)))


def _finer(resolution: float, reached: float, width: float) -> float:
    """Errors fall with the square of the spacing; aim a little past the target."""
    return min(_FINEST, resolution * min(4.0, max(1.3, 1.1 * math.sqrt(reached / width))))


def _guess(cumulant: Cumulant, tilt: float, epsilon: float) -> float:
    """Chernoff's estimate of delta, only to decide how much tail may be cut."""
    if epsilon >= cumulant.largest:
        return 1e-30
    return min(1.0, max(1e-250, math.exp(min(0.0, cumulant.at(tilt)[0] - tilt * epsilon))))
