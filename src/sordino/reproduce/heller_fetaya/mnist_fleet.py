"""Run a variant of the experiment for as long as there is time, and keep what every epoch showed."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sordino.audit.confidence import cap, epsilon_lower
from sordino.audit.neural import Canary, EpochFinding, NeuralData, NeuralSetting, attack_canary, canary_against_ensemble
from sordino.core.errors import InputError
from sordino.model.base import Model
from sordino.reproduce.heller_fetaya.mnist_recorded import Recorded, distinct

# An attack that makes no error in this many epochs in a row has nothing left to show.
_EPOCHS_AT_CAP = 3


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

    `otherwise` is a canary to use where this chain's ensemble agrees on too little to make one.

    The run ends when its epochs are done, when another epoch would take it past `seconds`, or when the attack has made
    no error for three epochs.
    """
    begin = time.monotonic()
    try:
        canary = canary_against_ensemble(model, data, setting)
    except InputError:
        if otherwise is None:
            raise
        canary = otherwise
    say(
        f"{name}: canary of record {canary.row}, label {canary.label}, {canary.length:.1f} times DeepFool's push, "
        f"pull {canary.pull:.3g}, {time.monotonic() - begin:.1f} s"
    )
    held: list[tuple[NDArray[np.float32], NDArray[np.float32], float]] = []
    without_error, claimed = 0, (setting.claimed.delta, setting.claimed.confidence)

    def each_epoch(finding: EpochFinding, readings: Mapping[str, NDArray[np.float32]]) -> bool:
        nonlocal without_error
        now = time.monotonic() - begin
        held.append((distinct(readings), readings["accuracy"], now))
        columns = (np.stack(column) for column in zip(*held, strict=True))
        Recorded(name, setting.plan.seed, canary, *columns).save(folder)
        counts = finding.counts("probabilities")
        errors = counts.false_positives + counts.false_negatives
        without_error = 0 if errors else without_error + 1
        epsilon = epsilon_lower(counts, *claimed)
        most = cap(counts.first_models, counts.second_models, *claimed)
        say(
            f"{name}: epoch {finding.epoch}, errors {counts.false_positives} and {counts.false_negatives} of "
            f"{counts.first_models} each, epsilon at least {epsilon:.3f} (cap {most:.3f}), "
            f"accuracy {finding.accuracy:.4f}, {now:.1f} s"
        )
        last = now - held[-2][2] if len(held) > 1 else 0.0
        return without_error < _EPOCHS_AT_CAP and now + 1.2 * last < seconds

    attack_canary(model, data, setting, canary, each_epoch=each_epoch)
    return canary
