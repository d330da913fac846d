"""Shuffled single records: reference values, and the bound at any epsilon_0 against enumerated orders."""

import math
from itertools import product

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.accounting.participation import clones
from sordino.core.bound import Bound, Inapplicable
from sordino.core.spec import read_spec
from tests.conformance.examples import FOLDER
from tests.soundness.cells import CellTruth
from tests.soundness.instances.shuffled import pass_of_singles

THEOREM = theorem_named("composition.clones")
EPSILONS = (0.0, 0.2, 1.0, 2.5)


def exact(others: tuple[float, ...], ratio: float) -> CellTruth:
    return CellTruth.between(pass_of_singles((0.0, *others)), pass_of_singles((ratio, *others)))


@pytest.mark.parametrize(("scale", "composed", "reachable"), [(0.4, 1.993, 0.0804), (0.8, 0.9263, 0.0239)])
def test_reference_values_of_one_pass(scale: float, composed: float, reachable: float) -> None:
    """n = 100,000, kappa = 0.5 and 0.25; 0.10 and 0.026 in the published way with a coarser epsilon_0."""
    spec = read_spec(FOLDER / "shuffled-single-records.json").with_values({"algorithm.noise.scale": scale})
    answers = [evaluate(theorem_named(name), spec) for name in ("composition.parallel-epochs", THEOREM.id)]
    found = [answer.guarantee.epsilon(1e-5) for answer in answers if isinstance(answer, Bound)]
    assert found == [pytest.approx(composed, rel=5e-3), pytest.approx(reachable, rel=1e-2)]


@pytest.mark.parametrize("ratio", [0.1, 0.6, 2.0])
@pytest.mark.parametrize("shares", [(0.0,), (0.5,), (1.0,), (0.0, 0.0), (0.0, 1.0), (0.5, 1.0)])
def test_no_epsilon_0_is_below_the_enumerated_orders(ratio: float, shares: tuple[float, ...]) -> None:
    """Two and three records, the others anywhere between the two that differ; both directions."""
    truth = exact(tuple(share * ratio for share in shares), ratio)
    for threshold, epsilon in product((0.3, 0.8, 1.5, 3.0, 6.0), EPSILONS):
        bound = float(clones._deltas(len(shares) + 1, ratio, threshold, np.array([epsilon]))[0])
        assert truth.delta(epsilon) <= bound * (1 + 1e-9), threshold


def test_the_mass_beyond_epsilon_0_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above can fail: without the failure t the bound falls below the truth."""
    truth = exact((0.0, 2.0), 2.0).delta(1.0)
    assert float(clones._deltas(3, 2.0, 0.8, np.array([1.0]))[0]) >= truth
    monkeypatch.setattr(clones, "failure", lambda *_: 0.0)
    assert float(clones._deltas(3, 2.0, 0.8, np.array([1.0]))[0]) < truth


def test_given_the_number_of_clones_delta_is_that_of_two_binomials() -> None:
    for number, threshold, epsilon in product((0, 1, 7, 60), (0.5, 3.0), (0.0, 0.1, 1.0)):
        own = 1 / (1 + math.exp(-threshold))
        half = np.array([math.comb(number, k) / 2**number for k in range(number + 1)])
        more, same = np.append(0.0, half), np.append(half, 0.0)
        first, second = own * more + (1 - own) * same, (1 - own) * more + own * same
        exact_delta = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
        found = float(clones._given(np.array([number]), threshold, epsilon)[0])
        assert found == pytest.approx(exact_delta, rel=1e-9, abs=1e-10)
        assert found >= exact_delta * (1 - 1e-13)


def test_numbers_of_clones_are_rounded_down() -> None:
    numbers, chances = clones._clones(1000, 0.03)
    assert chances.sum() == pytest.approx(1.0)
    assert float(numbers @ chances) <= 30.0
    assert (chances >= -1e-15).all()


def test_it_is_refused_for_larger_batches_and_a_second_pass_in_the_same_order() -> None:
    spec = read_spec(FOLDER / "shuffled-single-records.json")
    for change, words in (
        ({"algorithm.batch.size": 2}, "batches have 2"),
        ({"algorithm.batch.scheme": "shuffle-once", "algorithm.steps": 200_000}, "pass over 100000 records again"),
        ({"algorithm.noise.scale": 1e-3}, "no epsilon_0"),
    ):
        refused = evaluate(THEOREM, spec.with_values(change))
        assert isinstance(refused, Inapplicable)
        assert words in refused.reason
