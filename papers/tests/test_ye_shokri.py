"""The items about Ye & Shokri have the reference values and never state a bound below the truth."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from papers.framework.bounds import epsilon_of, exact_epsilon, renyi_of
from papers.framework.item import NOT_VALID, Lower, Options, Outcome, Table, Upper, VerdictKind, item_named
from papers.ye_shokri import clipping as clipped_softmax
from papers.ye_shokri.setting import DELTA, run_of
from sordino.accounting.shifts.contraction import clipped_modulus

QUICK = Options(quick=True, data_dir=None, seed=0)


def table(outcome: Outcome, name: str) -> Table:
    return next(one for one in outcome.tables if one.name == name)


def column(given: Table, name: str) -> list[float]:
    place = given.columns.index(name)
    cells = [row[place] for row in given.rows]
    return [cell.value if isinstance(cell, Upper | Lower) else math.nan for cell in cells]


@pytest.fixture(scope="module")
def dynamics() -> Outcome:
    return item_named("ye-shokri-dynamics").run(QUICK)


@pytest.mark.parametrize("scheme", ["cyclic", "shuffle-once", "without-replacement"])
def test_no_curve_is_below_the_exact_value_and_shifts_are_the_lowest(dynamics, scheme):
    given = table(dynamics, scheme)
    curves = {name: column(given, name) for name in given.columns[1:]}
    exact = curves.pop("exact")
    assert np.isfinite(exact[0])
    for name, values in curves.items():
        for value, truth in zip(values, exact, strict=True):
            assert math.isnan(truth) or value >= truth, name
    ours = curves["shifts" if "shifts" in curves else "shifts, ours"]
    for values in curves.values():
        # Loss distributions answer with the upper end of a bracket of relative width 1e-3.
        assert all(mine <= value * (1 + 2e-3) for mine, value in zip(ours, values, strict=True))


def test_the_reference_values_of_the_setting(dynamics):
    """n = 1000, b = 100, eta = .02, m = 1, Delta = 4, sigma = .02, 100 epochs; Theorems 3.3, 4.2 and 4.3."""
    position = table(dynamics, "position")
    assert_allclose(column(position, "3.3, first batch")[-1], 0.02179, atol=5e-6)
    assert_allclose(column(position, "3.3, last batch")[-1], 0.04014, atol=5e-6)
    assert_allclose(column(position, "shifts, last batch (the worst)")[-1], 0.03645, atol=5e-6)
    renyi = {row[:2]: row[-1] for row in table(dynamics, "renyi").rows}
    for key, expected in (
        (("shuffled once", "Ye & Shokri, 4.2"), 0.2744),
        (("sampled without replacement", "Ye & Shokri, 4.3"), 2.3104),
    ):
        found = renyi[key]
        assert isinstance(found, Upper)
        assert_allclose(found.value, expected, atol=5e-4)


def test_the_unknown_setting_is_said_first(dynamics):
    assert dynamics.verdict.kind is VerdictKind.PARAMETERS_NOT_PUBLISHED


@pytest.mark.parametrize(
    ("theorem", "expected"),
    [("hidden-state.full", 2.51051), ("hidden-state.full-chourasia", 2.52848), ("shifted.full", 1.51632)],
)
def test_full_batches_at_100_steps(theorem, expected):
    value = renyi_of(theorem, run_of("full", 100), 10.0)
    assert value is not None
    assert_allclose(value / 10, expected, atol=5e-6)


def test_the_shift_bound_of_full_batches_is_the_truth():
    for steps in (1, 30, 300):
        run = run_of("full", steps)
        assert_allclose(epsilon_of("shifted.full", run, DELTA), exact_epsilon(run, DELTA), rtol=2e-5)
    outcome = item_named("ye-shokri-full").run(QUICK)
    given = table(outcome, "epsilon")
    for name in given.columns[1:-1]:
        assert all(np.array(column(given, name)) >= column(given, "exact"))


@pytest.mark.parametrize(("eta", "expected"), [(0.01, 1.00017), (0.1, 1.0017), (0.5, 1.0096), (1.0, 1.0222)])
def test_a_clipped_softmax_step_drives_two_points_apart(eta, expected):
    """The counterexample to Proposition F.2, executed on two points a thousandth apart."""
    p = np.array([0.001, 0.836, 0.163])
    found = clipped_softmax.expanded_pair(p, 0, 0.98, eta, 2.0, 1e-3)
    assert_allclose(found, expected, atol=6e-5)
    assert 1.0 < found <= clipped_modulus(eta, 0.0, 1.0)


@pytest.mark.parametrize(("classes", "expected"), [(2, 0.0), (3, -0.01731), (4, -0.02241), (10, -0.02849)])
def test_the_worst_curvature_by_number_of_classes(classes, expected):
    assert_allclose(clipped_softmax.worst_curvature(classes), expected, atol=5e-6)


def test_an_undirected_search_finds_nothing_worse():
    """Random probabilities of four classes: 2000 draws, none below the structured minimum."""
    generator = np.random.default_rng(0)
    floor = clipped_softmax.worst_curvature(4)
    for p in generator.dirichlet(np.full(4, 0.4), size=2000):
        jacobian = clipped_softmax.clipped_jacobian(np.maximum(p, 1e-12), 0, 1.0, 2.0)
        assert np.linalg.eigvalsh((jacobian + jacobian.T) / 2)[0] >= floor - 1e-9


def test_two_classes_contract():
    for share in (0.001, 0.3, 0.8):
        p = np.array([share, 1 - share])
        assert clipped_softmax.expansion(clipped_softmax.clipped_jacobian(p, 0, 0.9, 2.0), 0.5) <= 1 + 1e-12


def test_any_convex_loss_is_an_eighth_at_worst():
    assert_allclose(clipped_softmax.worst_of_any_convex_loss(), -0.125, atol=1e-12)


def test_the_refuted_claim_carries_its_label():
    outcome = item_named("ye-shokri-clipping").run(QUICK)
    assert outcome.verdict.kind is VerdictKind.REFUTED
    assert f"0.98 ({NOT_VALID})" in table(outcome, "modulus").to_markdown()
    assert f"({NOT_VALID})" in table(outcome, "expansion").to_csv()
