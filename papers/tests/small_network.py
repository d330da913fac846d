"""A network small enough to audit in a moment: generated classes in the plane's neighbourhood, sixteen models."""

import numpy as np

from papers.heller_fetaya.fleet import FanInStart
from papers.heller_fetaya.network_canary import Claimed, NeuralData, NeuralSetting
from sordino.auditing.fleet import FleetPlan
from sordino.core.spec import Batch, Scheme
from sordino.models import Domain, MLPClassification

RECORDS = 48
MODEL = MLPClassification(hidden=(6,), classes=3, weight_decay=1.0 / RECORDS)
DOMAIN = Domain(5, 6.0, classes=3)


def data() -> NeuralData:
    """Three classes, each around a corner."""
    rng = np.random.default_rng(3)

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        codes = np.arange(count) % 3
        rows = 0.5 * rng.standard_normal((count, 5))
        rows[np.arange(count), codes] += 2.0
        return rows.astype(np.float32), codes.astype(np.float32)

    return NeuralData(*drawn(RECORDS), *drawn(60), DOMAIN)


def setting(clip_norm: float | None = None, epochs: int = 4, seed: int = 5) -> NeuralSetting:
    """Eight models of each dataset, half of them to teach; the ensemble has three."""
    plan = FleetPlan(0.4, 1e-3, Batch(Scheme.SHUFFLE_ONCE, 4), epochs, seed, clip_norm=clip_norm, start=FanInStart())
    return NeuralSetting(
        plan=plan, learning=8, testing=8, ensemble=3, ensemble_epochs=6, tries=4, claimed=Claimed(1e-5, 0.9)
    )
