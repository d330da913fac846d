"""Exact audits of Propose-Test-Sample: what an SGLD draw on line 25 gives away.

The datasets are D3 and D4 of Heller & Fetaya: n_1 equal records of slope n_1^rho_3, or one of them with half the
covariate. All slopes are equal, so the cleaning keeps all records or none, and either both neighbours reach line 25
with all their data or nothing is drawn.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sordino.algorithm.propose_test_sample.cleaning import margin, slope_scale
from sordino.algorithm.propose_test_sample.least_records import least_records
from sordino.audit.exact.finding import Finding
from sordino.audit.exact.interim import interim_leak, turning_epoch
from sordino.audit.exact.one_test import OneTest
from sordino.core.errors import InputError
from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.core.validate import instance_of
from sordino.model.exact import InterimRegression

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
