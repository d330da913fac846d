"""Run a variant of the experiment for as long as there is time, and keep what every epoch showed."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sordino.audit.confidence import cap, epsilon_lower
from sordino.audit.neural import (
    Canary,
    EpochFinding,
    NeuralData,
    NeuralSetting,
    Piloted,
    attack_canary,
    canary_against_ensemble,
)
from sordino.core.errors import InputError
from sordino.model.base import Model
from sordino.reproduce.heller_fetaya.mnist_pilot import save_pilot
from sordino.reproduce.heller_fetaya.mnist_recorded import Recorded, distinct

# Candidates of each round that are told of.
_SAID = 4


def run_variant(
    name: str,
    model: Model,
    data: NeuralData,
    setting: NeuralSetting,
    folder: Path,
    seconds: float,
    say: Callable[[str], None],
    otherwise: Canary | None = None,
) -> Canary:
    """Make the canary, train both fleets, and write `name`.npz into the folder after each epoch; answer the canary.

    `otherwise` is a canary to use where this chain's ensemble agrees on too little to make one. What rounds of trial
    find goes to `name`-pilot.json.

    The run ends when its epochs are done or when another epoch would take it past `seconds`, and never because of what
    it found: joint bounds count the epochs, so their number must not depend on the models.
    """
    begin = time.monotonic()
    rounds: list[tuple[Piloted, ...]] = []

    def each_round(found: tuple[Piloted, ...]) -> None:
        rounds.append(found)
        save_pilot(folder, name, rounds)
        for each in found[:_SAID]:
            told = f"record {each.canary.row}, {each.canary.length:.1f} times the push, separation {each.score:.2f}"
            say(f"{name}: round {len(rounds)}, {told}, {time.monotonic() - begin:.1f} s")

    try:
        canary = canary_against_ensemble(model, data, setting, each_round=each_round)
    except InputError:
        if otherwise is None:
            raise
        canary = otherwise
    say(
        f"{name}: canary of record {canary.row}, label {canary.label}, {canary.length:.1f} times DeepFool's push, "
        f"pull {canary.pull:.3g}, {time.monotonic() - begin:.1f} s"
    )
    held: list[tuple[NDArray[np.float32], NDArray[np.float32], float]] = []
    claimed = setting.claimed.delta, setting.claimed.confidence

    def each_epoch(finding: EpochFinding, readings: Mapping[str, NDArray[np.float32]]) -> bool:
        now = time.monotonic() - begin
        held.append((distinct(readings), readings["accuracy"], now))
        columns = (np.stack(column) for column in zip(*held, strict=True))
        Recorded(name, setting.plan.seed, canary, *columns).save(folder)
        counts = finding.counts("probabilities")
        epsilon = epsilon_lower(counts, *claimed)
        most = cap(counts.first_models, counts.second_models, *claimed)
        say(
            f"{name}: epoch {finding.epoch}, errors {counts.false_positives} and {counts.false_negatives} of "
            f"{counts.first_models} each, epsilon at least {epsilon:.3f} (cap {most:.3f}), "
            f"accuracy {finding.accuracy:.4f}, {now:.1f} s"
        )
        last = now - held[-2][2] if len(held) > 1 else 0.0
        return now + 1.2 * last < seconds

    attack_canary(model, data, setting, canary, each_epoch=each_epoch)
    return canary
