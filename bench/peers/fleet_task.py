"""The fleet every library trains, and how it is timed: CPU seconds of one core. Needs NumPy only.

64 networks with one hidden layer of 50, 8 inputs, batches of 32 drawn afresh for every model and step. Two tasks: plain
gradient steps; and steps with per-example gradients clipped to norm 1, with Gaussian noise.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

ROWS, FEATURES, HIDDEN, BATCH, MODELS = 2_048, 8, 50, 32, 64
STEP_SIZE, CLIP_NORM, NOISE_MULTIPLIER = 0.05, 1.0, 1.0
WORD = "PEER-RESULT "


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, FEATURES)).astype(np.float32)
    truth = np.tanh(X @ generator.normal(size=(FEATURES, 4)).astype(np.float32)).sum(axis=1)
    return X, truth.astype(np.float32)


def model_steps_per_cpu_second(run: Callable[[int], object], steps: int, models: int, repetitions: int = 3) -> float:
    """The median over repetitions; `run(steps)` makes that many steps of each model. One warm-up is not counted."""
    run(steps)
    rates = []
    for _ in range(repetitions):
        begin = time.process_time()
        run(steps)
        rates.append(models * steps / (time.process_time() - begin))
    return statistics.median(rates)


def explained(predictions: np.ndarray) -> float:
    """The share of the target's variance that predictions explain, to see that all have learnt the same."""
    _, y = data()
    return float(1.0 - np.mean((predictions - y) ** 2) / np.var(y))


def report(rates: dict[str, float], found: dict[str, float], versions: dict[str, str]) -> None:
    sys.stdout.write(WORD + json.dumps({"rates": rates, "accuracy": found, "versions": versions}) + "\n")
