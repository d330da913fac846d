"""Tune DP-SGD on public synthetic tables, and write the settings that bench/utility.py measures it with.

    python bench/tune_utility.py --write

Tables are those of peers/utility_suite.py, drawn from seeds; no real table is read. DP-SGD, which stands for opacus and
jax-privacy, gets for each size, epsilon and relation the setting of least log-loss relative to that of the best
constant. `bench/tune_ridge.py` chooses the settings of method `ridge` on the same tables.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from utility_settings import SETTINGS_FILE, noise_multiplier
from utility_suite import SHAPES, draw

from sordino.core.bound import Relation
from sordino.core.validate import instance_of
from sordino.data import encode_features, read_table
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior, Posterior

DELTA = 1e-5
SEEDS = {800: (101, 102), 20_000: (101,)}
SMALL, LARGE = SEEDS
SGD = {"rate": (0.02, 0.08), "steps": (100, 300, 1000), "clip": (0.5, 1.0)}
STEP_SIZES = {SMALL: (0.03, 0.1, 0.3, 1.0, 2.0), LARGE: (1.0, 2.0, 4.0)}


@cache
def table(name: str, records: int, seed: int) -> tuple[Any, ...]:
    drawn = draw(SHAPES[name], records, seed)
    train, test = (encode_features(drawn.schema, read_table(part)) for part in (drawn.train, drawn.test))
    signs = [np.where(part["y"], 1.0, -1.0) for part in (drawn.train, drawn.test)]
    share = np.mean(signs[0] > 0)
    constant = -np.mean(np.log(np.where(signs[1] > 0, share, 1 - share)))
    return drawn.schema, train, signs[0], test, signs[1], float(constant)


def averaged_shares(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """The probability of the positive class, averaged over the posterior."""
    found = instance_of("posterior", posterior, DenseGaussianPosterior)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", rows, found.covariances, rows, optimize=True))
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    scores = (rows @ found.means)[:, None] + spread[:, None] * nodes
    return special.expit(scores) @ (weights / weights.sum())


def dp_sgd(
    X: np.ndarray, y: np.ndarray, setting: dict[str, Any], noise: float, generator: np.random.Generator
) -> np.ndarray:
    """Poisson batches, clipped gradients, Gaussian noise: what opacus and jax-privacy run, in numpy."""
    theta = np.zeros(X.shape[1])
    norms = np.linalg.norm(X, axis=1)
    batch = setting["rate"] * len(X)
    for _ in range(setting["steps"]):
        chosen = np.flatnonzero(generator.random(len(X)) < setting["rate"])
        slopes = -y[chosen] * special.expit(-y[chosen] * (X[chosen] @ theta))
        slopes *= np.minimum(1.0, setting["clip"] / np.maximum(np.abs(slopes) * norms[chosen], 1e-12))
        gradient = slopes @ X[chosen] + noise * setting["clip"] * generator.standard_normal(len(theta))
        theta = theta - setting["step_size"] * gradient / batch
    return theta


def sgd_settings(records: int, epsilon: float, relation: Relation) -> dict[str, Any]:
    """The best of a grid on the widest and the narrowest shape."""
    found: list[tuple[float, dict[str, Any]]] = []
    for rate in sorted({max(one, 50 / records) for one in SGD["rate"]}):
        for steps in SGD["steps"]:
            noise = noise_multiplier(rate, steps, epsilon, DELTA, relation.value)
            for step_size in STEP_SIZES[records]:
                for clip in SGD["clip"]:
                    setting = {"rate": rate, "steps": steps, "step_size": step_size, "clip": clip}
                    losses = []
                    for name, seed in product(("wide", "household"), SEEDS[records]):
                        _, X, y, held, held_y, constant = table(name, records, seed)
                        theta = dp_sgd(X, y, setting, noise, np.random.default_rng(seed))
                        losses.append(float(np.logaddexp(0.0, -held_y * (held @ theta)).mean()) / constant)
                    found.append((float(np.mean(losses)), setting | {"noise_multiplier": noise}))
    best = min(found, key=lambda one: one[0])
    print(records, epsilon, relation.value, f"{best[0]:.4f}", best[1], flush=True)
    return best[1]


def cells() -> Iterator[tuple[int, float, Relation]]:
    for records in (SMALL, LARGE):
        for epsilon in (0.1, 0.5, 1.0, 4.0):
            for relation in Relation:
                yield records, epsilon, relation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the settings; otherwise they are printed")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    peers = [
        {"records": "small" if records == SMALL else "large", "epsilon": epsilon, "relation": relation.value}
        | sgd_settings(records, epsilon, relation)
        for records, epsilon, relation in cells()
    ]
    if given.write:
        SETTINGS_FILE.write_text(json.dumps({"delta": DELTA, "dp_sgd": peers}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
