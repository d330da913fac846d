"""Privacy between a chain and its posterior, on Gaussian laws where everything is known."""

import math

import numpy as np
import pytest

from sordino.accounting.bounds.segments import step_weights
from sordino.accounting.theorems import transfer
from sordino.core.guarantee import GaussianDP
from sordino.models.exact import GaussianLaw, hockey_stick, total_variation

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def normal(mean: float, scale: float) -> GaussianLaw:
    return GaussianLaw(np.array([mean]), np.array([[scale**2]]))


def test_what_is_close_to_something_private_is_nearly_as_private():
    for mu, wrong in ((0.3, 0.01), (1.0, 1e-3), (2.0, 0.2)):
        posteriors = normal(0.0, 1.0), normal(mu, 1.0)
        chains = normal(wrong, 1.0 + wrong), normal(mu - wrong, 1.0 + wrong)
        distance = max(total_variation(*pair).high for pair in zip(chains, posteriors, strict=True))
        found = transfer.transferred(GaussianDP(mu), distance)
        for epsilon in EPSILONS:
            exact = max(hockey_stick(*chains, epsilon).low, hockey_stick(*chains[::-1], epsilon).low)
            assert exact <= found.delta(epsilon)
            stated = GaussianDP(mu).delta(epsilon) + distance * (1 + math.exp(epsilon))
            assert found.delta(epsilon) <= stated * 1.02


def test_weights_of_a_chain_that_grows_beyond_floats_between_kept_iterates() -> None:
    """c^thin is no float: what comes before the last two kept iterates is infinite, the last weight is 1."""
    weights = step_weights(4.0, range(1000, 5001, 1000), 5000)
    assert weights[-1] == pytest.approx(1.0)
    assert weights[-10] == pytest.approx(4.0**9)
    assert np.isinf(weights[:4000]).all()
