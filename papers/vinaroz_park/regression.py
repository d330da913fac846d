"""Tables of the regression item: scores, targets, the gap to the noise floor, what noise costs, and the tuning."""

from functools import partial
from typing import TYPE_CHECKING, Any

from papers.framework.figure import Figure, line_style
from papers.framework.item import (
    Beside,
    Cell,
    Lower,
    NotValid,
    Options,
    Outcome,
    Table,
    Upper,
    Verdict,
    VerdictKind,
    item,
)
from papers.vinaroz_park import chosen, comparison, published
from papers.vinaroz_park.budget import DELTA
from papers.vinaroz_park.comparison import (
    DP_POINT,
    DP_SEP,
    KEYS,
    MISMATCH,
    NAMES,
    NATURAL,
    PRIVATE,
    REFERENCE,
    SEP,
    Row,
)
from papers.vinaroz_park.propagation import Leak, mismatch_leak
from papers.vinaroz_park.published import TABLE_2, TABLES_6_AND_7, VariationalSettings
from sordino.accounting.evaluate import tightest
from sordino.core.bound import Relation, View
from sordino.core.spec import ConstantSchedule, Scheme, Spec
from sordino.core.spec.sums import Variational

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


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


# The paper's Tables 2, 6 and 7 beside ours: sets, settings of DP-VI, and the epsilon that those settings certify.

_TRAINING_SHARE = 0.9


def training_records(name: str) -> int:
    """Records that the paper trains on: nine in ten."""
    return round(_TRAINING_SHARE * TABLE_2[name][0])


def published_spec(name: str) -> Spec:
    """DP-VI as in Table 7, read generously: Poisson batches, add-remove, sigma in units of the clip."""
    printed, records = TABLES_6_AND_7[name], training_records(name)
    algorithm = Variational(
        records=records,
        steps=printed.epochs * round(records / printed.batch),
        sampling=Scheme.POISSON,
        batch=printed.batch,
        clip=printed.clip,
        noise_multiplier=ConstantSchedule(printed.noise_multiplier),
        step_size=ConstantSchedule(printed.learning_rate),
    )
    return Spec(algorithm=algorithm, relation=Relation.ADD_REMOVE, view=View.POSTERIOR_PARAMETERS)


def settings_table() -> Table:
    """A row a set and a source; the last column is the registry's epsilon for the printed noise."""
    rows: list[tuple[Cell, ...]] = []
    ours = chosen.network("gaussian")
    for name, printed in TABLES_6_AND_7.items():
        found = tightest(published_spec(name), DELTA)
        rows.append(
            (
                name,
                *TABLE_2[name],
                "paper",
                *_printed(printed),
                None if found is None else Upper(found.guarantee.epsilon(DELTA)),
            )
        )
        if name != "year":
            first, last = ours.first_step, ours.last_step
            rate, records = f"{first:g} to {last:g}", training_records(name)
            own: tuple[Cell, ...] = (ours.steps, records, rate, ours.noise_precision, 1, 1, 1, ours.clip, None)
            rows.append((name, *TABLE_2[name], "ours", *own, Upper(1.0)))
    columns = (
        "set",
        "records",
        "features",
        "whose",
        "epochs",
        "batch",
        "learning rate",
        "noise precision",
        "prior precision",
    )
    caption = (
        "Tables 2, 6 and 7: sets, and the settings of DP-VI. Ours: all records a round (an epoch is a round), one "
        "setting for all sets, noise from the budget, replace-one. The paper's epsilon is what the registry certifies "
        "for its printed noise with Poisson batches under add-remove, which is the most favourable reading; the paper "
        "says about 1."
    )
    return Table(
        "settings", (*columns, "draws", "beta", "clip", "noise multiplier", "certified epsilon"), tuple(rows), caption
    )


def _printed(one: VariationalSettings) -> tuple[Cell, ...]:
    return (
        one.epochs,
        one.batch,
        one.learning_rate,
        one.noise_precision,
        one.prior_precision,
        one.private_draws,
        one.beta,
        one.clip,
        one.noise_multiplier,
    )


# Networks for regression at epsilon 1: what is reachable with a certificate, beside the published tables.

SETS = ("naval", "kin8nm", "power", "wine_red", "protein")
# Passes of the sequential runs over the records.
PASSES = 40


@item(
    name="vinaroz-park-regression",
    paper="vinaroz2022differentially",
    reproduces="Tables 2 to 7: test error and log-likelihood of private networks at epsilon 1, and their settings",
)
def regression(options: Options) -> Outcome:
    """Fit every method on the standard splits, or on a small public teacher where no data folder is given."""
    if options.data_dir is None or options.quick:
        rows = comparison.compared_on_teacher(options.seed)
    else:
        rows = comparison.compared(dict.fromkeys(SETS, PASSES), options.data_dir, options.seed)
    leak = mismatch_leak(options.seed, 40 if options.quick else 400)
    sets = tuple(dict.fromkeys(row.dataset for row in rows))
    known = tuple(name for name in sets if name in published.TABLE_3)
    return Outcome(
        (*_measured(rows, known), leak_table(leak), tuning_table(), settings_table()),
        (Figure("errors", partial(_draw, rows, sets), _CAPTION, 9.4, 4.6),),
        _verdict(rows, known, leak),
        _NOTES,
        (
            ("epsilon", 1),
            ("delta", DELTA),
            ("named beforehand", named_beforehand()),
            ("splits", comparison.SPLITS),
            ("passes of SEP and of the mismatched mode", PASSES),
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
    "Every certificate is the registry's bound for each release (whitening, rounds, noise variance), composed. "
    "The noise variance of the predictive law is itself released with 2 % of the budget.",
    "Every setting of a private method is read from reproduce/vinaroz_park/chosen.json, written by "
    "reproduce/vinaroz_park/tuning.py from public synthetic data alone, with equally many candidates for every method "
    "that has as many settings; the size of the network follows from n, the number of features and epsilon. The method "
    "that counts is named by the same file. The shapes of the synthetic data are ours; the declared bounds were "
    "written down by someone who had seen the columns' ranges, and earlier versions of the other methods had been "
    "tried on these sets.",
    "Natural gradients: a network of tanh units beside a linear part; contributions are clipped and noised in the "
    "metric of a public law of rows (algorithm/full_gradients/natural.py), after one noised sum has whitened the rows.",
    "Tables 3 and 4 of the paper are reproduced in their pattern (DP-SEP as good as SEP) only by the mismatched mode: "
    "steps of damping N with the noise of damping 1. Its claimed epsilon 1 is refuted by the audit below.",
    "The paper's DP-VI column is not at epsilon 1 either, if sigma in its Table 7 is the noise over the clip: the "
    "settings table gives what the registry certifies for it.",
    "Trees and kernel ridge are there for the noise floor only; the spread of their predictive law is that of their "
    "test errors, so their log-likelihood and coverage are no fair ones. Kernel ridge uses 12,000 records at most.",
)


def _measured(rows: tuple[Row, ...], sets: tuple[str, ...]) -> tuple[Table, ...]:
    made = (scores_table(rows),)
    if not sets:
        return made
    return (*made, targets_table(rows, sets), gap_table(rows, sets), ablation_table(rows, sets))


def _beside(rows: tuple[Row, ...], sets: tuple[str, ...]) -> tuple[Beside, ...]:
    made = []
    for name in sets:
        found, own = best(rows, name), of(rows, name, SEP)
        mismatched = next(row for row in rows if (row.dataset, row.method) == (name, MISMATCH))
        point = of(rows, name, f"{DP_POINT}, no noise")
        ours = f"ours: {found.method}"
        likelihood = published.log_likelihood(name, "DP-VI")
        made += [
            Beside(f"{name}: RMSE of SEP", published.rmse(name, "SEP"), own.scores.rmse, "not private"),
            Beside(f"{name}: RMSE of DP-SEP", published.rmse(name, "DP-SEP"), mismatched.scores.rmse, "mismatched"),
            Beside(f"{name}: RMSE of DP-VI", published.rmse(name, "DP-VI"), found.scores.rmse, ours),
            Beside(f"{name}: log-likelihood of DP-VI", likelihood, found.scores.log_likelihood, ours),
            Beside(
                f"{name}: RMSE of a point estimate", published.TABLE_5[name], point.scores.rmse, "clipped, not private"
            ),
        ]
    return tuple(made)


def _verdict(rows: tuple[Row, ...], sets: tuple[str, ...], leak: Leak) -> Verdict:
    refuted = (
        f"the mode that has the pattern of the paper's DP-SEP column leaks at least epsilon {Lower(leak.epsilon).shown}"
    )
    if not sets:
        return Verdict(
            VerdictKind.NOT_REPRODUCED, f"On a public teacher, without benchmark data: {refuted}, not 1.", tried=_TRIED
        )
    error = {name: best(rows, name).scores.rmse for name in sets}
    beaten = [name for name in sets if error[name] < published.rmse(name, "DP-VI")]
    reached = [name for name in FEASIBLE if name in sets and error[name] <= FEASIBLE[name]]
    as_good = [name for name in sets if error[name] <= published.rmse(name, "DP-SEP")]
    return Verdict(
        VerdictKind.NOT_REPRODUCED,
        f"With a certified epsilon 1 and settings chosen on synthetic data, {named_beforehand()} beats the "
        f"paper's DP-VI errors on {_listed(beaten)}, reaches our feasibility values on {_listed(reached)} and the "
        f"paper's DP-SEP errors on {_listed(as_good)}; elsewhere no certified method reaches that column, and "
        f"{refuted}, not 1.",
        tried=_TRIED,
    )


_TRIED = "full-batch rounds and natural gradients, which are not the paper's sequential algorithm."


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "no set"


def _draw(rows: tuple[Row, ...], sets: tuple[str, ...], canvas: "Canvas") -> None:
    axes = canvas.add_subplot()
    for place, method in enumerate(NAMES):
        points = [
            (position + 0.1 * (place - 2.5), row.scores.rmse / _reference(rows, name))
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
            places = [k + (0.4 if column == "DP-SEP" else 0.35) for k, _ in known]
            label = f"paper: {column}" + (" (NOT VALID)" if column == "DP-SEP" else "")
            axes.plot(places, ratios, marker, color="#8c8c8c", label=label)
    axes.axhline(1.0, color="#4d4d4d", linewidth=1.0, linestyle=":")
    axes.set(xticks=range(len(sets)), ylabel="test RMSE over SEP's", yscale="log", xlim=(-0.5, len(sets) - 0.4))
    axes.set_xticklabels(sets)
    ticks = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(loc="upper right", fontsize=8.5)


def _reference(rows: tuple[Row, ...], dataset: str) -> float:
    own = [row for row in rows if row.dataset == dataset and row.method == SEP and row.scaling == "declared bounds"]
    return own[0].scores.rmse if own else 1.0
