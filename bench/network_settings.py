"""The settings of the natural method, chosen on drawn tables: no real one is read.

    python bench/network_settings.py [--candidates 60] [--processes 2] [--seconds 600] [--keep FILE]
    python bench/network_settings.py --best FILE [--write SETTINGS]

Candidates are the settings in use, then others drawn at random from the ranges below with a fixed seed; each is fitted
at epsilon 1, delta 1e-5, replace-one. Numbers: the eight shapes of `papers/vinaroz_park/sets.py`, scored by
log(test error / noise). Classes: six shapes of rows with known probabilities, scored by the part of what a constant
loses over the truth that is left. The candidate with the smallest mean is best; `--best` lists the first ones, and
`--write` keeps the best of each kind.

The settings in use were read off a search like this one, of 51 candidates for numbers and 26 for classes from the same
ranges, with an earlier program of the same algorithm whose noise was not exact: they lie between its best candidates.
"""

import argparse
import json
import math
import sys
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from kept_jobs import keep_results

EPSILON, DELTA, SEED = 1.0, 1e-5, 5
# A run that noise has blown up counts as this many times the noise, not more.
_WORST = 20.0
RANGES: dict[str, dict[str, tuple[Any, ...]]] = {
    "numbers": {
        "share": (0.05, 0.07, 0.09, 0.12),
        "rounds": (150, 250, 400),
        "clip": (0.15, 0.3, 0.5, 0.8),
        "efolds": (2.0, 4.0, 6.0, 9.0, 14.0),
        "end": (0.02, 0.05, 0.15),
        "momentum": (0.5, 0.8),
        "damping": (0.003, 0.01, 0.03),
        "whitening": (0.06, 0.1, 0.15),
        "cross": (0.3, 0.6, 1.0),
        "start": (0.2, 0.3, 0.5),
        "output": (0.3, 0.7, 1.0),
        "kept": (0.2, 0.4),
        "shrunk": (False, True),
        "stages": (2, 3),
    },
    "classes": {
        "share": (0.03, 0.05, 0.07, 0.1),
        "rounds": (100, 150, 250),
        "clip": (0.6, 1.0, 1.5),
        "efolds": (3.0, 6.0, 10.0, 16.0),
        "end": (0.02, 0.1, 0.3),
        "momentum": (0.5, 0.8),
        "damping": (0.003, 0.01, 0.03, 0.1),
        "whitening": (0.06, 0.1, 0.15),
        "cross": (0.3, 0.6, 1.0),
        "start": (0.2, 0.3, 0.5),
        "output": (0.3, 0.7, 1.0),
        "kept": (0.2, 0.4, 0.6),
        "shrunk": (False, True),
    },
}


@dataclass(frozen=True)
class Labelled:
    """Rows with two classes of known probability: scores of this deviation, and categories where there are some."""

    records: int
    features: int
    function: str
    gain: float = 1.5
    rank: int | None = None
    strength: float = 2.0
    categories: int = 0


LABELLED = (
    Labelled(5000, 5, "linear", strength=1.2),
    Labelled(10_000, 8, "network"),
    Labelled(10_000, 6, "nearly linear", rank=3),
    Labelled(2000, 5, "nearly linear", strength=1.2),
    Labelled(30_000, 6, "network", 1.0, strength=1.5, categories=7),
    Labelled(20_000, 4, "waves", 1.2),
)


def candidates(kind: str, count: int) -> list[dict[str, Any]]:
    """The settings in use, and others at random."""
    generator, ranges = np.random.default_rng(SEED), RANGES[kind]
    drawn = [{key: values[generator.integers(len(values))] for key, values in ranges.items()} for _ in range(count)]
    return [{}, *drawn]


def on_numbers(changes: dict[str, Any], place: int) -> float:
    """log(test error / noise) on a shape."""
    from papers.vinaroz_park.sets import HALF_WIDTH, SUITE  # noqa: PLC0415  (in worker processes)
    from sordino import ArrayBounds, PrivateBayesianNetworkRegressor  # noqa: PLC0415

    use(changes, "network-regression")
    shape = SUITE[place]
    fold = shape.draw(101 + place)
    bounds = ArrayBounds(-HALF_WIDTH, HALF_WIDTH, target=(-HALF_WIDTH, HALF_WIDTH))
    model = PrivateBayesianNetworkRegressor(schema=bounds, **_budget(place)).fit(fold.X, fold.y)
    error = float(np.sqrt(np.mean((model.predict(fold.test_rows) - fold.test_y) ** 2)))
    return math.log(min(error / shape.noise, _WORST))


def on_classes(changes: dict[str, Any], place: int) -> float:
    """The part that is left of what a constant loses over the truth."""
    from papers.vinaroz_park.sets import FUNCTIONS, HALF_WIDTH  # noqa: PLC0415
    from sordino import PrivateBayesianNetworkClassifier  # noqa: PLC0415
    from sordino.data import Category, Feature, Number, Schema, Target  # noqa: PLC0415

    use(changes, "network-classification")
    shape, g = LABELLED[place], np.random.default_rng(201 + place)
    rows, width = shape.records + 2000, HALF_WIDTH
    X = g.uniform(-width, width, (rows, shape.features))
    if shape.rank is not None:
        factors = g.normal(size=(rows, shape.rank)) @ g.normal(size=(shape.rank, shape.features))
        own = 0.4 * g.normal(size=X.shape)
        X = np.clip(0.8 * factors / math.sqrt(shape.rank) + own, -width, width)
    line = X @ g.normal(size=shape.features)
    f = line if shape.function == "linear" else FUNCTIONS[shape.function](X, shape.gain, g)
    f = shape.strength * (f - f.mean()) / f.std() - 0.7
    table: dict[str, Any] = {f"x{k}": X[:, k] for k in range(shape.features)}
    declared = [Feature(name, Number(-width, width)) for name in table]
    for k in range(shape.categories):
        levels = tuple("abcdefghijklmn"[: int(g.integers(3, 14))])
        chosen = g.choice(len(levels), rows, p=g.dirichlet(np.full(len(levels), 0.7)))
        f = f + 0.7 * g.normal(size=len(levels))[chosen]
        table[f"c{k}"] = np.array(levels)[chosen]
        declared.append(Feature(f"c{k}", Category(levels)))
    p = special.expit(f)
    table["y"] = np.where(g.random(rows) < p, "1", "0")
    target = Target("y", Category(("0", "1")))
    schema = Schema(records=shape.records, features=tuple(declared), target=target, intercept=True)
    first, later = (
        {name: column[part] for name, column in table.items()}
        for part in (slice(shape.records), slice(shape.records, None))
    )
    model = PrivateBayesianNetworkClassifier(schema=schema, **_budget(place)).fit(first)
    new, held = np.clip(model.predict_proba(later)[:, 1], 1e-9, 1 - 1e-9), p[shape.records :]

    def loss(q: Any) -> float:
        return float(-np.mean(held * np.log(q) + (1.0 - held) * np.log1p(-q)))

    best, constant = loss(held), loss(np.full(len(held), np.mean(first["y"] == "1")))
    return (loss(new) - best) / (constant - best)


def _budget(seed: int) -> dict[str, Any]:
    return {"epsilon": EPSILON, "delta": DELTA, "relation": "replace-one", "random_state": seed, "method": "natural"}


def use(changes: dict[str, Any], task: str) -> None:
    """Settings for this process alone."""
    from sordino.fitting.methods.base import METHODS  # noqa: PLC0415
    from sordino.fitting.methods.natural import SETTINGS, NaturalNetwork  # noqa: PLC0415

    method: Any = METHODS["natural"]
    assert isinstance(method, NaturalNetwork)
    method.settings = method.settings | {task: replace(SETTINGS[task], **changes)}


def scored(kind: str, number: int, changes: dict[str, Any], place: int) -> dict[str, Any]:
    """One candidate on one shape."""
    warnings.simplefilter("ignore")
    begin = time.process_time()
    found = (on_numbers if kind == "numbers" else on_classes)(changes, place)
    return {
        "kind": kind, "number": number, "changes": changes, "place": place, "score": found,
        "cpu": round(time.process_time() - begin, 1),
    }  # fmt: skip


def best(path: Path, write: Path | None) -> None:
    """The candidates that were scored on every shape, the best first."""
    chosen = {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for kind, places in (("numbers", 8), ("classes", len(LABELLED))):
        scores: dict[int, dict[int, float]] = defaultdict(dict)
        changes = {}
        for row in rows:
            if row["kind"] == kind:
                scores[row["number"]][row["place"]] = row["score"]
                changes[row["number"]] = row["changes"]
        whole = {number: found for number, found in scores.items() if len(found) == places}
        ordered = sorted(whole, key=lambda one: np.mean(list(whole[one].values())))
        chosen |= {kind: changes[ordered[0]]} if ordered else {}
        for number in ordered[:10]:
            by_place = [round(whole[number][place], 3) for place in range(places)]
            print(kind, number, round(float(np.mean(by_place)), 4), by_place, json.dumps(changes[number]))
    if write is not None:
        write.write_text(json.dumps(chosen) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600.0, help="no further fit begins after that long")
    parser.add_argument("--keep", type=Path, default=Path("network-settings.jsonl"))
    parser.add_argument("--best", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if given.best is not None:
        best(given.best, given.write)
        return
    drawn = {kind: candidates(kind, given.candidates) for kind in RANGES}
    waiting = [
        (kind, number, drawn[kind][number], place)
        for number in range(len(drawn["numbers"]))
        for kind, places in (("numbers", (6, 7, 1, 0, 2, 3, 5, 4)), ("classes", (4, 1, 5, 2, 0, 3)))
        for place in places
    ]
    keep_results(scored, waiting, given.keep, given.processes, given.seconds)


if __name__ == "__main__":
    main()
