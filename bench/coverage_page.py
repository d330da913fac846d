"""The page of coverage: what the tables of each cell say together, worst cells first."""

import math
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from drawn_tables import DELTA, EFFECTS, FAMILIES, LEVELS, NEW_ROWS, TARGET, Cell, fitted, refused, table

BELOW, ABOVE = 0.02, 0.04


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
        """How far outside the limits the worst level is; negative inside. A rate read from a page may be the limit."""
        low = np.array(LEVELS) - BELOW - self.rates
        high = self.rates - np.array(LEVELS) - ABOVE
        return round(float(np.max(np.maximum(low, high))), 9)


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


def recorded(text: str, same: frozenset[Cell] = frozenset()) -> dict[float, list[Judged]]:
    """Rows of a page by the size of effects. Only the error at 90 % stands there; others follow by binomial laws.

    Rows of cells that are not among the `same` were made by another engine than today's.
    """
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
                cell,
                tables,
                rates,
                errors,
                float(row[10]),
                float(row[11]),
                shares,
                refused(cell),
                "*" in row[5],
                cell not in same,
            )
        )
    return found


def _joined(new: list[Judged], old: list[Judged]) -> list[Judged]:
    """Newly drawn cells and, of the others, what stood there, worst first."""
    drawn = {one.cell for one in new}
    return sorted([*new, *(one for one in old if one.cell not in drawn)], key=lambda one: (one.refused, -one.excess))


def page(
    lines: list[dict[str, Any]],
    before: str = "",
    errors: tuple[str, ...] = (),
    same: frozenset[Cell] = frozenset(),
    since: tuple[dict[str, Any], ...] = (),
) -> str:
    """The tables, worst cells first; `before` is a page whose other cells are kept, `errors` are rows of a table.

    The `same` cells are those of which today's engine makes what that page's engine made. `since` are rates of cells
    from a run of today's engine of which no more was kept.
    """
    old = recorded(before, same)
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
        "made of. Cells that a plan refuses, because sampling and privacy together exceed half the prior's standard",
        "deviation or the budget for each coefficient is too small, come last.",
        "",
        f"{len(found)} cells, {sum(one.refused for one in found)} of them refused by their plan; {_count(screened)}",
        f"tables a cell. {len(again)} cells were outside the limits and drawn again with {_count(again)} fresh tables,",
        f"which alone judge them (tables with an asterisk). {len(outside)} cells are outside the limits now.",
        *(
            [f"{kept} cells, marked †, were drawn before the engine's last change; counts use their rounded rows."]
            if kept
            else []
        ),
        *_since(since),
        *_together([one for one in found if not one.refused]),
        *_means([one for one in found if one.means is not None and not one.refused], _paragraph(before, MEANS)),
        *_beside_prior([one for one in found if not one.refused]),
        "",
        *_table(found),
    ]
    if errors:
        text += [
            "",
            "## Errors",
            "",
            f"Root mean square errors of a table's coefficients, a mean over {ERROR_TABLES} tables, beside what they",
            "are held to; targets that are numbers in units of half their declared range. Limits are means over",
            "tables, as the first column is. The last column is the root over all tables of the grid at once, in",
            "which few hard tables weigh more: counted so, linear 10000 and logistic concentrated 10000 are above",
            "what they are held to.",
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
    apart = np.sqrt(np.maximum(rates.var(axis=0) - (errors**2).mean(axis=0), 0))
    beyond = (np.array(LEVELS) - BELOW - rates > 2 * errors) | (rates - np.array(LEVELS) - ABOVE > 2 * errors)

    return [
        "",
        f"Together they hold {_listed(rates.mean(axis=0))} %. A rate of so few tables has an error of",
        f"{_listed(np.sqrt((errors**2).mean(axis=0)))} points; with that taken off, cells differ by",
        f"{_listed(apart)} points (standard deviations). {int(beyond.any(axis=1).sum())} cells are outside the limits",
        "by more than two errors.",
    ]


def _since(rows: tuple[dict[str, Any], ...]) -> list[str]:
    """Cells of which a run of today's engine has left rates and errors only."""
    if not rows:
        return []
    head = ["cell", "tables", "50 %", "90 %", "95 %", "error"]
    text = [
        "",
        "Drawn anew with today's engine, of which run rates and errors alone were kept; their rows below are older:",
    ]
    text += ["", "| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for one in rows:
        rates = " | ".join(f"{100 * rate:.1f}" for rate in one["rates"])
        text.append(f"| {one['cell'].replace(':', ' ')} | {one['tables']} | {rates} | {one['error']:.4g} |")
    return text


MEANS = "Means of new rows"


def _means(known: list[Judged], before: list[str]) -> list[str]:
    """What intervals of means hold, in the cells that were drawn now; and what was said of all of them before."""
    if not known:
        return before
    means, errors = np.array([one.means for one in known]), np.array([one.means_errors for one in known])
    return [
        *before,
        "",
        f"{MEANS}, {NEW_ROWS} a table, in {'the ' * bool(before)}{len(known)} cells{' drawn last' * bool(before)}:",
        f"intervals hold {_listed(means.mean(axis=0))} %, from {_listed(means.min(axis=0))} in the lowest",
        f"cells to {_listed(means.max(axis=0))} in the highest; a cell's rates have errors of",
        f"{_listed(np.sqrt((errors**2).mean(axis=0)))} points.",
    ]


def _paragraph(text: str, begins: str) -> list[str]:
    """The first paragraph of a page that begins so, after an empty line; nothing where there is none."""
    found = [one for one in text.split("\n\n") if one.startswith(begins)][:1]
    return ["", *found[0].splitlines()] if found else []


# A 95 % interval of a normal law has this score in units of its deviation: width plus 40 times the mean miss.
_OF_PRIOR = 2 * 1.959964 + 80 * (math.exp(-0.5 * 1.959964**2) / math.sqrt(2 * math.pi) - 1.959964 * 0.025)


def _beside_prior(found: list[Judged]) -> list[str]:
    """Scores over that of the prior alone, which is what a fit that learns nothing has."""
    ratios = sorted(((one.score / (_OF_PRIOR * EFFECTS[one.cell.family]), one.cell) for one in found), reverse=True)
    most, cell = ratios[0]
    below = sum(ratio <= 1.0 for ratio, _ in ratios)
    return [
        "",
        f"Scores over that of the prior alone: at most 1 in {below} of {len(ratios)} cells, {most:.2f} in the worst",
        f"({str(cell).replace(':', ' ')}), in half of the cells {ratios[len(ratios) // 2][0]:.2f} or less.",
    ]


def _listed(numbers: np.ndarray) -> str:
    return ", ".join(f"{100 * one:.1f}" for one in numbers[:-1]) + f" and {100 * numbers[-1]:.1f}"


MOST_ERROR = {
    "linear:concentrated:2000:1:replace-one": 0.020,
    "linear:concentrated:10000:1:replace-one": 0.0042,
    "linear:concentrated:50000:1:replace-one": 1.1,  # times that of least squares
    "logistic:uniform:50000:1:replace-one": 0.0235,
    "logistic:concentrated:10000:1:replace-one": 0.20,
}


ERROR_TABLES = 100


def held_to(drawn: list[dict[str, Any]], before: str, tables: int = ERROR_TABLES) -> tuple[str, ...]:
    """Rows of errors beside what they are held to; the root over all tables is the grid's, drawn now or before."""
    lines, known = [], [*recorded(before)[1.0], *judged(drawn, 1.0)]
    all_tables = {str(one.cell): one.error for one in known}
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
