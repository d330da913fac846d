"""Leaks known through single events: a test whose two probabilities are known, and two-valued releases."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from sordino.algorithm.propose_test_sample import least_records, margin, slope_scale
from sordino.auditing.exact.leak import Finding
from sordino.auditing.lower_bound import TradeOffPoint
from sordino.core.arrays import Array
from sordino.core.gaussian import down, widen_down
from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, InputError, Interval, instance_of, number
from sordino.model.exact import InterimRegression, interim_lower_bound
from sordino.model.exact.line import log_sum


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


# SGLD between its first steps and convergence: Heller & Fetaya's counterexample at any size, by closed form.
#
# The paper tests {theta >= mean}. The ratio of the two densities increases along the line wherever the chain can be,
# so half-lines are the right tests; moving the threshold trades power for far fewer false alarms, and left half-lines
# serve the other direction of the definition. The best of both is found here.

_MOST_POWER = Interval(0.0, 0.5, high_open=True)
# The positions of the odd record are integrated over; the integral agrees with the sum to far better than this.
_ACCURACY = 1e-9
# Panels, because the chance that an odd dataset's iterate lies left of a point is nearly a step in the position.
_PANELS, _PER_PANEL = 16, 10
_LOOKS, _CUTS = 25, 22
_GAUSS = np.polynomial.legendre.leggauss(_PER_PANEL)
_NODES: Array = ((np.arange(_PANELS)[:, None] + (_GAUSS[0] + 1) / 2) / _PANELS).reshape(-1)
_LOG_WEIGHTS: Array = np.log(np.tile(_GAUSS[1] / (2 * _PANELS), _PANELS))


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
        found = (
            _summed(problem, epochs, delta, thresholds[0], -1.0),
            _summed(problem, epochs, delta, thresholds[1], 1.0),
        )
    else:
        found = right(thresholds[0]), left(thresholds[1])
    best = 0 if found[0] >= found[1] else 1
    return thresholds[best], max(0.0, widen_down(found[best], _ACCURACY))


def _summed(problem: InterimRegression, epochs: int, delta: float, z: float, side: float) -> float:
    """The bound of one half-line, position by position; side -1 is the right one."""
    deviation = math.sqrt(float(problem.law(epochs).covariance[0, 0]))

    def log_mass(positions: Array) -> Array:
        distance = problem.gap(epochs, positions) + z * deviation
        return special.log_ndtr(side * distance / problem.deviation(epochs, positions))

    odd, equal = problem.log_average(log_mass, every_position=True), float(special.log_ndtr(side * z))
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


def turning_epoch(problem: InterimRegression) -> int:
    """The epoch of Lemma A.6, ceil(k) + 1: about where what is left of the prior is as wide as the noise put in."""
    precision = problem.prior_precision + problem.n * problem.x**2 * problem.noise_precision
    log_factor = math.log1p(-problem.step_factor / precision)
    # (1 - lambda^2) / (alpha step), with the step 2 factor / precision^2 divided out before anything overflows.
    ratio = -math.expm1(2 * log_factor) / problem.step_factor * (precision / 2) * (precision / problem.prior_precision)
    return math.ceil(math.log1p(ratio) / (-2 * problem.n * log_factor) - 1) + 1


def stated_leak(problem: InterimRegression, delta: float) -> float:
    """Lemma A.9's lower bound at the turning epoch, as stated: far below the truth, but it grows like (c / n)^2."""
    delta = number("delta", delta, _MOST_POWER)
    curvature = problem.x**2 * problem.noise_precision
    widest = max(6.0, 1 + 2 * math.exp(1 / curvature))
    shrink = math.exp(-2 / curvature) * problem.prior_precision / (2 * widest) * (3 / (32 * curvature)) ** 2
    return max(0.0, shrink * (problem.c / problem.n) ** 2 + math.log(0.5 - delta))


# Exact audits of Propose-Test-Sample: what an SGLD draw on line 25 gives away.
#
# The datasets are D3 and D4 of Heller & Fetaya: n_1 equal records of slope n_1^rho_3, or one of them with half the
# covariate. All slopes are equal, so the cleaning keeps all records or none, and either both neighbours reach line 25
# with all their data or nothing is drawn.

_POWERS = range(2, 146)
_REACHED = 0.9
_FAILURE = 1e-9
# rho_3 of (34) is 1.15 where rho_1 is 1.25.
_SHARE = 0.6


@dataclass(frozen=True)
class ProposedLeak:
    """What the SGLD variant gives away on n_1 records.

    Attributes:
        records: n_1.
        slope: the common slope n_1^rho_3.
        epochs: passes of SGLD, the epoch of Lemma A.6.
        reached: lower bound on the probability that line 25 is reached with all the data.
        log_false: upper bound on the log-probability of the test under the second neighbour.
    """

    records: int
    slope: float
    epochs: int
    reached: float
    log_false: float

    @property
    def test(self) -> OneTest:
        """{a slope above the mean under equal records is drawn}."""
        return OneTest(self.reached / 2 * (1 - 1e-12), self.log_false)


def proposed_findings(spec: Spec) -> Iterator[Finding]:
    """A large slope drawn by SGLD; with an exact draw no event with a known probability gives anything away."""
    run: ProposeTestSample = instance_of("spec.algorithm", spec.algorithm, ProposeTestSample)
    if run.sampler is Sampler.EXACT:
        raise InputError(
            "Expected the sampler sgld for an exact audit of Propose-Test-Sample, got exact; the law of its answers "
            "over the random cleaning is not known."
        )
    leak = sgld_variant_leak(run)
    yield Finding(
        leak.test,
        f"{leak.records:.3g} equal records of slope {leak.slope:.4g} or one with half the covariate, "
        f"after {leak.epochs} epochs of SGLD",
    )


def sgld_variant_leak(run: ProposeTestSample) -> ProposedLeak:
    """The smallest power of ten of records that reaches line 25 nearly always, and what SGLD gives away there."""
    if run.x_low > run.x_high / 2:
        raise InputError(
            f"Expected x_low of at most x_high / 2 = {run.x_high / 2!r} for the neighbours of Claim IV.9, "
            f"got {run.x_low!r}."
        )
    for power in _POWERS:
        if chance_to_draw(run, 10**power, _slope(run, 10**power)) >= _REACHED:
            return variant_leak(run, 10**power)
    raise InputError(
        f"Expected parameters for which the tests pass with at most 10^{_POWERS[-1]} records, got none; "
        "Claim IV.9 needs 1 + rho2 > rho1."
    )


def _slope(run: ProposeTestSample, records: int) -> float:
    """n_1^rho_3."""
    return math.exp((1 + _SHARE * (run.rho1 - 1)) * math.log(records))


def variant_leak(run: ProposeTestSample, records: int) -> ProposedLeak:
    """What SGLD gives away on so many records, at the epoch of Lemma A.6."""
    slope = _slope(run, records)
    problem = InterimRegression(
        n=records,
        c=slope,
        prior_precision=run.alpha,
        noise_precision=run.beta,
        x=run.x_high,
        step_factor=0.5,
    )
    epochs = turning_epoch(problem)
    # ln(1/2 - delta) - ln Q at delta = 0 gives the log-probability under the second neighbour back.
    exact = interim_leak(problem, epochs, 0.0).exact
    return ProposedLeak(records, slope, epochs, chance_to_draw(run, records, slope), math.log(0.5) - exact)


def chance_to_draw(run: ProposeTestSample, records: int, slope: float) -> float:
    """A lower bound on the probability that line 25 is reached with all of n_1 records of this slope.

    The three noisy counts stay within `room` of their centres except with probability _FAILURE each; then the worst
    of what is left decides: the widest noise on the slope, the largest n_min, the smallest noisy count.
    """
    room = -math.log(_FAILURE) / run.epsilon
    least, most = records - margin(run) - room, records - margin(run) + room
    if least <= 2 or least**run.rho1 < slope:
        return 0.0
    reach = least**run.rho2
    missed = math.exp(-reach / slope_scale(run, most**run.rho1, least))
    if least < least_records(run, slope + most**run.rho2, most):
        return 0.0
    return max(0.0, 1.0 - 3 * _FAILURE - missed)
