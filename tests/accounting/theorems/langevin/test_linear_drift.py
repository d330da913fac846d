"""Linear drifts with weight decay: exact Gaussian laws, which shifted.drift-bounded attains."""

import numpy as np
import pytest

from sordino.accounting.theorems.langevin import last_iterate, last_iterate_window
from sordino.accounting.theorems.shifted_bounded import drift_bounded
from sordino.models.exact import Quadratics, chain_law
from tests.accounting.described import curved, mu, noisy_chain


def check(seed: int) -> None:
    """One record that pulls one way or the other: the mu of the two laws is the bound, in any dimension."""
    rng = np.random.default_rng([seed, 77])
    dim, steps = int(rng.integers(1, 6)), int(np.exp(rng.uniform(0, 6)))
    v, decay = (float(value) for value in np.exp(rng.uniform(-5, 5, 2)))
    # Below 1 / decay consecutive moves point the same way, and nothing is lost.
    step = float(np.exp(rng.uniform(-6, 0))) / decay
    scale = 2 * step * v / float(np.exp(rng.uniform(-4, 1)))
    start = {"start": {"kind": "point", "values": (scale * rng.normal(size=dim)).tolist()}}
    problem = {"n": 1, "dim": dim, "drift_bound": v, "regulariser": curved(decay)}
    spec = noisy_chain(steps, step, scale, "full", problem, algorithm=start)
    axis = rng.normal(size=dim)
    axis *= v / np.linalg.norm(axis)
    laws = [
        chain_law(spec, Quadratics(np.zeros((1, dim, dim)), pull[None], np.zeros(1, int), decay))
        for pull in (axis, -axis)
    ]
    apart = laws[0].mean - laws[1].mean
    exact = float(np.sqrt(apart @ np.linalg.solve(laws[0].covariance, apart)))
    assert mu(drift_bounded, spec) == pytest.approx(exact, rel=1e-9)
    assert mu(drift_bounded, spec) >= exact * (1 - 1e-11)
    for looser in (last_iterate, last_iterate_window):
        assert mu(looser, spec) >= exact * (1 - 1e-11)


@pytest.mark.every(4)
@pytest.mark.parametrize("seed", range(40))
def test_the_drift_bound_is_attained_by_a_linear_drift(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_the_drift_bound_is_attained_by_a_thousand_linear_drifts(block):
    for seed in range(40 + 50 * block, 90 + 50 * block):
        check(seed)
