"""One run with many canaries: relation, guesses, and Gaussian mechanisms whose epsilon is known."""

from pathlib import Path

import numpy as np
import pytest

from sordino.accounting.evaluate import explain
from sordino.audit import AuditOptions
from sordino.audit.attack import Claim
from sordino.audit.one_run import Canaries, audit_in_one_run, fair_coins, right_guesses
from sordino.audit.one_run.described import audit_described_run_once
from sordino.audit.one_run.guesses import usual_guesses
from sordino.core.errors import InputError
from sordino.core.guarantee import GaussianDP
from sordino.core.relation import Relation
from sordino.core.spec import read_spec
from sordino.core.view import View
from sordino.data.neighbours import Dataset, Record

SPECS = Path(__file__).parents[3] / "examples" / "specs"
CLAIM = Claim(Relation.ADD_REMOVE, View.ONE_SAMPLE)


def gaussian_sum(noise):
    """Orthogonal canaries of length 1: each coin that says heads adds a unit vector."""
    return lambda coins, seed: coins + noise * np.random.default_rng(seed).standard_normal(len(coins))


def test_a_gaussian_sum_is_found_out_below_its_epsilon():
    """mu = 4 at delta = 1e-5; 2000 coins of which the 400 clearest are guessed."""
    asked = AuditOptions(delta=1e-5, seed=1)
    found = audit_in_one_run(gaussian_sum(0.25), lambda release: release, 2000, 400, CLAIM, asked, "orthogonal")
    assert 2.0 < found.epsilon < GaussianDP(4.0).epsilon(1e-5)
    assert found.epsilon <= found.cap
    assert dict(found.counts)["models"] == 1
    assert found.method == "one-run"


def test_noise_alone_gives_nothing():
    asked = AuditOptions(delta=1e-5, seed=1)
    run = lambda coins, seed: np.random.default_rng(seed).standard_normal(len(coins))  # noqa: E731
    assert audit_in_one_run(run, lambda release: release, 500, 200, CLAIM, asked, "null").epsilon == 0.0


def test_the_mechanism_cannot_change_the_coins_that_count():
    def cheat(coins, seed):
        coins[:] = True
        return np.zeros(len(coins))

    asked = AuditOptions(delta=1e-5, seed=1)
    assert audit_in_one_run(cheat, lambda release: release, 500, 500, CLAIM, asked, "cheat").epsilon == 0.0


def test_guesses_take_both_ends():
    coins = np.array([True, True, False, False, True])
    assert right_guesses(np.array([5.0, 4.0, 1.0, 0.0, 2.0]), coins, 4) == 4
    assert right_guesses(np.array([5.0, 4.0, 1.0, 0.0, 2.0]), coins, 5) == 5
    assert right_guesses(np.array([0.0, 1.0, 4.0, 5.0, 2.0]), coins, 2) == 0
    assert right_guesses(np.zeros(5), coins, 0) == 0


def test_few_coins_are_all_guessed_and_of_many_the_clearest():
    assert [usual_guesses(coins) for coins in (1, 10, 50, 100, 1000)] == [1, 10, 50, 50, 100]


def test_coins_are_fair():
    """False-alarm rate below 1e-6: five standard errors."""
    assert abs(fair_coins(10_000, np.random.default_rng(0)).mean() - 0.5) < 5 * 0.005


def test_canaries_know_their_relation():
    base = Dataset(np.zeros((3, 2)), np.zeros(3))
    heads = (Record(np.ones(2), 1.0), Record(2 * np.ones(2), 1.0))
    tails = (Record(-np.ones(2), 0.0), Record(-2 * np.ones(2), 0.0))
    coins = np.array([True, False])
    there = Canaries(base, heads)
    assert there.relation is Relation.ADD_REMOVE
    assert np.array_equal(there.flipped(coins).features[3:], [[1.0, 1.0]])
    assert len(there.flipped(~coins & coins)) == 3
    either = Canaries(base, heads, tails)
    assert either.relation is Relation.REPLACE_ONE
    assert np.array_equal(either.flipped(coins).features[3:], [[1.0, 1.0], [-2.0, -2.0]])
    with pytest.raises(InputError, match="alternative"):
        Canaries(base, heads, tails[:1])


@pytest.mark.parametrize("name", ["full-last-iterate", "full-add-remove", "clipped-softmax", "projected-nonconvex"])
def test_a_described_run_is_audited_below_its_certificate(name):
    described = read_spec(SPECS / f"{name}.json").with_values({"algorithm.steps": 20})
    found = audit_described_run_once(described, AuditOptions(delta=1e-3, seed=2))
    certified = explain(described, 1e-3).epsilon
    assert found.epsilon <= certified
    assert found.relation is described.relation


def test_loud_canaries_are_heard_through_the_kernel():
    """100 axes, hardly any noise: 50 coins are guessed, and all are right."""
    described = read_spec(SPECS / "projected-nonconvex.json").with_values(
        {"algorithm.steps": 3, "algorithm.noise.scale": 1e-7, "algorithm.projection": None}
    )
    found = audit_described_run_once(described, AuditOptions(delta=1e-5, seed=2))
    assert dict(found.counts)["right guesses"] == 50
    assert found.epsilon == found.cap > 2.0
