"""Diffusions, noisy SGD and the tools of Bertazzi et al.: never below the exact value, and exact where they can be."""

import math

import numpy as np
import pytest

from papers.bertazzi.commentary import (
    advanced_composition,
    chourasia_last,
    path_constant,
    renyi_composition,
    stated_last,
    stated_path,
)
from papers.bertazzi.langevin import LinearLangevin
from papers.bertazzi.ratios import gaussian_pair, laplace_pair
from papers.bertazzi.sde import Rotation, Wells
from papers.bertazzi.sgd import exact_conversion, printed_epsilon, proved_epsilon
from papers.framework.item import Options, VerdictKind, item_named
from papers.tests.rows_of import columns, table

QUICK = Options(quick=True, data_dir=None, seed=0)


@pytest.mark.parametrize("name", ["turning", "wells"])
def test_no_bound_on_a_diffusion_is_below_the_exact_constant(sde, name):
    found = columns(sde, name)
    exact = found.pop("exact")
    found.pop("time")
    for values in found.values():
        assert all(value >= truth for value, truth in zip(values, exact, strict=True))
    assert all(best <= one for best, one in zip(found["4.5, best window"], found["4.5, window 1"], strict=True))


@pytest.fixture(scope="module")
def sde():
    return item_named("bertazzi-sde").run(QUICK)


@pytest.mark.slow
def test_a_turning_drift_by_simulation():
    """Euler with 2000 steps, 20,000 paths: means and variances; five standard errors, false alarms below 1e-5."""
    drift = Rotation(1.0, 2.0, 1.0)
    rng, steps, time = np.random.default_rng(11), 2000, 1.5
    gamma = time / steps
    state = np.zeros(20_000, dtype=complex)
    for _ in range(steps):
        noise = rng.standard_normal(len(state)) + 1j * rng.standard_normal(len(state))
        state += gamma * (-(1 + 2j) * state + 0.5) + math.sqrt(2 * gamma) * noise
    gap = 2 * abs(state.mean())
    variance = state.real.var()
    found = 2 * gap**2 / variance
    # The gap is twice a mean with standard error sd / sqrt(count) in each coordinate.
    slack = 5 * 2 * math.sqrt(2 * variance / len(state))
    assert abs(gap - math.sqrt(drift.exact(time) * variance / 2)) < slack + 0.01
    assert found == pytest.approx(drift.exact(time), rel=0.2)


def test_without_turning_shifts_are_exact():
    drift = Rotation(0.7, 0.0, 1.3)
    for time in (0.1, 1.0, 10.0):
        assert drift.shifted(time) == pytest.approx(drift.exact(time), rel=1e-9)


def test_the_grid_agrees_with_a_linear_drift():
    """With no wells the chain is Gaussian and the same for both datasets: nothing to tell apart."""
    assert max(Wells(1.0, 0.0, 1.0, 0.05, points=301).exact((0.5, 1.0), 2.0)) == pytest.approx(0.0, abs=1e-9)


def test_noisy_sgd_is_exact_within_our_bound_and_the_printed_epsilon_is_the_largest():
    outcome = item_named("bertazzi-sgd").run(QUICK)
    found = columns(outcome, "exact")
    assert all(exact <= ours for exact, ours in zip(found["exact"], found["shifts, ours"], strict=True))
    steps = columns(outcome, "steps")
    for name in ("5.8, path", "5.7", "composition of sampled batches"):
        assert all(ours <= value * (1 + 2e-3) for ours, value in zip(steps["shifts, ours"], steps[name], strict=True))
    assert outcome.verdict.kind is VerdictKind.SAME


def test_the_conversions_of_a_constant():
    """C = 2, delta = 1e-5: printed 6.80, proved 5.30, exact 4.377 (the Gaussian with mu = 1)."""
    assert printed_epsilon(2.0) == pytest.approx(6.799, abs=1e-3)
    assert proved_epsilon(2.0) == pytest.approx(5.299, abs=1e-3)
    assert exact_conversion(2.0) == pytest.approx(4.3772, abs=1e-4)


@pytest.mark.parametrize("pair", [gaussian_pair(0.5), gaussian_pair(2.0), laplace_pair(1.0)], ids=lambda one: one.name)
def test_both_lemmas_are_above_the_exact_delta(pair):
    for epsilon in np.linspace(0.0, 4.0, 17):
        exact = pair.exact(float(epsilon))
        assert exact <= pair.by_tail(float(epsilon)) + 1e-15
        assert exact <= pair.by_moments(float(epsilon)) + 1e-15


def test_the_moments_of_a_laplace_pair_by_quadrature():
    pair, order = laplace_pair(2.0), 3.0
    x = np.linspace(-40.0, 40.0, 400_001)
    ratio = np.abs(x - 2.0) - np.abs(x)
    moment = np.trapezoid(np.exp((order - 1) * ratio - np.abs(x)) / 2, x)
    assert pair.log_moment(order) == pytest.approx(math.log(moment), rel=1e-6)


def test_a_failing_coupling_adds_its_probability():
    outcome = item_named("bertazzi-ratios").run(QUICK)
    found = columns(outcome, "released")
    for failure, stated, composed in zip(*found.values(), strict=True):
        assert failure < composed <= stated * (1 + 1e-3)


def test_the_two_comparisons_of_section_five_three():
    """The path's Rényi value is composition's; the last state's constant grows as 1/a^2, Chourasia et al.'s as 1/a."""
    for steps in (1, 100, 10_000):
        assert path_constant(steps) / 4 == pytest.approx(renyi_composition(steps))
    assert stated_path(1) > advanced_composition(1)
    assert all(stated_path(steps) < advanced_composition(steps) for steps in (10, 1000, 100_000))
    ratio = [stated_last(a, 1.0) / chourasia_last(a, 1.0) for a in (0.1, 0.2)]
    assert ratio[0] / ratio[1] == pytest.approx(2.0, rel=0.15)
    # Chourasia et al.'s constant is twice the truth on a constant force.
    assert chourasia_last(1.0, 1.0) == pytest.approx(
        2 * LinearLangevin(1.0, 1.0, 0.002).exact_constant(10**6), rel=0.01
    )


def test_shifts_lose_on_short_times_on_the_wells_and_the_page_says_so(sde):
    wells = [[cell if isinstance(cell, float) else cell.value for cell in row] for row in table(sde, "wells").rows]
    short = [row[4] / min(row[1], row[2]) for row in wells if row[0] <= 1]
    assert short
    assert all(1.7 < ratio < 2.3 for ratio in short)
    assert wells[-1][4] < min(wells[-1][1], wells[-1][2])
    assert "On short times they lose there" in sde.improved[0].because
    assert "everywhere" not in sde.improved[0].because
