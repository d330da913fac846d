"""Seconds of one private fit of a wide and of a long table, from arrays in memory.

    python bench/wide_and_long.py [--only wide,long]

*wide*: 20,000 rows of 500 numbers, two classes, 20 columns matter. *long*: 10^6 rows of 20 numbers, a number as target.
Epsilon 1, delta 1e-6, replace-one, as `fit` does it, the ledger left out. Every fit is made twice in one process: what
is compiled the first time is counted there. Seconds of wall time and of all cores' computing are told apart, because a
machine may be busy; beside them how well new rows are predicted, and by the best constant.
"""

import argparse
import os
import time
import warnings

import numpy as np
from scipy import special

from sordino.estimators import ArrayBounds, BudgetWarning, PrivateLinearRegression, PrivateLogisticRegression

LIMITS = {"wide": 20.0, "long": 15.0}


def wide(seed: int) -> tuple[PrivateLogisticRegression, np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    X = g.uniform(-1, 1, (22_000, 500))
    scores = X[:, :20] @ g.normal(0, 1, 20)
    y = g.random(len(X)) < special.expit(scores)
    bounds = ArrayBounds(-1, 1, classes=(False, True), records=20_000)
    return PrivateLogisticRegression(schema=bounds, **_budget(seed)), X, y


def long(seed: int) -> tuple[PrivateLinearRegression, np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    X = g.uniform(-1, 1, (1_002_000, 20))
    y = X @ g.normal(0, 0.4, 20) + g.normal(0, 0.3, len(X))
    bounds = ArrayBounds(-1, 1, target=(-6, 6), records=1_000_000)
    return PrivateLinearRegression(schema=bounds, **_budget(seed)), X, y


def _budget(seed: int) -> dict[str, object]:
    return {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one", "random_state": seed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="wide,long")
    chosen = parser.parse_args().only.split(",")
    warnings.simplefilter("ignore", BudgetWarning)
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    for name, drawn in (("wide", wide), ("long", long)):
        if name not in chosen:
            continue
        for turn in ("first", "second"):
            model, X, y = drawn(1)
            wall, busy = time.perf_counter(), time.process_time()
            model.fit(X[:-2000], y[:-2000])
            wall, busy = time.perf_counter() - wall, time.process_time() - busy
            new, target = X[-2000:], y[-2000:]
            if name == "wide":
                p = np.clip(np.asarray(model.predict_proba(new))[:, 1], 1e-6, 1 - 1e-6)
                loss = -float(np.mean(np.where(target, np.log(p), np.log1p(-p))))
                constant = float(special.entr([y.mean(), 1 - y.mean()]).sum())
                words = f"log-loss {loss:.4f}, of a constant {constant:.4f}"
            else:
                error = float(np.sqrt(np.mean((model.predict(new) - target) ** 2)))
                words = f"error {error:.4f}, of a constant {float(np.std(target)):.4f}"
            print(f"{name}, {turn}: {wall:.1f} s wall, {busy:.1f} s of computing (limit {LIMITS[name]:g}); {words}")


if __name__ == "__main__":
    main()
