"""Rényi curves given how a batch was drawn: with replacement, and Poisson batches with a cap."""

import math

import numpy as np
import pytest
from scipy import stats

from sordino.accounting.bounds import hidden_steps
from sordino.accounting.bounds.renyi import poisson_renyi
from sordino.accounting.theorems import sampled
from sordino.core.bound import Relation
from sordino.core.guarantee import LossDistribution, RenyiDP
from tests.accounting.described import example, guarantee


def mean_of_uses(size: int, records: int, order: float, ratio: float) -> float:
    weights = stats.binom.pmf(np.arange(size + 1), size, 1 / records)
    return math.log(math.fsum(w * math.exp(order * (order - 1) * (k * ratio) ** 2 / 2) for k, w in enumerate(weights)))


CASES = [(2, 3, 2.0, 0.5), (5, 50, 4.0, 0.3), (20, 20, 1.5, 0.2), (3, 10**6, 8.0, 1.0), (4, 2, 1.01, 0.01)]


@pytest.mark.parametrize(("size", "records", "order", "ratio"), CASES)
def test_with_replacement_is_the_mean_over_the_uses(size: int, records: int, order: float, ratio: float) -> None:
    exact, found = mean_of_uses(size, records, order, ratio), sampled._drawn_uses(size, records, order, ratio)
    assert exact * (1 - 1e-9) - 1e-15 <= found <= exact * (1 + 1e-8)


@pytest.mark.parametrize(("size", "records", "order", "ratio"), CASES)
def test_with_replacement_is_above_both_directions(size: int, records: int, order: float, ratio: float) -> None:
    """The law of a step with the record against that with one whose gradient is 0, by the trapezium rule."""
    z = np.arange(-25, 25 + 2 * order * size * ratio, 0.005)
    weights = stats.binom.pmf(np.arange(size + 1), size, 1 / records)
    own = sum(w * np.exp(k * ratio * z - (k * ratio) ** 2 / 2) for k, w in enumerate(weights))
    found = sampled._drawn_uses(size, records, order, ratio)
    for power in (order, 1 - order):
        mass = np.exp(power * np.log(own) - z * z / 2) * 0.005 / math.sqrt(2 * math.pi)
        assert math.log(float(mass.sum())) <= found + 1e-12


def test_more_uses_than_are_told_apart_count_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = mean_of_uses(8, 40, 3.0, 0.4)
    monkeypatch.setattr(sampled, "_MOST_TOLD", 8)
    assert sampled._drawn_uses(8, 40, 3.0, 0.4) == pytest.approx(exact, rel=1e-9)
    monkeypatch.setattr(sampled, "_MOST_TOLD", 3)
    assert exact < sampled._drawn_uses(8, 40, 3.0, 0.4) < math.inf


@pytest.mark.parametrize("full", [0.0, 1e-300, 1e-4, 0.3, 1.0])
def test_capped_batches_are_the_mean_over_full_and_other_ones(full: float) -> None:
    for order in (1.5, 4.0, 32.0):
        own, other = (poisson_renyi(order, 0.05, ratio, Relation.ADD_REMOVE) for ratio in (0.5, 1.0))
        exact = math.log((1 - full) * math.exp((order - 1) * own) + full * math.exp((order - 1) * other))
        found = hidden_steps.capped_moment(Relation.ADD_REMOVE, 0.05, full, order, 0.5)
        assert exact * (1 - 1e-9) - 1e-14 <= found <= exact * (1 + 1e-9) + 1e-14
        replaced = hidden_steps.capped_moment(Relation.REPLACE_ONE, 0.05, full, order, 0.5)
        assert replaced >= found * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "loss", "curve"),
    [
        ("noised-sums-with-replacement", "subsampled-with-replacement", "with-replacement-renyi"),
        ("noised-sums-truncated-poisson", "truncated-poisson", "truncated-poisson-renyi"),
        ("truncated-poisson-replace-one", "truncated-poisson", "truncated-poisson-renyi"),
    ],
)
def test_no_delta_is_too_small(name: str, loss: str, curve: str) -> None:
    """Finite and growing down to 1e-300, and never below the lower end of the loss distribution."""
    pairs, found = (guarantee(f"composition.{theorem}", example(name)) for theorem in (loss, curve))
    assert isinstance(pairs, LossDistribution)
    assert isinstance(found, RenyiDP)
    assert found.failure == 0.0
    assert pairs.epsilon_bracket(1e-5).low < found.epsilon(1e-5)
    epsilons = [found.epsilon(delta) for delta in (1e-5, 1e-9, 1e-14, 1e-30, 1e-100, 1e-300)]
    assert epsilons == sorted(epsilons)
    assert math.isfinite(epsilons[-1])


def test_one_record_is_in_every_place() -> None:
    spec = example("noised-sums-with-replacement", {"algorithm.records": 1, "algorithm.sampling.size": 1})
    names = ("with-replacement-renyi", "subsampled-with-replacement")
    assert guarantee(f"composition.{names[0]}", spec) == guarantee(f"composition.{names[1]}", spec)
