"""Error curves count what a loop counts; a chosen threshold is the best one."""

import numpy as np
import pytest

from sordino.auditing.confidence import ErrorCounts, choose_threshold, count_errors, epsilon_lower, error_curve
from sordino.core.validate import InputError


@pytest.mark.parametrize("levels", [None, 4], ids=["continuous", "tied"])
def test_the_error_curve_counts_what_a_loop_counts(levels):
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=40), rng.normal(size=30) + 1.0
    if levels:
        first, second = np.round(first), np.round(second)
    curve = error_curve(first, second)
    for cut, positives, negatives, distinct in zip(*curve, strict=True):
        if distinct:
            assert positives == np.sum(first >= cut)
            assert negatives == np.sum(second < cut)
    assert curve.distinct.sum() == len(np.unique(np.concatenate([first, second]))) + 1


def test_repetitions_are_cut_one_by_one():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(5, 60)), rng.normal(size=(5, 60)) + 2.0
    together = choose_threshold(first, second, 1e-5, 0.9)
    alone = [float(choose_threshold(a, b, 1e-5, 0.9)) for a, b in zip(first, second, strict=True)]
    assert np.array_equal(together, alone)


def test_the_chosen_threshold_is_the_best_of_all():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=80), rng.normal(size=80) + 2.5
    chosen = float(choose_threshold(first, second, 1e-5, 0.9))

    def bound(cut):
        positives, negatives = count_errors(first, second, cut)
        return epsilon_lower(ErrorCounts(int(positives), 80, int(negatives), 80), 1e-5, 0.9)

    assert bound(chosen) == pytest.approx(max(bound(cut) for cut in np.linspace(-3, 6, 400)), abs=1e-12)


def test_infinite_scores_are_cut_and_nan_is_refused():
    cut = choose_threshold(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]), 1e-5, 0.9)
    assert count_errors(np.array([-np.inf, 0.0]), np.array([np.inf, 1.0]), cut) == (0, 0)
    with pytest.raises(InputError, match="NaN"):
        error_curve(np.array([np.nan]), np.array([0.0]))
