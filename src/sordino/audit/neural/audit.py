"""The whole audit: an ensemble, a canary, models of D and of D', and an attack on every epoch."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.audit.fleet import Accuracy, Fleet, FleetRecords, Members, Probe, canary_probabilities, train_fleet
from sordino.audit.neural.attack import EpochFinding, Halves, attack_epoch
from sordino.audit.neural.canary import Canary, find_canaries
from sordino.audit.neural.findings import NeuralFindings, findings_of
from sordino.audit.neural.pilot import Piloted, pilot
from sordino.audit.neural.setting import NeuralData, NeuralSetting
from sordino.model.base import Model

# `train_fleet`, or anything that trains the same members to the same numbers: a cluster, a choice of devices.
TrainFleet = Callable[..., Fleet]
# Told each epoch's finding and its readings; answers whether to go on.
EachEpoch = Callable[[EpochFinding, Mapping[str, NDArray[np.float32]]], bool]
# Told what each round of trial found, best candidate first.
EachRound = Callable[[tuple[Piloted, ...]], None]
# Members of the ensemble and of pilots have numbers that no fleet reaches, so they share no randomness with it.
_ENSEMBLE_FIRST = 2**31
_PILOT_FIRST, _ROUND = 3 * 2**30, 2**20


def audit_network(
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    *,
    train: TrainFleet = train_fleet,
    each_epoch: EachEpoch | None = None,
) -> tuple[Canary, NeuralFindings]:
    """Lower bounds on the privacy loss of training a network on D, by epoch.

    The canary is made against models, and may be chosen by models, that are then thrown away; half of the fleet teaches
    the attack, the other half counts its errors. With `each_epoch` the fleet is watched, and may be ended early.
    """
    canary = canary_against_ensemble(model, data, setting, train)
    return canary, attack_canary(model, data, setting, canary, train=train, each_epoch=each_epoch)


def canary_against_ensemble(
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    train: TrainFleet = train_fleet,
    each_round: EachRound | None = None,
) -> Canary:
    """Train the ensemble of D, make canaries against it, and choose one: by trial, or the one that pulls hardest."""
    plan = replace(setting.plan, epochs=setting.ensemble_epochs)
    members = Members.of_one(setting.ensemble, first=_ENSEMBLE_FIRST)
    # Read as the attacked fleet is, so that one compiled program trains both; what is read here is not looked at.
    probes = _probes(data, data.features[0], data.features[0], 0)
    ensemble = train(model, FleetRecords(data.features, data.target), plan, members, probes).theta
    found = find_canaries(model, data, ensemble, plan.clip_norm, setting.tries, setting.beyond)
    if not setting.pilot:
        return max(found, key=lambda canary: canary.pull)
    for number, size in enumerate(setting.pilot):
        trial = replace(setting.plan, epochs=size.epochs)
        ranked = pilot(model, data, trial, size, found, _PILOT_FIRST + number * _ROUND, train)
        if each_round is not None:
            each_round(ranked)
        found = tuple(each.canary for each in ranked)
    return found[0]


def attack_canary(
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    canary: Canary,
    *,
    train: TrainFleet = train_fleet,
    each_epoch: EachEpoch | None = None,
) -> NeuralFindings:
    """Train the fleet on D and on D', and attack every epoch."""
    halves = Halves(setting.learning // 2, setting.testing // 2)
    probes = _probes(data, canary.x_star, canary.x_zero, canary.label)
    watched: dict[str, Any] = {}
    if each_epoch is not None:

        def watch(epoch: int, readings: Mapping[str, NDArray[np.float32]]) -> bool:
            read = readings["probabilities"], readings["accuracy"]
            return each_epoch(attack_epoch(epoch, *read, halves, setting.claimed), readings)

        watched["watch"] = watch
    fleet = train(model, canary.records(data), setting.plan, Members.of_both(halves.each), probes, **watched)
    return findings_of(fleet.readings, halves, setting.claimed, setting.plan.seed)


def _probes(data: NeuralData, x_star: NDArray[np.float32], x_zero: NDArray[np.float32], label: int) -> dict[str, Probe]:
    return {
        "probabilities": canary_probabilities(jnp.asarray(x_star), label, jnp.asarray(x_zero), label),
        "accuracy": Accuracy(jnp.asarray(data.test_features), jnp.asarray(data.test_target)),
    }
