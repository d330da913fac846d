"""Tables of the regression item: scores, targets, the gap to the noise floor, what noise costs, and the tuning."""

from sordino.reproduce.cells import Cell, Lower, NotValid, Upper
from sordino.reproduce.table import Table
from sordino.reproduce.vinaroz_park import chosen, published
from sordino.reproduce.vinaroz_park.comparison import (
    DP_POINT,
    DP_SEP,
    KEYS,
    MISMATCH,
    NATURAL,
    PRIVATE,
    REFERENCE,
    SEP,
    Row,
)
from sordino.reproduce.vinaroz_park.leak import Leak

# What an earlier feasibility study reached with private message passing; it names no splits.
FEASIBLE = {"kin8nm": 0.156, "power": 4.29, "wine_red": 0.688, "protein": 5.03}
Rows = tuple[Row, ...]


def named_beforehand() -> str:
    """The method with the best score on synthetic data."""
    return next(name for name, key in KEYS.items() if key == chosen.choice()["best"])


def of(rows: Rows, dataset: str, method: str, relation: str | None = None) -> Row:
    """The row of a method with declared bounds."""
    return next(
        row
        for row in rows
        if (row.dataset, row.method) == (dataset, method)
        and row.scaling == "declared bounds"
        and relation in (None, row.relation)
    )


def best(rows: Rows, dataset: str) -> Row:
    """The method that synthetic data named beforehand, replace-one."""
    return of(rows, dataset, named_beforehand(), "replace-one")


def lowest(rows: Rows, dataset: str) -> Row:
    """The private method, replace-one, with the smallest test error: known only afterwards."""
    private = [row for row in rows if row.dataset == dataset and row.kind == PRIVATE and row.relation == "replace-one"]
    return min(private, key=lambda row: row.scores.rmse)


def floor_of(rows: Rows, dataset: str) -> tuple[float, str]:
    """The least test error of anything that is not private, ours or published, and whose it is."""
    ours = [
        (row.scores.rmse, f"{row.method}, {row.scaling}")
        for row in rows
        if row.dataset == dataset and row.kind == REFERENCE
    ]
    columns = [name for name in published.METHODS if not name.startswith("DP-")]
    theirs = [(published.rmse(dataset, name), f"paper: {name}") for name in columns]
    return min([*ours, *theirs, (published.TABLE_5[dataset], "paper: point estimate")])


def scores_table(rows: Rows) -> Table:
    """Every method on every set."""
    cells = tuple(
        (
            row.dataset,
            row.method,
            row.kind,
            row.scaling,
            row.relation,
            NotValid(1.0) if row.method == MISMATCH else None if row.epsilon is None else Upper(row.epsilon),
            f"{row.scores.rmse:.4g} ± {row.spread:.2g}",
            round(row.scores.log_likelihood, 3),
            round(row.scores.half, 3),
            round(row.scores.ninety, 3),
            row.splits,
        )
        for row in rows
    )
    columns = ("set", "method", "status", "scaling", "relation", "epsilon", "RMSE", "log-likelihood")
    caption = (
        "A row is a method on a set, averaged over splits (± standard deviation over splits), in the units of the "
        "data; the last columns are the coverage of 50 and 90 % predictive intervals."
    )
    return Table("scores", (*columns, "50 %", "90 %", "splits"), cells, caption)


def targets_table(rows: Rows, sets: tuple[str, ...]) -> Table:
    """The method named beforehand beside what it was to reach."""
    cells: list[tuple[Cell, ...]] = []
    for name in sets:
        error, after = best(rows, name).scores.rmse, lowest(rows, name)
        reach, paper = FEASIBLE.get(name), published.rmse(name, "DP-VI")
        reached = None if reach is None else error <= reach
        cells.append((name, error, reach, reached, paper, error < paper, after.method, after.scores.rmse))
    columns = (
        "set",
        "RMSE",
        "feasibility value",
        "reached",
        "paper's DP-VI",
        "beaten",
        "lowest afterwards",
        "its RMSE",
    )
    caption = (
        f"The method that synthetic data named beforehand ({named_beforehand()}), at epsilon 1, replace-one; and the "
        "private method that turned out lowest, which is known only after looking."
    )
    return Table("targets", columns, tuple(cells), caption)


def gap_table(rows: Rows, sets: tuple[str, ...]) -> Table:
    """Error above the noise floor, beside that of SEP."""
    cells: list[tuple[Cell, ...]] = []
    for name in sets:
        error, own = best(rows, name).scores.rmse, of(rows, name, SEP).scores.rmse
        floor, whose = floor_of(rows, name)
        ours, theirs = error - floor, own - floor
        ratio = None if theirs <= 0.0 else round(ours / theirs, 2)
        cells.append((name, floor, whose, error, own, ours, theirs, ratio, ours <= 2.0 * theirs))
    columns = ("set", "floor", "whose", "private RMSE", "our SEP", "private gap", "SEP's gap", "ratio", "within 2")
    caption = (
        "RMSE minus noise floor, of the method named beforehand and of our own non-private SEP on the same splits. The "
        "floor is not known; it is at most the error of the best predictor there is, so the least error of any method "
        "that is not private, ours or published, stands for it: the hardest reading that evidence allows."
    )
    return Table("gap", columns, tuple(cells), caption)


def ablation_table(rows: Rows, sets: tuple[str, ...]) -> Table:
    """The same runs without noise."""
    cells: list[tuple[Cell, ...]] = []
    for name in sets:
        for method in (NATURAL, DP_POINT, DP_SEP):
            silent = of(rows, name, f"{method}, no noise").scores.rmse
            noised, own = of(rows, name, method).scores.rmse, of(rows, name, SEP).scores.rmse
            cells.append((name, method, noised, silent, own, round(noised / silent, 3), round(silent / own, 3)))
    caption = (
        "The same clip, steps and rounds without noise, on the same splits: the cost of noise, and what clipping, "
        "size and the number of rounds cost, or gain, against SEP."
    )
    columns = ("set", "method", "RMSE", "without noise", "our SEP", "cost of noise", "without noise over SEP")
    return Table("ablation", columns, tuple(cells), caption)


def tuning_table() -> Table:
    """Scores on synthetic data, from the file of chosen settings."""
    cells = tuple(
        (
            name,
            found["score"],
            found["default_score"],
            found["candidates"],
            ", ".join(f"{key} {value:g}" for key, value in found["setting"].items()),
        )
        for name, key in KEYS.items()
        for found in [chosen.choice()["methods"][key]]
    )
    caption = (
        "How settings were chosen: the mean over eight shapes of public synthetic data of log(test error / noise), for "
        "the kept setting and for the first candidate, and how many candidates were drawn."
    )
    return Table("tuning", ("method", "score", "first candidate", "candidates", "kept setting"), cells, caption)


def leak_table(leak: Leak) -> Table:
    """What the mismatched mode leaks."""
    row: tuple[Cell, ...] = (NotValid(1.0), Lower(leak.epsilon), Lower(leak.exact), leak.runs, leak.records)
    caption = (
        "The mismatched mode, run on two datasets that differ in one record: the epsilon it claims, what a threshold "
        "test on the released posterior proves at confidence 99 %, and the exact value for one full-batch round."
    )
    columns = ("claimed epsilon", "audit lower bound", "exact, one round", "runs per side", "records")
    return Table("leak", columns, (row,), caption)
