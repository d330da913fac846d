"""A network's audit from end to end on sixteen models, wherever these are trained."""

import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papers.heller_fetaya.attack import cap
from papers.heller_fetaya.fleet import FleetRecords, Members, train_fleet
from papers.heller_fetaya.lenet import scores_of
from papers.heller_fetaya.network_audit import (
    _ENSEMBLE_FIRST,
    Accuracy,
    NeuralFindings,
    Piloted,
    attack_canary,
    audit_network,
    canary_against_ensemble,
    canary_probabilities,
    described_chain,
    separation,
)
from papers.heller_fetaya.network_canary import Canary, NeuralSetting, PilotRound, find_canaries
from sordino.accounting.evaluate import explain
from sordino.auditing.fleet import network_for, plan_of
from sordino.auditing.lower_bound import VerdictKind, verdict
from sordino.core.bound import View
from sordino.core.validate import InputError

from .small_network import DOMAIN, MODEL, RECORDS, data, setting


@pytest.fixture(scope="module")
def found() -> tuple[Canary, NeuralFindings]:
    return audit_network(MODEL, data(), setting())


def test_the_canary_is_a_record_of_d_pushed_until_every_model_of_the_ensemble_is_wrong(found) -> None:
    canary, _ = found
    given = data()
    assert np.array_equal(canary.x_zero, given.features[canary.row])
    assert canary.label == given.target[canary.row]
    chosen = setting()
    ensemble = train_fleet(
        MODEL,
        FleetRecords(given.features, given.target),
        setting(epochs=chosen.ensemble_epochs).plan,
        Members.of_one(chosen.ensemble, first=_ENSEMBLE_FIRST),
    ).theta
    network = network_for(MODEL, 5)
    points = np.stack([canary.x_zero, canary.x_star])
    decided = np.argmax(np.asarray(scores_of(network, network.split(ensemble), points)), axis=2)
    assert (decided[:, 0] == canary.label).all()
    assert (decided[:, 1] != canary.label).all()
    assert np.linalg.norm(canary.x_star) <= DOMAIN.row_norm.value


@pytest.mark.slow
def test_a_canary_chosen_by_trial_is_the_best_of_the_last_round_and_its_models_are_never_attacked() -> None:
    rounds: list[tuple[Piloted, ...]] = []
    trained: list[Members] = []

    def train(model, records, plan, members, *probes, **watched):
        trained.append(members)
        return train_fleet(model, records, plan, members, *probes, **watched)

    first = PilotRound(candidates=6, of_d=3, each=2, epochs=4)
    chosen = replace(setting(), beyond=(1.0, 2.0), pilot=(first, replace(first, candidates=2)))
    canary = canary_against_ensemble(MODEL, data(), chosen, train, rounds.append)
    attack_canary(MODEL, data(), chosen, canary, train=train)
    assert [len(found) for found in rounds] == [6, 2]
    assert canary is rounds[-1][0].canary
    assert {id(each.canary) for each in rounds[1]} == {id(each.canary) for each in rounds[0][:2]}
    for found in rounds:
        assert all(each.separations.shape == (4,) and each.score == each.separations[2:].min() for each in found)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    numbers = [set(members.numbers) for members in trained]
    assert len(set().union(*numbers)) == sum(len(each) for each in numbers)


def test_a_longer_push_is_kept_only_where_it_still_fools_every_model() -> None:
    given, chosen = data(), setting()
    plan = replace(chosen.plan, epochs=chosen.ensemble_epochs)
    members = Members.of_one(chosen.ensemble, first=_ENSEMBLE_FIRST)
    ensemble = train_fleet(MODEL, FleetRecords(given.features, given.target), plan, members).theta
    found = find_canaries(MODEL, given, ensemble, None, 4, (1.0, 3.0, 9.0))
    network = network_for(MODEL, 5)
    decided = np.asarray(scores_of(network, network.split(ensemble), np.stack([each.x_star for each in found])))
    assert (np.argmax(decided, axis=2) != np.array([each.label for each in found])).all()
    shortest = {each.row: min(other.length for other in found if other.row == each.row) for each in found}
    assert any(each.length == pytest.approx(9 * shortest[each.row]) for each in found)
    assert all(np.linalg.norm(each.x_star) <= DOMAIN.row_norm.value * (1 + 1e-6) for each in found)


def test_separation_is_the_difference_of_means_over_the_pooled_deviation() -> None:
    without, seen = np.array([[0.0, 2.0, 4.0]]), np.array([[5.0, 7.0]])
    pooled = np.sqrt((8.0 + 2.0) / 3)
    assert separation(without, seen) == pytest.approx([4.0 / pooled])


def test_every_epoch_has_its_own_bound_and_joint_bounds_are_weaker(found) -> None:
    _, findings = found
    assert [each.epoch for each in findings.epochs] == [1, 2, 3, 4]
    assert findings.readings["probabilities"].shape == (4, 16, 4)
    assert findings.cap == cap(4, 4, 1e-5, 0.9)
    assert findings.attacks == ("probabilities", "log-odds", "log-odds, chosen cut")
    assert findings.joint_confidence == pytest.approx(1 - 0.1 / 12)
    for attack in findings.attacks:
        pairs = zip(findings.bounds(attack, joint=False), findings.bounds(attack, joint=True), strict=True)
        for own, joint in pairs:
            assert joint.epsilon <= own.epsilon <= findings.cap
            assert joint.epsilon <= findings.over_all().epsilon
            assert joint.confidence > own.confidence == 0.9
            assert own.view is View.LAST_ITERATE
    with pytest.raises(InputError, match="epoch"):
        findings.lower_bound(5, "log-odds", joint=False)


def test_the_first_and_second_halves_of_the_four_probabilities_are_the_same_because_the_label_is_kept(found) -> None:
    _, findings = found
    probabilities = findings.readings["probabilities"]
    assert np.array_equal(probabilities[..., 0], probabilities[..., 1])
    assert np.array_equal(probabilities[..., 2], probabilities[..., 3])
    assert np.unique(probabilities[-1, :, 0]).size == 16


def test_a_fleet_that_is_told_to_stop_stops(found) -> None:
    canary, findings = found
    told: list[int] = []

    def once(finding, readings) -> bool:
        told.append(finding.epoch)
        return finding.epoch < 2

    stopped = attack_canary(MODEL, data(), setting(), canary, each_epoch=once)
    assert told == [1, 2]
    assert stopped.epochs == findings.epochs[:2]


def test_the_spec_of_a_clipped_network_gives_back_its_plan_and_is_not_contradicted() -> None:
    chosen = setting(clip_norm=0.5)
    noisy = described_chain(MODEL, DOMAIN, chosen.plan, RECORDS, 4)
    assert replace(plan_of(noisy, MODEL, chosen.plan.seed), start=chosen.plan.start) == chosen.plan
    canary, findings = audit_network(MODEL, data(), chosen)
    certified = explain(noisy, 1e-5).tightest
    assert certified is not None
    assert canary.row < RECORDS
    assert verdict(certified, findings.lower_bound(4, "probabilities", joint=False)).kind is not VerdictKind.VIOLATED


def test_probabilities_and_accuracy_are_read_off_every_model() -> None:
    given, plan = data(), setting(clip_norm=1.0).plan
    records = FleetRecords(given.features, given.target)
    x_star, x_zero = given.features[0], given.features[1]
    probes = {
        "canary": canary_probabilities(jnp.asarray(x_star), 1, jnp.asarray(x_zero), 2),
        "accuracy": Accuracy(jnp.asarray(given.features), jnp.asarray(given.target)),
    }
    fleet = train_fleet(MODEL, records, plan, Members.of_one(4), probes)
    chances = np.asarray(jax.nn.softmax(jnp.stack([MODEL.predict(fleet.theta[3], x) for x in (x_star, x_zero)])))
    expected = [chances[0, 1], chances[0, 2], chances[1, 1], chances[1, 2]]
    np.testing.assert_allclose(fleet.readings["canary"][-1, 3], expected, atol=1e-5)
    chosen = [int(jnp.argmax(MODEL.predict(fleet.theta[3], x))) for x in given.features]
    assert fleet.readings["accuracy"][-1, 3, 0] == pytest.approx(np.mean(np.array(chosen) == given.target))


def test_odd_halves_are_refused() -> None:
    with pytest.raises(InputError, match="even"):
        NeuralSetting(
            plan=setting().plan,
            learning=7,
            testing=8,
            ensemble=3,
            ensemble_epochs=1,
            tries=4,
            claimed=setting().claimed,
        )


def test_dp_accounting_and_dask_are_not_imported_with_the_audit() -> None:
    code = (
        "import sys, papers.heller_fetaya.network_audit;"
        "sys.exit(any(name in sys.modules for name in ('dask', 'distributed', 'dp_accounting', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
