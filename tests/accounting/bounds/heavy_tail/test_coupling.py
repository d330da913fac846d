"""heavy-tail.coupling is never below the exact total variation, and equal to it after one step."""

import numpy as np
import pytest

from sordino.accounting.bounds.heavy_tail import constant_moves, shift_total_variation
from sordino.models.exact import Quadratics
from sordino.models.exact import shift_total_variation as exact_shift
from tests.accounting.bounds.heavy_tail.ridge import Box, certified, exact, run

ALPHAS = (1.1, 1.5, 1.8, 2.0)


def noise(alpha: float, scale: object) -> dict[str, object]:
    return {"kind": "stable", "alpha": alpha, "scale": scale}


@pytest.mark.parametrize("alpha", ALPHAS)
def test_one_step_from_the_origin_is_exact(alpha):
    box = Box(1.0, 1.0, 0.5)
    spec = run(box, 5, noise(alpha, 0.1), "full", 1, 0.3)
    # Both records at the corner, with opposite targets: the step moves by eta / n * 2.
    assert certified(spec) == pytest.approx(exact_shift(alpha, 0.3 / 5 * 2, 0.1).high, rel=1e-9)


def test_the_last_batch_of_a_cycle_is_not_hidden_by_the_others():
    # Reference: alpha = 2, n = 10, b = 1, last batch: true TV .276, the eta / n formula .056.
    sigma, eta = 1.0, 1.0
    data = [Quadratics(np.zeros((2, 1, 1)), [[0.0], [2 * z]], [*[0] * 9, 1], 0.5) for z in (0.0, 0.5)]
    spec = run(Box(1.0, 1.0, 0.5), 10, noise(2.0, sigma), {"scheme": "cyclic", "size": 1}, 10, eta).with_values(
        {"problem.gradient_growth": {"g0": 1.0, "g1": 0.0, "at_zero": 0.0}, "problem.smoothness": 0.5}
    )
    # The last step moves by eta g0 = 1; its own noise is all that is new.
    truth = exact(spec, (data[0], data[1]))
    assert certified(spec) >= truth > 0.2
    spread = shift_total_variation(2.0, eta * 1.0 / 10 * sum(0.5**k for k in range(10)))
    assert spread < truth
    shuffled = spec.with_values({"algorithm.batch.scheme": "shuffle-once"})
    assert certified(shuffled) == pytest.approx(spread, rel=1e-9)


@pytest.mark.parametrize("contraction", [1.3, 0.7, 1.0])
def test_the_worst_position_of_a_record_is_found_for_contracting_and_expanding_steps(contraction: float) -> None:
    for steps, period in ((7, 3), (6, 3), (2, 5), (9, 4)):
        uses = [range(position, steps, period) for position in range(min(period, steps))]
        worst = max(sum(contraction ** (steps - 1 - step) for step in used) for used in uses)
        assert worst <= constant_moves(contraction, period, steps) <= worst * (1 + 1e-9)
