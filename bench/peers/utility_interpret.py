"""DP-EBM, the private boosted additive models of interpret, with declared bounds: classes, or numbers (--regress)."""

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import utility_task
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

warnings.simplefilter("ignore")
VERSIONS = {"interpret-core": version("interpret-core")}


def settings(job: dict[str, Any]) -> dict[str, Any]:
    """Columns that are categories are nominal, numbers have their declared bounds."""
    bounds = {place: tuple(ends) for place, ends in enumerate(job["bounds"]) if ends}
    kinds = ["continuous" if ends else "nominal" for ends in job["bounds"]]
    given = {"epsilon": job["epsilon"], "delta": job["delta"], "random_state": job["seed"], "n_jobs": 1}
    return given | {"feature_types": kinds, "privacy_bounds": bounds}


def fit(X: np.ndarray, y: np.ndarray, job: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    return DPExplainableBoostingClassifier(**settings(job)).fit(X, (y > 0).astype(int)).decision_function


def regress() -> None:
    folder = Path(sys.argv[1])
    data, rows = np.load(folder / "data.npz"), []
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        X, y, held_X, held_y = (data[f"{name}{job['place']}"] for name in ("X", "y", "held_X", "held_y"))
        low, high = job["target"]
        model = DPExplainableBoostingRegressor(**settings(job), privacy_target_min=low, privacy_target_max=high)
        error = held_y - np.clip(model.fit(X, y).predict(held_X), low, high)
        rows.append({"key": job["key"], "rmse": float(np.sqrt(np.mean(error**2)))})
    utility_task.write(folder, rows, VERSIONS)


if __name__ == "__main__":
    regress() if "--regress" in sys.argv else utility_task.classify(fit, VERSIONS)
