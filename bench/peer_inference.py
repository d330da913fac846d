"""Inference and prediction beside other libraries: errors, coverage and widths of intervals, and AUC beside log-loss.

    python bench/peer_inference.py --data-dir DATA_DIR [--tables 10] [--seeds 5] [--only intervals,classes,numbers]

*Intervals*: linear and logistic regression on tables of `old_cells.py` and on rows of the UCI tables drawn with
replacement, where least squares of the whole table is the truth. *Classes* and *numbers*: the tables of `utility.py`.
All at epsilon 1 and delta 1e-5. Peers run in environments of their own (`peers/environments.py`); one that cannot be
installed or run is left out with its reason. Scores read test rows and are NON-PRIVATE. The page is
bench/pages/peer-inference.md, from bench/recorded/peer-inference.json.
"""

import argparse
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent / "peers"))
sys.path.insert(0, str(Path(__file__).parent))

import utility
from machine import measured_code, own_versions
from utility_data import UCI
from utility_settings import dp_sgd_setting

from bench import old_cells
from bench.free_intervals import NORMAL_95, free
from papers.framework.benchmark import load_benchmark
from sordino.core.bound import Relation
from sordino.data import Number
from sordino.estimators import BudgetWarning
from sordino.mechanisms.regression import Declaration, plan, posterior, release
from sordino.mechanisms.regression.plan import expected
from sordino.noise.randomness import SeededRandomness

Row = dict[str, Any]
EPSILON, DELTA = 1.0, 1e-5
RELATION = ("add-remove",)  # what proofs of dp-statsmodels and DP-EBM are about
PAGE = Path(__file__).with_name("pages") / "peer-inference.md"
RECORDED = Path(__file__).with_name("recorded") / "peer-inference.json"
DRAWN = (
    ("linear", "uniform", 10_000), ("linear", "real", 10_000), ("linear", "hospital", 10_000),
    ("linear", "spiky", 10_000), ("logistic", "uniform", 10_000), ("logistic", "real", 10_000),
    ("logistic", "hospital", 10_000), ("rare", "shifted", 10_000),
)  # fmt: skip
MOST_ROWS = 10_000  # of a UCI table: dp-statsmodels makes a matrix of all pairs of rows
CLASSES = ("adult-800", "adult", "breast-cancer", "fair", "election", "rand-health", "drawn-household")
PEERS = {
    "dp-statsmodels": "inference_dp_statsmodels.py",
    "diffprivlib": "utility_diffprivlib.py",
    "opacus": "utility_opacus.py",
    "interpret": "utility_interpret.py",
}
MISSING = {
    "DPrivStats": "an R package on CRAN (0.1.0), not on PyPI; there is no R here, and CRAN cannot be reached. By its"
    " source, `dp_lm` protects the target alone unless told otherwise (`assume_public_design = TRUE`), and scales its"
    " noise by the least eigenvalue and the ranges of the confidential columns",
}


class Drawn(NamedTuple):
    """A table in encoded units, its kind of target, and the coefficients to be found, intercept first."""

    name: str
    family: str
    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def drawn_tables(data: Path, number: int) -> list[Drawn]:
    """One table of every kind; targets that are numbers are divided by half their range."""
    found = []
    for family, design, records in DRAWN:
        made = old_cells.table(old_cells.Cell(family, design, records, EPSILON, "add-remove"), number)
        word = old_cells.WORDS.get(family, family)
        found.append(Drawn(f"{family} {design}", word, made.X, made.y / made.half, made.truth / made.half))
    for name, (bounds, target) in UCI.items():
        columns = load_benchmark(name, data)
        values = [np.asarray(columns.table.columns[one].values, np.float64) for one in (*columns.features, "y")]
        ends = np.array([*bounds, target], float)
        Z = np.clip((np.column_stack(values) - ends.mean(1)) / (ends[:, 1] - ends[:, 0]) * 2, -1, 1)
        Z = np.column_stack([Z[:, :-1][:, own_columns(Z[:, :-1])], Z[:, -1]])
        truth = np.linalg.lstsq(np.column_stack([np.ones(len(Z)), Z[:, :-1]]), Z[:, -1], rcond=None)[0]
        rows = Z[np.random.default_rng([17, number]).integers(0, len(Z), min(len(Z), MOST_ROWS))]
        found.append(Drawn(f"UCI {name}", "linear", rows[:, :-1], rows[:, -1], truth))
    return found


def own_columns(X: np.ndarray) -> list[int]:
    """Columns that vary and are no combination of earlier ones: the others have no coefficient to be found."""
    kept: list[int] = []
    for place in range(X.shape[1]):
        rows = np.column_stack([np.ones(len(X)), X[:, kept]])
        left = X[:, place] - rows @ np.linalg.lstsq(rows, X[:, place], rcond=None)[0]
        if left.std() > 1e-3 * max(float(X[:, place].std()), 1e-3):
            kept.append(place)
    return kept


def judged(one: Drawn, peer: str, mean: np.ndarray, low: Any = None, high: Any = None, marked: Any = None) -> Row:
    """Errors of slopes, and what intervals hold where a peer has them."""
    truth, row = one.truth[1:], {"table": one.name, "peer": peer, "records": len(one.y)}
    row["square"] = float(np.mean((np.asarray(mean)[1:] - truth) ** 2))
    if low is not None:
        low, high = np.asarray(low)[1:], np.asarray(high)[1:]
        held, shown = (low <= truth) & (truth <= high), np.ones(len(truth), bool) if marked is None else ~marked[1:]
        row |= {"held": float(held.mean()), "width": float(np.median(high - low))}
        row["reported"] = [int(held[shown].sum()), int(shown.sum())]
    return row


def own_intervals(one: Drawn, seed: int) -> list[Row]:
    """Ours, and the same rows without privacy."""
    bounds = (-1.0, 1.0) if one.family == "linear" else None
    declared = Declaration((-1.0,) * one.X.shape[1], (1.0,) * one.X.shape[1], target=bounds)
    made = plan(one.family, declared, len(one.y), Relation.ADD_REMOVE, EPSILON, DELTA)
    found = []
    if not expected(made).refused:
        law = posterior(made, release(made, one.X, one.y, SeededRandomness(seed)))
        low, high = law.interval(0.95).T
        found.append(judged(one, "sordino", law.mean, low, high, law.prior_dominated))
    other = free(one.family, one.X, one.y, one.truth, 100.0)
    ends = other.mean - NORMAL_95 * other.error, other.mean + NORMAL_95 * other.error
    return [*found, judged(one, "not private", other.mean, *ends)]


def peer_intervals(peer: str, tables: list[list[Drawn]]) -> tuple[list[Row], Row]:
    """A peer on all tables, in its environment; coefficients of those without intervals are scores of unit rows."""
    every, versions = [], {}
    groups: dict[tuple[str, str], list[tuple[Drawn, int]]] = defaultdict(list)
    for seed, some in enumerate(tables):
        for one in some:
            groups[one.name, one.family].append((one, seed))
    for (_, family), members in groups.items():
        if peer == "opacus" and family == "linear":
            continue
        d, linear = members[0][0].X.shape[1], family == "linear"
        unit = np.vstack([np.zeros(d), np.eye(d)])
        first = [np.ones((len(unit), 1))] if not linear and peer != "dp-statsmodels" else []
        data, jobs = {"probe": np.hstack([*first, unit])}, []
        for place, (one, seed) in enumerate(members):
            X = np.hstack([np.ones((len(one.X), 1)), one.X]) if first else one.X
            y = one.y if linear or peer == "dp-statsmodels" else np.where(one.y > 0, 1.0, -1.0)
            data |= {f"X{place}": X, f"y{place}": y, f"held_X{place}": X[:2], f"held_y{place}": y[:2]}
            job = {"key": {"place": place}, "place": place, "family": family, "epsilon": EPSILON, "delta": DELTA}
            job |= {"seed": seed, "bounds": [(-1.0, 1.0)] * d, "target": (-1.0, 1.0), "row_norm": float(np.sqrt(d))}
            jobs.append(dp_sgd_setting(len(y) < utility.SMALL, EPSILON, RELATION[0]) | job)
        words = ["--regress"] if linear and peer == "diffprivlib" else []
        rows, versions = utility.in_environment(peer, PEERS[peer], data, jobs, *words)
        for row in rows:
            one = members[row["place"]][0]
            if "mean" in row:
                every.append(judged(one, peer, row["mean"], row["low"], row["high"]))
            else:
                scores = np.array(row["probed"])
                every.append(judged(one, peer, np.r_[scores[0], scores[1:] - scores[0]]))
        print(f"{peer}: {members[0][0].name}", flush=True)
    return every, versions


def boosted(name: str, data: Path, seeds: int, number: bool) -> tuple[list[Row], Row]:
    """DP-EBM on a table of `utility.py`: raw columns with their declared bounds, words as categories."""
    arrays, jobs = {}, []
    for seed in range(seeds):
        sample = utility.sample_of(name, data, seed)
        sides, bounds = ([], []), []
        for feature in sample.schema.features:
            columns = [np.asarray(part.columns[feature.name].values) for part in (sample.train, sample.test)]
            if isinstance(feature.kind, Number):
                bounds.append((feature.kind.low, feature.kind.high))
            else:
                levels = np.unique(np.concatenate(columns))
                columns, _ = [np.searchsorted(levels, one) for one in columns], bounds.append(None)
            for side, column in zip(sides, columns, strict=True):
                side.append(column.astype(float))
        for side, columns, y in zip(("", "held_"), sides, utility.target_of(sample), strict=True):
            signs = y if number else np.where(y > 0, 1.0, -1.0)
            arrays |= {f"{side}X{seed}": np.column_stack(columns), f"{side}y{seed}": signs}
        job = {"key": {"data": name}, "place": seed, "epsilon": EPSILON, "delta": DELTA, "seed": seed, "bounds": bounds}
        target = sample.schema.target.kind
        jobs.append(job | ({"target": (target.low, target.high)} if number else {}))
    return utility.in_environment("interpret", PEERS["interpret"], arrays, jobs, *(["--regress"] if number else []))


def linear_peer(name: str, data: Path, seeds: int) -> tuple[list[Row], Row]:
    """Predictions of dp-statsmodels on a table whose target is a number."""
    arrays, jobs, held = {}, [], []
    for seed in range(seeds):
        sample = utility.sample_of(name, data, seed)
        target = sample.schema.target.kind
        middle, half = (target.low + target.high) / 2, (target.high - target.low) / 2
        X, test = (rows[:, 1:] for rows in utility.encoded(sample))
        y, other = utility.target_of(sample)
        arrays |= {f"X{seed}": X, f"y{seed}": (y - middle) / half, f"held_X{seed}": test}
        held.append((other, middle, half))
        jobs.append(
            {"key": {"data": name}, "place": seed, "family": "linear", "epsilon": EPSILON, "delta": DELTA, "seed": seed}
        )
    rows, versions = utility.in_environment("dp-statsmodels", PEERS["dp-statsmodels"], arrays, jobs)
    for row, (other, middle, half) in zip(rows, held, strict=True):
        row["rmse"] = float(np.sqrt(np.mean((other - middle - half * np.array(row.pop("predicted"))) ** 2)))
    return rows, versions


def tried(what: str, work: Callable[[], tuple[list[Row], Row]], failed: Row, versions: Row) -> list[Row]:
    """Rows of a peer, or none and the reason."""
    try:
        rows, named = work()
    except Exception as failure:  # whatever it is, the others go on
        failed[what] = f"{type(failure).__name__}: {failure}"[:300]
        return []
    versions |= named
    return rows


def intervals(data: Path, tables: int, failed: Row, versions: Row) -> list[Row]:
    every = [drawn_tables(data, number) for number in range(tables)]
    rows = [row for seed, some in enumerate(every) for one in some for row in own_intervals(one, seed)]
    for peer in ("dp-statsmodels", "diffprivlib", "opacus"):
        rows += tried(f"{peer}, intervals", lambda peer=peer: peer_intervals(peer, every), failed, versions)
    return rows


def predictions(data: Path, seeds: int, failed: Row, versions: Row, number: bool) -> list[Row]:
    """Test errors of all libraries on tables of `utility.py`."""
    rows: list[Row] = []
    works: dict[str, Callable[[], tuple[list[Row], Row]]]
    for name in (*UCI, "diabetes") if number else CLASSES:
        if number:
            rows += utility.regressed(name, data, seeds, RELATION)
            works = {"diffprivlib": lambda name=name: utility.regressed_by(name, "diffprivlib", data, seeds, RELATION)}
            works["dp-statsmodels"] = lambda name=name: linear_peer(name, data, seeds)
        else:
            rows += utility.classified(name, data, (EPSILON,), seeds, RELATION)
            works = {
                peer: lambda name=name, peer=peer: utility.classified_by(name, peer, data, (EPSILON,), seeds, RELATION)
                for peer in ("opacus", "diffprivlib")
            }
        works["interpret"] = lambda name=name: boosted(name, data, seeds, number)
        for peer, work in works.items():
            rows += tried(f"{peer}, {name}", work, failed, versions)
        print(name, flush=True)
    keys = ("data", "library", "rmse", "auc", "log_loss", "accuracy")
    return [{key: row[key] for key in keys if key in row} for row in rows]


def mean_table(rows: list[Row], side: str, measure: str, peers: list[str]) -> list[str]:
    """A line for every table, a column for every peer: means."""
    lines = [f"| table | {' | '.join(peers)} |", "| --- |" + " ---: |" * len(peers)]
    for name in dict.fromkeys(row[side] for row in rows):
        cells = []
        for peer in peers:
            own = [row[measure] for row in rows if row[side] == name and peer in row.values() and measure in row]
            cells.append(f"{np.mean(own):.4g}" if own else "-")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def interval_table(rows: list[Row]) -> list[str]:
    """Root mean square errors, rates and widths, table by table."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["table"], row["peer"]].append(row)
    lines = ["| table | library | error | 95 % hold | of unmarked ones | width | width over that without privacy |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for table in dict.fromkeys(row["table"] for row in rows):
        wide = np.median([row["width"] for row in groups[table, "not private"]])
        for peer in ("sordino", "dp-statsmodels", "diffprivlib", "opacus", "not private"):
            own = groups.get((table, peer))
            if own:
                error = np.sqrt(np.mean([row["square"] for row in own]))
                shown = [table, peer, f"{error:.3g}"]
                if "held" in own[0]:
                    width = np.median([row["width"] for row in own])
                    rate = 100 * np.mean([row["held"] for row in own])
                    held, count = np.sum([row["reported"] for row in own], axis=0)
                    shown += [f"{rate:.1f}", f"{100 * held / count:.1f} of {count}" if count else "-"]
                    shown += [f"{width:.3g}", f"{width / wide:.3g}"]
                else:
                    shown += ["-"] * 4
                lines.append(f"| {' | '.join(shown)} |")
    return lines


def low_tables(rows: list[Row]) -> str:
    """The tables on which our unmarked intervals hold less often than 90 %."""
    sums: dict[str, Any] = defaultdict(lambda: np.zeros(2))
    for row in rows:
        if row["peer"] == "sordino":
            sums[row["table"]] += row["reported"]
    low = [f"{name} ({100 * held / count:.0f} %)" for name, (held, count) in sums.items() if held < 0.9 * count]
    return f"Tables on which Sordino's unmarked 95 % intervals hold less than 90 %: {', '.join(low) or 'none'}."


def page(found: Row) -> list[str]:
    """The page, from what was recorded."""
    names = ["sordino", "interpret", "opacus", "diffprivlib", "constant"]
    numbers = ["sordino", "interpret", "dp-statsmodels", "diffprivlib", "ridge, not private", "constant"]
    versions = ", ".join(f"{name} {number}" for name, number in sorted(found["versions"].items()))
    return [
        "# Inference beside peers",
        "",
        f"Generated by `python bench/peer_inference.py --data-dir DIR`, code of commit `{found['code']}`; do not edit.",
        f"Everything at epsilon {EPSILON:g} and delta {DELTA:g}, add or remove one record (diffprivlib: delta 0,",
        f"replace one record). {versions}.",
        "",
        "## Intervals of coefficients",
        "",
        f"{found['tables']} tables each, of 10,000 rows or as many as there are, columns declared in [-1, 1]. Error is",
        "the root mean square over slopes, of targets that are numbers in units of half their range; width the median",
        "of 95 % intervals. Tables are those of `bench/old_cells.py`, and rows of UCI tables drawn with",
        "replacement, where the truth is least squares of the whole table. Sordino: `bounded-influence`, every",
        "interval counted, and those that are not marked as prior-dominated; tables it refuses have no line.",
        "diffprivlib and opacus (DP-SGD) have no intervals, and DP-EBM no coefficients.",
        "",
        low_tables(found["intervals"]),
        "Targets of UCI tables are no linear functions of their columns; those of drawn tables are.",
        "",
        *interval_table(found["intervals"]),
        "",
        "dp-statsmodels (once dp-econometrics, not on PyPI) was read as well as run. Its `DPLogit` takes standard",
        "errors from the rows without noise, does not divide their squares by the number of rows, and draws noise that",
        "is smaller by n times the penalty (100 at 10,000 rows) than objective perturbation needs for its bound on",
        "gradients: nothing shows that its logistic fits are private at this epsilon.",
        "",
        "## Classes",
        "",
        f"Means (seeds: {found['seeds']}). Area under the curve (AUC), larger is better:",
        "",
        *mean_table(found["classes"], "data", "auc", names),
        "",
        "Log-loss, smaller is better:",
        "",
        *mean_table(found["classes"], "data", "log_loss", names),
        "",
        "Sordino chooses its method itself, opacus has the settings of the [utility page](utility.md), `interpret`",
        "is DP-EBM with its default settings, raw columns and declared bounds.",
        "",
        "## Numbers",
        "",
        f"Root mean square error of test rows, means (seeds: {found['seeds']}):",
        "",
        *mean_table(found["numbers"], "data", "rmse", numbers),
        "",
        "## What could not be run",
        "",
        *(f"- {name}: {reason}." for name, reason in (MISSING | found["failed"]).items()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with adult.parquet and the UCI sets")
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="intervals,classes,numbers")
    given = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    utility.plan_once()
    found: Row = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"versions": {}, "failed": {}}
    found |= {"code": measured_code(), "tables": given.tables, "seeds": given.seeds}
    found["versions"] |= {"sordino": own_versions()["sordino"]}
    for part in given.only.split(","):
        if part == "intervals":
            found[part] = intervals(given.data_dir, given.tables, found["failed"], found["versions"])
        else:
            asked = given.data_dir, given.seeds, found["failed"], found["versions"]
            found[part] = predictions(*asked, number=part == "numbers")
        RECORDED.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    if all(part in found for part in ("intervals", "classes", "numbers")):
        PAGE.write_text("\n".join(page(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
