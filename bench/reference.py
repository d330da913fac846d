"""How wide intervals are beside an exact reference that draws the confidential rows, on the same releases.

    python bench/reference.py --out reference.jsonl [--cells linear:uniform:500:1:replace-one,...] [--tables 10]
        [--law unknown] [--seed 1] [--seconds 520] [--page bench/pages/reference.md] [--merge]

A cell is FAMILY:DESIGN:RECORDS:EPSILON:RELATION as in `coverage.py`. In each, tables are drawn, released once, and read
twice: by the engine's posterior and by the chains of `augmentation.py`. Results are lines of JSON, one a table and law,
and a run goes on where the file ends; it starts no table after `--seconds`. `--law known` gives the reference the law
that rows were drawn from, which the engine does not have. `--page` writes the table; with `--merge` cells that the file
does not hold keep the rows of the page as it is.

Designs. *uniform*: 5 numbers over the whole of their bounds. *correlated*: three numbers that use a part of their
bounds, two of them correlated .8 and one skewed, and 0/1 columns with shares .1 and .3. Errors are normal, with a
deviation of 3/80 of the target's range. Everything else is as in `coverage.py`. *drawn*: columns of the kinds of
*correlated*, and each table has its own places, spreads, shares, correlations, coefficients and deviation of errors,
from the priors of the reference. There, and only there, an exact reference holds as often as it says.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import augmentation
import numpy as np
import row_laws
from drawn_tables import DELTA, EFFECTS, LEVELS, TARGET, Cell
from scipy import special
from sordino.algorithm.influence import Declaration, Plan, plan, posterior, release

from sordino.algorithm.noise.randomness import SeededRandomness
from sordino.core.bound import Relation

CELLS = (
    "robust:drawn:500:1:add-remove",
    "linear:drawn:500:1:replace-one",
    "logistic:drawn:500:1:replace-one",
    "linear:uniform:500:1:replace-one",
    "linear:uniform:1000:4:replace-one",
    "linear:correlated:500:1:replace-one",
    "linear:correlated:1000:4:replace-one",
    "robust:correlated:500:1:add-remove",
    "logistic:uniform:500:1:replace-one",
    "logistic:correlated:500:4:replace-one",
)
WITHIN = 0.15
CHAINS, SWEEPS, BURN, TABLES = 16, 150, 100, 10
# Places, spreads and shares of the columns that tables are drawn with, and correlations of the copula.
DESIGNS: dict[str, tuple[tuple[str, ...], list[float], list[float], list[float], dict[tuple[int, int], float]]] = {
    "uniform": (("uniform",) * 5, [0.0] * 5, [3**-0.5] * 5, [], {}),
    "correlated": (
        ("normal", "normal", "skewed", "flag", "flag"),
        [-0.5, -0.5, -0.6],
        [0.25, 0.25, 0.24],
        [0.1, 0.3],
        {(1, 0): 0.8},
    ),
    # Everything is drawn as the reference takes it to be.
    "drawn": (("normal", "normal", "skewed", "flag", "flag"), [], [], [], {}),
}
ERROR = 0.3


def column_law(design: str, *, known: bool = False) -> row_laws.ColumnLaw:
    shapes, place, spread, share, pairs = DESIGNS[design]
    found = row_laws.ColumnLaw(shapes)
    if known:
        found.known = found.parameters(place, spread, share, pairs)
    return found


def planned(cell: Cell) -> Plan:
    shapes = DESIGNS[cell.design][0]
    kinds = tuple("binary" if one == "flag" else "number" for one in shapes)
    declared = Declaration(
        tuple(0.0 if kind == "binary" else -1.0 for kind in kinds),
        (1.0,) * len(kinds),
        kinds,
        target=TARGET if cell.family in ("linear", "robust") else None,
        effect_scale=EFFECTS[cell.family],
    )
    return plan(cell.family, declared, cell.records, Relation(cell.relation), cell.epsilon, DELTA)


def table(cell: Cell, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets and the coefficients to be found."""
    if cell.design == "drawn":
        return _drawn_table(cell, g)
    law = column_law(cell.design, known=True)
    X = law.rows(law.drawn(g, 1), g.standard_normal((1, cell.records, law.columns)))[0]
    truth = EFFECTS[cell.family] * g.normal(size=law.columns + 1)
    scores = truth[0] + X @ truth[1:]
    if cell.family == "logistic":
        return X, (g.random(cell.records) < special.expit(scores)).astype(float), truth
    return X, np.clip(scores + g.normal(0, ERROR, cell.records), *TARGET), truth


def _drawn_table(cell: Cell, g: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with the law of columns, the coefficients and the deviation of errors from the reference's priors."""
    made, law, targets = planned(cell), column_law(cell.design), row_laws.TARGETS[cell.family]()
    X = law.rows(law.drawn(g, 1), g.standard_normal((1, cell.records, law.columns)))
    theta = row_laws.Prior(made).drawn(g, 1)
    scores = theta[:, :1] + np.einsum("cnp,cp->cn", X, theta[:, 1:])
    y = targets.targets(scores, targets.base(g, scores.shape), targets.drawn(g, 1))[0]
    half, middle = made.kind.units(made.declaration)
    return X[0], half * y + middle, half * theta[0] + middle * (np.arange(law.columns + 1) == 0)


def compared(cell: Cell, seed: int, number: int, law: str, sweeps: int = SWEEPS, burn: int = BURN) -> dict[str, Any]:
    """One table: widths of both posteriors, what they hold, and how well the chains have mixed."""
    began = time.process_time()
    g = np.random.default_rng([seed, number, *str(cell).encode()])
    X, y, truth = table(cell, g)
    made = planned(cell)
    found = release(made, X, y, SeededRandomness(int(g.integers(2**62))))
    ours = posterior(made, found)
    chains = augmentation.Chains(made, found, column_law(cell.design, known=law == "known"), chains=CHAINS, seed=number)
    drawn = chains.run(sweeps, burn)
    sizes, mixed = augmentation.effective(drawn.theta)
    flat = drawn.theta.reshape(-1, len(truth))
    mean, deviation = flat.mean(axis=0), flat.std(axis=0)
    widths, held = [], []
    for level in LEVELS:
        ends = ours.interval(level), np.quantile(flat, [(1 - level) / 2, (1 + level) / 2], axis=0).T
        widths.append([(one[:, 1] - one[:, 0]).tolist() for one in ends])
        held.append([float(np.mean((one[:, 0] <= truth) & (truth <= one[:, 1]))) for one in ends])
    half = made.kind.units(made.declaration)[0]
    return {
        "cell": str(cell),
        "seed": seed,
        "table": number,
        "law": law,
        "widths": widths,
        "held": held,
        "squares": [
            float(np.mean(((law_mean - truth) / spread) ** 2))
            for law_mean, spread in ((ours.mean, ours.deviation), (mean, deviation))
        ],
        "errors": [float(np.mean((law_mean - truth) ** 2)) for law_mean in (ours.mean, mean)],
        "apart": np.abs((ours.mean - mean) / deviation).tolist(),
        "error_scale": [ours.scale, float(half * np.exp(drawn.extra).mean()) if ours.scale else 0.0],
        "effective": float(np.mean(sizes)),
        "mixed": float(mixed.max()),
        "accepted": drawn.accepted,
        "seconds": time.process_time() - began,
    }


class Judged:
    """The tables of one cell and law."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self.cell, self.law, self.tables = Cell.read(lines[0]["cell"]), lines[0]["law"], len(lines)
        # Per table, level: the mean over coefficients of the engine's width over the reference's.
        widths = np.array([one["widths"] for one in lines])
        each = widths[:, :, 0] / widths[:, :, 1]
        self.ratio, self.spread = each.mean(axis=(0, 2)), each.mean(axis=2).std(axis=0, ddof=int(len(lines) > 1))
        self.by_coefficient = each[:, 1].mean(axis=0)
        self.held = np.mean([one["held"] for one in lines], axis=0)
        self.squares = np.mean([one["squares"] for one in lines], axis=0)
        self.errors = np.sqrt(np.mean([one["errors"] for one in lines], axis=0))
        self.apart = float(np.mean([one["apart"] for one in lines]))
        self.effective = float(np.mean([one["effective"] for one in lines]))
        self.mixed = float(np.mean([one["mixed"] for one in lines]))
        self.rows = float(np.mean([one["accepted"]["rows"] for one in lines]))
        self.error_scale = np.mean([one["error_scale"] for one in lines], axis=0)

    @property
    def row(self) -> str:
        """Of the page's table."""
        cell = self.cell
        parts = [cell.family, cell.design, str(cell.records), f"{cell.epsilon:g}", cell.relation, self.law]
        parts += [str(self.tables), *(f"{value:.2f}" for value in self.ratio), f"{self.spread[1]:.2f}"]
        parts += [" ".join(f"{value:.2f}" for value in self.by_coefficient), f"{self.apart:.2f}"]
        parts += [f"{self.squares[0]:.2f} / {self.squares[1]:.2f}", f"{self.effective:.0f}", f"{self.mixed:.2f}"]
        return "| " + " | ".join([*parts, f"{self.rows:.0%}"]) + " |"


def judged(lines: list[dict[str, Any]]) -> list[Judged]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["cell"], line["law"]].append(line)
    order = sorted(groups, key=lambda one: (one[1] == "known", CELLS.index(one[0]) if one[0] in CELLS else len(CELLS)))
    return [Judged(groups[one]) for one in order]


_HEAD = (
    "family | design | records | epsilon | relation | law of columns | tables | 50 % | 90 % | 95 % | tables' sd | "
    "by coefficient | means apart | square of z | draws | R-hat | rows taken"
)


def _cells_of(row: str) -> list[str]:
    return [part.strip() for part in row.strip("|").split("|")]


def _agrees(row: str) -> bool:
    return all(abs(float(value) - 1.0) <= WITHIN for value in _cells_of(row)[7:10])


def page(cells: list[Judged], before: str = "") -> str:
    """The table, cells as they were drawn; of `before`, a page, the rows of cells that were not drawn now."""
    rows = [one.row for one in cells]
    now = {tuple(_cells_of(row)[:6]) for row in rows}
    earlier = [row for row in before.splitlines() if row.startswith("| ") and _cells_of(row)[0] in row_laws.TARGETS]
    rows += [row for row in earlier if tuple(_cells_of(row)[:6]) not in now]
    fair = [row for row in rows if _cells_of(row)[5] == "unknown"]
    drawn = [row for row in fair if _cells_of(row)[1] == "drawn"]
    others = [row for row in fair if row not in drawn]
    within = f"{100 * WITHIN:.0f} %"
    known = ["Where it is given the whole law (`known`), it shows what not knowing it costs."][: len(rows) - len(fair)]
    unlikely = 100 * row_laws.beyond(DESIGNS["correlated"][4][1, 0])
    lines = [
        "# The posterior beside an exact reference",
        "",
        "Generated by `bench/reference.py`. Every table is drawn, released once by method `bounded-influence`, and",
        "read twice: by the method's own posterior, and by chains over coefficients, the law of columns *and the",
        "confidential rows* (data augmentation, Ju, Awan, Gong & Rao 2022; `bench/augmentation.py`), which approximate",
        "nothing but by their length. Both have the same prior of coefficients. Numbers are the width of the method's",
        "intervals over that of the reference, a mean over coefficients and tables. From table to table they vary, see",
        "*tables' sd*.",
        "",
        "*law of columns*: the reference does not know places and spreads of numbers, shares of 0/1 columns and all",
        "correlations; it draws them, with the priors by which the method reads its first answers (`unknown`; this is",
        "the fair comparison). It does know the shapes of numbers and that errors are normal, of unknown deviation.",
        *known,
        "",
        "An exact posterior holds as often as it says where tables come from its own model. So do those of design",
        "*drawn*: each has its own law of columns, coefficients and deviation of errors, from the priors of the",
        f"reference. There widths agree within {within} at all three levels in {sum(map(_agrees, drawn))} of",
        f"{len(drawn)} cells. Designs *uniform* and *correlated* are one law of columns each; there they do in",
        f"{sum(map(_agrees, others))} of {len(others)} cells. In *correlated* two columns have a copula with",
        f"correlation .8. The priors give {unlikely:.0f} % of pairs one of that size: where noise hides it, the",
        "reference is nearly sure that there is none, and the method less so. The pair's ratios are the second and",
        "third by coefficient.",
        "",
        "*tables' sd*: of the ratio at 90 % from table to table. *by coefficient*: the mean ratio at 90 % of each,",
        "intercept first. *means apart*: the mean distance of both posterior means in deviations of the reference.",
        "*square of z*: the mean of ((truth - mean) / deviation)^2, method / reference: 1 where widths are right for",
        "these designs, less where they are too wide; of single tables it is up to 9. *draws*: the",
        "effective number of draws, a mean over coefficients and tables; *R-hat*: the largest of a table, a mean;",
        "*rows taken*: how many proposals of rows are accepted.",
        "",
        f"| {_HEAD} |",
        "| " + " | ".join(["---"] * (_HEAD.count("|") + 1)) + " |",
        *rows,
    ]
    return "\n".join([*lines, ""])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--law", choices=("unknown", "known"), default="unknown")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--sweeps", type=int, default=SWEEPS)
    parser.add_argument("--burn", type=int, default=BURN)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--merge", action="store_true")
    given = parser.parse_args(arguments)
    lines = [json.loads(one) for one in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(one["cell"], one["seed"], one["table"], one["law"]) for one in lines}
    end = time.monotonic() + given.seconds
    for number in range(given.tables):
        for text in given.cells.split(","):
            if not text or (text, given.seed, number, given.law) in done or time.monotonic() > end:
                continue
            line = compared(Cell.read(text), given.seed, number, given.law, given.sweeps, given.burn)
            lines.append(line)
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
    if given.page:
        before = given.page.read_text(encoding="utf-8") if given.merge else ""
        given.page.write_text(page(judged(lines), before), encoding="utf-8")
    for one in judged(lines):
        print(
            f"{one.cell} {one.law} {one.tables}: widths {one.ratio.round(3)} (+-{one.spread.round(2)}), held "
            f"{one.held.T.round(3).tolist()}, z2 {one.squares.round(2)}, errors {one.errors.round(4)}, apart "
            f"{one.apart:.2f}, ess {one.effective:.0f}, rhat {one.mixed:.2f}, sigma {one.error_scale.round(3)}"
        )


if __name__ == "__main__":
    main()
