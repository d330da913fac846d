"""Coverage and errors of slopes on a grid of fixed designs that were hard for an earlier engine, beside a prototype's.

    python -m bench.old_cells --out cells.jsonl [--tables 100] [--cores 16] [--seconds 540] [--cells linear:spiky:*:*:*]
        [--also FILES] [--page] [--call before]

A cell is FAMILY:DESIGN:RECORDS:EPSILON:RELATION, any part may be `*`; there are 152 under each relation, delta 1e-6.
Designs: *spiky* columns have one value in 95 % of rows; *shifted* ones lie in a corner of their box; *hospital* has a
1 % flag, skew cost, a pair correlated .9; *wide* eighteen columns, ten of them 0/1; *real* correlated normals, 0/1 and
skew columns in a part of their box. *rare* is logistic with 5 % cases. All columns are declared as numbers in [-1, 1];
effects are drawn with every table. Errors of linear cells are skew and heteroscedastic, or of t laws.

Lines of JSON are added to `--out` as they come, and the same command goes on where the file ends. `--page` records them
in bench/recorded/old-cells.json and writes bench/pages/old-cells.md; cells of other engines that were recorded stay.
"""

import itertools
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.designs import PRIOR
from bench.drawn_tables import Cell, matching, with_plain_noise
from bench.free_intervals import free
from bench.many_cores import kept, left, measure, options
from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, Plan, plan, posterior, release
from sordino.mechanisms.regression.plan import expected
from sordino.noise.randomness import SeededRandomness

Line = dict[str, Any]
LEVELS, DELTA, TABLES, OURS = (0.5, 0.9, 0.95), 1e-6, 10, "sordino"
PAGE = Path(__file__).with_name("pages") / "old-cells.md"
RECORDED = Path(__file__).with_name("recorded") / "old-cells.json"
RELATIONS = ("replace-one", "add-remove")
HARD = ("linear", "robust", "logistic", "rare", "poisson"), ("spiky", "hospital", "shifted", "wide")
EASY = ("linear", "robust", "logistic"), ("uniform", "real")
WORDS = {"rare": "logistic"}  # families by which the engine fits them, where the names differ
# Standard deviations of effects, of the hard designs and of the easy ones.
EFFECTS = {"linear": 0.3, "robust": 0.3, "poisson": 0.3, "logistic": 0.7, "rare": 0.7}
EASY_EFFECTS = {"linear": 0.4, "robust": 0.4, "logistic": 1.0}


Part = tuple[Cell, int, int, int]  # with the seed, the first table and how many there are


def cells(pattern: str = "*:*:*:*:*") -> list[Cell]:
    """All cells that match one of the patterns, which commas separate."""
    grid = [Cell(*one) for one in itertools.product(*HARD, (3_000, 30_000), (0.5, 2.0), RELATIONS)]
    grid += [Cell(*one) for one in itertools.product(*EASY, (500, 2_000, 10_000, 50_000), (0.25, 1.0, 4.0), RELATIONS)]
    return matching(grid, pattern)


def columns(g: np.random.Generator, design: str, n: int) -> np.ndarray:
    if design == "hospital":
        age, stay = g.normal(0.1, 0.35, n), -0.7 + 0.25 * g.gamma(2, 1, n)
        flags = [2.0 * (g.random(n) < share) - 1 for share in (0.01, 0.5)]
        grade, u = g.integers(0, 5, n) / 2 - 1, g.normal(size=n)
        pair = [0.3 * u, 0.3 * (0.9 * u + 0.436 * g.normal(size=n))]
        cost = 2 * np.exp(g.normal(-3, 1, n)) - 1
        spikes = np.where(g.random(n) < 0.7, -1, g.uniform(-1, 1, n))
        return np.clip(np.column_stack([age, stay, *flags, grade, *pair, cost, spikes]), -1, 1)
    if design == "spiky":
        X = np.where(g.random((n, 6)) < 0.95, -1.0, g.uniform(-1, 1, (n, 6)))
        X[:, 0] = np.where(g.random(n) < 0.98, -1, 1)
        return X
    if design == "wide":
        numbers = g.uniform(-1, 1, (n, 8))
        return np.hstack([numbers, 2.0 * (g.random((n, 10)) < np.linspace(0.05, 0.6, 10)) - 1])
    if design == "shifted":
        return np.clip(0.8 + 0.08 * g.normal(size=(n, 4)), -1, 1)
    if design == "uniform":
        return g.uniform(-1, 1, (n, 5))
    Z = g.normal(size=(n, 3))
    Z[:, 1] = 0.8 * Z[:, 0] + 0.6 * Z[:, 1]
    flags = (g.random((n, 4)) < np.array([0.1, 0.3, 0.5, 0.05])).astype(float)
    return np.hstack([np.clip(0.25 * Z - 0.5, -1, 1), flags, np.clip(2 * g.beta(2, 8, (n, 3)) - 1, -1, 1)])


class Table(NamedTuple):
    """Rows, targets, bounds of targets that are numbers, and the true coefficients, intercept first."""

    X: np.ndarray
    y: np.ndarray
    bounds: tuple[float, float] | None
    truth: np.ndarray

    @property
    def half(self) -> float:
        """What errors are given in units of: half the range of a target that is a number."""
        return 1.0 if self.bounds is None or self.bounds[0] == 0 else self.bounds[1]


def table(cell: Cell, number: int) -> Table:
    """One table of a cell; tables of one number are the same for every epsilon and relation."""
    n, family = cell.records, cell.family
    if cell.design in EASY[1]:
        g = np.random.default_rng(number * 7919 + n + len(cell.design))
        X = columns(g, cell.design, n)
        t = g.normal(0, EASY_EFFECTS[family], X.shape[1] + 1)
        s = t[0] + X @ t[1:]
        if family == "logistic":
            return Table(X, (s + g.logistic(size=n) > 0).astype(float), None, t)
        errors = g.normal(0, 0.3, n) if cell.design == "uniform" else 0.3 * g.standard_t(4, n) * (1 + 0.5 * X[:, 0])
        return Table(X, np.clip(s + errors, -4, 4), (-4.0, 4.0), t)
    g = np.random.default_rng(990_000 + number * 131 + n)
    X = columns(g, cell.design, n)
    t = g.normal(0, EFFECTS[family], X.shape[1] + 1) * np.r_[1, g.random(X.shape[1]) < 0.6]
    if family in ("rare", "poisson"):
        t[0] = (-3 + t[0] if family == "rare" else 0.7) - X.mean(0) @ t[1:]
    s = t[0] + X @ t[1:]
    if family in ("logistic", "rare"):
        return Table(X, (s + g.logistic(size=n) > 0).astype(float), None, t)
    if family == "poisson":
        return Table(X, np.minimum(g.poisson(np.exp(np.clip(s, -20, 5))), 40).astype(float), (0.0, 40.0), t)
    skew = family == "linear"
    errors = (g.gamma(2, 1, n) - 2) * 0.2 * (1 + 0.6 * X[:, 0]) if skew else 0.25 * g.standard_t(3, n)
    return Table(X, np.clip(s + errors, -6, 6), (-6.0, 6.0), t)


def planned(cell: Cell, made: Table) -> Plan:
    d = made.X.shape[1]
    declared = Declaration((-1.0,) * d, (1.0,) * d, target=made.bounds)
    word = WORDS.get(cell.family, cell.family)
    return plan(word, declared, cell.records, Relation(cell.relation), cell.epsilon, DELTA)


def figures(made: Table, mean: np.ndarray, ends: list[np.ndarray]) -> Line:
    """What one fit's intervals of slopes hold, and how wrong and wide they are."""
    truth, half, (low, high) = made.truth[1:], made.half, ends[-1][1:].T
    missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    return {
        "held": [float(np.mean((one[1:, 0] <= truth) & (truth <= one[1:, 1]))) for one in ends],
        "square": float(np.mean(((mean[1:] - truth) / half) ** 2)),
        "score": float(np.mean(high - low + 40 * missed)) / half,
        "width": float(np.median(high - low)) / half,
    }


def total(given: Part, found: list[Line], engine: str = OURS) -> Line:
    """A line: sums over tables."""
    cell, seed, first, tables = given
    line = {**cell._asdict(), "engine": engine, "seed": seed, "first": first, "tables": tables}
    if not found:
        return line | {"refused": True}
    return line | {name: np.round(np.sum([one[name] for one in found], axis=0), 12).tolist() for name in found[0]}


def numbers(given: Part) -> range:
    """The numbers of the tables of a part."""
    _, seed, first, tables = given
    return range(10_000 * (seed - 1) + first, 10_000 * (seed - 1) + first + tables)


def part(given: Part) -> Line:
    """Some tables of a cell, fitted by the engine and without privacy."""
    cell = given[0]
    found, begun, q = [], time.process_time(), 0.0
    for number in numbers(given):
        made = table(cell, number)
        asked = planned(cell, made)
        q = asked.budget
        if expected(asked).refused:
            break
        law = posterior(asked, release(asked, made.X, made.y, SeededRandomness(number)))
        scale = made.half * PRIOR.get(cell.family, 1.0)
        other = free(asked.family, made.X, made.y, made.truth, scale)
        one = figures(made, law.mean, [law.interval(level) for level in LEVELS])
        errors = ((other.mean - made.truth) / made.half)[1:]
        one |= {"free_square": float(np.nanmean(errors**2)), "free_width": float(np.nanmedian(other.width)) / made.half}
        found.append(one | {"marked": float(law.prior_dominated[1:].mean())})
    return total(given, found) | {"q": round(q, 2), "seconds": round(time.process_time() - begun, 2)}


def together(lines: list[Line]) -> list[Line]:
    """One line a cell and engine, of means over all tables."""
    groups: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in lines:
        groups[*(line[name] for name in (*Cell._fields, "engine"))].append(line)
    found = []
    for own in groups.values():
        tables = sum(line["tables"] for line in own)
        kinds = {name: own[0][name] for name in (*Cell._fields, "engine", "q", "refused") if name in own[0]}
        names = ("held", "square", "score", "width", "free_square", "free_width", "marked")
        sums = {name: np.sum([line[name] for line in own], axis=0) / tables for name in names if name in own[0]}
        found.append(kinds | {"tables": tables} | {name: np.round(one, 12).tolist() for name, one in sums.items()})
    return found


def key(one: Line) -> tuple[Any, ...]:
    return (*(one[name] for name in Cell._fields), one["engine"])


def page(found: list[Line]) -> list[str]:
    """The page: how many cells hold how much, and every cell beside other engines, the lowest first."""
    grid = {key(one): one for one in found}
    ours = [one for one in found if one["engine"] == OURS]
    answered = sorted((one for one in ours if "refused" not in one), key=lambda one: one["held"][2])
    refused = [str(Cell(*key(one)[:-1])) for one in ours if "refused" in one]
    others = sorted({one["engine"] for one in found} - {OURS})
    lines = [
        "# Cells of fixed designs",
        "",
        "Coverage of slopes and errors by `bounded-influence` on designs that were hard for an earlier engine: spiky",
        "columns, corners of the box, rare flags and classes, skew and heteroscedastic errors; delta 1e-6. *before* is",
        "the engine before this one, *prototype* one in floating point with the same order of releases, both on the",
        "same tables. Errors are root mean squares, of linear families in units of half the target's range; score is",
        "the mean interval score at 95 %; the last columns are about fits of the same rows without privacy.",
        "",
        "    python -m bench.old_cells --out cells.jsonl --page",
        "",
        f"Of {len(ours)} cells {len(refused)} are refused before anything is spent.",
        *summary("All cells that are answered", answered),
        *summary("With n mu / p of 100 or more", [one for one in answered if one["q"] >= 100]),
    ]
    for name in others:
        pairs = [(one, grid.get((*key(one)[:-1], name))) for one in answered]
        both = [(a, b) for a, b in pairs if b is not None and "refused" not in b]
        ratios = np.array([(np.sqrt(a["square"] / b["square"]), a["score"] / b["score"]) for a, b in both])
        if both:
            middle, high = np.median(ratios, axis=0), np.quantile(ratios, 0.9, axis=0)
            lines.append(
                f"Beside *{name}*, {len(both)} cells: error {middle[0]:.2f} times as large (median; 90 % are below "
                f"{high[0]:.2f}), score {middle[1]:.2f} times ({high[1]:.2f})."
            )
            lines += summary(f"*{name}* on these", [b for _, b in both])
    head = ["cell", "n mu / p", "tables", "50 / 90 / 95 % hold", "error", "score"]
    head += [word for name in others for word in (f"{name}: hold", "error", "score")]
    head += ["error, not private", "width over that"]
    lines += ["", f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += [row(one, [grid.get((*key(one)[:-1], name)) for name in others]) for one in answered]
    return lines + (["", f"Refused: {', '.join(refused)}."] if refused else [])


def summary(words: str, own: list[Line]) -> list[str]:
    if not own:
        return []
    rates = 100 * np.array([one["held"] for one in own])
    shown = " / ".join(f"{rate:.1f}" for rate in rates.mean(axis=0))
    below = ", ".join(f"{np.sum(rates[:, 2] < limit)} below {limit} %" for limit in (92, 90))
    return [
        f"{words}: {shown} % hold; at 95 % the lowest holds {rates[:, 2].min():.1f} %, {below} of {len(own)} cells."
    ]


def row(own: Line, others: list[Line | None]) -> str:
    shown = [str(Cell(*key(own)[:-1])), f"{own['q']:.0f}", f"{own['tables']}"]
    for one in (own, *others):
        if one is None or "refused" in one:
            shown += ["-"] * 3
        else:
            rates = " / ".join(f"{100 * rate:.0f}" for rate in one["held"])
            shown += [rates, f"{np.sqrt(one['square']):.3g}", f"{one['score']:.3g}"]
    shown += [f"{np.sqrt(own['free_square']):.3g}", f"{own['width'] / own['free_width']:.2f}"]
    return f"| {' | '.join(shown)} |"


def main() -> None:
    parser = options(__doc__, 100)
    parser.add_argument("--cells", default="*:*:*:*:*")
    parser.add_argument("--call", default=OURS, help="what the page calls this engine, such as before")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="files of other cells or tables")
    given = parser.parse_args()
    lines, until = [line for path in (given.out, *given.also) for line in kept(path)], time.monotonic() + given.seconds
    tasks = left(cells(given.cells), [line for line in lines if line["engine"] == OURS], given, TABLES)
    if tasks and given.seconds > 0:
        lines += measure(part, tasks, given.out, given.cores, until, with_plain_noise)
    found = [one | {"engine": given.call if one["engine"] == OURS else one["engine"]} for one in together(lines)]
    if given.page:
        known = json.loads(RECORDED.read_text())["cells"] if RECORDED.exists() else []
        new = {key(one) for one in found}
        found += [one for one in known if key(one) not in new]
        RECORDED.write_text(json.dumps({"cells": found}, indent=0) + "\n")
        PAGE.write_text("\n".join(page(found)) + "\n", "utf-8")
    if any(one["engine"] == OURS for one in found):
        print("\n".join(page(found)))
    print(f"{sum(line.get('seconds', 0.0) for line in lines):.0f} s of processor time")


if __name__ == "__main__":
    main()
