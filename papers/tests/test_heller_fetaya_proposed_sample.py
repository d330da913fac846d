"""Propose-Test-Sample with an SGLD draw is not private (Claim IV.9)."""

from dataclasses import replace

import pytest

from papers.heller_fetaya.proposed_sample import chance_to_draw, sgld_variant_leak, variant_leak
from sordino.core.spec import ProposeTestSample, Sampler
from sordino.core.validate import InputError
from sordino.mechanisms.propose_test_sample import least_records

CLAIM = ProposeTestSample(2.5, 0.01, 0.5, 1.0, 1.0, 3.0, 0.49, 1.25, 0.45, Sampler.SGLD)
FEASIBLE = replace(CLAIM, epsilon=1.0, gamma1=0.35, rho1=1.12, rho2=0.3)


def test_at_the_parameters_of_the_claim_it_leaks_beyond_any_certificate():
    leak = sgld_variant_leak(CLAIM)
    assert leak.records > 1e100  # the third entry of n_min is a 50th power
    assert leak.slope == pytest.approx(float(leak.records) ** 1.15, rel=1e-9)
    assert leak.reached > 1 - 5 * CLAIM.delta
    assert leak.test.epsilon(2 * CLAIM.delta) > 1e40 > 5 * CLAIM.epsilon


def test_it_leaks_at_a_number_of_records_that_somebody_might_have():
    leak = sgld_variant_leak(FEASIBLE)
    assert leak.records == 10**12
    assert leak.test.epsilon(0.02) == pytest.approx(1372.3, abs=0.1)


def test_the_leak_grows_without_bound():
    """Claim IV.9: like n_1^(2 (rho_3 - 1)), here n_1^0.144, times the square of the epochs, which grow like log n_1."""
    leaks = [variant_leak(FEASIBLE, 10**power).test.epsilon(0.02) for power in (14, 24, 34)]
    assert leaks[1] / leaks[0] == pytest.approx(10**1.44 * (24 / 14) ** 2, rel=0.1)
    assert leaks[2] / leaks[1] == pytest.approx(10**1.44 * (34 / 24) ** 2, rel=0.1)


def test_too_few_records_never_reach_the_draw():
    needed = least_records(FEASIBLE, 0.0, 2.0)
    assert chance_to_draw(FEASIBLE, round(needed / 2), 100.0) == 0.0
    assert chance_to_draw(FEASIBLE, 3, 1.0) == 0.0


@pytest.mark.parametrize("change", [{"x_low": 0.6}, {"rho1": 1.4, "rho2": 0.05, "gamma1": 0.4}])
def test_parameters_outside_the_claim_are_refused(change):
    with pytest.raises(InputError):
        sgld_variant_leak(replace(FEASIBLE, **change))
