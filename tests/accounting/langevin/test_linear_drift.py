"""Linear drifts with weight decay: exact Gaussian laws, which shifted.drift-bounded attains."""

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate
from sordino.accounting.theorems.langevin import last_iterate, last_iterate_window
from sordino.accounting.theorems.shifted_bounded import drift_bounded
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, chain_law


def check(seed: int) -> None:
    """One record that pulls one way or the other: the mu of the two laws is the bound, in any dimension."""
    rng = np.random.default_rng([seed, 77])
    dim, steps = int(rng.integers(1, 6)), int(np.exp(rng.uniform(0, 6)))
    v, decay = (float(value) for value in np.exp(rng.uniform(-5, 5, 2)))
    # Below 1 / decay consecutive moves point the same way, and nothing is lost.
    step = float(np.exp(rng.uniform(-6, 0))) / decay
    scale = 2 * step * v / float(np.exp(rng.uniform(-4, 1)))
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": step,
                "noise": {"kind": "gaussian", "scale": scale},
                "batch": {"scheme": "full"},
                "start": {"kind": "point", "values": (scale * rng.normal(size=dim)).tolist()},
            },
            "problem": {
                "n": 1,
                "dim": dim,
                "drift_bound": v,
                "regulariser": {"strong_convexity": decay, "smoothness": decay},
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )
    axis = rng.normal(size=dim)
    axis *= v / np.linalg.norm(axis)
    laws = [
        chain_law(spec, Quadratics(np.zeros((1, dim, dim)), pull[None], np.zeros(1, int), decay))
        for pull in (axis, -axis)
    ]
    apart = laws[0].mean - laws[1].mean
    exact = float(np.sqrt(apart @ np.linalg.solve(laws[0].covariance, apart)))
    answer = evaluate(drift_bounded, spec)
    assert isinstance(answer, Bound)
    assert isinstance(answer.guarantee, GaussianDP)
    assert answer.guarantee.mu == pytest.approx(exact, rel=1e-9)
    assert answer.guarantee.mu >= exact * (1 - 1e-11)
    for looser in (last_iterate, last_iterate_window):
        other = evaluate(looser, spec)
        assert isinstance(other, Bound)
        assert other.guarantee.epsilon(1e-5) >= GaussianDP(exact * (1 - 1e-11)).epsilon(1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_the_drift_bound_is_attained_by_a_linear_drift(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_the_drift_bound_is_attained_by_a_thousand_linear_drifts(block):
    for seed in range(40 + 50 * block, 90 + 50 * block):
        check(seed)
