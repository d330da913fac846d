"""Theorem IV.1 of Heller & Fetaya: a private posterior whose SGLD sample leaks."""

import math
from fractions import Fraction

import numpy as np
import pytest

from papers.heller_fetaya.counterexample import Counterexample, Domain, construct
from sordino.accounting.theorems.posterior import linear_regression
from sordino.core.validate import InputError
from sordino.models.exact import GaussianLaw
from tests.accounting.described import described, guarantee
from tests.models.exact.laws import epsilon_at

PAPER = Domain(alpha=2.0, beta=1.0, x_high=1.8, gamma1=0.1)
N = 17_864_389


def test_the_largest_power_of_the_papers_figure_is_that_of_section_six():
    power = PAPER.largest_power(N, 0.5, 1e-3)
    assert f"{power:.10f}" == "1.1455777897"
    found = Counterexample(PAPER, N, power)
    assert found.c == pytest.approx(2.0310e8, rel=1e-4)
    assert found.posterior_epsilon(1e-3) <= 0.285
    assert found.interim_epsilon(1e-3, 25) == pytest.approx(3692.0, abs=0.05)
    # A larger power is no longer certified by the claim, and at 1.22 not by Lemma A.1 itself either.
    assert PAPER.log_records_for_posterior(power * (1 + 1e-9), 0.5, 1e-3) > np.log(N)
    assert Counterexample(PAPER, N, 1.22).posterior_epsilon(1e-3) > 0.5


TARGETS = [(0.5, 10.0, 1e-3), (0.1, 100.0, 1e-3), (1.0, 1.0, 1e-2), (0.5, 1000.0, 1e-5), (1.0, 38.0, 1e-3)]
OTHERS = [Domain(1.0, 4.0, 1.0, 0.05), Domain(3.0, 40.0, 0.5, 0.02)]
CASES = [(PAPER, *target) for target in TARGETS] + [(domain, 1.0, 3.0, 1e-2) for domain in OTHERS]


@pytest.mark.parametrize(("domain", "epsilon", "interim", "delta"), CASES)
def test_the_construction_keeps_both_promises(domain, epsilon, interim, delta):
    found = construct(epsilon, interim, delta, domain)
    low, high = domain.powers
    assert low < found.gamma2 < high
    assert found.posterior_epsilon(delta) <= epsilon
    assert found.interim_epsilon(delta) > interim


def test_no_power_needs_fewer_records():
    found = construct(0.5, 10.0, 1e-3, PAPER)
    for power in np.linspace(1.101, 1.499, 200):
        needed = max(
            PAPER.log_records_for_posterior(power, 0.5, 1e-3), PAPER.log_records_for_interim(power, 10.0, 1e-3)
        )
        assert needed >= np.log(found.n) - 1e-5


def test_the_posterior_of_the_two_datasets_is_as_private_as_said():
    """Exactly, for the pair that SGLD tells apart: n records (x, c x), one of them replaced by (x / 2, c x / 2)."""
    found = construct(0.5, 10.0, 1e-3, PAPER)
    # Means near 7e12 that differ by 1e-9 or so: in fractions.
    square, c = Fraction(PAPER.x_high) ** 2 * Fraction(PAPER.beta), Fraction(found.c)
    whole, less = found.n * square, (found.n - 1) * square + square / 4
    alpha = Fraction(PAPER.alpha)
    apart = float(c * whole / (alpha + whole) - c * less / (alpha + less))
    laws = [
        GaussianLaw(np.array([mean]), np.array([[1 / float(alpha + precision)]]))
        for mean, precision in ((apart, whole), (0.0, less))
    ]
    assert epsilon_at(*laws, 1e-3).high <= 0.5
    assert epsilon_at(*laws[::-1], 1e-3).high <= 0.5
    assert found.interim_epsilon(1e-3) > 10.0


def test_the_theorem_of_the_registry_says_the_same():
    found = construct(1.0, 1.0, 1e-2, PAPER)
    model = {"alpha": 2.0, "beta": 1.0, "gamma1": 0.1, "x_low": 0.9, "x_high": 1.8, "c": found.c}
    potential = {"kind": "linear-regression"} | model
    run = {"potential": potential, "problem": {"n": found.n}}
    curve = guarantee(linear_regression, described("posterior-sample", "replace-one", "one-sample", **run))
    values = zip(curve.orders, curve.values, strict=True)
    assert min(value - math.log(1e-2) / (order - 1) for order, value in values) == found.posterior_epsilon(1e-2)


def test_targets_and_domains_beyond_reach_are_refused():
    with pytest.raises(InputError, match="2\\^53"):
        construct(0.01, 1e4, 1e-6, PAPER)
    with pytest.raises(InputError, match="raise n"):
        PAPER.largest_power(1000, 0.5, 1e-3)
    with pytest.raises(InputError, match="x_high"):
        Domain(1.0, 1.0, 1.0, 0.1)
    with pytest.raises(InputError, match="gamma1"):
        Domain(1.0, 4.0, 1.0, 0.5)
