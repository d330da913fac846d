"""Propositions 4.5 and 4.6 of Bertazzi et al. 2025 on diffusions whose laws are known."""

import math

import numpy as np
import pytest

from sordino.accounting.theorems.langevin import final_constant, mu_of, path_constant


def exact_final_mu(beta: float, pull: float, apart: float, time: float) -> float:
    """dX = (-pull X + p) dt + sqrt(2 / beta) dW for two p that are `apart`: both values at time T are Gaussian."""
    moved = apart * -math.expm1(-pull * time) / pull
    variance = -math.expm1(-2 * pull * time) / (beta * pull)
    return moved / math.sqrt(variance)


@pytest.mark.every(4)
@pytest.mark.parametrize("seed", range(40))
def test_the_final_value_of_an_ornstein_uhlenbeck_process_is_below_both_propositions(seed):
    generator = np.random.default_rng(seed)
    beta, pull, apart = (float(value) for value in np.exp(generator.uniform(-3, 3, 3)))
    time = float(np.exp(generator.uniform(-3, 4)))
    exact = exact_final_mu(beta, pull, apart, time)
    close = apart * -math.expm1(-pull * time) / pull
    for window in (1.0, None, 0.3 * time, time):
        assert mu_of(final_constant(beta, pull, apart, close, time, window)) >= exact
    assert mu_of(path_constant(beta, apart, time)) >= exact


def test_the_path_is_attained_by_constant_drifts():
    """A Brownian motion with drift: the final value says all there is to know of the path."""
    beta, apart, time = 2.0, 0.3, 7.0
    assert mu_of(path_constant(beta, apart, time)) == pytest.approx(
        apart * time / math.sqrt(2 * time / beta), rel=1e-12
    )
    # Moving one into the other over the whole time doubles the drift, so the final value is charged for its path.
    assert final_constant(beta, 0.0, apart, apart * time, time, time) == path_constant(beta, apart, time)
