"""Private softmax regression: noise is calibrated on the private side, and norm clipping is never certified."""

import numpy as np
import pytest

from papers.framework.bounds import bound_of, epsilon_of
from papers.framework.item import NOT_VALID, Options, VerdictKind, item_named
from papers.ye_shokri.logistic import (
    CLAIMED,
    DELTA,
    DP_SGD,
    DP_SGD_CLIPPED,
    HIDDEN,
    SHIFTS,
    accuracy,
    as_accounted,
    as_run,
    calibrated_noise,
    rows,
)

QUICK = Options(quick=True, data_dir=None, seed=0)


@pytest.fixture(scope="module")
def digits():
    return rows(QUICK)


def test_rows_are_no_longer_than_declared(digits):
    lengths = np.linalg.norm(np.concatenate([digits.train, digits.test]).astype(np.float64), axis=1)
    assert lengths.max() <= 1.0
    assert lengths.min() > 0.999
    assert digits.records == 1400


@pytest.mark.parametrize("method", [DP_SGD, HIDDEN, SHIFTS, DP_SGD_CLIPPED], ids=lambda method: method.name)
def test_calibrated_noise_meets_the_target_and_a_little_less_does_not(method, digits):
    noise = calibrated_noise(method, digits, 10, 2.0)
    assert epsilon_of(method.theorem, as_run(method, digits, 10, noise), DELTA) <= 2.0
    assert epsilon_of(method.theorem, as_run(method, digits, 10, noise * 0.99), DELTA) > 2.0


@pytest.mark.parametrize("method", [DP_SGD, HIDDEN, SHIFTS, DP_SGD_CLIPPED], ids=lambda method: method.name)
def test_what_runs_is_what_is_accounted(method, digits):
    assert method.valid
    assert as_run(method, digits, 10, 0.1) == as_accounted(method, digits, 10, 0.1)


def test_the_hidden_state_theorem_refuses_the_clipped_chain_as_it_is_run(digits):
    assert not CLAIMED.valid
    assert bound_of(CLAIMED.theorem, as_run(CLAIMED, digits, 10, 0.1)) is None
    assert bound_of(CLAIMED.theorem, as_accounted(CLAIMED, digits, 10, 0.1)) is not None


def test_shifts_need_less_noise_than_theorem_4_2(digits):
    assert calibrated_noise(SHIFTS, digits, 40, 1.0) < calibrated_noise(HIDDEN, digits, 40, 1.0)


@pytest.mark.slow
def test_without_noise_the_digits_are_learned(digits):
    """Ten labels, so guessing is 0.1; the chain is deterministic up to its noise of 1e-9."""
    assert accuracy(HIDDEN, digits, 10, 1e-9, 0) > 0.8


@pytest.mark.slow
def test_the_item_marks_the_refuted_accounting():
    outcome = item_named("ye-shokri-logistic").run(QUICK)
    assert outcome.verdict.kind is VerdictKind.PARAMETERS_NOT_PUBLISHED
    for table in outcome.tables:
        assert f"({NOT_VALID})" in table.to_markdown()
