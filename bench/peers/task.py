"""The mini-batch task every library runs, and how it is timed: CPU seconds of one core. Needs NumPy only.

Logistic regression, per-example gradients clipped to norm 1, Gaussian noise on the mean, a new random batch every step.
The process is put on one core by whoever starts it.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

ROWS, FEATURES, BATCH = 20_000, 100, 256
STEP_SIZE, CLIP_NORM, NOISE_MULTIPLIER = 0.1, 1.0, 1.0
WORD = "PEER-RESULT "


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, FEATURES)).astype(np.float32) / np.float32(np.sqrt(FEATURES))
    truth = generator.normal(size=FEATURES).astype(np.float32)
    labels = np.where(generator.random(ROWS) < 1.0 / (1.0 + np.exp(-3.0 * (X @ truth))), 1.0, -1.0)
    return X, labels.astype(np.float32)


def large_data() -> tuple[np.ndarray, np.ndarray]:
    """Ten times as many records: 80 MB, more than a cache holds."""
    X, y = data()
    return np.tile(X, (10, 1)), np.tile(y, 10)


def steps_per_cpu_second(run: Callable[[int], object], steps: int, repetitions: int = 3) -> float:
    """The median over repetitions; `run(steps)` returns when the steps are made. One warm-up run is not counted."""
    run(steps)
    rates = []
    for _ in range(repetitions):
        begin = time.process_time()
        run(steps)
        rates.append(steps / (time.process_time() - begin))
    return statistics.median(rates)


def accuracy(theta: np.ndarray) -> float:
    """Share of correct signs, to see that a run has learnt what the others have."""
    X, y = data()
    return float(np.mean(np.sign(X @ np.ravel(theta)) == y))


def report(rates: dict[str, float], found: dict[str, float], versions: dict[str, str]) -> None:
    sys.stdout.write(WORD + json.dumps({"rates": rates, "accuracy": found, "versions": versions}) + "\n")
