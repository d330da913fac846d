"""Propose-Test-Sample with SGLD: what an SGLD draw on line 25 gives away, by one test of known probabilities.

The datasets are D3 and D4 of Heller & Fetaya: n_1 equal records of slope n_1^rho_3, or one of them with half the
covariate. All slopes are equal, so the cleaning keeps all records or none, and either both neighbours reach line 25
with all their data or nothing is drawn.
"""

import math
from dataclasses import dataclass

from scipy import special

from papers.heller_fetaya.interim_regression import InterimRegression
from sordino.core.arrays import Array
from sordino.core.gaussian import down, widen_down
from sordino.core.spec import ProposeTestSample
from sordino.core.validate import OPEN_UNIT, InputError, number
from sordino.mechanisms.propose_test_sample import least_records, margin, slope_scale

# The positions of the odd record are integrated over; the integral agrees with the sum to far better than this.
_ACCURACY = 1e-9
_POWERS = range(2, 146)
_REACHED = 0.9
_FAILURE = 1e-9
# rho_3 of (34) is 1.15 where rho_1 is 1.25.
_SHARE = 0.6


@dataclass(frozen=True)
class OneTest:
    """An event of probability at least `power` under the first neighbour, at most exp(`log_false`) under the second."""

    power: float
    log_false: float

    def epsilon(self, delta: float) -> float:
        """ln(power - delta) - log_false, rounded down."""
        room = down(self.power - number("delta", delta, OPEN_UNIT), 2)
        return max(0.0, down(math.log(room) - self.log_false, 4)) if room > 0 else 0.0


@dataclass(frozen=True)
class ProposedLeak:
    """What the SGLD variant gives away on n_1 records.

    `reached` is a lower bound on the chance to reach line 25 with all the data, `log_false` an upper bound on the
    log-probability of the test under the second neighbour, after the `epochs` of Lemma A.6.
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
    problem = InterimRegression(records, slope, run.alpha, run.beta, run.x_high, step_factor=0.5)
    epochs = turning_epoch(problem)

    def log_tail(positions: Array) -> Array:
        return special.log_ndtr(-problem.gap(epochs, positions) / problem.deviation(epochs, positions))

    # The test has power 1/2: ln(1/2) - ln Q, rounded down, gives the log-probability under the second neighbour back.
    leak = max(0.0, widen_down(math.log(0.5) - problem.log_average(log_tail), _ACCURACY))
    return ProposedLeak(records, slope, epochs, chance_to_draw(run, records, slope), math.log(0.5) - leak)


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


def turning_epoch(problem: InterimRegression) -> int:
    """The epoch of Lemma A.6, ceil(k) + 1: about where what is left of the prior is as wide as the noise put in."""
    precision = problem.prior_precision + problem.n * problem.x**2 * problem.noise_precision
    log_factor = math.log1p(-problem.step_factor / precision)
    # (1 - lambda^2) / (alpha step), with the step 2 factor / precision^2 divided out before anything overflows.
    ratio = -math.expm1(2 * log_factor) / problem.step_factor * (precision / 2) * (precision / problem.prior_precision)
    return math.ceil(math.log1p(ratio) / (-2 * problem.n * log_factor) - 1) + 1
