"""SGLD between its first steps and convergence: Heller & Fetaya's counterexample at any size, by closed form.

The paper tests {theta >= mean}. The ratio of the two densities increases along the line wherever the chain can be, so
half-lines are the right tests; moving the threshold trades power for far fewer false alarms, and left half-lines serve
the other direction of the definition. The best of both is found here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from papers.heller_fetaya.interim_regression import InterimRegression
from sordino.core.arrays import Array
from sordino.core.gaussian import widen_down
from sordino.core.validate import COUNT, Interval, number, whole_number
from sordino.models.exact.line import log_sum

_CHUNK = 1 << 20
_MOST_POWER = Interval(0.0, 0.5, high_open=True)
# The positions of the odd record are integrated over; the integral agrees with the sum to far better than this.
_ACCURACY = 1e-9
# Panels, because the chance that an odd dataset's iterate lies left of a point is nearly a step in the position.
_PANELS, _PER_PANEL = 16, 10
_LOOKS, _CUTS = 25, 22
_GAUSS = np.polynomial.legendre.leggauss(_PER_PANEL)
_NODES: Array = ((np.arange(_PANELS)[:, None] + (_GAUSS[0] + 1) / 2) / _PANELS).reshape(-1)
_LOG_WEIGHTS: Array = np.log(np.tile(_GAUSS[1] / (2 * _PANELS), _PANELS))


def interim_lower_bound(
    problem: InterimRegression, epochs: int, delta: float, *, exact: bool, every_position: bool = False
) -> float:
    """Lower bound on epsilon at `delta` after so many epochs, from the test set {theta >= mean under D1}.

    max(0, ln(1/2 - delta) - ln Avg_r D2_r(set)); D2_r(set) by its exact normal tail or by Chernoff's bound on it
    (Heller & Fetaya, section IV). Positions are integrated over unless `every_position` asks for the sum.
    """
    delta = number("delta", delta, _MOST_POWER)
    epochs = whole_number("epochs", epochs, COUNT)

    def log_mass(positions: Array) -> Array:
        z = problem.gap(epochs, positions) / problem.deviation(epochs, positions)
        return special.log_ndtr(-z) if exact else -0.5 * z * z

    mass = _log_average_of_all(problem, log_mass) if every_position else problem.log_average(log_mass)
    return max(0.0, math.log(0.5 - delta) - mass)


def _log_average_of_all(problem: InterimRegression, log_function: Callable[[Array], Array]) -> float:
    """What `log_average` integrates, position by position, in chunks."""
    starts = range(0, problem.n, _CHUNK)
    parts = [log_sum(log_function(np.arange(at, min(at + _CHUNK, problem.n), dtype=float))) for at in starts]
    return float(log_sum(np.array(parts, float))) - math.log(problem.n)


@dataclass(frozen=True)
class InterimLeak:
    """Lower bounds on epsilon after so many epochs: by Chernoff, by exact tails, and with the best half-line."""

    epochs: int
    delta: float
    chernoff: float
    exact: float
    best: float
    threshold: float


def interim_leak(problem: InterimRegression, epochs: int, delta: float, *, every_position: bool = False) -> InterimLeak:
    """All three bounds; `threshold` is the best test's, in deviations above the mean under the equal records."""
    delta = number("delta", delta, _MOST_POWER)
    chernoff, exact = (
        widen_down(interim_lower_bound(problem, epochs, delta, exact=way, every_position=every_position), _ACCURACY)
        for way in (False, True)
    )
    threshold, best = _best_half_line(problem, epochs, delta, every_position=every_position)
    return InterimLeak(epochs, delta, max(0.0, chernoff), max(0.0, exact), max(0.0, exact, best), threshold)


def _best_half_line(
    problem: InterimRegression, epochs: int, delta: float, *, every_position: bool
) -> tuple[float, float]:
    """The better of the best right half-line (few of the odd datasets' iterates) and the best left one (many)."""
    deviation = math.sqrt(float(problem.law(epochs).covariance[0, 0]))
    # While searching, the positions are nodes whose distances and deviations are computed once.
    at = _NODES * problem.n - 0.5
    gaps, spreads = problem.gap(epochs, at), problem.deviation(epochs, at)

    def right(z: float) -> float:
        power = float(special.ndtr(-z)) - delta
        return _log(power) - _log_mean(special.log_ndtr(-(gaps + z * deviation) / spreads))

    def left(z: float) -> float:
        power = math.exp(_log_mean(special.log_ndtr((gaps + z * deviation) / spreads))) - delta
        return _log(power) - float(special.log_ndtr(z))

    # Beyond these thresholds a test has no power left.
    reach = float(np.max(gaps / deviation)) + 9.0
    thresholds = _maximiser(right, -8.0, 9.0), _maximiser(left, -reach, 8.0)
    if every_position:
        bounds = (
            _summed(problem, epochs, delta, thresholds[0], -1.0),
            _summed(problem, epochs, delta, thresholds[1], 1.0),
        )
    else:
        bounds = right(thresholds[0]), left(thresholds[1])
    best = 0 if bounds[0] >= bounds[1] else 1
    return thresholds[best], max(0.0, widen_down(bounds[best], _ACCURACY))


def _summed(problem: InterimRegression, epochs: int, delta: float, z: float, side: float) -> float:
    """The bound of one half-line, position by position; side -1 is the right one."""
    deviation = math.sqrt(float(problem.law(epochs).covariance[0, 0]))

    def log_mass(positions: Array) -> Array:
        distance = problem.gap(epochs, positions) + z * deviation
        return special.log_ndtr(side * distance / problem.deviation(epochs, positions))

    odd, equal = _log_average_of_all(problem, log_mass), float(special.log_ndtr(side * z))
    first, second = (equal, odd) if side < 0 else (odd, equal)
    return _log(math.exp(first) - delta) - second


def _log(power: float) -> float:
    return math.log(power) if power > 0.0 else -math.inf


def _log_mean(logs: Array) -> float:
    """log of the average over positions, from the values at the nodes."""
    return float(log_sum(logs + _LOG_WEIGHTS))


def _maximiser(function: Callable[[float], float], low: float, high: float) -> float:
    """A coarse look, because a test without power scores minus infinity, then golden section; any point is valid."""
    grid = np.linspace(low, high, _LOOKS)
    place = int(np.argmax([function(float(point)) for point in grid]))
    low, high = float(grid[max(0, place - 1)]), float(grid[min(_LOOKS - 1, place + 1)])
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(_CUTS):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if function(left) >= function(right) else (left, high)
    return low if function(low) >= function(high) else high


def stated_leak(problem: InterimRegression, delta: float) -> float:
    """Lemma A.9's lower bound at the turning epoch, as stated: far below the truth, but it grows like (c / n)^2."""
    delta = number("delta", delta, _MOST_POWER)
    curvature = problem.x**2 * problem.noise_precision
    widest = max(6.0, 1 + 2 * math.exp(1 / curvature))
    shrink = math.exp(-2 / curvature) * problem.prior_precision / (2 * widest) * (3 / (32 * curvature)) ** 2
    return max(0.0, shrink * (problem.c / problem.n) ** 2 + math.log(0.5 - delta))
