"""What charged bounds cost: fits with bounds from a look at a tenth of the budget, beside bounds from documentation.

    python bench/look.py --data-dir DIR --out look.jsonl [--seeds 5] [--tables power,adult] [--page PAGE.md]
    python bench/look.py --speed

Each table is split once for each seed into nine tenths to learn from and one tenth to test on. With expert bounds
(bench/look_expert.json, committed before any fit) a fit has epsilon 1 and all of delta. With charged bounds a look at
all numbers of the table has epsilon 0.1 and the fit 0.9, with half of delta each. `--speed` times a look at 10^6 rows
of 20 columns.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import sordino
from sordino.core.validate import InputError
from sordino.data import Boolean, Feature, MissingRule, Number, Schema, Table, Target, from_arrays
from sordino.data.columns.number import Number as NumberKind
from sordino.fitting.fit import fit_table
from sordino.fitting.predictor import Predictor

HERE = Path(__file__).parent
EPSILON, LOOK_EPSILON, DELTA, RELATION = 1.0, 0.1, 1e-6, "add-remove"
WITHIN = 1.03
EXPERT = json.loads((HERE / "look_expert.json").read_text(encoding="utf-8"))
UCI = ("power", "kin8nm", "naval", "protein", "wine_red")
# Columns of 0 and 1 are words, whose list is public either way.
TRUTHS = {"randhie": ("idp", "physlm", "hlthg", "hlthf", "hlthp")}
ABOUT = {
    "power": "linear, power output",
    "kin8nm": "linear, distance",
    "naval": "linear, decay",
    "protein": "linear, RMSD",
    "wine_red": "linear, quality",
    "fair": "logistic, any affair",
    "randhie": "logistic, any visit",
    "adult": "logistic, income above 50K",
}


def columns_of(name: str, folder: Path) -> dict[str, Any]:
    """The columns that a fit uses; a target of classes is called y and holds true and false."""
    if name in UCI:
        table = pq.read_table(folder / f"{name}.parquet")
        return {column: table[column].to_numpy() for column in EXPERT[name]}
    if name == "adult":
        table = pq.read_table(folder / "adult.parquet")
        found = {column: table[column].to_numpy().astype(float) for column in EXPERT[name]}
        return found | {"y": table["y"].to_numpy().astype(bool)}
    from statsmodels import datasets  # noqa: PLC0415

    frame = getattr(datasets, name).load_pandas().data
    found = {column: frame[column].to_numpy(float) for column in EXPERT[name]}
    found |= {column: frame[column].to_numpy() > 0 for column in TRUTHS.get(name, ())}
    return found | {"y": (frame["affairs" if name == "fair" else "mdvis"] > 0).to_numpy()}


def schema_of(columns: dict[str, Any], bounds: dict[str, Any], records: int) -> Schema:
    def kind(column: str) -> Any:
        if columns[column].dtype == bool:
            return Boolean()
        low, high = bounds[column]
        return Number(low, high, missing=MissingRule("value", (low + high) / 2))

    features = tuple(Feature(column, kind(column)) for column in columns if column != "y")
    return Schema(records=records, features=features, target=Target("y", kind("y")), intercept=True)


def loss(schema: Schema, train: Table, test: Table, truth: Any, budget: tuple[float, float], seed: int) -> float:
    """The error on rows that were not learned from: root mean square error, or log-loss."""
    model = "linear" if isinstance(schema.declared_target().kind, NumberKind) else "logistic"
    release = fit_table(
        model,
        train,
        epsilon=budget[0],
        delta=budget[1],
        relation=RELATION,
        schema=schema,
        seed=seed,
        method="auto-or-constant",
    )
    predictor = Predictor(release, 200)
    encoded = predictor.encode(test)
    if model == "linear":
        mean = np.asarray(predictor.regression(encoded).mean)
        return float(np.sqrt(np.mean((mean - truth) ** 2)))
    probability = np.clip(np.asarray(predictor.probabilities(encoded))[:, 1], 1e-6, 1 - 1e-6)
    return float(-np.mean(np.where(truth, np.log(probability), np.log(1 - probability))))


def measured(name: str, folder: Path, seed: int) -> dict[str, Any]:
    """One split: both losses, or why charged bounds are refused."""
    columns = columns_of(name, folder)
    order = np.random.default_rng(seed).permutation(len(columns["y"]))
    cut = len(order) * 9 // 10
    train, test = ({key: values[part] for key, values in columns.items()} for part in (order[:cut], order[cut:]))
    numbers = [column for column, values in columns.items() if values.dtype != bool]
    row: dict[str, Any] = {"table": name, "seed": seed, "records": cut, "columns": len(numbers)}
    tables = from_arrays(train), from_arrays({key: values for key, values in test.items() if key != "y"})

    def fitted(bounds: dict[str, Any], epsilon: float, delta: float) -> float:
        return loss(schema_of(columns, bounds, cut), *tables, test["y"], (epsilon, delta), seed)

    row["expert"] = fitted(EXPERT[name], EPSILON, DELTA)
    try:
        found = sordino.explore.look(
            tables[0],
            [f"bounds: {column}" for column in numbers],
            records=cut,
            epsilon=LOOK_EPSILON,
            delta=DELTA / 2,
            relation=RELATION,
            random_state=seed,
        )
    except InputError as error:
        return row | {"refused": str(error)}
    bounds = {text[8:]: [one.value for one in rows] for text, rows in found.answers}
    row["outside"] = max(
        float(np.mean((train[column] < ends[0]) | (train[column] > ends[1]))) for column, ends in bounds.items()
    )
    return row | {"charged": fitted(bounds, EPSILON - LOOK_EPSILON, DELTA / 2), "bounds": bounds}


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# What charged bounds cost",
        "",
        "Generated by `bench/look.py`; do not edit. Bounds from a look at epsilon 0.1 and a fit at 0.9, beside bounds",
        "from the documentation of the table (`bench/look_expert.json`, committed before any fit) and a fit at epsilon",
        f"1. Relation add-remove, delta {DELTA:g} in all. Losses are those of rows that were not learned from, means",
        f"over splits; a ratio of at most {WITHIN:g} was asked for. The rule that turns noised counts into bounds was",
        "shaped while it was tried on these tables, with other noise.",
        "",
        "| table | records | columns looked at | loss, expert bounds | loss, charged bounds | ratio "
        "| largest share outside | within 3 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    held = 0
    names = list(dict.fromkeys(row["table"] for row in rows))
    for name in names:
        here = [row for row in rows if row["table"] == name]
        expert = float(np.mean([row["expert"] for row in here]))
        title = f"{name} ({ABOUT[name]})"
        head = f"| {title} | {here[0]['records']} | {here[0]['columns']} | {expert:.4g} "
        if any("refused" in row for row in here):
            lines.append(f"{head}| refused before anything was spent: too few records for so many columns | | | no |")
            continue
        charged = float(np.mean([row["charged"] for row in here]))
        outside = max(row["outside"] for row in here)
        within = charged / expert <= WITHIN
        held += within
        answer = "yes" if within else "no"
        lines.append(f"{head}| {charged:.4g} | {charged / expert:.3f} | {100 * outside:.1f} % | {answer} |")
    seeds = len({row["seed"] for row in rows})
    lines += ["", f"{held} of {len(names)} tables are within 3 %; {seeds} splits each."]
    return "\n".join(lines) + "\n"


def speed() -> None:
    """Seconds of a look at 10^6 rows of 20 columns, half of them numbers, half words."""
    rng = np.random.default_rng(0)
    rows = 10**6
    columns: dict[str, Any] = {f"n{place}": rng.normal(50, 15, rows) for place in range(10)}
    words = np.array(["a", "b", "c", "d"])
    columns |= {f"w{place}": words[rng.integers(0, 4, rows)] for place in range(10)}
    from sordino.data import Category  # noqa: PLC0415

    kinds = [Feature(name, Number(0, 100) if name[0] == "n" else Category(tuple("abcd"))) for name in columns]
    schema = Schema(records=rows, features=tuple(kinds), target=None, intercept=True)
    import pyarrow as pa  # noqa: PLC0415

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    asked = [f"{'mean' if name[0] == 'n' else 'histogram'}: {name}" for name in columns]
    begin, used = time.perf_counter(), time.process_time()
    sordino.explore.look(table, asked, schema=schema, epsilon=1.0, delta=1e-8, relation="replace-one", random_state=1)
    print(f"{time.perf_counter() - begin:.2f} s, {time.process_time() - used:.2f} s of a processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", default=",".join(ABOUT))
    parser.add_argument("--out", type=Path, default=Path("look.jsonl"))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    if given.speed:
        return speed()
    warnings.simplefilter("ignore")
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    for name in given.tables.split(","):
        for seed in range(given.seeds):
            if given.data_dir is None or any((row["table"], row["seed"]) == (name, seed) for row in done):
                continue
            begin = time.perf_counter()
            done.append(measured(name, given.data_dir, seed))
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[-1]) + "\n")
            shown = {key: value for key, value in done[-1].items() if key != "bounds"}
            print(shown, f"{time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    if given.page is not None:
        given.page.write_text(page(done), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
