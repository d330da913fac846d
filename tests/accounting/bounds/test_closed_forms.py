"""The closed forms are the solver's minimum, for every position, also near c = 1, beyond it, and for 10^9 steps."""

import math
import time

import numpy as np
import pytest

from sordino.accounting.bounds.closed_forms import (
    bounded_cyclic_shift,
    bounded_full_shift,
    cyclic_shift,
    full_shift,
    uses_of,
)
from sordino.accounting.bounds.solver import optimal_shift, optimal_shift_bounded

CONTRACTIONS = [0.0, 1e-3, 0.3, 0.9, 0.98, 0.9999, 1 - 1e-9, 1.0, 1 + 1e-9, 1.001, 1.3, 3.0]
RATIO = 0.37


def close(first: float, second: float) -> bool:
    """Equal to 1e-10, or both too small to matter."""
    return math.isclose(first, second, rel_tol=1e-10) or max(first, second) < 1e-100


@pytest.mark.every(3)
@pytest.mark.parametrize("contraction", CONTRACTIONS)
def test_full_batches(contraction: float) -> None:
    for steps in (1, 2, 3, 17, 60, 500):
        assert close(full_shift(contraction, RATIO, steps), optimal_shift(np.full(steps, contraction), RATIO, 1.0))


@pytest.mark.every(3)
@pytest.mark.parametrize("contraction", CONTRACTIONS)
def test_cyclic_batches_at_every_position_with_whole_and_partial_last_epochs(contraction: float) -> None:
    for period in (1, 2, 3, 7):
        for steps in (1, 2, 6, 7, 14, 20, 41):
            mus = []
            for position in range(period):
                moves = np.zeros(steps)
                moves[position::period] = RATIO
                mus.append(cyclic_shift(contraction, RATIO, period, *uses_of(steps, period, position)))
                assert close(mus[-1], optimal_shift(contraction, moves, 1.0)), (period, steps, position)
            # The worst record is the one that the last step uses, in the last epoch begun.
            worst = cyclic_shift(contraction, RATIO, period, -(-steps // period))
            assert worst >= max(mus) * (1 - 1e-12)
            assert close(worst, max(mus))


@pytest.mark.every(3)
@pytest.mark.parametrize("contraction", CONTRACTIONS)
def test_diameters(contraction: float) -> None:
    for steps in (1, 5, 40):
        for diameter in (0.05, 1.0, 30.0):
            bounded = optimal_shift_bounded(np.full(steps, contraction), RATIO, 1.0, diameter)
            assert close(bounded_full_shift(contraction, RATIO, steps, diameter), bounded)
            for period in (1, 3, 8):
                moves = np.zeros(steps)
                moves[::-1][::period] = RATIO
                bounded = optimal_shift_bounded(contraction, moves, 1.0, diameter)
                assert close(bounded_cyclic_shift(contraction, RATIO, period, steps, diameter), bounded)


@pytest.mark.parametrize("contraction", [0.98, 1 - 1e-12, 1.0, 1 + 1e-12])
def test_a_billion_steps_cost_nothing(contraction: float) -> None:
    steps = 10**9
    began = time.perf_counter()
    values = [
        full_shift(contraction, 0.01, steps),
        cyclic_shift(contraction, 0.01, 1000, steps // 1000),
        bounded_full_shift(contraction, 0.01, steps, 5.0),
        bounded_cyclic_shift(contraction, 0.01, 10, steps, 5.0),
    ]
    assert time.perf_counter() - began < 1.0
    assert all(math.isfinite(value) and value > 0 for value in values)
    assert values[2] <= values[0]
