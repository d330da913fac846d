"""Interval scores beside those of the methods that came before, and of a study whose figures are kept here.

    python bench/interval_scores.py --out scores.jsonl [--tables 60] [--seed 1] [--cores 16] [--seconds 520]
        [--study FOLDER] [--page]

Cells: linear and logistic regression on the designs *uniform*, *real* and *rare* of `interval_coverage.py`, under
replace-one, delta 1e-6. In each, tables are drawn and fitted by the engine, by the method that was taken before bounded
influence (`statistics` for numbers, `newton` for classes), and, with `--study`, by a prototype in a folder outside of
this project: a module `study` with `fit(X, y, kind, epsilon, delta, generator, low, high, bounds)`, which answers with
weighted draws of coefficients. All see the same tables. The score of a 95 % interval is its width plus 40 times the
miss. `--page` writes bench/pages/interval-scores.md from the file.
"""

import importlib
import itertools
import math
import sys
import time
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import interval_coverage
import numpy as np
from drawn_tables import DELTA, EFFECTS, TARGET, with_plain_noise
from many_cores import kept, left, measure, options

from sordino.core.arrays import weighted_quantiles
from sordino.core.bound import Relation
from sordino.core.validate import InputError
from sordino.estimators import ArrayBounds, PrivateLinearRegression, PrivateLogisticRegression
from sordino.mechanisms.regression import Declaration, Plan, plan, posterior, release
from sordino.mechanisms.regression.plan import expected
from sordino.noise.randomness import SeededRandomness

PAGE = Path(__file__).with_name("pages") / "interval-scores.md"
FAMILIES, DESIGNS = ("linear", "logistic"), ("uniform", "real", "rare")
SIZES, EPSILONS = (500, 2000, 10_000, 50_000), (0.25, 1.0, 4.0)
FLAGS = {"uniform": (), "real": (3, 4, 5, 6), "rare": (2, 3, 4)}
BEFORE = {"linear": (PrivateLinearRegression, "statistics"), "logistic": (PrivateLogisticRegression, "newton")}
PART, MOST_BEFORE, MOST_OF_STUDY = 5, 10, 1.05


class Cell(NamedTuple):
    """One cell."""

    family: str
    design: str
    records: int
    epsilon: float


@cache
def planned(cell: Cell) -> Plan:
    width = interval_coverage.columns(np.random.default_rng(1), cell.design, 2).shape[1]
    kinds = tuple("binary" if place in FLAGS[cell.design] else "number" for place in range(width))
    low = tuple(0.0 if kind == "binary" else -1.0 for kind in kinds)
    target = TARGET if cell.family == "linear" else None
    declared = Declaration(low, (1.0,) * width, kinds, target=target, effect_scale=EFFECTS[cell.family])
    return plan(cell.family, declared, cell.records, Relation.REPLACE_ONE, cell.epsilon, DELTA)


def table(cell: Cell, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = interval_coverage.columns(g, cell.design, cell.records)
    truth = EFFECTS[cell.family] * g.normal(size=X.shape[1] + 1)
    scores = truth[0] + X @ truth[1:]
    if cell.family == "logistic":
        return X, (scores + g.logistic(size=len(X)) > 0).astype(float), truth
    errors = g.normal(0, 0.3, len(X))
    if cell.design != "uniform":
        errors = 0.3 * g.standard_t(4, len(X)) * (1 + 0.5 * X[:, 0])
    return X, np.clip(scores + errors, *TARGET), truth


def score(ends: np.ndarray, truth: np.ndarray) -> float:
    """The mean of 95 % intervals, (coefficients, 2)."""
    low, high = ends.T
    return float(np.mean(high - low + 40 * (np.maximum(low - truth, 0) + np.maximum(truth - high, 0))))


def before(cell: Cell, X: np.ndarray, y: np.ndarray, number: int) -> np.ndarray | None:
    """Intervals of the method of before; None where it refuses."""
    kind, method = BEFORE[cell.family]
    bounds = ArrayBounds(-1, 1, target=TARGET) if cell.family == "linear" else ArrayBounds(-1, 1, classes=(False, True))
    model = kind(
        schema=bounds, epsilon=cell.epsilon, delta=DELTA, relation="replace-one", method=method, random_state=number
    )
    try:
        found = np.array(model.fit(X, y if cell.family == "linear" else y > 0.5).posterior_.interval(0.95)).T
    except InputError:
        return None
    return found * (TARGET[1] if cell.family == "linear" else 1.0)


def part(task: tuple[Cell, int, int, int, str]) -> dict[str, Any]:
    cell, seed, first, count, folder = task
    warnings.simplefilter("ignore")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    study = importlib.import_module("study") if folder else None
    sums: dict[str, list[float]] = defaultdict(list)
    for number in range(first, first + count):
        g = np.random.default_rng([seed, number, *":".join(map(str, cell)).encode()])
        X, y, truth = table(cell, g)
        made = planned(cell)
        law = posterior(made, release(made, X, y, SeededRandomness(int(g.integers(2**62)))))
        sums["own"].append(score(law.interval(0.95), truth))
        sums["squares"].append(float(np.mean((law.mean - truth) ** 2)))
        if number < MOST_BEFORE:
            ends = before(cell, X, y, number)
            if ends is not None:
                sums["before"].append(score(ends, truth))
                sums["own_beside_before"].append(sums["own"][-1])
        if study is not None:
            width = X.shape[1]
            bounds = TARGET if cell.family == "linear" else None
            draws, weights = study.fit(
                X, y, cell.family, cell.epsilon, DELTA, g, -np.ones(width), np.ones(width), bounds
            )
            ends = weighted_quantiles(np.asarray(draws), np.asarray(weights), [0.025, 0.975])
            sums["study"].append(score(ends, truth))
    totals = {
        name: [len(values), float(np.sum(values)), float(np.sum(np.square(values)))] for name, values in sums.items()
    }
    return {**cell._asdict(), "seed": seed, "first": first, "tables": count, "sums": totals}


def page(lines: list[dict[str, Any]]) -> str:
    groups: dict[Cell, dict[str, np.ndarray]] = defaultdict(lambda: defaultdict(lambda: np.zeros(3)))
    parts: dict[Cell, list[tuple[float, float]]] = defaultdict(list)
    for line in lines:
        cell = Cell(*(line[field] for field in Cell._fields))
        for name, values in line["sums"].items():
            groups[cell][name] += np.array(values)
        if "study" in line["sums"]:
            parts[cell].append((line["sums"]["own"][1], line["sums"]["study"][1]))
    rows, above, told, ratios, olds, clear = [], 0, 0, [], [], 0
    for cell, found in sorted(groups.items()):
        own, study = (found[name][1] / max(found[name][0], 1) for name in ("own", "study"))
        error = math.sqrt(max(found["own"][2] / found["own"][0] - own**2, 0) / found["own"][0]) / own
        refused = expected(planned(cell)).refused
        prior = own / (_OF_PRIOR * EFFECTS[cell.family])
        old = found["own_beside_before"][1] / found["before"][1] if found["before"][0] else math.nan
        ratio = own / study if study else math.nan
        spread = _error_of_ratio(np.array(parts[cell])) if study else math.nan
        if not refused:
            clear += ratio - 2.0 * spread > MOST_OF_STUDY
            told += 1
            ratios.append(ratio)
            olds.append(old)
            above += not (prior <= 1.0 and not ratio > MOST_OF_STUDY and not old > 1.0)
        row = [
            cell.family,
            cell.design,
            str(cell.records),
            f"{cell.epsilon:g}",
            str(int(found["own"][0])),
            f"{own:.4g}",
        ]
        row += [f"{error:.2f}", f"{prior:.2f}", f"{ratio:.2f} ± {spread:.2f}", "" if math.isnan(old) else f"{old:.2f}"]
        rows.append((refused, -ratio, "| " + " | ".join([*row, "yes" if refused else ""]) + " |"))
    text = [
        "# Interval scores beside others",
        "",
        "Generated by `bench/interval_scores.py`: the mean score of 95 % intervals of coefficients (width plus 40",
        "times the miss), over that of the prior alone, of a prototype from which the engine was begun (the study),",
        "and of the method that was taken before bounded influence, on the same tables: replace-one, delta 1e-6,",
        "designs of `bench/interval_coverage.py`. Below 1 the engine is better. ± is the relative error of its score;",
        "that of a ratio to the study is from the same tables in pairs, five at a time. The method of before has",
        f"{MOST_BEFORE} tables a cell.",
        "The largest ratio to the study comes first; cells that a plan refuses come last.",
        "",
        f"{told} cells are not refused. In them the score over the study's is {np.nanmean(ratios):.2f} on average and",
        f"{np.nanmax(ratios):.2f} at most (limit {MOST_OF_STUDY:g}); over that of the method of before it is",
        f"{np.nanmean(olds):.2f} on average and {np.nanmax(olds):.2f} at most. {above} cells are above a limit;",
        f"above that of the study's score by more than two errors are {clear}.",
        "",
    ]
    head = ["family", "design", "records", "epsilon", "tables", "score", "±", "over the prior's", "over the study's"]
    head += ["over that of before", "refused"]
    table_lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|", *(row for _, _, row in sorted(rows))]
    return "\n".join([*text, *table_lines]) + "\n"


def _error_of_ratio(pairs: np.ndarray) -> float:
    """Of the ratio of two totals, from parts of both."""
    own, study = pairs.T
    left = own - own.sum() / study.sum() * study
    return float(left.std(ddof=1) * math.sqrt(len(left)) / study.sum())


# A 95 % interval of a normal law has this score in units of its deviation.
_OF_PRIOR = 4.67561


def main() -> None:
    parser = options(__doc__, 60)
    parser.add_argument("--study", default="", help="folder of the prototype")
    given = parser.parse_args()
    lines, until = kept(given.out), time.monotonic() + given.seconds
    cells = [Cell(*one) for one in itertools.product(FAMILIES, DESIGNS, SIZES, EPSILONS)]
    tasks = [(*one, given.study) for one in left(cells, lines, given, PART)]
    lines += measure(part, tasks, given.out, given.cores, until, with_plain_noise)
    if given.page:
        PAGE.write_text(page(lines))


if __name__ == "__main__":
    main()
