"""Logistic and linear regression in diffprivlib, with the public bounds that Sordino has."""

import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import utility_task
from diffprivlib.models import LinearRegression, LogisticRegression

warnings.simplefilter("ignore")
VERSIONS = {name: version(name) for name in ("diffprivlib", "scikit-learn")}


def fit(X: np.ndarray, y: np.ndarray, job: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Rows have an intercept first, which the library adds itself."""
    found = LogisticRegression(
        epsilon=job["epsilon"], data_norm=job["row_norm"], max_iter=500, random_state=job["seed"]
    ).fit(X[:, 1:], y > 0)
    return lambda held: held[:, 1:] @ found.coef_[0] + float(found.intercept_[0])


def regress() -> None:
    """Rows and targets in raw units; bounds are declared."""
    folder = Path(sys.argv[1])
    data, rows = np.load(folder / "data.npz"), []
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        X, y, held_X, held_y = (data[f"{name}{job['place']}"] for name in ("X", "y", "held_X", "held_y"))
        low, high = np.array(job["bounds"]).T
        model = LinearRegression(
            epsilon=job["epsilon"],
            bounds_X=(low.tolist(), high.tolist()),
            bounds_y=tuple(job["target"]),
            random_state=job["seed"],
        ).fit(X, y)
        rows.append({"key": job["key"], "rmse": float(np.sqrt(np.mean((held_y - model.predict(held_X)) ** 2)))})
        if "probe" in data:  # rows whose predictions are coefficients
            rows[-1]["probed"] = model.predict(data["probe"]).tolist()
    utility_task.write(folder, rows, VERSIONS)


if __name__ == "__main__":
    regress() if "--regress" in sys.argv else utility_task.classify(fit, VERSIONS)
