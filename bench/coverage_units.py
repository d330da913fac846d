"""How often intervals hold where a unit has ten records, and what ten records cost in noise beside one.

    python bench/coverage_units.py --out units.jsonl [--tables 400] [--seed 1] [--cores 16] [--seconds 520] [--page]
        [--again SEED] [--rows 10,1]

A cell is a family, the correlation within a unit, epsilon and a relation: 1,000 units of ten records each, of which a
fit keeps all. Two columns are the same in all records of a unit and two vary within it, over the whole of their bounds;
effects are drawn with the declared size. Errors of a unit's records are normal scores with that correlation, brought to
the family's own law record by record: normal errors, a logistic threshold, Poisson counts. So every record has the law
of the family, and only their independence is wrong. In the same cell, tables of as many units with one record each are
fitted. With `--again`, cells outside the limits are drawn anew with that seed, a larger one, ten times as many tables
each: these alone judge them. `--page` writes bench/pages/unit-coverage.md from the file.
"""

import itertools
import math
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from drawn_tables import DELTA, EFFECTS, LEVELS, MOST, TARGET, held_and_scored, with_plain_noise
from many_cores import kept, left, measure, options
from scipy import special, stats

from sordino.core.bound import Relation
from sordino.mechanisms.regression import Declaration, Plan, plan, posterior, release
from sordino.noise.randomness import SeededRandomness

PAGE = Path(__file__).with_name("pages") / "unit-coverage.md"
UNITS, ROWS, PART = 1000, 10, 20
BELOW, ABOVE, MOST_ERROR = 0.02, 0.04, 1.15
FAMILIES, CORRELATIONS, EPSILONS = ("linear", "logistic", "poisson"), (0.0, 0.5, 0.9), (1.0, 4.0)
SHARED = 2  # columns that are the same in all records of a unit


class Cell(NamedTuple):
    """One cell; `rows` is how many records a unit has."""

    family: str
    correlation: float
    epsilon: float
    relation: str
    rows: int


@cache
def planned(cell: Cell) -> Plan:
    target = {"linear": TARGET, "poisson": (0.0, MOST)}.get(cell.family)
    declared = Declaration(
        (-1.0,) * 4, (1.0,) * 4, target=target, effect_scale=EFFECTS[cell.family], unit=True, most_records=cell.rows
    )
    return plan(cell.family, declared, UNITS, Relation(cell.relation), cell.epsilon, DELTA)


def table(cell: Cell, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows in any order, targets, whose they are, and the coefficients."""
    whose = g.permutation(np.repeat(np.arange(UNITS), cell.rows))
    X = np.column_stack([g.uniform(-1, 1, (UNITS, SHARED))[whose], g.uniform(-1, 1, (len(whose), 4 - SHARED))])
    truth = EFFECTS[cell.family] * g.normal(size=5)
    scores = truth[0] + X @ truth[1:]
    alike = math.sqrt(cell.correlation) * g.standard_normal(UNITS)[whose]
    errors = alike + math.sqrt(1.0 - cell.correlation) * g.standard_normal(len(whose))
    if cell.family == "linear":
        y = np.clip(scores + 0.3 * errors, *TARGET)
    elif cell.family == "logistic":
        y = (scores + special.logit(special.ndtr(errors)) > 0).astype(float)
    else:
        y = np.minimum(stats.poisson.ppf(special.ndtr(errors), np.exp(scores)), MOST)
    return X, y, whose, truth


def part(task: tuple[Cell, int, int, int]) -> dict[str, Any]:
    cell, seed, first, count = task
    made, began = [], time.process_time()
    for number in range(first, first + count):
        name = f"{cell.family}:{cell.correlation:g}:{cell.epsilon:g}:{cell.relation}:{cell.rows}"
        g = np.random.default_rng([seed, number, *name.encode()])
        X, y, whose, truth = table(cell, g)
        found = posterior(
            planned(cell), release(planned(cell), X, y, SeededRandomness(int(g.integers(2**62))), unit=whose)
        )
        made.append(held_and_scored(found, truth))
    held = np.array([one["held_each"] for one in made], float)
    return {
        **cell._asdict(), "seed": seed, "first": first, "tables": count, "seconds": time.process_time() - began,
        "held": held.sum(axis=0).tolist(), "squares": (held.mean(axis=2) ** 2).sum(axis=0).tolist(),
        "square": float(np.sum([one["square"] for one in made])),
    }  # fmt: skip


class Judged(NamedTuple):
    """What the tables of one cell say: rates by level over all coefficients and of each, and the error of rates."""

    cell: Cell
    tables: int
    rates: np.ndarray
    each: np.ndarray
    errors: np.ndarray
    square: float
    again: bool

    @property
    def below(self) -> bool:
        return bool(np.any(self.rates < np.array(LEVELS) - BELOW))

    @property
    def outside(self) -> bool:
        return self.below or bool(np.any(self.rates > np.array(LEVELS) + ABOVE))


def judged(lines: list[dict[str, Any]]) -> dict[Cell, Judged]:
    """Every cell by the tables of its last seed, once these are as many as those of the first."""
    groups: dict[Cell, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        groups[Cell(*(line[name] for name in Cell._fields))][line["seed"]].append(line)
    found = {}
    for cell, by_seed in groups.items():
        sizes = {seed: sum(line["tables"] for line in own) for seed, own in by_seed.items()}
        chosen = max(seed for seed, size in sizes.items() if size >= sizes[min(sizes)])
        own, tables = by_seed[chosen], sizes[chosen]
        held = np.sum([line["held"] for line in own], axis=0) / tables
        rates = held.mean(axis=1)
        errors = np.sqrt((np.sum([line["squares"] for line in own], axis=0) / tables - rates**2) / tables)
        square = sum(line["square"] for line in own) / tables
        found[cell] = Judged(cell, tables, rates, held, errors, square, chosen != min(sizes))
    return found


def page(lines: list[dict[str, Any]]) -> str:
    """The table of all cells."""
    found, rows, ratios = judged(lines), [], []
    several = [found[cell] for cell in sorted(found) if cell.rows == ROWS]
    for one in several:
        cell = one.cell
        ratios.append(math.sqrt(one.square / found[cell._replace(rows=1)].square))
        same, varying = one.each[:, 1 : 1 + SHARED].mean(axis=1), one.each[:, 1 + SHARED :].mean(axis=1)
        row = [cell.family, f"{cell.correlation:g}", f"{cell.epsilon:g}", cell.relation]
        row += [f"{one.tables}{'*' * one.again}"]
        row += [f"{100 * rate:.1f}" for rate in one.rates] + [f"{100 * one.errors[0]:.1f}"]
        row += [f"{100 * part[0]:.1f}, {100 * part[2]:.1f}" for part in (same, varying)] + [f"{ratios[-1]:.2f}"]
        rows.append("| " + " | ".join(row) + " |")
    outside, again = [one for one in several if one.outside], [one for one in several if one.again]
    low = sum(one.below for one in outside)
    every = np.mean([one.rates for one in several], axis=0)
    judged_again = [
        f"{len(again)} cells were outside the limits and drawn again; fresh tables alone judge them (asterisk)."
    ][: len(again)]
    text = [
        "# Ten records a unit",
        "",
        f"Generated by `bench/coverage_units.py`: {UNITS:,} units of {ROWS} records, delta {DELTA:g}, two columns that",
        "are the same in all records of a unit and two that vary within it, errors of a unit correlated as told. Rates",
        f"of 50, 90 and 95 % intervals are over all coefficients; limits are {100 * BELOW:.0f} points below and",
        f"{100 * ABOVE:.0f} above nominal, ± is the error of the rate at 50 %. Beside them stand rates at 50 and 95 %",
        "of the columns that are the same within a unit, and of those that vary. *error* is the root mean square error",
        f"of coefficients over that of as many units with one record each; at most {MOST_ERROR:g}.",
        "",
        f"{len(outside)} of {len(rows)} cells are outside the limits, {low} of them below.",
        *judged_again,
        "Together they hold " + ", ".join(f"{100 * rate:.1f}" for rate in every) + " %. The largest ratio of errors is",
        f"{max(ratios):.2f}. Squares of units' mean scores are released: intervals know how alike records are.",
        "",
    ]
    head = ["family", "correlation", "epsilon", "relation", "tables", "50 %", "90 %", "95 %", "±"]
    head += ["same in a unit", "varying", "error"]
    return "\n".join([*text, "| " + " | ".join(head) + " |", "| --- " * len(head) + "|", *rows]) + "\n"


def main() -> None:
    parser = options(__doc__, 400)
    parser.add_argument("--again", type=int)
    parser.add_argument("--rows", default=f"{ROWS},1")
    given = parser.parse_args()
    lines, until = kept(given.out), time.monotonic() + given.seconds
    relations, rows = tuple(one.value for one in Relation), tuple(int(one) for one in given.rows.split(","))
    cells = [Cell(*one) for one in itertools.product(FAMILIES, CORRELATIONS, EPSILONS, relations, rows)]
    tasks = left(cells, lines, given, PART)
    lines += measure(part, tasks, given.out, given.cores, until, with_plain_noise)
    if given.again is not None and time.monotonic() < until:
        first = judged([line for line in lines if line["seed"] == given.seed])
        outside = [cell for cell, one in first.items() if one.outside and cell.rows == ROWS]
        given.seed, given.tables = given.again, 10 * given.tables
        tasks = left(outside, lines, given, PART) if outside else []
        lines += measure(part, tasks, given.out, given.cores, until, with_plain_noise)
    if given.page:
        PAGE.write_text(page(lines))


if __name__ == "__main__":
    main()
