"""How often intervals hold the truth, over a grid of families, designs, sizes, budgets and relations.

    python bench/coverage.py --out coverage.jsonl [--cores 16] [--cells linear:uniform:2000:1:replace-one,...]
        [--tables 400] [--seed 1] [--seconds 520] [--again [4000]] [--page docs/results/coverage.md] [--merge]
        [--effects 1]

A cell is FAMILY:DESIGN:RECORDS:EPSILON:RELATION, and any part may be `*`. In each cell tables are drawn, with other
coefficients each, and fitted as a user fits them; what is counted is how often 50, 90 and 95 % intervals hold the true
coefficients, and the true scores of new rows: a mean is a function of its score, so that its interval holds as often.
Results are lines of JSON, one for each part of a cell, written as they come, and a run goes on where the file ends: it
starts no part after `--seconds`. With `--again`, once all cells have their tables, those outside the limits are drawn
anew with 4,000 fresh ones, which alone judge them as soon as there are as many as before: all of them a thousand more
at a time, the worst first. `--effects 2` draws effects twice as large as declared; the page shows such cells in a table
of their own.
`--page` writes the tables, worst cells first; with `--merge` cells that were not drawn now keep the rows of the page as
it is, with a dagger: they were drawn before. Noise is normal as NumPy draws it: the law of the exact noise of a fit,
but for its rounding, in a part of the time.

Designs. *uniform*: 5 numbers over the whole of their bounds. *concentrated*: correlated numbers that use a part of
their bounds, four 0/1 columns, three skewed numbers. *skewed*: a category with rare levels, a rare 0/1 column, numbers
with long tails. *misspecified*: errors whose spread depends on x and has heavy tails, gross errors (robust), random
effects that change the link (classes), counts that vary more than a Poisson law. There the truth is the coefficients
of the mean, or the best fit of the family to the whole population.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sordino.algorithm.influence import Declaration, Plan, Posterior, expected, plan, posterior, release
from sordino.algorithm.influence.posterior import MARGIN
from sordino.algorithm.noise.exact import ExactGaussians
from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.core.arrays import weighted_quantiles
from sordino.core.bound import Relation

FAMILIES = ("linear", "robust", "logistic", "multinomial", "poisson")
DESIGNS = ("uniform", "concentrated", "skewed", "misspecified")
SIZES, EPSILONS = (500, 2000, 10_000, 50_000), (0.25, 1.0, 4.0)
RELATIONS = tuple(one.value for one in Relation)
DELTA, LEVELS = 1e-6, (0.5, 0.9, 0.95)
BELOW, ABOVE = 0.02, 0.04
PART = 20  # tables that one process draws at a time
BLOCK = 1000  # fresh tables of a cell before the next is drawn again
NEW_ROWS = 6  # of every table, whose scores are to be found
TARGET, CLASSES, MOST = (-4.0, 4.0), 3, 200.0
EFFECTS = {"linear": 0.4, "robust": 0.4, "logistic": 1.0, "multinomial": 1.0, "poisson": 0.5}
_POPULATION = 5_000
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


class Cell(NamedTuple):
    """One cell of the grid."""

    family: str
    design: str
    records: int
    epsilon: float
    relation: str

    @classmethod
    def read(cls, text: str) -> "Cell":
        family, design, records, epsilon, relation = text.split(":")
        return cls(family, design, int(records), float(epsilon), relation)

    def __str__(self) -> str:
        return f"{self.family}:{self.design}:{self.records}:{self.epsilon:g}:{self.relation}"


def cells(pattern: str) -> list[Cell]:
    """All cells of the grid that match one of the patterns."""
    grid = [Cell(*one) for one in _product(FAMILIES, DESIGNS, SIZES, EPSILONS, RELATIONS)]
    found = []
    for text in pattern.split(","):
        parts = text.split(":")
        found += [one for one in grid if all(p in ("*", q) for p, q in zip(parts, str(one).split(":"), strict=True))]
    return list(dict.fromkeys(found))


def _product(*sides: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if not sides:
        yield ()
        return
    for one in sides[0]:
        for rest in _product(*sides[1:]):
            yield (one, *rest)


def rows(g: np.random.Generator, design: str, size: int) -> np.ndarray:
    """Rows of a design, as they stand in a table."""
    if design == "uniform":
        return g.uniform(-1, 1, (size, 5))
    if design == "concentrated":
        numbers = g.normal(size=(size, 3))
        numbers[:, 1] = 0.8 * numbers[:, 0] + 0.6 * numbers[:, 1]
        flags = g.random((size, 4)) < [0.1, 0.3, 0.5, 0.05]
        return np.hstack([np.clip(0.25 * numbers - 0.5, -1, 1), flags, 2 * g.beta(2, 8, (size, 3)) - 1])
    if design == "skewed":
        level = g.choice(4, size, p=[0.55, 0.3, 0.1, 0.05])
        flags = np.column_stack([level[:, None] == [1, 2, 3], g.random(size) < 0.08])
        pair = g.normal(size=(size, 2))
        pair[:, 1] = 0.9 * pair[:, 0] + np.sqrt(1 - 0.81) * pair[:, 1]
        tails = np.column_stack([0.25 * np.exp(0.6 * g.normal(size=size)) - 1, 2 * g.beta(1.5, 9, size) - 1])
        return np.hstack([flags, np.clip(0.3 * pair + 0.3, -1, 1), np.clip(tails, -1, 1)])
    numbers = np.column_stack([g.uniform(-1, 1, (size, 2)), np.clip(0.35 * g.normal(size=(size, 2)) + 0.2, -1, 1)])
    return np.column_stack([numbers, g.random(size) < 0.35, g.random(size) < 0.12])


_KINDS = {
    "uniform": ("number",) * 5,
    "concentrated": ("number",) * 3 + ("binary",) * 4 + ("number",) * 3,
    "skewed": ("category",) * 3 + ("binary",) + ("number",) * 4,
    "misspecified": ("number",) * 4 + ("binary",) * 2,
}


def declaration(family: str, design: str) -> Declaration:
    kinds = _KINDS[design]
    low = tuple(-1.0 if kind == "number" else 0.0 for kind in kinds)
    groups = tuple(1 if kind == "category" else 0 for kind in kinds)
    target = {"linear": TARGET, "robust": TARGET, "poisson": (0.0, MOST)}.get(family)
    classes = CLASSES if family == "multinomial" else None
    return Declaration(
        low, (1.0,) * len(low), kinds, groups, target=target, classes=classes, effect_scale=EFFECTS[family]
    )


def table(cell: Cell, g: np.random.Generator, effects: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets, and the coefficients to be found, intercept first, classes innermost."""
    X, wrong = rows(g, cell.design, cell.records), cell.design == "misspecified"
    outputs = CLASSES - 1 if cell.family == "multinomial" else 1
    truth = effects * EFFECTS[cell.family] * g.normal(size=(X.shape[1] + 1, outputs))
    scores = truth[0] + X @ truth[1:]
    if cell.family in ("linear", "robust"):
        errors = g.normal(0, 0.3, cell.records) if cell.design == "uniform" else 0.3 * g.standard_t(4, cell.records)
        if cell.design != "uniform":
            errors *= 1 + 0.5 * X[:, 0]
        if cell.family == "robust" and wrong:
            errors = np.where(g.random(cell.records) < 0.05, 5.0 * errors, errors)
        return X, np.clip(scores[:, 0] + errors, *TARGET), truth.ravel()
    if cell.family == "poisson":
        mean = np.exp(scores[:, 0])
        if wrong:
            mean *= np.exp(0.6 * g.normal(size=cell.records) - 0.18)
        return X, np.minimum(g.poisson(np.minimum(mean, 1e6)), MOST), truth.ravel()
    if wrong:
        scores = scores + g.normal(size=scores.shape)
    noise = g.gumbel(size=(cell.records, outputs + 1))
    y = np.argmax(np.column_stack([np.zeros(cell.records), scores]) + noise, axis=1).astype(float)
    return X, y, (_best_fit(cell, g, truth) if wrong else truth).ravel()


def _best_fit(cell: Cell, g: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    """The coefficients of the family that fit a whole population with random effects best, by Newton's steps."""
    X = np.column_stack([np.ones(_POPULATION), rows(g, cell.design, _POPULATION)])
    scores, outputs = X @ truth, truth.shape[1]
    wanted = np.zeros((_POPULATION, outputs))
    for one in _product(*(tuple(range(len(_NODES))) for _ in range(outputs))):
        places = list(one)
        weight = np.prod(_WEIGHTS[places] / _WEIGHTS.sum())
        lifted = np.exp(scores + _NODES[places])
        wanted += weight * lifted / (1 + lifted.sum(axis=1, keepdims=True))
    found = 0.85 * truth
    for _ in range(8):
        lifted = np.exp(X @ found)
        p = lifted / (1 + lifted.sum(axis=1, keepdims=True))
        slope = np.zeros((found.size, found.size))
        for a in range(outputs):
            for b in range(outputs):
                weights = p[:, a] * ((a == b) - p[:, b])
                slope[a::outputs, b::outputs] = (X * weights[:, None]).T @ X
        found = found + np.linalg.solve(slope, (X.T @ (wanted - p)).ravel()).reshape(found.shape)
    return found


def drawn_and_fitted(cell: Cell, seed: int, table_number: int, effects: float = 1.0) -> tuple[Posterior, np.ndarray]:
    """The posterior of one drawn table, and the coefficients to be found."""
    found, truth, _ = _drawn(cell, seed, table_number, effects)
    return found, truth


def _drawn(cell: Cell, seed: int, number: int, effects: float) -> tuple[Posterior, np.ndarray, np.random.Generator]:
    g = np.random.default_rng([seed, number, *str(cell).encode()])
    X, y, truth = table(cell, g, effects)
    made = planned(cell)
    return posterior(made, release(made, X, y, SeededRandomness(int(g.integers(2**62))))), truth, g


@cache
def planned(cell: Cell) -> Plan:
    """The plan of a cell."""
    declared = declaration(cell.family, cell.design)
    return plan(cell.family, declared, cell.records, Relation(cell.relation), cell.epsilon, DELTA)


def refused(cell: Cell) -> bool:
    """Whether the plan refuses; such a cell is shown, but its intervals are nobody's."""
    return expected(planned(cell)).refused


def fitted(cell: Cell, seed: int, table_number: int, effects: float = 1.0) -> dict[str, Any]:
    """One table: what its intervals hold, and how wide and wrong they are."""
    found, truth, g = _drawn(cell, seed, table_number, effects)
    ends = _ends(found.draws, found.weights)
    low, high = ends[-1].T
    missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    new = np.column_stack([np.ones(NEW_ROWS), rows(g, cell.design, NEW_ROWS)])
    outputs = found.plan.outputs
    scores = np.kron(new, np.eye(outputs))
    return {
        "held": _held(ends, truth),
        "means": _held(_ends(found.draws @ scores.T, found.weights), scores @ truth),
        "square": float(np.mean((found.mean - truth) ** 2)),
        "score": float(np.mean(high - low + 40 * missed)),
        "width": float(np.mean(high - low)),
        "shares": [float(np.mean(one)) for one in (found.sampling, found.privacy, found.prior)],
    }


def _ends(draws: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Both ends of every interval, by level."""
    sides = [(1.0 + side * level) / 2.0 for level in LEVELS for side in (-1, 1)]
    return weighted_quantiles(draws, weights, sides).reshape(draws.shape[1], -1, 2).swapaxes(0, 1)


def _held(ends: np.ndarray, truth: np.ndarray) -> list[float]:
    return [float(np.mean((one[:, 0] <= truth) & (truth <= one[:, 1]))) for one in ends]


class PlainGaussians(ExactGaussians):
    """Normal numbers as NumPy draws them, for many tables: the law of the exact ones but for their rounding."""

    def __init__(self, generator: np.random.Generator, size: int, **given: Any) -> None:
        super().__init__(generator, 0, **given)
        self.values = generator.standard_normal(size)

    def rounded(self, part: slice, offsets: np.ndarray, scales: np.ndarray) -> np.ndarray:
        return np.rint(offsets + scales * self.values[part]).astype(np.int64)


def with_plain_noise() -> None:
    """Let a process draw such noise from now on."""
    vars(import_module("sordino.algorithm.influence.release"))["ExactGaussians"] = PlainGaussians


def part(task: tuple[Cell, int, int, int, float]) -> dict[str, Any]:
    cell, seed, first, count, effects = task
    began = time.process_time()
    made = [fitted(cell, seed, first + k, effects) for k in range(count)]
    held, means = (np.array([one[name] for one in made]) for name in ("held", "means"))
    return {
        "cell": str(cell),
        "seed": seed,
        "first": first,
        "effects": effects,
        "tables": count,
        "held": held.sum(axis=0).tolist(),
        # Coefficients of one table share its noise, so the error of a rate is that of the tables' means.
        "squares": (held**2).sum(axis=0).tolist(),
        "means": means.sum(axis=0).tolist(),
        "means_squares": (means**2).sum(axis=0).tolist(),
        **{name: float(np.sum([one[name] for one in made])) for name in ("square", "score", "width")},
        "shares": np.sum([one["shares"] for one in made], axis=0).tolist(),
        "seconds": time.process_time() - began,
    }


class Judged(NamedTuple):
    """What the tables of a cell say."""

    cell: Cell
    tables: int
    rates: np.ndarray
    errors: np.ndarray
    error: float
    score: float
    shares: np.ndarray
    refused: bool
    again: bool
    earlier: bool = False
    means: np.ndarray | None = None
    means_errors: np.ndarray | None = None

    @property
    def excess(self) -> float:
        """How far outside the limits the worst level is; negative inside."""
        low = np.array(LEVELS) - BELOW - self.rates
        high = self.rates - np.array(LEVELS) - ABOVE
        return float(np.max(np.maximum(low, high)))


def judged(lines: list[dict[str, Any]], effects: float = 1.0) -> list[Judged]:
    """Cells of a file with such effects, worst first.

    Where a cell was drawn again, by the fresh tables alone, once they are as many as the others.
    """
    groups: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line["effects"] == effects:
            groups[line["cell"]][line["seed"]].append(line)
    found = []
    for text, by_seed in groups.items():
        sizes = {seed: sum(one["tables"] for one in parts) for seed, parts in by_seed.items()}
        chosen = max(seed for seed, size in sizes.items() if size >= sizes[min(sizes)])
        own, tables = by_seed[chosen], sizes[chosen]
        rates, errors = _rate(own, "held", "squares", tables)
        means, means_errors = _rate(own, "means", "means_squares", tables) if "means" in own[0] else (None, None)
        cell = Cell.read(text)
        found.append(
            Judged(
                cell,
                tables,
                rates,
                errors,
                float(np.sqrt(sum(one["square"] for one in own) / tables)),
                sum(one["score"] for one in own) / tables,
                np.sum([one["shares"] for one in own], axis=0) / tables,
                refused(cell),
                chosen != min(sizes),
                means=means,
                means_errors=means_errors,
            )
        )
    return sorted(found, key=lambda one: (one.refused, -one.excess))


def _rate(lines: list[dict[str, Any]], name: str, squares: str, tables: int) -> tuple[np.ndarray, np.ndarray]:
    """A rate by level and its error, from sums over tables and sums of squares."""
    rates = np.sum([one[name] for one in lines], axis=0) / tables
    square = np.sum([one[squares] for one in lines], axis=0) / tables
    return rates, np.sqrt(np.maximum(square - rates**2, 0) / tables)


def recorded(text: str) -> dict[float, list[Judged]]:
    """Rows of a page by the size of effects. Only the error at 90 % stands there; others follow by binomial laws."""
    found: dict[float, list[Judged]] = defaultdict(list)
    effects = 1.0
    for line in text.splitlines():
        if line.startswith("Effects ") and line.endswith("times the declared size:"):
            effects = float(line.split()[1])
        row = [one.strip() for one in line.strip("| ").split(" | ")]
        if len(row) < 15 or row[0] not in FAMILIES:
            continue
        cell = Cell(row[0], row[1], int(row[2]), float(row[3]), row[4])
        rates, error = np.array([float(one) for one in row[6:9]]) / 100.0, float(row[9]) / 100.0
        binomial = np.sqrt(np.array(LEVELS) * (1.0 - np.array(LEVELS)))
        shares = np.array([float(one) for one in row[12:15]])
        errors = error * binomial / binomial[1]
        tables = int(row[5].strip("\\*†"))
        found[effects].append(
            Judged(
                cell, tables, rates, errors, float(row[10]), float(row[11]), shares, refused(cell), "*" in row[5], True
            )
        )
    return found


def _joined(new: list[Judged], old: list[Judged]) -> list[Judged]:
    """Newly drawn cells and, of the others, what stood there, worst first."""
    drawn = {one.cell for one in new}
    return sorted([*new, *(one for one in old if one.cell not in drawn)], key=lambda one: (one.refused, -one.excess))


def page(lines: list[dict[str, Any]], before: str = "", errors: tuple[str, ...] = ()) -> str:
    """The tables, worst cells first; `before` is a page whose other cells are kept, `errors` are rows of a table."""
    old = recorded(before)
    found = _joined(judged(lines), old[1.0])
    others = sorted({line["effects"] for line in lines} | set(old) - {1.0})
    others = [one for one in others if one != 1.0]
    kept = sum(one.earlier and not one.refused for one in found)
    screened, again = [sorted(one.tables for one in found if not one.refused and one.again == side) for side in (0, 1)]
    outside = [one for one in found if one.excess > 0 and not one.refused]
    text = [
        "# Coverage of intervals",
        "",
        "Generated by `bench/coverage.py`. How often 50, 90 and 95 % intervals hold the true coefficient, over drawn",
        f"tables with effects of the declared size, delta {DELTA:g}. Limits: {100 * BELOW:.0f} points below and",
        f"{100 * ABOVE:.0f} above nominal. Errors are root mean squares of coefficients, scores are of 95 % intervals",
        "(width plus 40 times the miss), ± is the error of the rate at 90 %. Shares say what posterior variances are",
        f"made of. Every posterior is {100 * (MARGIN - 1):.1f} % wider than what it is made of, on purpose: limits are",
        "nearer below than above. Cells that a plan refuses, because sampling and privacy together exceed half the",
        "prior's standard deviation, come last.",
        "",
        f"{len(found)} cells, {sum(one.refused for one in found)} of them refused by their plan; {_count(screened)}",
        f"tables a cell. {len(again)} cells were outside the limits and drawn again with {_count(again)} fresh tables,",
        f"which alone judge them (tables with an asterisk). {len(outside)} cells are outside the limits now.",
        *(
            [f"{kept} cells, marked †, were drawn before the engine's last change; counts use their rounded rows."]
            if kept
            else []
        ),
        *_together([one for one in found if not one.refused]),
        "",
        *_table(found),
    ]
    if errors:
        text += [
            "",
            "## Errors",
            "",
            "Root mean square errors of a table's coefficients, a mean over 40 tables, beside what they are held to;",
            "targets that are numbers in units of half their declared range. The last column is the root over all",
            "tables of the grid at once, in which few hard tables weigh more.",
            "",
            "| cell | error | at most | over all tables |",
            "| --- | --- | --- | --- |",
            *errors,
        ]
    if others:
        text += [
            "",
            "## Effects of other sizes",
            "",
            "Some cells with effects that are not of the declared size. Where the prior holds a quarter of a width or",
            "more, effects twice as large as declared are missed more often than is said: there an interval rests on",
            "what was declared. Coefficients are marked *prior-dominated* where it holds half of a width or more. Rows",
            "marked † were drawn before the engine's last change.",
        ]
    for effects in others:
        text += [
            "",
            f"Effects {effects:g} times the declared size:",
            "",
            *_table(_joined(judged(lines, effects), old[effects])),
        ]
    return "\n".join(text) + "\n"


MOST_ERROR = {
    "linear:concentrated:2000:1:replace-one": 0.020,
    "linear:concentrated:10000:1:replace-one": 0.0042,
    "linear:concentrated:50000:1:replace-one": 1.1,  # times that of least squares
    "logistic:uniform:50000:1:replace-one": 0.0235,
    "logistic:concentrated:10000:1:replace-one": 0.20,
}


def _held_to(drawn: list[dict[str, Any]], tables: int = 40) -> tuple[str, ...]:
    lines, all_tables = [], {str(one.cell): one.error for one in judged(drawn, 1.0)}
    for text, most in MOST_ERROR.items():
        cell = Cell.read(text)
        half = TARGET[1] if cell.family == "linear" else 1.0
        found = np.mean([fitted(cell, 3, k)["square"] ** 0.5 for k in range(tables)]) / half
        words = f"{most:g}"
        if most > 1:
            words = f"{most * _least_squares(cell, tables) / half:.3g}: {most:g} times least squares"
        over_all = all_tables.get(str(cell), math.nan) / half
        lines.append(f"| {text.replace(':', ' ')} | {found:.3g} | {words} | {over_all:.3g} |")
    return tuple(lines)


def _least_squares(cell: Cell, tables: int) -> float:
    """The error without privacy, of the same tables."""
    found = []
    for number in range(tables):
        X, y, truth = table(cell, np.random.default_rng([3, number, *str(cell).encode()]), 1.0)
        estimate = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
        found.append(np.sqrt(np.mean((estimate - truth) ** 2)))
    return float(np.mean(found))


def _count(tables: list[int]) -> str:
    return " to ".join(f"{one:,}" for one in sorted({*tables[:1], *tables[-1:]})) or "no"


def _table(found: list[Judged]) -> list[str]:
    head = ["family", "design", "records", "epsilon", "relation", "tables", "50 %", "90 %", "95 %", "±", "error"]
    head += ["score", "sampling", "privacy", "prior", "refused"]
    star, lines = "\\*", ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for one in found:
        row = [
            *one.cell[:3],
            f"{one.cell.epsilon:g}",
            one.cell.relation,
            f"{one.tables}{star * one.again}{'†' * one.earlier}",
        ]
        row += [f"{100 * rate:.1f}" for rate in one.rates]
        row += [f"{100 * float(one.errors[1]):.1f}", f"{one.error:.4g}", f"{one.score:.4g}"]
        row += [f"{share:.2f}" for share in one.shares] + ["yes" if one.refused else ""]
        lines.append("| " + " | ".join(str(entry) for entry in row) + " |")
    return lines


def _together(found: list[Judged]) -> list[str]:
    """What all cells hold, and how far they differ by more than so few tables scatter."""
    rates, errors = np.array([one.rates for one in found]), np.array([one.errors for one in found])
    known = [one for one in found if one.means is not None]
    means, means_errors = np.array([one.means for one in known]), np.array([one.means_errors for one in known])
    apart = np.sqrt(np.maximum(rates.var(axis=0) - (errors**2).mean(axis=0), 0))
    beyond = (np.array(LEVELS) - BELOW - rates > 2 * errors) | (rates - np.array(LEVELS) - ABOVE > 2 * errors)

    def listed(numbers: np.ndarray) -> str:
        return ", ".join(f"{100 * one:.1f}" for one in numbers[:-1]) + f" and {100 * numbers[-1]:.1f}"

    return [
        "",
        f"Together they hold {listed(rates.mean(axis=0))} %. A rate of so few tables has an error of",
        f"{listed(np.sqrt((errors**2).mean(axis=0)))} points; with that taken off, cells differ by",
        f"{listed(apart)} points (standard deviations). {int(beyond.any(axis=1).sum())} cells are outside the limits",
        "by more than two errors.",
        *(
            [
                "",
                f"Means of new rows, {NEW_ROWS} a table, in {len(known)} cells: intervals hold",
                f"{listed(means.mean(axis=0))} %, from {listed(means.min(axis=0))} in the lowest",
                f"cells to {listed(means.max(axis=0))} in the highest; a cell's rates have errors of",
                f"{listed(np.sqrt((means_errors**2).mean(axis=0)))} points.",
            ]
            if known
            else []
        ),
    ]


Task = tuple[Cell, int, int, int, float]


def _screen(lines: list[dict[str, Any]], given: argparse.Namespace) -> list[Task]:
    """What is left to draw of all cells: few tables of each before more, the dearest first."""
    found = _parts(lines, cells(given.cells), given.seed, given.tables, given.effects)
    found = [one for one in found if not one[2] or not refused(one[0])]
    return sorted(found, key=lambda one: (one[2], -one[0].records))


def _again(lines: list[dict[str, Any]], given: argparse.Namespace) -> list[Task]:
    """What is left to draw of the cells that their first tables show outside the limits."""
    if not given.again:
        return []
    wanted = set(cells(given.cells))
    seen = judged([line for line in lines if line["seed"] == given.seed], given.effects)
    outside = [one.cell for one in seen if one.excess > 0 and not one.refused and one.cell in wanted]
    found = _parts(lines, outside, given.seed + 1, given.again, given.effects)
    return sorted(found, key=lambda one: one[2] // BLOCK)


def _parts(lines: list[dict[str, Any]], chosen: list[Cell], seed: int, tables: int, effects: float) -> list[Task]:
    done = {(line["cell"], line["seed"], line["first"], line["effects"]) for line in lines}
    return [
        (cell, seed, first, min(PART, tables - first), effects)
        for cell in chosen
        for first in range(0, tables, PART)
        if (str(cell), seed, first, effects) not in done
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cells", default="*:*:*:*:*")
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--effects", type=float, default=1.0)
    parser.add_argument("--again", type=int, nargs="?", const=4000)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--merge", action="store_true")
    given = parser.parse_args()
    lines = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    # One thread a process, and no memory handed back between tables: processes are started anew, so this comes before
    # they load their libraries.
    own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    own |= {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}
    os.environ.update(own)
    until = time.monotonic() + given.seconds
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.cores, context, with_plain_noise) as pool, given.out.open("a") as file:
        for tasks in (_screen, _again):
            waiting = iter(tasks(lines, given))
            # No more parts are handed out than are worked on, so that none begins after the time is over.
            running = {pool.submit(part, one) for one in itertools.islice(waiting, given.cores)}
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for one in ended:
                    line = one.result()
                    file.write(json.dumps(line) + "\n")
                    lines.append(line)
                    if time.monotonic() < until:
                        running |= {pool.submit(part, another) for another in itertools.islice(waiting, 1)}
                file.flush()
                print(f"\r{len(lines)} parts, {until - time.monotonic():.0f} s left", end="", file=sys.stderr)
            if time.monotonic() >= until:
                break
    if given.page is not None:
        with_plain_noise()
        given.page.write_text(page(lines, given.page.read_text() if given.merge else "", _held_to(lines)))
    for one in judged(lines, given.effects)[:12]:
        print(one.cell, one.tables, np.round(one.rates, 3), f"{one.error:.4g}", "refused" if one.refused else "")


if __name__ == "__main__":
    main()
