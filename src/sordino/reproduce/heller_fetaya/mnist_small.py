"""The same experiment in a few seconds on any machine: a small network on generated 8 x 8 images."""

import numpy as np
from numpy.typing import NDArray

from sordino.audit.fleet import FleetPlan
from sordino.audit.neural import NeuralData, NeuralSetting
from sordino.core.spec import Batch, Scheme
from sordino.model.domain import Domain
from sordino.model.mlp import MLPClassification
from sordino.reproduce.heller_fetaya.mnist_setting import BATCH, CLAIMED

RECORDS, TEST, SIDE, CLASSES, EPOCHS = 80, 200, 8, 4, 8
MODEL = MLPClassification(hidden=(8,), classes=CLASSES, activation="relu", weight_decay=1.0 / RECORDS)
DOMAIN = Domain(SIDE * SIDE, 16.0, classes=CLASSES)


def generated_data(seed: int) -> NeuralData:
    """Each class an image of its own, drawn once, in noise of the same size."""
    rng = np.random.default_rng(seed)
    patterns = rng.standard_normal((CLASSES, SIDE * SIDE))

    def drawn(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        codes = np.arange(count) % CLASSES
        rows = patterns[codes] + rng.standard_normal((count, SIDE * SIDE))
        rows *= np.minimum(1.0, DOMAIN.row_norm.value / np.linalg.norm(rows, axis=1, keepdims=True))
        return (0.5 * rows).astype(np.float32), codes.astype(np.float32)

    return NeuralData(*drawn(RECORDS), *drawn(TEST), DOMAIN)


def small_setting(clip_norm: float | None, seed: int) -> NeuralSetting:
    """A sixteenth of the models, and steps that learn this little data in a few epochs."""
    step, noise = (0.2, 1e-3) if clip_norm is None else (0.4, 0.03)
    return NeuralSetting(
        plan=FleetPlan(step, noise, Batch(Scheme.CYCLIC, BATCH), EPOCHS, seed, clip_norm=clip_norm),
        learning=32,
        testing=32,
        ensemble=4,
        ensemble_epochs=4,
        tries=4,
        claimed=CLAIMED,
    )
