"""Heller & Fetaya's items: reference values in what is written."""

import pytest

from papers.framework.item import Lower, Options, Upper, VerdictKind, item_named

QUICK = Options(quick=True, data_dir=None, seed=0)


@pytest.fixture(scope="module")
def figure_one():
    return item_named("heller-fetaya-fig1").run(QUICK)


@pytest.fixture(scope="module")
def proposed():
    return item_named("heller-fetaya-pts").run(QUICK)


def test_figure_one_has_the_reference_values(figure_one):
    rows = {row[0]: row for row in next(one for one in figure_one.tables if one.name == "loss").rows}
    for epoch, value in ((1, 6.23), (11, 837), (21, 3009), (25, 3686.6), (31, 825), (41, 2.7465), (61, 0)):
        assert rows[epoch][1].value == pytest.approx(value, rel=1e-3, abs=1e-12)
    assert figure_one.verdict.kind is VerdictKind.PARAMETERS_NOT_PUBLISHED


def test_the_family_over_the_slope_keeps_the_captions_promise_and_holds_its_number(figure_one):
    rows = next(one for one in figure_one.tables if one.name == "family").rows
    peaks = [row[2].value for row in rows]
    assert peaks == sorted(peaks)
    assert peaks[0] < 38.0 < peaks[-1]
    assert all(row[1].value <= 0.5 for row in rows)
    assert any(row[4].value == pytest.approx(38.0, rel=1e-3) and row[5] == 50 for row in rows)


def test_the_posterior_is_certified_far_below_what_the_chain_leaks(figure_one):
    beside = {row.quantity: row for row in figure_one.beside}
    posterior = beside["posterior draw, epsilon"].ours
    assert isinstance(posterior, Upper)
    assert posterior.value <= 0.285
    assert beside["epoch of the largest loss"].ours == 25
    assert beside["the same, half the step"].ours == 50


def test_the_sgld_variant_leaks_and_the_exact_draw_is_certified(proposed):
    rows = {row[0]: row for row in proposed.tables[1].rows}
    feasible = rows["feasible"]
    assert isinstance(feasible[5], Lower)
    assert feasible[5].value == pytest.approx(1372.3, abs=0.1)
    assert feasible[4].value == pytest.approx(4.0, abs=0.01)
    assert rows["(34) of Claim IV.9"][5].value > 1e40


def test_small_tables_get_null_and_large_ones_an_answer(proposed):
    answered = {row[0]: row[2] for row in proposed.tables[0].rows}
    assert answered[20_000] == 0
    assert answered[200_000] > 5
