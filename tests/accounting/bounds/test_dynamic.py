"""Dynamic programming over the distance never falls below the minimum, and meets it where the minimum is known."""

import math

import numpy as np
import pytest

from sordino.accounting.bounds.closed_forms import bounded_full_shift, full_shift
from sordino.accounting.bounds.solver import optimal_shift
from sordino.core.validate import InputError
from tests.accounting.bounds.programmed_shift import dynamic_shift


@pytest.mark.parametrize("contraction", [0.5, 0.9, 0.98, 1.0, 1.1])
def test_a_linear_modulus_gives_the_solvers_value_from_above(contraction: float) -> None:
    generator = np.random.default_rng(21)
    moves, noises = generator.uniform(0.1, 0.3, 60), generator.uniform(0.5, 2.0, 60)
    exact = optimal_shift(contraction, moves, noises)
    found = dynamic_shift(lambda z: contraction * z, moves, noises, ceiling=4.0)
    assert exact * (1 - 1e-12) <= found <= exact * 1.02


def test_the_excess_falls_with_the_square_of_the_spacing() -> None:
    exact = full_shift(0.95, 0.2, 60)
    excess = [
        dynamic_shift(lambda z: 0.95 * z, np.full(60, 0.2), 1.0, ceiling=3.0, points=points) / exact - 1
        for points in (50, 100, 200, 400)
    ]
    assert all(value >= -1e-12 for value in excess)
    assert excess[-1] < excess[0] / 20


def test_a_start_apart_and_a_diameter() -> None:
    moves = np.full(40, 0.1)
    exact = optimal_shift(0.9, moves, 1.0, start=2.0)
    found = dynamic_shift(lambda z: 0.9 * z, moves, 1.0, ceiling=2.0, start=2.0)
    assert exact * (1 - 1e-12) <= found <= exact * 1.02
    bounded = bounded_full_shift(1.0, 0.0125, 640, 1.25)
    found = dynamic_shift(lambda z: z, np.full(640, 0.01), 0.8, ceiling=1.0, always_below=True)
    assert bounded * (1 - 1e-12) <= found <= bounded * 1.02


def test_the_smaller_of_two_moduli_is_better_than_either() -> None:
    """Contraction with a large move far out, weak expansion with a small move near by: the minimum of both lines."""
    moves = np.full(50, 0.02)
    near, far = (lambda z: 1.1 * z), (lambda z: 0.8 * z + 0.3)
    both = dynamic_shift(lambda z: np.minimum(near(z), far(z)), moves, 1.0, ceiling=2.0)
    alone = [dynamic_shift(modulus, moves, 1.0, ceiling=2.0) for modulus in (near, far)]
    assert both <= min(alone) * (1 + 1e-12)
    assert both <= math.sqrt(50) * 0.02 * (1 + 1e-9)


def test_a_start_beyond_the_grid_is_refused() -> None:
    with pytest.raises(InputError, match="ceiling"):
        dynamic_shift(lambda z: z, np.full(3, 0.1), 1.0, ceiling=1.0, start=2.0)


def test_a_modulus_that_falls_is_refused() -> None:
    with pytest.raises(InputError, match="non-decreasing"):
        dynamic_shift(lambda z: 1.0 - z, np.full(3, 0.1), 1.0, ceiling=1.0)
    with pytest.raises(InputError, match="noises"):
        dynamic_shift(lambda z: z, np.full(3, 0.1), 0.0, ceiling=1.0)
