"""Tune the classifier and DP-SGD on public synthetic tables, and write the settings that bench/utility.py measures.

    python bench/tune_utility.py --write

Tables are those of peers/utility_suite.py, drawn from seeds; no real table is read. The score of a setting is the mean,
over shapes, sizes, budgets, relations and seeds, of the log-loss relative to that of the best constant, plus five times
whatever exceeds the constant's by more than one per cent. Settings are improved one after the other, once.
DP-SGD, which stands for opacus and jax-privacy, is tuned in the same way for each epsilon, by the same code in numpy.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from utility_settings import SETTINGS_FILE, noise_multiplier
from utility_suite import SHAPES, draw

from sordino.core.relation import Relation
from sordino.data import encode_features, read_table
from sordino.estimators.methods.newton import NewtonSettings, NoiseAwareSteps
from sordino.estimators.situation import Situation, Task
from sordino.estimators.sources import Sources
from sordino.estimators.tuned import TUNED

DELTA = 1e-5
SEEDS = {800: (101, 102), 8000: (101,), 20_000: (101,)}
SMALL, MIDDLE, LARGE = SEEDS
SHAPES_USED = ("wide", "household", "weak")
# Sizes, budgets and relations that the classifier is tuned on: hard small cases, and what larger tables are used for.
CASES = (
    (SMALL, 0.5, Relation.REPLACE_ONE),
    (SMALL, 1.0, Relation.REPLACE_ONE),
    (SMALL, 1.0, Relation.ADD_REMOVE),
    (SMALL, 4.0, Relation.ADD_REMOVE),
    (MIDDLE, 0.1, Relation.ADD_REMOVE),
    (MIDDLE, 0.5, Relation.ADD_REMOVE),
    (MIDDLE, 4.0, Relation.REPLACE_ONE),
)
OURS: dict[str, tuple[Any, ...]] = {
    "prior.nothing": (0.5, 0.8),
    "prior.largest": (1.0, 4.0),
    "share_of_sums": (0.1, 0.2),
    "prior.common": (4.0, 10.0),
    "weight_of_count": (0.7, 1.0),
}
OUR_FILE = Path(__file__).parents[1] / "src" / "sordino" / "estimators" / "tuned.json"
SGD = {"rate": (0.02, 0.08), "steps": (100, 300, 1000), "clip": (0.5, 1.0)}
STEP_SIZES = {SMALL: (0.03, 0.1, 0.3, 1.0, 2.0), LARGE: (1.0, 2.0, 4.0)}


@cache
def table(name: str, records: int, seed: int) -> tuple[Any, ...]:
    drawn = draw(SHAPES[name], records, seed)
    train, test = (encode_features(drawn.schema, read_table(part)).features for part in (drawn.train, drawn.test))
    signs = [np.where(part["y"], 1.0, -1.0) for part in (drawn.train, drawn.test)]
    share = np.mean(signs[0] > 0)
    constant = -np.mean(np.log(np.where(signs[1] > 0, share, 1 - share)))
    return drawn.schema, train, signs[0], test, signs[1], float(constant)


def scored(loss: float, constant: float) -> float:
    ratio = loss / constant
    return ratio + 5.0 * max(0.0, ratio - 1.01)


def our_score(settings: dict[str, Any]) -> float:
    method, found = NoiseAwareSteps(NewtonSettings.from_json(settings)), []
    for name in SHAPES_USED:
        for records, epsilon, relation in CASES:
            for seed in SEEDS[records]:
                schema, X, y, held, held_y, constant = table(name, records, seed)
                situation = Situation(Task.CLASSIFICATION, schema, 2, epsilon, DELTA, relation)
                plan = method.plan(situation)
                outcome = method.run(plan, X, y, Sources(seed))
                losses = np.logaddexp(0.0, -held_y * (held @ outcome.posterior.mean))
                found.append(scored(float(losses.mean()), constant))
    return float(np.mean(found))


def improved(
    start: dict[str, Any], choices: dict[str, tuple[Any, ...]], score: Callable[[dict[str, Any]], float]
) -> dict[str, Any]:
    """One setting after the other, once."""
    best, least = start, score(start)
    print(f"start {least:.5f}", flush=True)
    for name, values in choices.items():
        for value in values:
            tried = with_value(best, name, value)
            if tried == best:
                continue
            found = score(tried)
            print(f"{name} = {value}: {found:.5f}", flush=True)
            if found < least - 1e-4:
                best, least = tried, found
    return best


def with_value(settings: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copied = json.loads(json.dumps(settings))
    place = copied
    *outer, last = path.split(".")
    for word in outer:
        place = place[word]
    place[last] = value
    return copied


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
    parser.add_argument("--only", choices=("ours", "sgd"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only != "sgd":
        ours = TUNED | {"newton": improved(TUNED["newton"], OURS, our_score)}
        print(json.dumps(ours, indent=1))
        if given.write:
            OUR_FILE.write_text(json.dumps(ours, indent=1) + "\n", encoding="utf-8")
    if given.only != "ours":
        peers = [
            {"records": "small" if records == SMALL else "large", "epsilon": epsilon, "relation": relation.value}
            | sgd_settings(records, epsilon, relation)
            for records, epsilon, relation in cells()
        ]
        if given.write:
            SETTINGS_FILE.write_text(json.dumps({"delta": DELTA, "dp_sgd": peers}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
