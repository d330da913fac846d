"""Privacy against epochs for fixed, shuffled and sampled batches: hidden state, its baselines, shifts, the truth."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from papers.framework.bounds import bound_of, epsilon_of, exact_epsilon, renyi_of
from papers.framework.figure import NOT_PROVED, Figure, line_style, not_valid_style
from papers.framework.figure import PANELS as SIZE
from papers.framework.item import Cell, Improved, Lower, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.ye_shokri.setting import (
    AT_DELTA,
    BATCH,
    BATCHES,
    CONTRACTION,
    DELTA,
    PARAMETERS,
    RATIO,
    RECORDS,
    run_of,
    spaced,
)
from sordino.accounting.theorems import hidden_state as fixed_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


# The same colour for the same idea in every panel.
NAIVE, BALLE, COMPOSED, HIDDEN, OURS, OTHER = range(6)


@dataclass(frozen=True)
class Panel:
    """One batch scheme: theorem id to its name in the legend and its place in the palette."""

    title: str
    scheme: str
    lines: Mapping[str, tuple[str, int]]
    exact_up_to: float = math.inf


PANELS = (
    Panel(
        "fixed batches",
        "cyclic",
        {
            "hidden-state.naive": ("naive, Theorem 2.1", NAIVE),
            "hidden-state.balle": ("Balle et al., D.5", BALLE),
            "composition.gaussian": ("composition", COMPOSED),
            "hidden-state.fixed": ("Ye & Shokri, 3.3", HIDDEN),
            "shifted.cyclic": ("shifts", OURS),
        },
    ),
    Panel(
        "shuffled once",
        "shuffle-once",
        {
            "hidden-state.naive": ("naive, Theorem 2.1", NAIVE),
            "hidden-state.balle": ("Balle et al., D.5", BALLE),
            "composition.gaussian": ("composition", COMPOSED),
            "hidden-state.shuffle-once": ("Ye & Shokri, 4.2", HIDDEN),
            "shifted.shuffle-once": ("shifts", OURS),
        },
    ),
    Panel(
        "sampled without replacement",
        "without-replacement",
        {
            "hidden-state.naive": ("naive, Theorem 2.1", NAIVE),
            "composition.subsampled-without-replacement": ("composition", COMPOSED),
            "hidden-state.subsampled": ("Ye & Shokri, 4.3", HIDDEN),
            "shifted.random-batches": ("shifts (Bok et al.)", OTHER),
            "shifted.random-participation": ("shifts, ours", OURS),
        },
        # One pass is 2^10 patterns of batches; two are too many to write out.
        exact_up_to=1,
    ),
)
ORDER = 10.0
AT_EPOCHS = (1, 10, 100)


@item(
    name="ye-shokri-dynamics",
    paper="ye2022differentially",
    reproduces="Figure 1 and Theorems 2.1, 3.3, 4.2, 4.3, D.5: privacy dynamics against epochs",
)
def dynamics(options: Options) -> Outcome:
    """Certified epsilon for each scheme, with the exact value where it is computed."""
    epochs = AT_EPOCHS if options.quick else tuple(sorted({*spaced(1000, 25), *AT_EPOCHS}))
    found = {panel.scheme: _curves(panel, epochs, 1e-2 if options.quick else 1e-5) for panel in PANELS}
    tables = tuple(_table(panel, epochs, *found[panel.scheme]) for panel in PANELS)
    last = {scheme: {name: line[-1] for name, line in curves.items()} for scheme, (curves, _) in found.items()}
    return Outcome(
        (*tables, _renyi_table(), _position_table(), _crossing_table()),
        (
            Figure(
                "dynamics",
                lambda canvas: _draw(canvas, epochs, found),
                "Certified epsilon of the last iterate against epochs; dots are the exact value on the extremal "
                "quadratic, below which no valid bound can be; for sampled batches it is computed for one pass.",
                *SIZE,
            ),
            Figure(
                "crossing",
                _draw_crossing,
                "The first epoch from which Theorem 4.2 is below composition, computed for 2, 3 and 10 batches an "
                "epoch, and where Appendix E.1 puts it (grey), which is NOT PROVED: its (145) is false. It is late "
                "enough everywhere.",
            ),
        ),
        Verdict(
            VerdictKind.PARAMETERS_NOT_PUBLISHED,
            "Figure 1's settings are in the main text, which is not at hand; at our setting its pattern appears "
            f"(composition grows, hidden state converges). At {epochs[-1]} epochs Theorem 3.3 gives epsilon "
            f"{last['cyclic']['hidden-state.fixed']:.2f} for fixed batches and Theorem 4.3 "
            f"{last['without-replacement']['hidden-state.subsampled']:.2f} for sampled ones.",
        ),
        (
            "Rényi bounds are converted by the optimal conversion; Gaussian and loss-distribution bounds exactly. Part "
            "of the distance between Theorem 3.3 and the shift bound is that conversion, see the table renyi.",
            "The curve of Ryffel et al. is left out, as in the paper: its log-Sobolev constant is assumed, not proved "
            "(Appendix C).",
            "Appendix E.1 says from which epoch on Theorem 4.2 is below composition; (145), which it rests on, is "
            "Bernoulli's inequality the wrong way round, so that is not proved (see the errata). In the table crossing "
            "it is enough.",
            "Read Theorem 4.2's step condition as eta < 2 / (lambda + beta). Step (157) is false for divergences but "
            "true for bounds linear in the order, so 4.3 stands.",
        ),
        (("records n", RECORDS), ("batch size b", BATCH), *PARAMETERS),
        improved=(
            Improved(
                "shifted.cyclic and shifted.random-participation",
                f"On the same chains they give {last['cyclic']['shifted.cyclic']:.2f} and "
                f"{last['without-replacement']['shifted.random-participation']:.2f}.",
                "bound",
            ),
        ),
    )


def _curves(
    panel: Panel, epochs: tuple[int, ...], relative: float
) -> tuple[dict[str, list[float]], list[float | None]]:
    runs = [run_of(panel.scheme, count * BATCHES) for count in epochs]
    exact = [
        exact_epsilon(run, DELTA, relative) if count <= panel.exact_up_to else None
        for count, run in zip(epochs, runs, strict=True)
    ]
    return {name: [epsilon_of(name, run, DELTA) for run in runs] for name in panel.lines}, exact


def _table(panel: Panel, epochs: tuple[int, ...], curves: dict[str, list[float]], exact: list[float | None]) -> Table:
    def row(place: int) -> tuple[Cell, ...]:
        truth = exact[place]
        values = (Upper(curves[name][place]) for name in panel.lines)
        return epochs[place], *values, None if truth is None else Lower(truth)

    labels = (label for label, _ in panel.lines.values())
    rows = tuple(row(place) for place in range(len(epochs)))
    return Table(panel.scheme, ("epochs", *labels, "exact"), rows, f"{AT_DELTA.capitalize()}, {panel.title}.")


def _renyi_table() -> Table:
    """Rényi divergence at one order, for the theorems that give one."""
    rows = []
    for panel in PANELS:
        for name, (label, _) in panel.lines.items():
            values = [renyi_of(name, run_of(panel.scheme, count * BATCHES), ORDER) for count in AT_EPOCHS]
            if any(value is not None for value in values):
                cells = (None if value is None else Upper(value) for value in values)
                rows.append((panel.title, label, *cells))
    columns = ("batches", "bound", *(f"{count} epochs" for count in AT_EPOCHS))
    return Table("renyi", columns, tuple(rows), f"Rényi divergence at order {ORDER:g}, the paper's currency.")


def _position_table() -> Table:
    """Fixed batches: the record in the first batch and in the last, over the order."""
    rows: list[tuple[Cell, ...]] = []
    for count in AT_EPOCHS:
        first, last = (
            float(fixed_batches.strongly_convex(CONTRACTION, RATIO**2 / 2, BATCHES, count - 1, left))
            for left in (BATCHES, 1)
        )
        shifted = bound_of("shifted.cyclic", run_of("cyclic", count * BATCHES))
        ours = None if shifted is None else renyi_of("shifted.cyclic", run_of("cyclic", count * BATCHES), ORDER)
        rows.append((count, Upper(first), Upper(last), None if ours is None else Upper(ours / ORDER)))
    columns = ("epochs", "3.3, first batch", "3.3, last batch", "shifts, last batch (the worst)")
    return Table("position", columns, tuple(rows), "Rényi divergence over its order for a record of one batch.")


_SMALL = 1e-9  # a cost of a step so small that averages of exponentials are those of the exponents
_SPLITS = (2, 3, 10)  # batches an epoch


def _crossing(shrinks: float, batches: int) -> tuple[int, int]:
    """The epoch of Appendix E.1, and the first at which Theorem 4.2 is below; eta lambda is `shrinks`."""
    stated = math.ceil(1 / shrinks + batches)

    def above(count: int) -> bool:
        spent = fixed_batches.shuffled(np.array([2.0]), 1 - shrinks, _SMALL, batches, count * batches)
        return float(spent[0]) >= 2 * _SMALL * count / batches

    return stated, next(count for count in range(1, stated + 1) if not above(count))


def _crossing_table() -> Table:
    """Theorem 4.2 and what Appendix E.1 takes for composition, b/n of the cost of a step an epoch."""
    rows = tuple(
        (shrinks, batches, *_crossing(shrinks, batches)) for shrinks in (0.01, 0.1, 0.5, 0.9) for batches in _SPLITS
    )
    columns = ("eta lambda", "n/b", "epochs by Appendix E.1 (NOT PROVED)", "first epoch below, computed")
    return Table("crossing", columns, rows, "From which epoch on Theorem 4.2 is below composition.")


def _draw(
    canvas: "Canvas",
    epochs: tuple[int, ...],
    found: dict[str, tuple[dict[str, list[float]], list[float | None]]],
) -> None:
    axes = canvas.subplots(1, len(PANELS), sharey=True, squeeze=False)[0]
    for panel, ax in zip(PANELS, axes, strict=True):
        curves, exact = found[panel.scheme]
        for name, (label, place) in panel.lines.items():
            ax.plot(epochs, curves[name], label=label, **line_style(place, markers=False))
        known = [(count, truth) for count, truth in zip(epochs, exact, strict=True) if truth is not None]
        ax.plot(*zip(*known, strict=True), "ko", markersize=3.2, label="exact")
        ax.set(xscale="log", yscale="log", xlabel="epochs", title=panel.title)
    axes[0].set_ylabel(AT_DELTA)
    # One legend for all panels: a line that two of them share is named once.
    named = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    canvas.legend(list(named.values()), list(named), loc="outside lower center", ncols=3)


def _draw_crossing(canvas: "Canvas") -> None:
    ax = canvas.subplots()
    shrinks = np.geomspace(0.01, 0.9, 13)
    for place, batches in enumerate(_SPLITS):
        stated, found = zip(*(_crossing(float(one), batches) for one in shrinks), strict=True)
        stated_style = not_valid_style("Appendix E.1", NOT_PROVED)
        stated_style |= {"marker": "", "label": "_" * place + stated_style["label"]}  # named once
        ax.plot(shrinks, stated, **stated_style)
        ax.plot(shrinks, found, label=f"n/b = {batches}", **line_style(place))
    ax.set(xscale="log", yscale="log", xlabel="eta lambda", ylabel="first epoch below composition")
    ax.legend()
