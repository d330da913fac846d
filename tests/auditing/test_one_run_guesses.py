"""One run with many canaries: relation, guesses, and Gaussian mechanisms whose epsilon is known."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from sordino import InputError, Relation, View, read_spec
from sordino.accounting.evaluate import explain
from sordino.auditing.experiment import Claim
from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.methods.attack import attack
from sordino.auditing.methods.one_run import one_run
from sordino.auditing.methods.one_run_guesses import (
    audit_in_one_run,
    epsilon_from_guesses,
    one_run_guesses,
    planned_guesses,
    right_guesses,
)
from sordino.core.guarantee import GaussianDP

SPECS = Path(__file__).parents[2] / "examples" / "specs"
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


HIDDEN = ["golden-poisson", "golden-poisson-replace-one", "shuffle-once-last-iterate", "reshuffled-last-iterate"]


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["full-last-iterate", "full-add-remove", "clipped-softmax", "projected-nonconvex"])
def test_a_described_run_is_audited_below_its_certificate(name):
    described = read_spec(SPECS / f"{name}.json").with_values({"algorithm.steps": 20})
    found = one_run_guesses(described, AuditOptions(delta=1e-3, seed=2))
    assert found.epsilon <= explain(described, 1e-3).epsilon
    assert found.relation is described.relation


def test_loud_canaries_are_heard_through_the_kernel():
    """100 axes, hardly any noise: every coin that is guessed is right."""
    described = read_spec(SPECS / "projected-nonconvex.json").with_values(
        {"algorithm.steps": 3, "algorithm.noise.scale": 1e-7, "algorithm.projection": None}
    )
    found = one_run_guesses(described, AuditOptions(delta=1e-5, seed=2))
    counts = dict(found.counts)
    assert counts["right guesses"] == counts["guesses"] >= 50
    assert found.epsilon == found.cap > 2.0


@pytest.mark.every(4)
@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_batches_are_audited_by_guesses_with_more_canaries_than_axes(name):
    described = read_spec(SPECS / f"{name}.json")
    found = [one_run(described, AuditOptions(delta=1e-5, seed=seed)) for seed in range(3)]
    certified = explain(described, 1e-5).epsilon
    for one in found:
        assert dict(one.counts)["coins"] >= 10 * described.dim
        assert one.epsilon <= certified
        assert "its batches are hidden" in one.evidence
        assert ("Nothing was found" in one.evidence) == (one.epsilon == 0.0)
    # The old plan, a coin for each axis, found nothing with any of these seeds.
    assert max(one.epsilon for one in found) > 0.02


@pytest.mark.every(3)
@pytest.mark.parametrize("name", ["logistic-instance", "projected-convex", "average-laplace"])
def test_what_a_run_is_too_small_for_is_said(name):
    found = one_run(read_spec(SPECS / f"{name}.json"), AuditOptions(delta=1e-5, seed=1))
    assert found.epsilon == 0.0
    assert "Nothing was found, as was to be expected" in found.evidence
    assert found.evidence.startswith("Run by this code: the described chain, once")


@pytest.mark.parametrize("name", ["ula-transfer", "heavy-tail-as-stated"])
@pytest.mark.parametrize("audited", [one_run, one_run_guesses, attack])
def test_a_problem_that_the_extremal_quadratic_need_not_be_is_refused(name, audited):
    """It could leak more than the certificate allows without contradicting it."""
    with pytest.raises(InputError, match="need not satisfy problem"):
        audited(read_spec(SPECS / f"{name}.json"), AuditOptions(delta=1e-5, seed=1))


def test_the_plan_takes_more_canaries_where_each_says_less():
    loud, quiet = (planned_guesses(20, 10_000, distance, 1e-5, 0.95) for distance in (0.9, 0.1))
    assert loud.each == 1
    assert quiet.each > 20
    assert loud.expected > quiet.expected > 0
    assert planned_guesses(20, 30, 0.1, 1e-5, 0.95).canaries <= 30
    assert planned_guesses(2, 10_000, 0.5, 1e-5, 0.95).expected == 0.0
    assert planned_guesses(50, 3, 1.0, 1e-5, 0.95).canaries == 3


@pytest.mark.parametrize(("directions", "distance"), [(20, 0.3), (100, 0.7), (50, 0.05), (1000, 0.68)])
def test_the_plan_expects_what_happens(directions, distance):
    """Gaussian directions: the median of 100 audits is near the plan. Margins are four times the spread of a median."""
    plan = planned_guesses(directions, 10_000, distance, 1e-5, 0.95)
    clarity = 2 * norm.ppf(0.5 + distance / 2)
    rng = np.random.default_rng(3)
    found = []
    for _ in range(100):
        coins = rng.integers(0, 2, (directions, plan.each)).astype(bool)
        release = clarity * (coins - 0.5).sum(axis=1) + rng.standard_normal(directions)
        right = right_guesses(np.repeat(release, plan.each), coins.ravel(), plan.guesses)
        found.append(epsilon_from_guesses(plan.canaries, plan.guesses, right, 1e-5, 0.95))
    assert np.median(found) == pytest.approx(plan.expected, abs=4 * 1.25 * np.std(found) / np.sqrt(100))
    if directions == 1000:  # mu 2: jax-privacy's best is 2.7
        assert np.median(found) >= 3.2
