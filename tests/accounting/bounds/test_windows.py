"""Random batches through a window: the truth on enumerated mixtures, equality at one step, and two traps."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sordino.accounting.bounds.contraction import Contraction, contraction_of
from sordino.accounting.bounds.window import SampledChain
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.normal_pairs import PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, chain_law
from tests.accounting.described import curved, guarantee, noisy_chain, refusal
from tests.soundness.cells import CellTruth

DELTA = 1e-5


def drawn(steps: int) -> Spec:
    """Contraction 0.8, kappa 1, one of four records a step."""
    problem = {"n": 4, "gradient_sensitivity": 2.5, "strong_convexity": 1.0, "smoothness": 2.0}
    return noisy_chain(steps, 0.2, 0.5, {"scheme": "without-replacement", "size": 1}, problem, delta=DELTA)


def poisson(relation: str, steps: int, n: int, rate: float, **values: Any) -> Spec:
    """Weight decay 1, losses with curvature up to 1, step 0.2, noise 1, divisor 1, gradients of the pair up to 5."""
    problem = {"n": n, "gradient_bound": 5.0, "gradient_sensitivity": 10.0, **curved(1.0), "regulariser": curved(1.0)}
    batch = {"scheme": "poisson", "size": 1, "rate": rate}
    return noisy_chain(steps, 0.2, 1.0, batch, problem, relation=relation, delta=DELTA).with_values(values)


def truth(spec: Spec, *neighbours: tuple[float, ...]) -> CellTruth:
    """Records that pull by constants, with weight decay 1, on two datasets."""

    def data(pulls: tuple[float, ...]) -> Quadratics:
        listed = np.array(pulls or (0.0,))[:, None]
        return Quadratics(np.zeros((len(listed), 1, 1)), listed, np.arange(len(pulls)), 1.0)

    return CellTruth.between(*(chain_law(spec, data(pulls)) for pulls in neighbours))


def test_one_step_is_the_sampled_gaussian_and_attained() -> None:
    """T = 1: the bound is C_q(G(kappa)), and a record that pulls by Delta where all others pull by 0 attains it."""
    exact = LossDistribution(((WithoutReplacementPair(0.25, 1.0), 1),))
    reached = truth(drawn(1), (2.5, 0.0, 0.0, 0.0), (0.0,) * 4)
    for name in ("shifted.random-batches", "shifted.random-participation"):
        found = guarantee(name, drawn(1))
        for epsilon in (0.01, 0.3, 1.0):
            assert reached.delta(epsilon) <= found.delta(epsilon)
            assert_allclose(found.delta(epsilon), exact.delta(epsilon), rtol=1e-2)
            assert_allclose(found.delta(epsilon), reached.delta(epsilon), rtol=2e-2)


REPLACED = SampledChain(0.8, 1.0, 0.3, 6, PoissonReplacePair, 2.0)


@pytest.mark.parametrize(
    ("spec", "pulls", "run"),
    [
        (drawn(6), ((2.5, 0.0, 0.0, 0.0), (0.0,) * 4), SampledChain(0.8, 1.0, 0.25, 6)),
        (poisson("add-remove", 6, 1, 0.3), ((5.0,), ()), SampledChain(0.8, 1.0, 0.3, 6, PoissonRemovePair, 1.0)),
        (poisson("replace-one", 6, 1, 0.3), ((5.0,), (-5.0,)), REPLACED),
        (poisson("replace-one", 6, 1, 0.3), ((5.0,), (0.0,)), REPLACED),
    ],
)
def test_every_window_and_split_is_above_the_truth(spec: Spec, pulls: Any, run: SampledChain) -> None:
    exact = truth(spec, *pulls)
    for window in (0, 2, 4):
        for share in (0.1, 0.7):
            for found in (run.with_largest_distance(window, share), run.with_random_distance(window, share)):
                for epsilon in (0.0, 0.5, 2.0):
                    assert exact.delta(epsilon) <= found.delta(epsilon)


def test_half_the_move_or_half_the_ratio_falls_below_the_truth() -> None:
    """The comparison above can fail: a push that counts half, or steps that count half."""
    exact = truth(poisson("replace-one", 6, 1, 0.3), (5.0,), (-5.0,)).delta(0.5)
    for ratio, move in ((1.0, 0.3), (0.5, 2.0)):
        run = SampledChain(0.8, ratio, 0.3, 6, PoissonReplacePair, move)
        assert min(run.with_random_distance(window, 0.5).delta(0.5) for window in (0, 2, 4)) < exact


def test_large_batches_count_in_the_modulus() -> None:
    """Seven others, b = 1, q = 1/2: c certified at |B| = b would claim 0.523 where the truth is 0.605."""
    changes = {"problem.smoothness": 3.0, "algorithm.noise.scale": 0.025, "algorithm.step_size": 0.2}
    spec = poisson("add-remove", 2, 8, 0.5, **changes)
    modulus = contraction_of(spec)
    assert isinstance(modulus, Contraction)
    assert modulus.at(0.2) == pytest.approx(abs(1 - 0.2 * (1.0 + 2.0 * 9)))
    assert "c < 1" in refusal("shifted.random-batches", spec)


def test_rare_large_batches_are_added_to_delta() -> None:
    """At 20,000 records and batches of 100 expected, sizes up to about 170 decide the modulus."""
    changes = {"algorithm.batch.size": 100, "problem.smoothness": 4.0, "algorithm.step_size": 0.3}
    spec = poisson("add-remove", 1000, 20_000, 0.005, **changes)
    modulus = contraction_of(spec)
    assert isinstance(modulus, Contraction)
    assert 0.0 < modulus.failure <= 1e-3 * DELTA
    assert 0.7 <= modulus.at(0.3) < 1.0
    assert guarantee("shifted.random-participation", spec).delta(50.0) >= modulus.failure
