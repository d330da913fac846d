"""Our own page on stable noise with epsilon above 0: its quadrature is exact, and no certified number is below it."""

import numpy as np
import pytest

from papers.framework.item import Options, VerdictKind, item_named
from papers.simsekli.mixed import exact_deltas
from papers.tests.rows_of import table
from sordino.accounting.bounds.heavy_tail import shift_total_variation
from tests.accounting.bounds.heavy_tail.stable_truth import SPACING, one_step

EPSILONS = np.array([0.0, 0.2, 0.5])


@pytest.mark.parametrize("alpha", [1.5, 1.8])
def test_the_quadrature_agrees_with_fourier_inversion_in_one_dimension(alpha):
    assert exact_deltas(alpha, 1.0, 1, EPSILONS) == pytest.approx(
        one_step(alpha, round(1 / SPACING), EPSILONS), rel=0.02
    )


@pytest.mark.parametrize("dim", [1, 10, 1000])
def test_the_total_variation_is_the_same_in_every_dimension(dim):
    assert exact_deltas(1.5, 1.0, dim, EPSILONS[:1])[0] == pytest.approx(shift_total_variation(1.5, 1.0), rel=0.005)


def test_the_page_has_no_ratio_below_one_and_says_that_it_is_ours():
    outcome = item_named("simsekli-mixed").run(Options(quick=True, data_dir=None, seed=0))
    assert outcome.verdict.kind is VerdictKind.OWN
    for row in table(outcome, "ratio").rows:
        assert all(float(ratio) >= 0.999 for ratio in row[3:7])
        assert row[8].value >= row[7]
    for row in table(outcome, "section-5").rows:
        if row[4] is not None:
            assert row[4].value < row[3].value
