"""Items of Bertazzi et al.: reference constants, and inequalities that the propositions promise."""

import pytest

from papers.framework.item import Options, item_named

QUICK = Options(quick=True, data_dir=None, seed=0)


def test_the_constants_of_section_five():
    constants, _ = item_named("bertazzi-langevin").run(QUICK).tables
    found = [[cell if isinstance(cell, float) else cell.value for cell in row[1:4]] for row in constants.rows]
    assert found[0] == pytest.approx([7.92, 7.92, 25.41], abs=0.006)
    # With quadratic curvature between a and L a step contracts by 1 - gamma a, so 79.92 where rho gives 88.73.
    assert found[1] == pytest.approx([79.92, 79.92, 2065.2], abs=0.1)
    assert found[2] == pytest.approx([0.72, 0.72, 11.86], abs=0.006)


def test_what_is_transferred_is_never_below_the_exact_delta():
    outcome = item_named("bertazzi-transfer").run(QUICK)
    (table,) = outcome.tables
    for _, _, exact, moved in table.rows:
        assert exact <= moved.value
    assert table.rows[-1][3].value <= 1.01 * table.rows[-1][2]
    forced = outcome.beside[1].ours.value
    private = [row for row in table.rows if row[2] <= 0.0634]
    assert private
    assert all(row[1].value > forced for row in private)


@pytest.mark.slow
def test_the_coupling_asks_for_less_noise_and_errs_less():
    (table,) = item_named("bertazzi-estimator").run(QUICK).tables
    for _, published, ours, published_error, our_error in table.rows:
        assert ours.value < published.value / 5
        assert our_error < published_error
