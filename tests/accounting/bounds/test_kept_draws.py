"""Kept draws on random batches, and affine chains: reference values, the truth on enumerated mixtures, known traps."""

import math
from typing import Any

import numpy as np
import pytest

from sordino.accounting.bounds.segments import PassParts, levels_law, pass_sum_law, segments_of, weighted_uses_law
from sordino.accounting.evaluate import theorem_named
from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, chain_law
from tests.accounting.described import curved, guarantee, noisy_chain
from tests.soundness.cells import CellTruth

DELTA = 1e-5
KEPT, AFFINE = theorem_named("composition.kept-random"), theorem_named("shifted.affine")


def chain(scheme: str, steps: int, n: int, size: int, contraction: float, ratio: float, **values: Any) -> Spec:
    """Linear losses with weight decay, noise 1; gradients of two records differ by as much as the ratio says."""
    decay = curved(1.0 - contraction)
    problem = {"n": n, "gradient_sensitivity": ratio * size, **decay, "regulariser": decay}
    batch = {"scheme": scheme, "size": size}
    return noisy_chain(steps, 1.0, 1.0, batch, problem, view="all-iterates", delta=DELTA).with_values(values)


def truth(spec: Spec, decay: float, pull: float) -> CellTruth:
    """One record pulls by `pull` or not at all; nobody else does."""

    def data(own: float) -> Quadratics:
        return Quadratics(np.zeros((2, 1, 1)), np.array([[0.0], [own]]), np.array([1] + [0] * (spec.n - 1)), decay)

    return CellTruth.between(chain_law(spec, data(pull)), chain_law(spec, data(0.0)))


@pytest.mark.parametrize(("keep", "ratio", "contraction", "epsilon", "claimed"), [
    ({"burn_in": 0, "thin": 1}, 3.0, 0.5, 1.0, 0.630),
    ({"burn_in": 0, "thin": 2}, 4.5, 0.5, 14.0, 0.306),
])  # fmt: skip
def test_a_cut_pass_is_not_read_as_a_whole_one(
    keep: dict[str, int], ratio: float, contraction: float, epsilon: float, claimed: float
) -> None:
    """n = 2, b = 1: composing segments as if each began a pass of its own claims less than the truth."""
    steps = 2 if keep["thin"] == 1 else 3
    spec = chain("reshuffled", steps, 2, 1, contraction, ratio, **{"algorithm.keep": keep})
    exact = truth(spec, 1.0 - contraction, ratio).delta(epsilon)
    assert exact > claimed
    for theorem in (KEPT, AFFINE):
        assert guarantee(theorem, spec).delta(epsilon) >= exact * (1 - 1e-9)


def test_segments_cover_every_step_once_and_say_how_passes_are_cut() -> None:
    for kept, period in ((range(5, 50, 7), 10), (range(1, 20), 4), (range(30, 31), 7), (range(12, 100, 12), 4)):
        found = segments_of(kept, period)
        assert sum(found.values()) == len(kept)
        assert sum(parts.steps(period) * count for parts, count in found.items()) == kept[-1]
        direct = [PassParts.between(first, last, period) for first, last in zip([0, *kept[:-1]], kept, strict=True)]
        assert sorted(found.elements(), key=repr) == sorted(direct, key=repr)


def stochastically_above(values: np.ndarray, chances: np.ndarray, exact: np.ndarray, weights: np.ndarray) -> bool:
    """Whether P(value > x) is at least that of the exact law at every x."""
    return all(chances[values > x].sum() >= weights[exact > x].sum() - 1e-12 for x in (exact * (1 - 1e-9)).tolist())


@pytest.mark.every(3)
@pytest.mark.parametrize("parts", [PassParts(0, 2, 0), PassParts(2, 1, 1), PassParts(0, 1, 2), PassParts(1, 0, 0)])
@pytest.mark.parametrize("contraction", [0.2, 0.8, 1.0])
def test_sums_over_passes_are_above_the_enumerated_law(parts: PassParts, contraction: float) -> None:
    period = 3
    exact, weights, start = np.zeros(1), np.ones(1), 0
    if parts.tail:
        ends = np.append(0.0, contraction ** np.arange(parts.tail))
        exact = np.add.outer(exact, ends).ravel()
        weights = np.outer(weights, np.append(1 - parts.tail / period, np.full(parts.tail, 1 / period))).ravel()
        start = parts.tail
    for length in [period] * parts.whole + [parts.head] * (parts.head > 0):
        exact = np.add.outer(exact, contraction ** np.arange(start, start + length)).ravel()
        weights, start = np.repeat(weights / length, length), start + length
    law = pass_sum_law(contraction, period, parts)
    assert math.fsum(law.weights) == pytest.approx(1.0, abs=1e-12)
    assert stochastically_above(np.array(law.values), np.array(law.weights), exact, weights)
    assert np.dot(law.values, law.weights) == pytest.approx(float(exact @ weights), rel=2e-2)


def test_sums_of_weighted_uses_are_above_the_enumerated_law() -> None:
    weights = np.random.default_rng(3).uniform(0.1, 1.0, 10)
    used = (np.arange(1024)[:, None] >> np.arange(10)) & 1
    chances = 0.3 ** used.sum(axis=1) * 0.7 ** (10 - used.sum(axis=1))
    law = weighted_uses_law(weights, 0.3)
    assert stochastically_above(np.array(law.values), np.array(law.weights), used @ weights, chances)
    assert np.dot(law.values, law.weights) == pytest.approx(0.3 * weights.sum(), rel=2e-2)
    same = levels_law(np.array([0.5]), np.array([10]), 0.3)
    assert stochastically_above(np.array(same.values), np.array(same.weights), 0.5 * used.sum(axis=1), chances)
