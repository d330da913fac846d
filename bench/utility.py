"""How much a private fit loses, beside diffprivlib, opacus and jax-privacy, in one run over all tables.

    python bench/utility.py --data-dir DATA_DIR [--quick] [--libraries sordino,...] [--only adult,...] [--processes 2]

With `--libraries sordino` alone, the page keeps the columns of its peers.

Tables: fourteen public ones (peers/utility_public.py: eight drawn, six that come with scikit-learn and statsmodels),
and those of the data folder (peers/utility_data.py: all of Adult, 800 records of it, five UCI regression sets).

Every setting was fixed before this ran: those of the library (fitting/methods/ridge.py) and of DP-SGD
(peers/utility_settings.json) on drawn tables of other seeds, bounds and caps by hand. What a
set itself decided is said on the page. Noise is seeded, so the numbers repeat; scores read test rows and are
NON-PRIVATE.

Relations: every row of a table has one guarantee, epsilon and delta = 1e-5 under the relation named. DP-SGD of opacus
and jax-privacy gets the least noise that Sordino's accountant certifies for Poisson batches under that relation (one
record replaced moves a sum by two clips), which is less than their own accountants ask for. diffprivlib is pure
(delta = 0) and its proof replaces one record; the same run stands under both relations.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent / "peers"))

from environments import ONE_THREAD, SCRIPTS, python_of
from machine import measured_code, own_versions
from utility_data import UCI, Adult, load_adult, uci_schema
from utility_page import restate, write_page
from utility_public import Sample, public_classes, public_numbers, public_sample
from utility_settings import dp_sgd_setting
from utility_task import auc

from papers.framework.benchmark import load_benchmark
from sordino.core.validate import InputError
from sordino.data import Number, encode_features
from sordino.estimators import METHODS, BudgetWarning, PrivateLinearRegression, PrivateLogisticRegression

DELTA = 1e-5
EPSILONS, ONE = (0.1, 0.5, 1.0, 4.0), (1.0,)
RELATIONS = ("add-remove", "replace-one")
ADULT = {"adult": None, "adult-800": 800}
SMALL = 5000  # tables of fewer records have the settings of DP-SGD that were tuned for small ones
OURS = "sordino"
CLASSIFYING, REGRESSING = ("opacus", "jax-privacy", "diffprivlib"), ("diffprivlib",)
DRAFTS = Path(__file__).with_name("drafts")
Row = dict[str, Any]


def plan_once() -> None:
    """A plan looks at no row, so it is the same for every seed of a table: make each once."""
    for method in METHODS.values():
        made: dict[tuple[Any, ...], Any] = {}

        def plan(problem: Any, made: dict[tuple[Any, ...], Any] = made, original: Any = method.plan) -> Any:
            key = (problem.task, problem.schema, problem.epsilon, problem.relation)
            if key not in made:
                made[key] = original(problem)
            return made[key]

        method.plan = plan


def cells(
    epsilons: Iterable[float], seeds: int, relations: tuple[str, ...] = RELATIONS
) -> Iterable[tuple[str, float, int]]:
    return ((relation, epsilon, seed) for relation in relations for epsilon in epsilons for seed in range(seeds))


def scores(shares: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    held = np.clip(np.where(labels > 0, shares, 1.0 - shares), 1e-12, 1.0)
    right = float(np.mean((shares > 0.5) == (labels > 0)))
    return {"accuracy": right, "log_loss": float(-np.log(held).mean()), "auc": auc(shares, labels > 0)}


@cache
def _adult(data: Path) -> Adult:
    return load_adult(data)


@cache
def sample_of(name: str, data: Path, seed: int) -> Sample:
    """Records to fit to and to score on: of a data set by its splits, otherwise by the seed."""
    if name in ADULT:
        adult = _adult(data)
        chosen = adult.chosen(ADULT[name], seed)
        return Sample(adult.schema(len(chosen)), adult.table.take(chosen), adult.test)
    if name in UCI:
        found = load_benchmark(name, data)
        split = found.splits[seed % len(found.splits)]
        schema = uci_schema(name, found.features, len(split.train))
        return Sample(schema, found.table.take(split.train), found.table.take(split.test))
    return public_sample(name, seed)


def target_of(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Targets to fit to and to score on, as numbers."""
    name = sample.schema.target.name
    both = (sample.train, sample.test)
    first, second = (np.asarray(table.columns[name].values).astype(np.float64) for table in both)
    return first, second


def encoded(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Rows as Sordino encodes and caps them, intercept first: what libraries without a schema are given."""
    first, second = (encode_features(sample.schema, table) for table in (sample.train, sample.test))
    return first, second


def classified(
    name: str, data: Path, epsilons: Iterable[float], seeds: int, relations: tuple[str, ...] = RELATIONS
) -> list[Row]:
    """Ours, and a constant, on a table of two classes."""
    rows = []
    for relation, epsilon, seed in cells(epsilons, seeds, relations):
        sample = sample_of(name, data, seed)
        labels, held = target_of(sample)
        given = {"epsilon": epsilon, "delta": DELTA, "relation": relation, "schema": sample.schema}
        model = PrivateLogisticRegression(**given, method="auto-or-constant", random_state=seed, draws=100)
        begin = time.process_time()
        model.fit(sample.train)
        spent = {"method": model.method_, "seconds": round(time.process_time() - begin, 2)}
        row = {"data": name, "records": len(labels), "relation": relation, "epsilon": epsilon, "seed": seed}
        rows.append(row | {"library": OURS} | spent | scores(model.predict_proba(sample.test)[:, 1], held))
        rows.append(row | {"library": "constant"} | scores(np.full(len(held), labels.mean()), held))
    return rows


def classified_by(
    name: str, library: str, data: Path, epsilons: Iterable[float], seeds: int, relations: tuple[str, ...] = RELATIONS
) -> tuple[list[Row], Row]:
    """A peer on a table of two classes, in its own environment."""
    arrays: dict[str, np.ndarray] = {}
    jobs: list[Row] = []
    for relation, epsilon, seed in cells(epsilons, seeds, relations):
        sample, place = sample_of(name, data, seed), 0 if ADULT.get(name, 0) is None else seed
        if f"X{place}" not in arrays:
            sides = zip(("", "held_"), encoded(sample), target_of(sample), strict=True)
            for side, rows, labels in sides:
                arrays |= {f"{side}X{place}": rows, f"{side}y{place}": np.where(labels > 0, 1.0, -1.0)}
        cap = sample.schema.row_norm.cap
        key = {"data": name, "records": sample.train.rows, "relation": relation, "epsilon": epsilon, "seed": seed}
        setting = dp_sgd_setting(sample.train.rows < SMALL, epsilon, relation)
        jobs.append(setting | {"key": key, "place": place, "row_norm": float(np.sqrt(cap**2 - 1)), "seed": seed})
    return in_environment(library, f"utility_{library.replace('-', '_')}.py", arrays, jobs)


def regressed(name: str, data: Path, seeds: int, relations: tuple[str, ...] = RELATIONS) -> list[Row]:
    """Ours, ridge without privacy, and a constant, on a table whose target is a number."""
    rows = []
    for relation, epsilon, seed in cells(ONE, seeds, relations):
        sample = sample_of(name, data, seed)
        (y, held), (X, test) = target_of(sample), encoded(sample)
        given = {"epsilon": epsilon, "delta": DELTA, "relation": relation, "schema": sample.schema}
        model = PrivateLinearRegression(**given, method="auto-or-constant", random_state=seed).fit(sample.train)
        found = {"method": model.method_, "rmse": _rmse(held - model.predict(sample.test))}
        row = {"data": name, "records": len(y), "relation": relation, "epsilon": epsilon, "seed": seed}
        rows.append(row | {"library": OURS} | found | _coverage(model, sample, held))
        rows.append(row | {"library": "ridge, not private", "rmse": _rmse(held - _ridge(X[:, 1:], y, test[:, 1:]))})
        rows.append(row | {"library": "constant", "rmse": _rmse(held - y.mean())})
    return rows


def regressed_by(
    name: str, library: str, data: Path, seeds: int, relations: tuple[str, ...] = RELATIONS
) -> tuple[list[Row], Row]:
    """A peer on a table whose target is a number: raw columns with their bounds, or encoded ones of categories."""
    arrays: dict[str, np.ndarray] = {}
    jobs: list[Row] = []
    for relation, epsilon, seed in cells(ONE, seeds, relations):
        sample = sample_of(name, data, seed)
        kinds = [feature.kind for feature in sample.schema.features]
        target = sample.schema.target.kind
        if all(isinstance(kind, Number) for kind in kinds):
            bounds = [(kind.low, kind.high) for kind in kinds if isinstance(kind, Number)]
            both = [np.stack([np.asarray(table.columns[one.name].values, np.float64) for one in sample.schema.features],
                             axis=1) for table in (sample.train, sample.test)]  # fmt: skip
        else:
            both = [rows[:, 1:] for rows in encoded(sample)]
            bounds = [(-1.0, 1.0)] * both[0].shape[1]
        for side, rows, values in zip(("", "held_"), both, target_of(sample), strict=True):
            arrays |= {f"{side}X{seed}": rows, f"{side}y{seed}": values}
        key = {"data": name, "records": sample.train.rows, "relation": relation, "epsilon": epsilon, "seed": seed}
        ends = (target.low, target.high)
        jobs.append({"key": key, "place": seed, "epsilon": epsilon, "seed": seed, "bounds": bounds, "target": ends})
    return in_environment(library, "utility_diffprivlib.py", arrays, jobs, "--regress")


def in_environment(
    library: str, script: str, data: dict[str, np.ndarray], jobs: list[Row], *words: str
) -> tuple[list[Row], Row]:
    """Run a peer's script in its own environment on jobs and arrays in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", **data)
        (Path(folder) / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
        command = [python_of(library), str(SCRIPTS / script), folder, *words]
        subprocess.run(command, env=os.environ | ONE_THREAD | {"PYTHONPATH": ""}, check=True)
        found = json.loads((Path(folder) / "found.json").read_text(encoding="utf-8"))
    return [{"library": library, **row.pop("key"), **row} for row in found["rows"]], found["versions"]


def _coverage(model: PrivateLinearRegression, sample: Sample, held: np.ndarray) -> Row:
    """The share of new targets that 90 % intervals hold; nothing where intervals are withheld."""
    try:
        low, high = model.predict_interval(sample.test)
    except InputError:
        return {}
    return {"coverage": float(np.mean((low <= held) & (held <= high)))}


def _ridge(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    centre, scale = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-12)
    Z = (X - centre) / scale
    weights = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]), Z.T @ (y - y.mean()))
    return y.mean() + (test - centre) / scale @ weights


def _rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def task(given: tuple[str, str, Path, tuple[float, ...], int]) -> tuple[list[Row], Row]:
    """One library on one table."""
    name, library, data, epsilons, seeds = given
    warnings.simplefilter("ignore", BudgetWarning)
    begin = time.perf_counter()
    number = name in UCI or name in public_numbers()
    wanted = epsilons if name in ADULT else ONE
    if library == OURS:
        plan_once()
        rows, versions = (regressed(name, data, seeds) if number else classified(name, data, wanted, seeds)), {}
    elif number:
        rows, versions = regressed_by(name, library, data, seeds)
    else:
        rows, versions = classified_by(name, library, data, wanted, seeds)
    measure = "rmse" if number else "log_loss"
    mine = [row[measure] for row in rows if row["library"] == library and row["epsilon"] == 1.0]
    took = time.perf_counter() - begin
    print(f"{name:22} {library:12} {np.mean(mine):10.4g} at epsilon 1, {took:.0f} s", flush=True)
    return rows, versions


def kept(code: str, given: tuple[str, str, Path, tuple[float, ...], int]) -> tuple[list[Row], Row]:
    """One library on one table, unless this very code has measured it before: a run that was stopped goes on."""
    name, library, _, epsilons, seeds = given
    file = DRAFTS / "utility_parts" / f"{code}-{name}-{library}-{len(epsilons)}-{seeds}.json"
    if "changed" not in code and file.exists():
        rows, versions = json.loads(file.read_text(encoding="utf-8"))
        return rows, versions
    rows, versions = task(given)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps([rows, versions]), encoding="utf-8")
    unfinished.replace(file)
    return rows, versions


def tasks(data: Path, names: list[str], libraries: list[str], epsilons: tuple[float, ...], seeds: int) -> list[Any]:
    """What there is to do, what takes longest first."""
    numbers = (*UCI, *public_numbers())
    pairs = [
        (name, library)
        for name in names
        for library in (OURS, *(REGRESSING if name in numbers else CLASSIFYING))
        if library in libraries
    ]
    pairs.sort(key=lambda one: (one[0] != "adult", one[1] != OURS))
    return [(name, library, data, epsilons, seeds) for name, library in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with adult.parquet and the UCI sets")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two seeds, epsilon 0.5 and 1; into a file of its own")
    parser.add_argument("--libraries", default=",".join((OURS, *CLASSIFYING)))
    parser.add_argument("--only", default="", help="names of tables, separated by commas")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, help="where the JSON goes; the page is written from the usual place only")
    given = parser.parse_args()
    every = [*ADULT, *public_classes(), *UCI, *public_numbers()]
    names = given.only.split(",") if given.only else every
    if set(names) - set(every):
        parser.error(f"no table is called {', '.join(sorted(set(names) - set(every)))}; there are {', '.join(every)}")
    code = measured_code()
    seeds, epsilons = (2, (0.5, 1.0)) if given.quick else (given.seeds, EPSILONS)
    rows: list[Row] = []
    versions: Row = {name: number for name, number in own_versions().items() if name == "sordino"}
    asked = tasks(given.data_dir, names, given.libraries.split(","), epsilons, seeds)
    failed = []
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn")) as pool:
        for one, future in [(one, pool.submit(kept, code, one)) for one in asked]:
            try:
                found, named = future.result()
            except Exception as failure:  # whatever it is, the others go on
                failed.append(f"{one[0]} by {one[1]}: {failure!r}"[:300])
                continue
            rows, versions = rows + found, versions | named
    if failed:
        told = "\n".join(failed)
        raise SystemExit(f"{told}\nNothing was written; what was measured is kept, so call this again.")
    DRAFTS.mkdir(exist_ok=True)
    usual = DRAFTS / ("utility_quick.json" if given.quick else "utility.json")
    file = usual if given.out is None else given.out
    document: Row = {"delta": DELTA, "seeds": seeds, "code": code, "versions": versions, "rows": rows}
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if not given.quick and names == every and given.libraries == OURS:
        restate(document)
    elif not given.quick and file == usual and names == every:
        write_page(document)


if __name__ == "__main__":
    main()
