"""The smaller of two moduli: changes between two lines against dynamic programming over the distance."""

import numpy as np
import pytest

from sordino.accounting.bounds.solver import TwoLines, optimal_shift, two_line_shift
from tests.accounting.bounds.programmed_shift import dynamic_shift


def lines(steps: int, far: tuple[float, float], near: tuple[float, float], period: int = 1) -> TwoLines:
    used = np.arange(steps - 1, -1, -1) % period == 0
    return TwoLines(
        np.full(steps, far[0]),
        np.full(steps, far[1]),
        np.full(steps, near[0]),
        np.where(used, near[1], 0.0),
        np.ones(steps),
    )


def alone(given: TwoLines) -> list[float]:
    return [
        optimal_shift(given.far_contractions, given.far_moves, given.noises),
        optimal_shift(given.near_contractions, given.near_moves, given.noises),
    ]


# Steps, rho, 2 eta v, c, s: cases in which neither line alone is the best.
MIXED = [
    (139, 0.94, 1.0, 0.99, 0.43),
    (400, 0.95, 1.0, 1.02, 0.3),
    (400, 0.97, 0.5, 1.0, 0.2),
    (250, 0.9, 1.0, 1.05, 0.4),
]


@pytest.mark.parametrize(("steps", "rho", "bounded", "c", "s"), MIXED)
def test_changes_between_the_lines_agree_with_dynamic_programming(steps, rho, bounded, c, s):
    given = lines(steps, (rho, bounded), (c, s))
    found = two_line_shift(given)
    assert found < 0.99 * min(alone(given))
    programmed = dynamic_shift(
        lambda z: np.minimum(rho * z + bounded - s, c * z),
        np.full(steps, s),
        1.0,
        ceiling=bounded / (1 - rho),
        points=300,
    )
    assert programmed * 0.95 <= found <= programmed * (1 + 1e-9)


def test_it_is_never_above_either_line():
    generator = np.random.default_rng(9)
    for _ in range(60):
        steps, period = int(generator.integers(1, 120)), int(generator.choice([1, 1, 4, 9]))
        rho = float(generator.uniform(0.5, 0.99))
        near = rho + float(generator.uniform(0, 0.4)), float(generator.uniform(0.01, 1.0))
        given = lines(steps, (rho, 1.0), near, period)
        assert two_line_shift(given) <= min(alone(given)) * (1 + 1e-9)


def test_a_long_run_is_seen_through_its_last_steps():
    short, long = (lines(steps, (0.99, 1.0), (1.01, 0.4)) for steps in (9_000, 100_000))
    assert two_line_shift(long) == pytest.approx(two_line_shift(short), rel=1e-6)
