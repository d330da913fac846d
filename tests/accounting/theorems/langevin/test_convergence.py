"""The distance of the unadjusted Langevin algorithm to its target, never below the exact one on Gaussian targets."""

import numpy as np
import pytest

from sordino.accounting.theorems.transfer import langevin_distance
from sordino.models.exact import GaussianLaw, total_variation


def exact(curvatures: np.ndarray, start: np.ndarray, steps: int) -> float:
    """Total variation to N(0, 1 / (2 x)) of x <- (1 - x) theta + N(0, 1), axis by axis, in units of the noise."""
    kept = 1 - curvatures
    variance = (1 - kept ** (2 * steps)) / (1 - kept**2)
    law = GaussianLaw(kept**steps * start, np.diag(variance))
    return total_variation(law, GaussianLaw(np.zeros(len(start)), np.diag(1 / (2 * curvatures)))).low


def check(seed: int) -> tuple[float, float]:
    rng = np.random.default_rng([seed, 3])
    dim = int(rng.integers(1, 4))
    steepness = float(np.exp(rng.uniform(-9, np.log(1.95))))
    decay = steepness * float(np.exp(rng.uniform(-4, 0)))
    steps = int(np.exp(rng.uniform(0, 3)) / decay) + 1
    curvatures = np.append([decay, steepness], rng.uniform(decay, steepness, 2))[:dim]
    start = rng.normal(size=dim) * float(np.exp(rng.uniform(-3, 6)))
    bound = langevin_distance(decay, steepness, dim, float(np.linalg.norm(start)), steps)
    truth = exact(curvatures, start, steps)
    assert bound >= truth
    return bound, truth


def test_it_is_never_below_the_exact_distance():
    found = [check(seed) for seed in range(150)]
    assert sum(bound < 0.5 for bound, _ in found) >= 30, "the test needs cases in which the bound says something"


@pytest.mark.slow
def test_it_is_never_below_the_exact_distance_on_many_targets():
    for seed in range(150, 2500):
        check(seed)
