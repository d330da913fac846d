"""Linear and logistic regression in dp-statsmodels: estimates, 95 % intervals, and predictions of held-out rows."""

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import utility_task
from dp_statsmodels.models import DPOLS, DPLogit

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    data, rows = np.load(folder / "data.npz"), []
    for job in json.loads((folder / "jobs.json").read_text(encoding="utf-8")):
        X, y, held = (data[f"{name}{job['place']}"] for name in ("X", "y", "held_X"))
        np.random.seed(job["seed"])  # its logistic regression has no generator of its own
        given = {"epsilon": job["epsilon"], "delta": job["delta"], "bounds_X": (-1.0, 1.0)}
        if job["family"] == "linear":
            fit = DPOLS(**given, bounds_y=(-1.0, 1.0), random_state=job["seed"]).fit(y, X)
        else:
            fit = DPLogit(**given).fit(y, X)
        low, high = fit.conf_int(0.05).T
        found = {"mean": fit.params.tolist(), "low": low.tolist(), "high": high.tolist()}
        predicted = fit.params[0] + held @ fit.params[1:]
        rows.append({"key": job["key"], **found, "predicted": predicted.tolist()})
    utility_task.write(folder, rows, {"dp-statsmodels": version("dp-statsmodels")})
