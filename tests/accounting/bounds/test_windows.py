"""Random batches through a window: reference values, the truth on enumerated mixtures, equality at one step."""

from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from sordino.accounting.bounds.window import SampledChain
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.normal_pairs import WithoutReplacementPair
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, chain_law, hockey_stick
from tests.accounting.described import guarantee, noisy_chain

DELTA = 1e-5
RANDOM = [f"shifted.{name}" for name in ("random-batches", "random-participation", "revealed-batches")]


def chain(scheme: str, steps: int, **values: Any) -> Spec:
    """Contraction 0.8, kappa 1, one of four records a step."""
    problem = {"n": 4, "gradient_sensitivity": 2.5, "strong_convexity": 1.0, "smoothness": 2.0}
    return noisy_chain(steps, 0.2, 0.5, {"scheme": scheme, "size": 1}, problem, delta=DELTA).with_values(values)


def neighbours(first: float, second: float, others: float) -> tuple[Quadratics, Quadratics]:
    """Constant gradients: the differing record pulls by `first` or `second`, the others by `others`."""

    def data(pull: float) -> Quadratics:
        return Quadratics(np.zeros((2, 1, 1)), np.array([[others], [pull]]), np.array([1, 0, 0, 0]), 1.0)

    return data(first), data(second)


def test_one_step_is_the_sampled_gaussian_and_attained() -> None:
    """T = 1: the bound is C_q(G(kappa)), and a record that pulls by Delta where all others pull by 0 attains it."""
    spec = chain("without-replacement", 1)
    exact = LossDistribution(((WithoutReplacementPair(0.25, 1.0), 1),))
    first, second = (chain_law(spec, data) for data in neighbours(2.5, 0.0, 0.0))
    for name in RANDOM[:2]:
        found = guarantee(name, spec)
        for epsilon in (0.01, 0.3, 1.0):
            truth = hockey_stick(first, second, epsilon)
            assert truth.low <= found.delta(epsilon)
            assert_allclose(found.delta(epsilon), exact.delta(epsilon), rtol=1e-2)
            assert_allclose(found.delta(epsilon), truth.high, rtol=2e-2)


def test_every_window_and_split_is_above_the_truth() -> None:
    spec = chain("without-replacement", 6)
    first, second = (chain_law(spec, data) for data in neighbours(2.5, 0.0, 0.0))
    run = SampledChain(0.8, 1.0, 0.25, 6)
    for window in (0, 2, 4):
        for share in (0.1, 0.9):
            for found in (run.with_largest_distance(window, share), run.with_random_distance(window, share)):
                for epsilon in (0.0, 0.5, 2.0):
                    assert hockey_stick(first, second, epsilon).low <= found.delta(epsilon)
