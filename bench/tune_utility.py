"""Tune the classifier and DP-SGD on public synthetic tables, and write the settings that bench/utility.py measures.

    python bench/tune_utility.py --write [--only paces,ours,sgd]

Tables are those of peers/utility_suite.py, drawn from seeds; no real table is read. The score of a setting is the mean,
over shapes, sizes, budgets, relations and seeds, of the log-loss relative to that of the best constant, plus five times
whatever exceeds the constant's by more than one per cent; predictions are averaged over the posterior, as those that
are measured. Paces are screened on a few tables and the good ones compared on fresh ones. The other settings are
improved one after the other, once, and kept only if fresh tables agree: the last time (a smaller share of sums, a
lighter count, a wider prior) they did not.
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

from sordino.algorithm.posterior.laws import DenseGaussianPosterior, Posterior
from sordino.core.bound import Relation
from sordino.core.validate import instance_of
from sordino.data import encode_features, read_table
from sordino.fitting.methods.newton import NewtonSettings, NoiseAwareSteps, Pace
from sordino.fitting.problem import TUNED, FitProblem, Sources
from sordino.fitting.tasks import Task

DELTA = 1e-5
SEEDS = {800: (101, 102), 8000: (101,), 20_000: (101,), 30_000: (101,)}
SMALL, MIDDLE, LARGE, LARGEST = SEEDS
FRESH = {SMALL: tuple(range(201, 213)), LARGEST: (201, 202)}
# Paces this much worse than the best on the first tables are not compared on fresh ones.
SCREENED = 0.02
SHAPES_USED = ("wide", "household", "weak")
# Sizes, budgets and relations that the classifier is tuned on: hard small cases, and what larger tables are used for.
CASES = (
    (SMALL, 0.5, Relation.ADD_REMOVE),
    (SMALL, 0.5, Relation.REPLACE_ONE),
    (SMALL, 1.0, Relation.ADD_REMOVE),
    (SMALL, 1.0, Relation.REPLACE_ONE),
    (SMALL, 4.0, Relation.ADD_REMOVE),
    (MIDDLE, 0.1, Relation.ADD_REMOVE),
    (MIDDLE, 0.5, Relation.ADD_REMOVE),
    (MIDDLE, 4.0, Relation.REPLACE_ONE),
    (LARGEST, 0.1, Relation.ADD_REMOVE),
    (LARGEST, 0.5, Relation.REPLACE_ONE),
    (LARGEST, 1.0, Relation.ADD_REMOVE),
    (LARGEST, 1.0, Relation.REPLACE_ONE),
)


def paces(*given: tuple[int, float, float, float]) -> list[dict[str, float]]:
    return [dict(zip(Pace._fields, one, strict=True)) for one in given]


# Less clip with as many rounds and with more; then smaller slopes, alone and beside each other.
PACES = (
    paces((8, 0.9, 0.2, 0.2)),
    paces((8, 0.9, 0.3, 0.2)),
    paces((16, 0.9, 0.3, 0.2)),
    paces((16, 0.9, 0.3, 0.1)),
    paces((4, 0.5, 0.5, 0.2), (8, 0.9, 0.5, 0.2), (12, 0.5, 0.5, 0.2), (16, 0.5, 0.7, 0.2)),
    paces((8, 0.9, 0.5, 0.1)),
    paces((8, 0.9, 0.5, 0.07), (8, 0.9, 0.5, 0.1), (24, 0.9, 0.5, 0.15)),
)
OURS: dict[str, tuple[Any, ...]] = {
    "prior.nothing": (0.2, 0.8),
    "share_of_sums": (0.1, 0.3),
    "weight_of_count": (0.4, 1.0),
    "prior.largest": (2.0,),
    "prior.common": (10.0,),
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


def our_score(settings: dict[str, Any], seeds: dict[int, tuple[int, ...]] = SEEDS) -> float:
    method, found = NoiseAwareSteps(NewtonSettings.from_json(settings)), []
    cases = [case for case in CASES if case[0] in seeds]
    for name in SHAPES_USED:
        for records, epsilon, relation in cases:
            schema = table(name, records, seeds[records][0])[0]
            plan = method.plan(FitProblem(Task.CLASSIFICATION, schema, 2, epsilon, DELTA, relation))
            # Every case counts the same, however many tables it has.
            weight = 1.0 / len(seeds[records])
            for seed in seeds[records]:
                _, X, y, held, held_y, constant = table(name, records, seed)
                shares = averaged_shares(method.run(plan, X, y, Sources(seed)).posterior, held)
                losses = -np.log(np.where(held_y > 0, shares, 1.0 - shares))
                found.append(weight * scored(float(losses.mean()), constant))
    return sum(found) / (len(SHAPES_USED) * len(cases))


def averaged_shares(posterior: Posterior, rows: np.ndarray) -> np.ndarray:
    """The probability of the positive class, averaged over the posterior."""
    found = instance_of("posterior", posterior, DenseGaussianPosterior)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", rows, found.covariances, rows, optimize=True))
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    scores = (rows @ found.means)[:, None] + spread[:, None] * nodes
    return special.expit(scores) @ (weights / weights.sum())


def best_paces(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with the paces that fresh tables like best."""
    tried = [settings | {"paces": one} for one in PACES]
    first = [our_score(one) for one in tried]
    found: list[tuple[float, dict[str, Any]]] = []
    for score, one in zip(first, tried, strict=True):
        fresh = our_score(one, FRESH) if score < min(first) + SCREENED else np.inf
        print(f"paces {[tuple(pace.values()) for pace in one['paces']]}: {score:.5f}, fresh {fresh:.5f}", flush=True)
        found.append((fresh, one))
    return min(found, key=lambda one: one[0])[1]


def agreed(start: dict[str, Any], proposed: dict[str, Any]) -> dict[str, Any]:
    """What is proposed, if fresh tables agree."""
    before, after = our_score(start, FRESH), our_score(proposed, FRESH)
    print(f"on fresh tables {before:.5f}, proposed {after:.5f}", flush=True)
    return proposed if after < before else start


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
    parser.add_argument("--only", default="paces,ours,sgd")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    parts, newton = given.only.split(","), TUNED["newton"]
    if "paces" in parts:
        newton = best_paces(newton)
    if "ours" in parts:
        newton = agreed(newton, improved(newton, OURS, our_score))
    print(json.dumps(newton, indent=1))
    if given.write and newton != TUNED["newton"]:
        OUR_FILE.write_text(json.dumps(TUNED | {"newton": newton}, indent=1) + "\n", encoding="utf-8")
    if "sgd" in parts:
        peers = [
            {"records": "small" if records == SMALL else "large", "epsilon": epsilon, "relation": relation.value}
            | sgd_settings(records, epsilon, relation)
            for records, epsilon, relation in cells()
        ]
        if given.write:
            SETTINGS_FILE.write_text(json.dumps({"delta": DELTA, "dp_sgd": peers}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
