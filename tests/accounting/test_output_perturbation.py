"""Output perturbation against cases whose laws are known exactly."""

import numpy as np
import pytest

from sordino.core.guarantee import GaussianDP, PureDP
from sordino.models.exact import GaussianLaw, hockey_stick
from tests.accounting.described import described, guarantee


def answer(lipschitz, convexity, scale, *, kind="gaussian", dim=1):
    run = {"lipschitz": lipschitz, "strong_convexity": convexity, "tolerance": 0.0, "dim": dim}
    noise = {"kind": kind, "scale": scale}
    spec = described("output-perturbation", "replace-one", "posterior-parameters", noise=noise, **run)
    return guarantee("output.strongly-convex", spec)


def test_a_ridge_in_one_dimension_attains_the_bound():
    """F = sum of (theta - y)^2 / 2 + theta^2 / 2 with y in [-1, 1]: replacing -1 by 1 moves the minimiser by L / m."""
    n, scale = 20, 0.07
    moved = 2.0 / (n + 1)
    found = answer(2.0, n + 1.0, scale)
    assert isinstance(found, GaussianDP)
    laws = [GaussianLaw(np.array([centre]), np.array([[scale**2]])) for centre in (0.0, moved)]
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        exact = hockey_stick(*laws, epsilon)
        assert exact.low <= found.delta(epsilon)
        assert found.delta(epsilon) == pytest.approx(exact.high, rel=1e-9)


def test_laplace_noise_is_pure_and_pays_in_the_one_norm():
    found = answer(1.0, 10.0, 0.5, kind="laplace", dim=4)
    assert isinstance(found, PureDP)
    assert found.epsilon(1e-5) == pytest.approx(2 * 0.1 / 0.5, rel=1e-4)
    assert answer(1.0, 10.0, 0.5, kind="laplace").epsilon(1e-9) == pytest.approx(0.2, rel=1e-4)
