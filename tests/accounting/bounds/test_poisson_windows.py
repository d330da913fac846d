"""Poisson batches through a window: reference values, the truth on enumerated mixtures, and the two traps of theory."""

from typing import Any

import numpy as np
import pytest

from sordino.accounting.bounds.contraction import Contraction, contraction_of
from sordino.accounting.bounds.window import SampledChain
from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.core.bound import Bound, Inapplicable
from sordino.core.loss.normal_pairs import PoissonRemovePair, PoissonReplacePair
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, chain_law
from tests.accounting.described import noisy_chain
from tests.soundness.cells import CellTruth

DELTA = 1e-5


def chain(relation: str, steps: int, n: int, rate: float, **values: Any) -> Spec:
    """Weight decay 1, losses with curvature up to 1, step 0.2, noise 1, divisor 1, gradients of the pair up to 5."""
    curved = {"strong_convexity": 1.0, "smoothness": 1.0}
    problem = {"n": n, "gradient_bound": 5.0, "gradient_sensitivity": 10.0, **curved, "regulariser": curved}
    batch = {"scheme": "poisson", "size": 1, "rate": rate}
    return noisy_chain(steps, 0.2, 1.0, batch, problem, relation=relation, delta=DELTA).with_values(values)


def data(curvature: float, others: int, pull: float, *own: float) -> Quadratics:
    """`others` records with this curvature and pull, and records that pull by constants: bounded gradients."""
    curvatures = np.array([[[curvature]]] * others + [[[0.0]]] * len(own)) if others + len(own) else np.zeros((1, 1, 1))
    pulls = np.array([[pull]] * others + [[one] for one in own]) if others + len(own) else np.zeros((1, 1))
    return Quadratics(curvatures, pulls, np.arange(others + len(own)), 1.0)


def neighbours(relation: str, curvature: float, others: int, pull: float) -> list[tuple[Quadratics, Quadratics]]:
    own = {"add-remove": [((5.0,), ())], "replace-one": [((5.0,), (-5.0,)), ((5.0,), (0.0,))]}[relation]
    return [(data(curvature, others, pull, *one), data(curvature, others, pull, *other)) for one, other in own]


def truth(spec: Spec, pair: tuple[Quadratics, Quadratics]) -> CellTruth:
    return CellTruth.between(*(chain_law(spec, one) for one in pair))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_every_window_and_split_is_above_the_truth(relation: str) -> None:
    spec = chain(relation, 6, 1, 0.3)
    sampled, move = (PoissonRemovePair, 1.0) if relation == "add-remove" else (PoissonReplacePair, 2.0)
    run = SampledChain(0.8, 1.0, 0.3, 6, sampled, move)
    exact = [truth(spec, pair) for pair in neighbours(relation, 0.0, 0, 0.0)]
    for window in (0, 2, 4):
        for share in (0.1, 0.7):
            for found in (run.with_largest_distance(window, share), run.with_random_distance(window, share)):
                for epsilon in (0.0, 0.5, 2.0):
                    assert max(one.delta(epsilon) for one in exact) <= found.delta(epsilon)


def test_half_the_move_or_half_the_ratio_falls_below_the_truth() -> None:
    """The comparison above can fail: a push that counts half, or steps that count half."""
    spec = chain("replace-one", 6, 1, 0.3)
    exact = truth(spec, neighbours("replace-one", 0.0, 0, 0.0)[0]).delta(0.5)
    for ratio, move in ((1.0, 0.3), (0.5, 2.0)):
        run = SampledChain(0.8, ratio, 0.3, 6, PoissonReplacePair, move)
        assert min(run.with_random_distance(window, 0.5).delta(0.5) for window in (0, 2, 4)) < exact


def test_large_batches_count_in_the_modulus() -> None:
    """Seven others, b = 1, q = 1/2: c certified at |B| = b would claim 0.523 where the truth is 0.605."""
    changes = {"problem.smoothness": 3.0, "algorithm.noise.scale": 0.025, "algorithm.step_size": 0.2}
    spec = chain("add-remove", 2, 8, 0.5, **changes)
    modulus = contraction_of(spec)
    assert isinstance(modulus, Contraction)
    assert modulus.at(0.2) == pytest.approx(abs(1 - 0.2 * (1.0 + 2.0 * 9)))
    refused = evaluate(theorem_named("shifted.random-batches"), spec)
    assert isinstance(refused, Inapplicable)
    assert "c < 1" in refused.reason


def test_rare_large_batches_are_added_to_delta() -> None:
    """At 20,000 records and batches of 100 expected, sizes up to about 170 decide the modulus."""
    changes = {"algorithm.batch.size": 100, "problem.smoothness": 4.0, "algorithm.step_size": 0.3}
    spec = chain("add-remove", 1000, 20_000, 0.005, **changes)
    modulus = contraction_of(spec)
    assert isinstance(modulus, Contraction)
    assert 0.0 < modulus.failure <= 1e-3 * DELTA
    assert 0.7 <= modulus.at(0.3) < 1.0
    answer = evaluate(theorem_named("shifted.random-participation"), spec)
    assert isinstance(answer, Bound)
    assert answer.guarantee.delta(50.0) >= modulus.failure
