"""Dynamic programming over the distance never falls below the minimum, and meets it where the minimum is known."""

import numpy as np
import pytest

from sordino.accounting.bounds.solver import optimal_shift
from tests.accounting.bounds.programmed_shift import dynamic_shift


@pytest.mark.parametrize("contraction", [0.5, 0.9, 0.98, 1.0, 1.1])
def test_a_linear_modulus_gives_the_solvers_value_from_above(contraction: float) -> None:
    generator = np.random.default_rng(21)
    moves, noises = generator.uniform(0.1, 0.3, 60), generator.uniform(0.5, 2.0, 60)
    exact = optimal_shift(contraction, moves, noises)
    found = dynamic_shift(lambda z: contraction * z, moves, noises, ceiling=4.0)
    assert exact * (1 - 1e-12) <= found <= exact * 1.02
