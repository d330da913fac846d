"""The committed settings of DP-SGD, and the noise each needs, by Sordino's accountant for either relation."""

import json
from pathlib import Path
from typing import Any

from sordino.accounting.calibration import calibrate
from sordino.core.spec import Spec

SETTINGS_FILE = Path(__file__).with_name("utility_settings.json")


def dp_sgd_setting(small: bool, epsilon: float, relation: str) -> dict[str, Any]:
    """What tuning on synthetic tables chose for this budget and about this many records."""
    wanted = ("small" if small else "large", epsilon, relation)
    rows = json.loads(SETTINGS_FILE.read_text(encoding="utf-8"))["dp_sgd"]
    [found] = [row for row in rows if (row["records"], row["epsilon"], row["relation"]) == wanted]
    return found


def noise_multiplier(rate: float, steps: int, epsilon: float, delta: float, relation: str) -> float:
    """The least noise over clip for Poisson batches; one record replaced moves a sum by two clips."""
    records = 100_000
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noised-sums",
                "query": "clipped gradients",
                "records": records,
                "rounds": steps,
                "sampling": {"scheme": "poisson", "size": max(1, round(rate * records))},
                "contribution": 1.0,
                "noise_multiplier": 1.0,
            },
            "relation": relation,
            "view": "all-iterates",
            "delta": delta,
        }
    )
    return float(calibrate(spec, epsilon, delta, "noise").spec.to_dict()["algorithm"]["noise_multiplier"])
