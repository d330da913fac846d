"""Shuffled passes: reference values, and the bound at any epsilon_0 against enumerated orders of batches."""

import math
from itertools import product

import numpy as np
import pytest

from sordino.accounting.bounds import hidden_steps as clones
from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.auditing.exact.extremal_chain import extremal_findings
from sordino.core.bound import Bound
from sordino.core.gaussian import special
from sordino.core.spec import read_spec
from tests.conformance.examples import FOLDER
from tests.soundness.cells import CellTruth
from tests.soundness.instances.shuffled import pass_of

THEOREM = theorem_named("composition.clones")
EPSILONS = (0.0, 0.05, 0.2, 1.0)


def exact(others: tuple[float, ...], ratio: float, size: int = 1) -> CellTruth:
    return CellTruth.between(*(pass_of((own, *others), size) for own in (0.0, ratio)))


@pytest.mark.parametrize(("scale", "composed", "reachable"), [(0.4, 1.993, 0.01888), (0.8, 0.9263, 0.00371)])
def test_reference_values_of_one_pass(scale: float, composed: float, reachable: float) -> None:
    """n = 100,000, kappa = 0.5 and 0.25; 0.08 and 0.024 with one coin for a label, as published."""
    spec = read_spec(FOLDER / "shuffled-single-records.json").with_values({"algorithm.noise.scale": scale})
    answers = [evaluate(theorem_named(name), spec) for name in ("composition.parallel-epochs", THEOREM.id)]
    found = [answer.guarantee.epsilon(1e-5) for answer in answers if isinstance(answer, Bound)]
    assert found == [pytest.approx(composed, rel=5e-3), pytest.approx(reachable, rel=1e-2)]


@pytest.mark.every(2)
@pytest.mark.parametrize("ratio", [0.1, 0.6, 2.0])
@pytest.mark.parametrize("shares", [(0.0,), (0.5,), (1.0,), (0.0, 0.0), (0.0, 1.0), (0.5, 1.0)])
def test_no_epsilon_0_is_below_the_enumerated_orders(ratio: float, shares: tuple[float, ...]) -> None:
    """Two and three records, the others anywhere between the two that differ; both directions."""
    truth = exact(tuple(share * ratio for share in shares), ratio)
    for threshold, epsilon in product((0.3, 0.8, 1.5, 6.0), EPSILONS):
        bound = float(clones._deltas(len(shares) + 1, ratio, threshold, np.array([epsilon]))[0])
        assert truth.delta(epsilon) <= bound * (1 + 1e-9), threshold


def test_the_mass_beyond_epsilon_0_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above can fail: without the failure t the bound falls below the truth."""
    truth = exact((0.0, 2.0), 2.0).delta(1.0)
    assert float(clones._deltas(3, 2.0, 0.3, np.array([1.0]))[0]) >= truth
    monkeypatch.setattr(clones, "clone_failure", lambda *_: 0.0)
    assert float(clones._deltas(3, 2.0, 0.3, np.array([1.0]))[0]) < truth


@pytest.mark.parametrize(("number", "ratio"), [(1, 0.5), (2, 2.0)])
def test_with_clones_it_is_the_mean_of_labels(number: int, ratio: float) -> None:
    """Against sums of quantiles of tanh(L / 2); a mean of means over cells is smaller in convex order."""
    uniform = (np.arange(400) + 0.5) / 400
    losses = np.concatenate([sign * (ratio * special.ndtri(uniform) + ratio**2 / 2) for sign in (-1, 1)])
    leans = np.tanh(np.sort(losses).reshape(-1, 8) / 2).mean(axis=1)
    means = leans
    for _ in range(number):
        means = np.add.outer(means, leans).ravel()
    means = means / (number + 1)
    for epsilon in (0.0, 0.3, 1.0):
        rough = np.maximum(1 - math.exp(epsilon) + (1 + math.exp(epsilon)) * means, 0.0).mean()
        found = float(clones._given(number, ratio, np.array([epsilon]))[0])
        assert rough * (1 - 1e-9) <= found <= rough * 1.02 + 1e-4


def test_as_many_others_as_records_would_be_too_many() -> None:
    """The comparison above can fail: eight records in batches of four do not hide one among eight."""
    truth = exact((0.0,) * 7, 1.0, 4).delta(0.0)
    claims = [float(clones._deltas(places, 1.0, 6.0, np.array([0.0]))[0]) for places in (2, 8 * 10**5)]
    assert claims[1] < truth <= claims[0]


@pytest.mark.parametrize("scheme", ["reshuffled", "shuffle-once"])
def test_the_exact_lower_end_is_below(scheme: str) -> None:
    """One pass of 200 batches of ten at kappa 0.25: between random allocation and clones lies a factor of two."""
    change = {"problem.n": 2000, "algorithm.batch": {"scheme": scheme, "size": 10}, "algorithm.steps": 200}
    spec = read_spec(FOLDER / "shuffled-single-records.json").with_values(change | {"algorithm.noise.scale": 0.08})
    answer = evaluate(THEOREM, spec)
    assert isinstance(answer, Bound)
    lower = max(finding.leak.epsilon(1e-5) for finding in extremal_findings(spec))
    upper = answer.guarantee.epsilon(1e-5)
    assert 0.05 < lower <= upper < 2.2 * lower


def test_kept_orders_repeat_their_secret_step() -> None:
    """Four passes in one order: the exact lower end is that of one pass at twice the ratio; new orders give less."""
    change = {"problem.n": 1000, "algorithm.batch": {"scheme": "shuffle-once", "size": 10}}
    spec = read_spec(FOLDER / "shuffled-single-records.json").with_values(change | {"algorithm.noise.scale": 0.08})

    def lower(steps: int, scale: float, scheme: str = "shuffle-once") -> float:
        run = {"algorithm.steps": steps, "algorithm.noise.scale": scale, "algorithm.batch.scheme": scheme}
        return max(finding.leak.epsilon(1e-5) for finding in extremal_findings(spec.with_values(run)))

    assert lower(400, 0.08) == pytest.approx(lower(100, 0.04), rel=1e-6)
    assert lower(400, 0.08, "reshuffled") < lower(400, 0.08)
