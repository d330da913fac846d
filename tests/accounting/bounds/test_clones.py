"""Shuffled passes: reference values, and the bound at any epsilon_0 against enumerated orders of batches."""

import math
from itertools import product

import numpy as np
import pytest

from sordino.accounting.bounds import hidden_steps as clones
from sordino.auditing.exact.extremal_chain import extremal_findings
from sordino.core.gaussian import special
from tests.accounting.described import example, guarantee, noisy_chain
from tests.soundness.cells import CellTruth
from tests.soundness.instances.chains import pass_of

EPSILONS = (0.0, 0.05, 0.2, 1.0)


def exact(others: tuple[float, ...], ratio: float, size: int = 1) -> CellTruth:
    return CellTruth.between(*(pass_of((own, *others), size) for own in (0.0, ratio)))


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


def test_ten_thousand_others_hide_a_record_that_moves_a_step_by_its_noise() -> None:
    """The number of clones was once chosen among epsilons up to 1 alone: 4.887."""
    problem = {"n": 10_000, "gradient_sensitivity": 1.0}
    batch = {"scheme": "reshuffled", "size": 1}
    spec = noisy_chain(10_000, 1.0, 1.0, batch, problem, view="all-iterates", delta=1e-6)
    assert guarantee("composition.clones", spec).epsilon(1e-6) <= 0.851


@pytest.mark.parametrize("scheme", ["reshuffled", "shuffle-once"])
def test_the_exact_lower_end_is_below(scheme: str) -> None:
    """One pass of 200 batches of ten at kappa 0.25: between random allocation and clones lies a factor of two."""
    change = {"problem.n": 2000, "algorithm.batch": {"scheme": scheme, "size": 10}, "algorithm.steps": 200}
    spec = example("shuffled-single-records", change | {"algorithm.noise.scale": 0.08})
    lower = max(finding.leak.epsilon(1e-5) for finding in extremal_findings(spec))
    assert 0.05 < lower <= guarantee("composition.clones", spec).epsilon(1e-5) < 2.2 * lower
