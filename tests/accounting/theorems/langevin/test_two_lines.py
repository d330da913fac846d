"""The smaller of two moduli: changes between two lines against dynamic programming over the distance."""

import numpy as np
import pytest

from sordino.accounting.bounds.solver import TwoLines, optimal_shift, two_line_shift
from sordino.accounting.evaluate import Theorem, evaluate
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec
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


def mu(theorem: Theorem, run: Spec) -> float:
    answer = evaluate(theorem, run)
    assert isinstance(answer, Bound), answer.reason
    assert isinstance(answer.guarantee, GaussianDP)
    return answer.guarantee.mu


def test_clipping_keeps_a_loss_of_any_shape_as_smooth_as_it_was():
    """Numerically: |clip(g(x)) - clip(g(y))| <= beta |x - y| for a beta-smooth non-convex loss in two dimensions."""
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(2, 20_000, 2))
    y = x + (y - x) * generator.uniform(0.1, 1, (20_000, 1)) ** 3

    def clipped(theta):
        g = np.stack([np.sin(theta[:, 0] + theta[:, 1]), np.sin(theta[:, 0] + theta[:, 1])], axis=1)
        return g / np.maximum(1.0, np.linalg.norm(g, axis=1, keepdims=True) / 0.6)

    # The Hessian cos(.) [[1, 1], [1, 1]] has norm at most 2.
    stretched = np.linalg.norm(clipped(x) - clipped(y), axis=1) / np.linalg.norm(x - y, axis=1)
    assert 1.5 < stretched.max() <= 2.0 * (1 + 1e-9)
