"""How often intervals hold where there are many coefficients: designs of the grid side by side, and rows of Adult.

    python bench/many_coefficients.py --out many.jsonl [--tables 30] [--seed 1] [--cores 16] [--seconds 520]
        [--data-dir DIR] [--page]

A cell is a family, a design, a number of columns and a number of records, at epsilon 1 under replace-one. A design's
columns are drawn independently again and again until there are so many (`drawn_tables.py`). *adult*: rows of the table
Adult, drawn with replacement, with its numbers and some of its columns of words (`SUBSETS`); its rare levels are what
tables drawn from a declaration do not have. Targets are drawn with effects of the declared size, so the truth is known.
`--page` writes bench/pages/many-coefficients.md from the file.
"""

import itertools
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from drawn_tables import DELTA, EFFECTS, KINDS, LEVELS, TARGET, held_and_scored, rows, with_plain_noise
from many_cores import kept, left, measure, options
from scipy import special

from sordino.core.bound import Relation
from sordino.ledger.release.coverage import MOST_COEFFICIENTS
from sordino.mechanisms.regression import Declaration, Plan, plan, posterior, release
from sordino.noise.randomness import SeededRandomness

PAGE = Path(__file__).with_name("pages") / "many-coefficients.md"
FAMILIES, COLUMNS, RECORDS, EPSILON = ("linear", "logistic"), (10, 21, 30, 39, 60), (10_000, 50_000), 1.0
ADULT = {"age": (17, 90), "fnlwgt": (0, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 100_000)}
ADULT |= {"capital-loss": (0, 4_500), "hours-per-week": (1, 99)}
# Columns of words by how many columns they make with the numbers; all of Adult's but `education` come last.
_FEW = ("workclass", "marital-status")
_MORE = ("marital-status", "occupation", "relationship", "race", "sex")
SUBSETS = {
    12: ("marital-status",),
    18: ("marital-status", "relationship", "sex"),
    20: _FEW,
    26: (*_FEW, "relationship", "sex"),
    30: (*_FEW, "relationship", "sex", "race"),
    36: _MORE,
    44: (*_MORE, "workclass"),
    85: (*_MORE, "workclass", "native-country"),
}
PART = 2


class Cell(NamedTuple):
    """One cell."""

    family: str
    design: str
    columns: int
    records: int


@cache
def adult(folder: str, size: int) -> tuple[np.ndarray, Declaration]:
    """Rows of a part of Adult's columns and their declaration, the target left out."""
    import pandas as pd  # noqa: PLC0415  only where the table is there

    read = pd.read_parquet(Path(folder) / "adult.parquet")
    columns = [read[name].to_numpy(float) for name in ADULT]
    low, high = [float(ends[0]) for ends in ADULT.values()], [float(ends[1]) for ends in ADULT.values()]
    kinds, groups = ["number"] * len(columns), [0] * len(columns)
    for number, name in enumerate(SUBSETS[size], 1):
        values = sorted(read[name].unique())[1:]
        columns += [(read[name] == value).to_numpy(float) for value in values]
        kinds += ["category" if len(values) > 1 else "binary"] * len(values)
        groups += [number if len(values) > 1 else 0] * len(values)
    low, high = low + [0.0] * (len(columns) - len(low)), high + [1.0] * (len(columns) - len(high))
    assert len(columns) == size
    return np.column_stack(columns), Declaration(tuple(low), tuple(high), tuple(kinds), tuple(groups))


@cache
def planned(cell: Cell, folder: str) -> Plan:
    target = TARGET if cell.family == "linear" else None
    if cell.design == "adult":
        known = adult(folder, cell.columns)[1]
        low, high, kinds, groups = known.low, known.high, known.kinds, known.groups
    else:
        one = KINDS[cell.design]
        copies = -(-cell.columns // len(one))
        kinds = (one * copies)[: cell.columns]
        groups = tuple(1 + place // len(one) if kind == "category" else 0 for place, kind in enumerate(kinds))
        low, high = tuple(-1.0 if kind == "number" else 0.0 for kind in kinds), (1.0,) * len(kinds)
    declared = Declaration(low, high, kinds, groups, target=target, effect_scale=EFFECTS[cell.family])
    return plan(cell.family, declared, cell.records, Relation.REPLACE_ONE, EPSILON, DELTA)


def table(cell: Cell, g: np.random.Generator, folder: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets and encoded coefficients; a typical record has score 0."""
    if cell.design == "adult":
        whole, _ = adult(folder, cell.columns)
        X = whole[g.integers(0, len(whole), cell.records)]
    else:
        copies = -(-cell.columns // len(KINDS[cell.design]))
        X = np.hstack([rows(g, cell.design, cell.records) for _ in range(copies)])[:, : cell.columns]
    encoded = planned(cell, folder).declaration.encoded(X)
    truth = EFFECTS[cell.family] * g.normal(size=1 + X.shape[1])
    # Of many columns that fill their bounds, scores of effects of full size would go beyond the target's.
    truth *= min(1.0, np.sqrt(10.0 / X.shape[1])) if cell.design == "uniform" else 1.0
    truth[0] -= encoded.mean(axis=0) @ truth[1:]
    scores = truth[0] + encoded @ truth[1:]
    if cell.family == "linear":
        return X, np.clip(scores + g.normal(0, 0.3, len(X)), *TARGET), truth
    return X, (g.random(len(X)) < special.expit(scores)).astype(float), truth


def part(task: tuple[Cell, int, int, int, str]) -> dict[str, Any]:
    cell, seed, first, count, folder = task
    held, made = [], planned(cell, folder)
    for number in range(first, first + count):
        g = np.random.default_rng([seed, number, *":".join(map(str, cell)).encode()])
        X, y, truth = table(cell, g, folder)
        found = posterior(made, release(made, X, y, SeededRandomness(int(g.integers(2**62)))))
        held.append(np.array(held_and_scored(found, truth)["held_each"])[:, 1:].mean(axis=1))
    rates, sums = np.array(held), {"seed": seed, "first": first, "tables": count, "coefficients": made.coefficients}
    return {**cell._asdict(), **sums, "held": rates.sum(axis=0).tolist(), "squares": (rates**2).sum(axis=0).tolist()}


def page(lines: list[dict[str, Any]]) -> str:
    groups: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[Cell(*(line[name] for name in Cell._fields))].append(line)
    found = []
    for cell, own in groups.items():
        tables = sum(line["tables"] for line in own)
        rates = np.sum([line["held"] for line in own], axis=0) / tables
        errors = np.sqrt(np.maximum(np.sum([line["squares"] for line in own], axis=0) / tables - rates**2, 0) / tables)
        found.append((own[0]["coefficients"], cell, tables, rates, errors))
    text = [
        "# Many coefficients",
        "",
        "Generated by `bench/many_coefficients.py`: how often 50, 90 and 95 % intervals of `bounded-influence` hold",
        f"the coefficients of columns, epsilon {EPSILON:g}, delta {DELTA:g}, replace-one. Designs are those of the",
        "[grid](coverage.md) side by side; *adult* are rows of Adult with drawn targets: its numbers, three of which",
        "have one value in most records, and some of its columns of words. ± is the error of the rate at 90 %.",
        "",
        "All cells of a kind together:",
        "",
        "| coefficients | rows | cells | tables | 50 % | 90 % | 95 % | ± | lowest cell at 90 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *_together(found),
        "",
        f"Intervals of fits with more than {MOST_COEFFICIENTS} coefficients are withheld: estimates and predictions",
        "are told, standard errors, intervals and p-values are not, and `auto` takes another method where one tells",
        "its intervals and gains nearly as much. Widening by what tables drawn from the declaration show does not",
        "help: rows of Adult have levels that one record in a thousand has, and columns of words that say nearly the",
        "same (who is a husband or a wife is married), which such tables lack.",
        "",
        "| coefficients | family | design | records | tables | 50 % | 90 % | 95 % | ± | intervals |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for size, cell, tables, rates, errors in sorted(found, key=lambda one: (one[0], one[1])):
        told = "told" if size <= MOST_COEFFICIENTS else "withheld"
        text.append(
            f"| {size} | {cell.family} | {cell.design} | {cell.records} | {tables} | "
            + " | ".join(f"{100 * one:.1f}" for one in rates)
            + f" | {100 * errors[1]:.1f} | {told} |"
        )
    return "\n".join(text) + "\n"


def _together(found: list[Any]) -> list[str]:
    """Rates of all cells by the number of coefficients, of drawn rows and of Adult's."""
    rows = []
    for least, most in ((0, MOST_COEFFICIENTS), (MOST_COEFFICIENTS, 40), (40, 1000)):
        for words, is_adult in (("drawn", False), ("adult", True)):
            own = [one for one in found if least < one[0] <= most and (one[1].design == "adult") is is_adult]
            if not own:
                continue
            rates = np.mean([one[3] for one in own], axis=0)
            error = float(np.sqrt(np.mean([one[4][1] ** 2 for one in own]) / len(own)))
            lowest = min(float(one[3][LEVELS.index(0.9)]) for one in own)
            span = f"up to {most}" if not least else f"{least + 1} to {most}" if most < 1000 else f"more than {least}"
            row = [span, words, str(len(own)), str(sum(one[2] for one in own)), *(f"{100 * one:.1f}" for one in rates)]
            rows.append("| " + " | ".join([*row, f"{100 * error:.1f}", f"{100 * lowest:.1f}"]) + " |")
    return rows


def main() -> None:
    parser = options(__doc__, 30)
    parser.add_argument("--data-dir", default="", help="folder with adult.parquet; without it drawn rows only")
    given = parser.parse_args()
    lines, until = kept(given.out), time.monotonic() + given.seconds
    cells = [Cell(*one) for one in itertools.product(FAMILIES, KINDS, COLUMNS, RECORDS)]
    if given.data_dir:
        cells += [Cell(family, "adult", *one) for family in FAMILIES for one in itertools.product(SUBSETS, RECORDS)]
    tasks = [(*one, given.data_dir) for one in left(cells, lines, given, PART)]
    lines += measure(part, tasks, given.out, given.cores, until, with_plain_noise)
    if given.page:
        PAGE.write_text(page(lines))


if __name__ == "__main__":
    main()
