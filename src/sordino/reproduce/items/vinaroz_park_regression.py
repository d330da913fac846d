"""Networks for regression at epsilon 1: what is reachable with a certificate, beside the published tables."""

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sordino.reproduce.cells import Cell, Lower, NotValid, Upper
from sordino.reproduce.figure import Figure
from sordino.reproduce.item import item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Beside, Outcome, Verdict, VerdictKind
from sordino.reproduce.palette import line_style
from sordino.reproduce.table import Table
from sordino.reproduce.vinaroz_park import comparison, networks, propagation, published
from sordino.reproduce.vinaroz_park.budget import DELTA
from sordino.reproduce.vinaroz_park.comparison import (
    DP_LINEAR,
    DP_POINT,
    DP_SEP,
    DP_VI,
    DP_WHITENED,
    MISMATCH,
    PRIVATE,
    SEP,
    Row,
)
from sordino.reproduce.vinaroz_park.leak import Leak, mismatch_leak

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# Epochs of the sequential, non-private runs: the largest set has fewer.
EPOCHS = {"naval": 20, "kin8nm": 40, "power": 20, "wine_red": 40, "protein": 5}
# What an earlier feasibility study reached with private message passing; it names no splits.
FEASIBLE = {"kin8nm": 0.156, "power": 4.29, "wine_red": 0.688, "protein": 5.03}
PRIVATE_METHODS = (DP_SEP, DP_POINT, DP_WHITENED, DP_VI, DP_LINEAR)


@item(
    name="vinaroz-park-regression",
    paper="vinaroz2022differentially",
    reproduces="Tables 3, 4 and 5: test error and log-likelihood of private networks at epsilon 1",
)
def regression(options: Options) -> Outcome:
    """Fit every method on the standard splits, or on a small public teacher where no data folder is given."""
    if options.data_dir is None or options.quick:
        rows = comparison.compared_on_teacher(options.seed)
    else:
        rows = comparison.compared(EPOCHS, options.data_dir, options.seed)
    leak = mismatch_leak(options.seed, 60 if options.quick else 400)
    sets = tuple(dict.fromkeys(row.dataset for row in rows))
    known = tuple(name for name in sets if name in published.TABLE_3)
    return Outcome(
        (_scores(rows), *((_targets(rows, known), _ablation(rows, known)) if known else ()), _leak(leak)),
        (Figure("errors", partial(_draw, rows, sets), _CAPTION, 9.4, 4.6),),
        _verdict(rows, known, leak),
        _NOTES,
        (
            ("epsilon", 1),
            ("delta", DELTA),
            ("hidden units: point, whitened, DP-VI", "10, 20, 10"),
            ("rounds, clip", f"{networks.POINT.steps}, {networks.POINT.clip}"),
            ("Adam steps", f"{networks.POINT.first_step} to {networks.POINT.last_step}"),
            ("whitening: share of the budget", networks.WHITENED.whitening),
            ("DP-SEP: hidden, rounds, clip", f"{propagation.HIDDEN}, 160, 1"),
            ("rounds of private linear regression", comparison.LINEAR_ROUNDS),
            ("epochs of SEP", ", ".join(f"{name} {count}" for name, count in EPOCHS.items())),
        ),
        _beside(rows, known),
    )


_CAPTION = (
    "Test error over that of our own non-private SEP on the same splits; private methods at epsilon 1, delta 1e-5, "
    "replace-one. Triangles: the paper's DP-VI and DP-SEP columns over its own SEP column, marked NOT VALID where the "
    "guarantee is in doubt."
)
_NOTES = (
    "Year (515,345 records) is not available here, so its column is left out.",
    "Features and targets of covered rows are scaled by declared round bounds (reproduce/vinaroz_park/declared.py); "
    "values outside are cut. Rows marked 'scaling not covered' standardise with the training data's own moments as the "
    "paper does, so even a correct noise would not cover the whole way from records to release.",
    "Every certificate is the registry's bound for each release (rounds, whitening, noise variance), composed. "
    "The noise variance of the predictive law is itself released with 2 % of the budget.",
    "Settings of the networks were short-listed by random search on public random teachers of similar shapes, and are "
    "the same for all sets. The choice among four of the list, and whitening, which made no difference on teachers, "
    "followed a look at the first splits; the setting of DP-SEP's rounds is from an earlier study of these data; the "
    "best private method of a set is named by its test error. None of these choices is charged, and the bounds were "
    "written down by someone who had seen the columns' ranges.",
    "Tables 3 and 4 of the paper are reproduced in their pattern (DP-SEP as good as SEP) only by the mismatched mode: "
    "steps of damping N with the noise of damping 1. Its claimed epsilon 1 is refuted by the audit below.",
    "SEP with declared bounds and few epochs is not at its best on protein and naval (compare its standardised rows), "
    "so ratios below 1 there say little; on kin8nm noise alone costs most of the gap.",
    "The noise floor of these sets is not known, so the gap to it is not shown; the ratio to SEP's error is.",
)


def _scores(rows: tuple[Row, ...]) -> Table:
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


def _of(rows: tuple[Row, ...], dataset: str, method: str, relation: str | None = None) -> Row:
    return next(
        row
        for row in rows
        if (row.dataset, row.method) == (dataset, method)
        and row.scaling == "declared bounds"
        and relation in (None, row.relation)
    )


def best(rows: tuple[Row, ...], dataset: str) -> Row:
    """The private method, replace-one, with the smallest test error on a set."""
    private = [row for row in rows if row.dataset == dataset and row.kind == PRIVATE and row.relation == "replace-one"]
    return min(private, key=lambda row: row.scores.rmse)


def _targets(rows: tuple[Row, ...], sets: tuple[str, ...]) -> Table:
    cells = []
    for name in sets:
        found, own = best(rows, name), _of(rows, name, SEP).scores.rmse
        reach, paper = FEASIBLE.get(name), published.rmse(name, "DP-VI")
        error = found.scores.rmse
        cells.append(
            (
                name,
                found.method,
                error,
                own,
                round(error / own, 2),
                reach,
                None if reach is None else error <= reach,
                paper,
                error < paper,
            )
        )
    columns = ("set", "best private method", "its RMSE", "our SEP", "ratio", "feasibility value", "reached")
    caption = "The best private method at epsilon 1, replace-one, beside our non-private SEP and the paper's DP-VI."
    return Table("targets", (*columns, "paper's DP-VI", "beaten"), tuple(cells), caption)


def _ablation(rows: tuple[Row, ...], sets: tuple[str, ...]) -> Table:
    cells = []
    for name in sets:
        for method in (DP_SEP, DP_POINT, DP_WHITENED):
            silent = _of(rows, name, f"{method}, no noise")
            noised = fmean(_of(rows, name, method).errors[: silent.splits])
            own = fmean(_of(rows, name, SEP).errors[: silent.splits])
            cells.append((name, method, noised, silent.scores.rmse, own, round(noised / silent.scores.rmse, 3)))
    caption = (
        "The same clip, steps and rounds without noise, on the first splits: the last column is the cost of noise; "
        "what is left above SEP is the cost of clipping, of few hidden units and of few rounds."
    )
    return Table("ablation", ("set", "method", "RMSE", "without noise", "our SEP", "ratio"), tuple(cells), caption)


def _leak(leak: Leak) -> Table:
    row: tuple[Cell, ...] = (NotValid(1.0), Lower(leak.epsilon), Lower(leak.exact), leak.runs, leak.records)
    caption = (
        "The mismatched mode, run on two datasets that differ in one record: the epsilon it claims, what a threshold "
        "test on the released posterior proves at confidence 99 %, and the exact value for one full-batch round."
    )
    columns = ("claimed epsilon", "audit lower bound", "exact, one round", "runs per side", "records")
    return Table("leak", columns, (row,), caption)


def _beside(rows: tuple[Row, ...], sets: tuple[str, ...]) -> tuple[Beside, ...]:
    made = []
    for name in sets:
        found, own = best(rows, name), _of(rows, name, SEP)
        mismatched = next(row for row in rows if (row.dataset, row.method) == (name, MISMATCH))
        made += [
            Beside(f"{name}: RMSE of SEP", published.rmse(name, "SEP"), own.scores.rmse, "not private"),
            Beside(f"{name}: RMSE of DP-SEP", published.rmse(name, "DP-SEP"), mismatched.scores.rmse, "mismatched"),
            Beside(f"{name}: RMSE of DP-VI", published.rmse(name, "DP-VI"), found.scores.rmse, f"ours: {found.method}"),
            Beside(
                f"{name}: log-likelihood of DP-VI",
                published.log_likelihood(name, "DP-VI"),
                found.scores.log_likelihood,
                f"ours: {found.method}",
            ),
            Beside(
                f"{name}: RMSE of a point estimate",
                published.TABLE_5[name],
                _of(rows, name, f"{DP_WHITENED}, no noise").scores.rmse,
                "ours: clipped, 20 hidden units, not private",
            ),
        ]
    return tuple(made)


def _verdict(rows: tuple[Row, ...], sets: tuple[str, ...], leak: Leak) -> Verdict:
    refuted = (
        f"the mode that has the pattern of the paper's DP-SEP column leaks at least epsilon {Lower(leak.epsilon).shown}"
    )
    if not sets:
        return Verdict(VerdictKind.DIFFERS, f"On a public teacher, without benchmark data: {refuted}, not 1.")
    beaten = [name for name in sets if best(rows, name).scores.rmse < published.rmse(name, "DP-VI")]
    reached = [name for name in FEASIBLE if name in sets and best(rows, name).scores.rmse <= FEASIBLE[name]]
    as_good = [name for name in sets if best(rows, name).scores.rmse <= published.rmse(name, "DP-SEP")]
    return Verdict(
        VerdictKind.DIFFERS,
        f"With a certified epsilon 1 the paper's DP-VI errors are beaten on {_listed(beaten)}, our feasibility values "
        f"are reached on {_listed(reached)}, and the paper's DP-SEP errors on {_listed(as_good)}; elsewhere no "
        f"certified method reaches that column, and {refuted}, not 1.",
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "no set"


def _draw(rows: tuple[Row, ...], sets: tuple[str, ...], canvas: "Canvas") -> None:
    axes = canvas.add_subplot()
    for place, method in enumerate(PRIVATE_METHODS):
        points = [
            (position + 0.1 * (place - 2), row.scores.rmse / _reference(rows, name))
            for position, name in enumerate(sets)
            for row in rows
            if (row.dataset, row.method, row.relation) == (name, method, "replace-one")
        ]
        if points:
            style: dict[str, Any] = line_style(place) | {"linestyle": "none", "label": method}
            axes.plot(*zip(*points, strict=True), **style)
    for column, marker in (("DP-VI", "<"), ("DP-SEP", ">")):
        known = [(k, name) for k, name in enumerate(sets) if name in published.TABLE_3]
        if known:
            ratios = [published.rmse(name, column) / published.rmse(name, "SEP") for _, name in known]
            places = [k + (0.35 if column == "DP-SEP" else 0.3) for k, _ in known]
            label = f"paper: {column}" + (" (NOT VALID)" if column == "DP-SEP" else "")
            axes.plot(places, ratios, marker, color="#8c8c8c", label=label)
    axes.axhline(1.0, color="#4d4d4d", linewidth=1.0, linestyle=":")
    axes.set(xticks=range(len(sets)), ylabel="test RMSE over SEP's", yscale="log", xlim=(-0.5, len(sets) - 0.4))
    axes.set_xticklabels(sets)
    ticks = (1.0, 1.5, 2.0, 3.0, 5.0)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(loc="upper right", fontsize=8.5)


def _reference(rows: tuple[Row, ...], dataset: str) -> float:
    own = [row for row in rows if row.dataset == dataset and row.method == SEP and row.scaling == "declared bounds"]
    return own[0].scores.rmse if own else 1.0
