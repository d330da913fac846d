"""What every peer of bench/utility.py shares: jobs in, scores out. Plain numpy, for any environment."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Fit = Callable[[np.ndarray, np.ndarray, dict[str, Any]], Callable[[np.ndarray], np.ndarray]]


def classify(fit: Fit, versions: dict[str, str]) -> None:
    """Run the jobs of the folder named on the command line; `fit` gives the scores of the second class."""
    folder = Path(sys.argv[1])
    with np.load(folder / "data.npz") as file:
        data = {name: file[name] for name in file.files}
    found = []
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        X, y, held_X, held_y = (data[f"{name}{job['place']}"] for name in ("X", "y", "held_X", "held_y"))
        begin = time.perf_counter()
        predict = fit(X, y, job)
        scores = predict(held_X)
        signed = np.clip(np.where(held_y > 0, scores, -scores), -700, 700)
        found.append(
            {
                "key": job["key"],
                "accuracy": float(np.mean(signed > 0)),
                "log_loss": float(np.logaddexp(0.0, -signed).mean()),
                "auc": auc(scores, held_y > 0),
                "seconds": round(time.perf_counter() - begin, 2),
            }
        )
        if "probe" in data:  # rows whose scores are coefficients
            found[-1]["probed"] = np.asarray(predict(data["probe"]), float).tolist()
    write(folder, found, versions)


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """The share of pairs of a positive and another row that are in order; ties count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - 0.5 * (counts - 1))[place]
    ones = int(np.sum(positive))
    if not 0 < ones < len(scores):
        return float("nan")
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * (len(scores) - ones)))


def write(folder: Path, found: list[dict[str, Any]], versions: dict[str, str]) -> None:
    (folder / "found.json").write_text(json.dumps({"rows": found, "versions": versions}), encoding="utf-8")


def poisson_batch(generator: np.random.Generator, records: int, rate: float) -> np.ndarray:
    """Each record with the same probability, independently."""
    return np.flatnonzero(generator.random(records) < rate)
