"""The audit task: one release N(x, 1) of a number that is 0 on one dataset and MU on its neighbour. Needs NumPy only.

Everyone is given the same scores, seed by seed, and answers with a lower bound on epsilon at confidence 95 %; the true
epsilon at delta 1e-5 is 9.997. For one run, scores are of canaries in orthogonal directions, each there by a fair coin.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import task

MU, DELTA, CONFIDENCE = 2.0, 1e-5, 0.95
MODELS, CANARIES = 1000, 1000
TRUTH = 9.997
SEEDS = tuple(range(100))
_REPEATED = 2


def releases(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of models trained without the record, and with it."""
    generator = np.random.default_rng([seed, 1])
    return generator.standard_normal(MODELS // 2), generator.standard_normal(MODELS // 2) + MU


def one_run(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Coins and scores of the canaries of one run."""
    generator = np.random.default_rng([seed, 2])
    coins = generator.integers(0, 2, CANARIES).astype(bool)
    return coins, MU * coins + generator.standard_normal(CANARIES)


def report(ways: dict[str, Callable[[int], float]], versions: dict[str, str]) -> None:
    """Bounds seed by seed, and CPU seconds of each, the least of a few repetitions after one that is not counted."""
    bounds: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for name, way in ways.items():
        way(SEEDS[0])
        bounds[name], seconds[name] = [], []
        for seed in SEEDS:
            taken: list[float] = []
            found: Any = 0.0
            for _ in range(_REPEATED):
                begin = time.process_time()
                found = way(seed)
                taken.append(time.process_time() - begin)
            bounds[name].append(float(found))
            seconds[name].append(min(taken))
    answer = {"bounds": bounds, "seconds": seconds, "versions": versions}
    sys.stdout.write(task.WORD + json.dumps(answer) + "\n")
