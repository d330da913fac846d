"""The network estimators on real tables and drawn ones: errors, and how often their intervals hold.

    python bench/network_estimators.py --data-dir DATA_DIR [--only uci,adult,cover] [--splits 5] [--seeds 1]
        [--tables 12] [--processes 2] [--keep FILE]
    python bench/network_estimators.py --page FILE

The first form measures and appends a line of JSON for each fit; the second writes bench/pages/network-estimators.md
from them, and brings `measured_coverage.json` and docs/reference/estimators.md to the rates of the natural method.

*uci*: the five regression sets of Vinaroz & Park on the standard splits, columns and targets between the bounds that
`papers/vinaroz_park/sets.py` writes down, epsilon 1 at delta 1e-5, by default settings. *adult*: the classifier beside
the linear one, three seeds. *cover*: the cells of `bench/interval_coverage.py`. Settings were chosen on drawn tables
(`bench/network_settings.py`) before any of this was run.
"""

import argparse
import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "peers"))

from kept_jobs import keep_results  # noqa: E402

DELTA, EPSILON = 1e-5, 1.0
SETS = ("protein", "naval", "power", "kin8nm", "wine_red")
# What the issue of these estimators asks for: root mean square errors on the sets.
AIMS = {"kin8nm": 0.113, "power": 4.27, "wine_red": 0.652, "protein": 4.89, "naval": 0.0052}
AREAS = ("network-regressor-natural", "network-classifier-natural", "network-softmax-natural")
SEEDS = 3
# What the package says counts cells of at least so many tables; the page shows all.
FEWEST = 10
# What a release answers that withholds its intervals.
WITHHELD = "intervals are told"
Row = dict[str, Any]


def on_split(data: str, name: str, number: int, relation: str, method: str, seed: int = 0) -> Row:
    """One fit of the regressor on a standard split; seeds differ between splits."""
    from papers.vinaroz_park.sets import HALF_WIDTH, regression_set  # noqa: PLC0415  (in worker processes)
    from sordino import ArrayBounds, PrivateBayesianNetworkRegressor  # noqa: PLC0415

    fold = regression_set(name, Path(data)).fold(number)
    bounds = ArrayBounds(-HALF_WIDTH, HALF_WIDTH, target=(-HALF_WIDTH, HALF_WIDTH))
    model = PrivateBayesianNetworkRegressor(
        epsilon=EPSILON, delta=DELTA, relation=relation, schema=bounds, method=method, random_state=number + 100 * seed
    ).fit(fold.X, fold.y)
    error = float(fold.unit * np.sqrt(np.mean((model.predict(fold.test_rows) - fold.test_y) ** 2)))
    held = {}
    for level in (0.5, 0.9, 0.95):
        low, high = model.predict_interval(fold.test_rows, level)
        held[str(level)] = float(np.mean((low <= fold.test_y) & (fold.test_y <= high)))
    epsilon = model.bound_.guarantee.epsilon(DELTA)
    return {"error": error, "held": held, "epsilon": epsilon, "parameters": int(model.posterior_.dim)}


def on_adult(data: str, kind: str, seed: int, relation: str) -> Row:
    """One fit of a classifier on all training records of Adult."""
    from utility import scores  # noqa: PLC0415
    from utility_data import load_adult  # noqa: PLC0415

    from sordino import PrivateBayesianNetworkClassifier, PrivateLogisticRegression  # noqa: PLC0415

    adult = load_adult(Path(data))
    made = PrivateLogisticRegression if kind == "linear" else PrivateBayesianNetworkClassifier
    schema = adult.schema(len(adult.train))
    model = made(epsilon=EPSILON, delta=DELTA, relation=relation, schema=schema, random_state=seed)
    model.fit(adult.table.take(adult.chosen(None, seed)))
    found = scores(model.predict_proba(adult.test)[:, 1], adult.held_labels)
    return found | {"method": model.method_, "epsilon": model.bound_.guarantee.epsilon(DELTA)}


def on_drawn(area: str, place: int, number: int) -> Row:
    """One table of a cell of `interval_coverage`."""
    import interval_coverage  # noqa: PLC0415

    words, measured = list(interval_coverage.AREAS[area]())[place]
    found = measured(number)
    if found is None:
        return {"cell": words, "answers": None}
    task, method, answers = found
    return {"cell": words, "task": task, "method": method, "answers": [list(one) for one in answers]}


KINDS = {"uci": on_split, "adult": on_adult, "cover": on_drawn}


def jobs(
    only: set[str], data: str, splits: int, tables: range, cells: str, sets: str, seeds: int = 1
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Replace-one first, the longest first."""
    splits_of = [
        ("uci", (data, name, split, "replace-one", "natural", seed))
        for name in sets.split(",")
        for seed in range(seeds)
        for split in range(splits)
    ]
    adult = [
        ("adult", (data, kind, seed, relation))
        for relation in ("replace-one", "add-remove")
        for seed in range(SEEDS)
        for kind in ("network", "linear")
    ]
    if "uci" in only:
        yield from splits_of
    if "adult" in only:
        yield from adult[: len(adult) // 2]
    if "cover" in only:
        import interval_coverage  # noqa: PLC0415

        # By batches of ten, each cell in turn: time that ends early ends before the slow cells.
        for few in (tables[k : k + 10] for k in range(0, len(tables), 10)):
            for area in AREAS:
                for place, (words, _) in enumerate(interval_coverage.AREAS[area]()):
                    if cells in f"{area}: {words}":
                        yield from (("cover", (area, place, number)) for number in few)
    if "uci" in only:
        yield from ((kind, (*given[:4], "dp-vi")) for kind, given in reversed(splits_of) if given[2] < 2)
    if "adult" in only:
        yield from adult[len(adult) // 2 :]


def measured(kind: str, given: tuple[Any, ...]) -> Row:
    """One job, with what it took."""
    warnings.simplefilter("ignore")
    begin = time.process_time()
    asked = list(given[1:] if kind != "cover" else given)
    try:
        found = KINDS[kind](*given)
    except Exception as error:  # one refusal must not end the others
        found = {"failed": str(error)[:200]}
    return {"kind": kind, "asked": asked, **found, "cpu": round(time.process_time() - begin, 1)}


def _mean(rows: list[Row], key: str) -> str:
    values = [row[key] for row in rows]
    return f"{np.mean(values):.4g} ± {np.std(values):.2g}"


def page(rows: list[Row]) -> str:
    """The page as Markdown."""
    grouped: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if "failed" not in row and row["kind"] != "cover":
            asked = row["asked"]
            key = ("uci", asked[0], asked[3], asked[2]) if row["kind"] == "uci" else ("adult", *asked[::2])
            grouped[key].append(row)
    lines = []
    for name, aim in AIMS.items():
        for method, relation in (("natural", "replace-one"), ("dp-vi", "replace-one")):
            found = grouped.get(("uci", name, method, relation), [])
            if found:
                held = [
                    f"{100 * np.mean([row['held'][level] for row in found]):.1f}" for level in ("0.5", "0.9", "0.95")
                ]
                size = found[0]["parameters"]
                cells = (name, method, relation, _mean(found, "error"), f"{aim:g}", *held, size, len(found))
                lines.append(f"| {' | '.join(map(str, cells))} |")
    adult = []
    for (of, *words), found in grouped.items():
        if of == "adult":
            told = (
                words[0],
                found[0]["method"],
                words[1],
                _mean(found, "log_loss"),
                _mean(found, "accuracy"),
                len(found),
            )
            adult.append(f"| {' | '.join(map(str, told))} |")
    cover: dict[Any, list[float]] = defaultdict(list)
    places, untold = dict[Any, Any](), Counter[Any]()
    for row in rows:
        if row["kind"] == "cover":
            untold[tuple(row["asked"][:2])] += WITHHELD in row.get("failed", "")
        if row["kind"] == "cover" and row.get("answers"):
            places[row["asked"][0], row["cell"]] = tuple(row["asked"][:2])
            for quantity, level, rate in row["answers"]:
                cover[row["asked"][0], row["cell"], quantity, level].append(rate)
    drawn = []
    for area, cell, quantity in dict.fromkeys(key[:3] for key in sorted(cover)):
        rates = [cover[area, cell, quantity, level] for level in (0.5, 0.9, 0.95)]
        told = " | ".join(f"{100 * np.mean(one):.1f}" for one in rates)
        last = f"{len(rates[0])} | {untold[places[area, cell]]}"
        drawn.append(f"| {area.split('-')[1]} | {cell} | {quantity} | {told} | {last} |")
    newline = "\n"
    return f"""# Network estimators

Made by `bench/network_estimators.py`; the estimators as a user calls them, by default settings, which were chosen on
drawn tables only (`bench/network_settings.py`). Epsilon {EPSILON:g} at delta {DELTA:g}; ± is the deviation over splits
or seeds.

## Regression sets

Errors are root mean squares on test records in the units of the data; beside them what was asked for, how often 50, 90
and 95 % intervals held new targets (in per cent), how many parameters the network has, and how many fits there were:
one for each of five splits, or several with other noise where one says little.

| set | method | relation | error | asked for | 50 % | 90 % | 95 % | parameters | fits |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{newline.join(lines)}

## Adult

All training records, test log-loss and accuracy.

| model | method | relation | log-loss | accuracy | seeds |
| --- | --- | --- | --- | --- | --- |
{newline.join(adult)}

## Drawn tables

How often intervals held new targets, or the true probabilities of new rows, in per cent, by the cells of
`bench/interval_coverage.py` (replace-one, delta 1e-6), and of how many tables the release withheld intervals because
a class was too rare: these are not counted.

| model | cell | of | 50 % | 90 % | 95 % | tables | withheld |
| --- | --- | --- | --- | --- | --- | --- | --- |
{newline.join(drawn)}
"""


def restate(rows: list[Row]) -> None:
    """Bring what the package says of the natural method's intervals to these rates."""
    import interval_ranges  # noqa: PLC0415

    rates: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "cover" and row.get("answers"):
            for quantity, level, rate in row["answers"]:
                rates[row["asked"][0], row["task"], row["method"], quantity, level, row["cell"]].append(rate)
    made = [
        {
            "area": area, "task": task, "method": method, "of": of, "level": level, "cell": cell,
            "rate": round(float(np.mean(values)), 4), "tables": len(values),
        }
        for (area, task, method, of, level, cell), values in rates.items()
        if len(values) >= FEWEST
    ]  # fmt: skip
    interval_ranges.write(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--only", default="uci,adult,cover")
    parser.add_argument("--cells", default="", help="cells of drawn tables whose words hold this")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1, help="fits of each split")
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="number of the first drawn table")
    parser.add_argument("--sets", default=",".join(SETS), help="regression sets")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path(__file__).with_name("drafts") / "network-estimators.jsonl")
    parser.add_argument("--seconds", type=float, default=1e9, help="no further fit begins after that long")
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    if given.page is not None:
        rows = [json.loads(line) for line in given.page.read_text(encoding="utf-8").splitlines()]
        (ROOT / "bench" / "pages" / "network-estimators.md").write_text(page(rows), encoding="utf-8")
        restate(rows)
        return
    tables = range(given.first, given.first + given.tables)
    asked = (given.data_dir, given.splits, tables, given.cells, given.sets, given.seeds)
    waiting = list(jobs(set(given.only.split(",")), *asked))
    keep_results(measured, waiting, given.keep, given.processes, given.seconds)


if __name__ == "__main__":
    main()
