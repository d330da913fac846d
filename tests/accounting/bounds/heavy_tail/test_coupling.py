"""heavy-tail.coupling is never below the exact total variation, and equal to it after one step; moments in ridge."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from sordino.accounting.bounds.heavy_tail import constant_moves, gaussian_moment, shift_total_variation
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, stable_chain_law
from tests.accounting.described import guarantee, noisy_chain
from tests.models.exact.laws import shift_total_variation as exact_shift
from tests.models.exact.laws import total_variation


def run(n: int, alpha: float, scale: float, batch: Any, steps: int, step: float) -> Spec:
    """Ridge regression with one parameter, |x| and |y| at most 1, weight decay 1/2."""
    growth = {"g0": 2.0, "g1": 1.0, "at_zero": 1.0}
    problem = {"n": n, "strong_convexity": 0.5, "smoothness": 1.5, "gradient_growth": growth}
    return noisy_chain(steps, step, {"kind": "stable", "alpha": alpha, "scale": scale}, batch, problem)


def certified(spec: Spec) -> float:
    """The delta of heavy-tail.coupling."""
    return guarantee("heavy-tail.coupling", spec).value


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.8, 2.0])
def test_one_step_from_the_origin_is_exact(alpha):
    # Both records at the corner, with opposite targets: the step moves by eta / n * 2.
    exact = exact_shift(alpha, 0.3 / 5 * 2, 0.1).high
    assert certified(run(5, alpha, 0.1, "full", 1, 0.3)) == pytest.approx(exact, rel=1e-9)


def test_the_last_batch_of_a_cycle_is_not_hidden_by_the_others():
    # Reference: alpha = 2, n = 10, b = 1, last batch: true TV .276, the eta / n formula .056.
    sigma, eta = 1.0, 1.0
    data = [Quadratics(np.zeros((2, 1, 1)), [[0.0], [2 * z]], [*[0] * 9, 1], 0.5) for z in (0.0, 0.5)]
    spec = run(10, 2.0, sigma, {"scheme": "cyclic", "size": 1}, 10, eta).with_values(
        {"problem.gradient_growth": {"g0": 1.0, "g1": 0.0, "at_zero": 0.0}, "problem.smoothness": 0.5}
    )
    # The last step moves by eta g0 = 1; its own noise is all that is new.
    truth = total_variation(*(stable_chain_law(spec, one) for one in data)).low
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


# Facts about the stable law are upper bounds, and close ones.

RATIOS = (1e-300, 1e-12, 1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 10.0, 1e3, 1e300)


@pytest.mark.parametrize("alpha", [1.01, 1.2, 1.5, 1.8, 1.999, 2.0])
def test_total_variation_of_a_shift_is_bounded_from_above(alpha):
    for ratio in RATIOS:
        bound = shift_total_variation(alpha, ratio)
        assert exact_shift(alpha, ratio, 1.0).low <= bound <= 1.0
        assert bound <= ratio * math.gamma(1 + 1 / alpha) / math.pi * (1 + 1e-11)


def test_moments_are_rounded_up_in_any_dimension():
    for dim in (1, 2, 10, 999, 10_000, 10_001, 2**53):
        for power in (1.0, 1.3, 2.0):
            with mpmath.workdps(40):
                half = mpmath.mpf(dim) / 2
                exact = mpmath.mpf(2) ** (mpmath.mpf(power) / 2) * mpmath.gammaprod([half + power / 2], [half])
                assert exact <= gaussian_moment(power, dim) <= exact * (1 + mpmath.mpf("3e-5"))
