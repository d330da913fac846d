"""The mixture of Gaussians: Table 1 and Figure 1 as printed, from several starts, beside what is certified."""

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from papers.framework.figure import COLOURS, PANELS, Figure
from papers.framework.item import (
    Beside,
    Cell,
    Improved,
    NotProved,
    NotValid,
    Options,
    Outcome,
    Table,
    Upper,
    Verdict,
    VerdictKind,
    item,
)
from papers.vinaroz_park import mixture_printed as recorded
from papers.vinaroz_park import printed
from papers.vinaroz_park.budget import DELTA
from papers.vinaroz_park.mixture import COMPONENTS, DIM, RECORDS, SPREAD, Points, by_gibbs, points
from papers.vinaroz_park.mixture_printed import DP_EM, PRIOR_ALONE, RANDOM, ROUNDS, STARTS, SYMMETRIC, Found
from papers.vinaroz_park.published import TABLE_1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_DRAWN = 250  # points in a panel
_TRUTH, _QUANTITY = "truth", ": F-norm on mean"
# Distances whose ratio is below this are called close.
_CLOSE = 1.25
# The paper's row that a reading stands beside.
_ROWS = {printed.SEP: "SEP", printed.SEP_PRINTED: "SEP", printed.EP: "EP", DP_EM: "DP-EM"}


@item(
    name="vinaroz-park-table1",
    paper="vinaroz2022differentially",
    reproduces="Algorithms 1 to 3, Table 1 and Figure 1: accuracy of the posterior of a mixture of Gaussians",
)
def table_one(options: Options) -> Outcome:
    """Approximate the posterior on several data sets, and measure the distance to one found by sampling."""
    if options.quick:
        sets = [points(1000 * options.seed)]
        truths = [by_gibbs(data, options.seed, 200) for data in sets]
        found = recorded.measured(
            sets, truths, passes=1, epsilons=(1.0,), starts=(RANDOM,), seed=options.seed, others=False
        )
        number, agreement, passes = 1, math.nan, 1
    else:
        found, number, agreement = recorded.load()
        passes = recorded.PASSES
    epsilons = tuple(dict.fromkeys(one.epsilon for one in found if one.epsilon is not None))
    return Outcome(
        (_table(found), _starts_table(found)),
        (
            Figure(
                "posteriors", partial(_draw, points(1000 * options.seed), found, epsilons), _CAPTION, PANELS[0], 10.6
            ),
        ),
        _verdict(found, epsilons, options.quick),
        notes(found, agreement),
        (
            ("records", RECORDS),
            ("components, dimensions", f"{COMPONENTS}, {DIM}"),
            ("spread", SPREAD),
            ("data sets", number),
            ("passes of single records", passes),
            ("reference", "Gibbs" if options.quick else f"NUTS, {recorded.REFERENCE_DRAWS} draws"),
            ("delta", DELTA),
            ("relation", "replace-one"),
        ),
        _beside(found, epsilons),
        () if options.quick else _improved(found, epsilons),
    )


_CAPTION = (
    "Figure 1: one data set in its first two dimensions, 250 of its points coloured by component (truth) or by the "
    "nearest inferred mean, and 98 % ellipses of the posteriors of the four means; red crosses: the means that the "
    "data "
    "were drawn from. Prior at 0, random start. Third row: DP-SEP as printed, C = 1, noise by the paper's accounting, "
    "NOT PROVED at its epsilon; last row: not the paper's algorithm. Ellipses outside the panels are not seen."
)


def paper_row(one: Found) -> tuple[float, float, float] | None:
    """What Table 1 prints for a row's algorithm."""
    if one.name == printed.SEP_CLIPPED:
        return TABLE_1.get(f"SEP-clipped C={one.clip:g}")
    if one.name == DP_EM:
        return TABLE_1[f"DP-EM epsilon={one.epsilon:g}"]
    if one.name.startswith("DP-SEP"):
        return TABLE_1[f"DP-SEP epsilon={one.epsilon:g}"]
    return TABLE_1.get(_ROWS.get(one.name, ""))


def _bound(one: Found) -> Cell:
    if one.certified is not None:
        return Upper(one.certified)
    if one.epsilon is None:
        return None
    return NotValid(one.epsilon) if one.name == printed.MISMATCHED else NotProved(one.epsilon)


def _label(one: Found) -> str:
    return one.name if one.clip is None or one.epsilon is not None else f"{one.name}, C = {one.clip:g}"


def _table(found: list[Found]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        if one.start in (RANDOM, "random start", "-"):
            spread = float(np.std(one.means))
            average = 0.5 * (one.mean + one.covariance)
            paper = paper_row(one) or (None, None, None)
            rows.append((_label(one), _bound(one), one.mean, spread, one.covariance, average, *paper))
    columns = ("algorithm", "epsilon", "mean", "± over sets", "covariance", "average")
    caption = (
        "Table 1: Frobenius distances to the true posterior (means; covariances; their average), averaged over data "
        "sets. Prior at 0, random start; C = 1 where there is noise."
    )
    return Table("distances", (*columns, "paper: mean", "paper: covariance", "paper: average"), tuple(rows), caption)


def _starts_table(found: list[Found]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        if one.start == RANDOM:
            others = [
                next((o.mean for o in found if (o.name, o.clip, o.epsilon) == key and o.start == start), None)
                for key in [(one.name, one.clip, one.epsilon)]
                for start in STARTS
            ]
            paper = paper_row(one)
            rows.append((_label(one), _bound(one), *others, None if paper is None else paper[0]))
    caption = (
        "Distance of means by prior and start. The paper draws the true means from N(m, I) and does not say what m is, "
        "nor where runs start; 'prior at the true means' gives the answer away and is shown because an earlier version "
        "of this page used it."
    )
    return Table("starts", ("algorithm", "epsilon", *STARTS, "paper: mean"), tuple(rows), caption)


def named(
    found: list[Found], name: str, *, start: str = RANDOM, clip: float | None = None, epsilon: float | None = None
) -> Found | None:
    """One row, if it was run."""
    return next(
        (one for one in found if (one.name, one.start, one.clip, one.epsilon) == (name, start, clip, epsilon)), None
    )


def _beside(found: list[Found], epsilons: tuple[float, ...]) -> tuple[Beside, ...]:
    wanted = [named(found, printed.SEP), *(named(found, printed.SEP_CLIPPED, clip=clip) for clip in recorded.CLIPS)]
    wanted += [named(found, DP_EM, start="random start", epsilon=epsilon) for epsilon in epsilons]
    wanted += [named(found, printed.DP_PRINTED, clip=recorded.CLIP, epsilon=epsilon) for epsilon in epsilons]
    made = []
    for one in wanted:
        paper = None if one is None else paper_row(one)
        if one is not None and paper is not None:
            budget = "" if one.epsilon is None else f", epsilon {one.epsilon:g}"
            made.append(Beside(f"{_label(one)}{budget}{_QUANTITY}", paper[0], one.mean, one.start))
    return tuple(made)


def _verdict(found: list[Found], epsilons: tuple[float, ...], quick: bool) -> Verdict:
    if quick:
        return Verdict(VerdictKind.NOT_REPRODUCED, "Quick mode.", tried="One data set, one pass.")
    pairs = [(row.quantity.removesuffix(_QUANTITY), row.paper, row.ours) for row in _beside(found, epsilons)]
    compared = [
        (name, paper, ours) for name, paper, ours in pairs if isinstance(paper, float) and isinstance(ours, float)
    ]
    same = ", ".join(name for name, paper, ours in compared if _CLOSE > ours / paper > 1.0 / _CLOSE)
    return Verdict(
        VerdictKind.NOT_REPRODUCED,
        f"Of {len(compared)} distances of means, from a prior at 0 and random starts, those within a quarter of the "
        f"paper's are: {same or 'none'}.",
        tried="Algorithms 1 to 3 with gamma = 1 and gamma = N, noise by the paper's accounting, corrected for passes, "
        "and N times too small, four choices of prior and start, 100 passes, five data sets. m, the starts, sigma and "
        "how components are matched are not published.",
    )


def _improved(found: list[Found], epsilons: tuple[float, ...]) -> tuple[Improved, ...]:
    prior = next(one for one in found if one.name == PRIOR_ALONE)
    rows = [named(found, ROUNDS, start="random start", epsilon=epsilon) for epsilon in epsilons]
    told = ", ".join(f"{one.mean:.2f} at epsilon {one.epsilon:g}" for one in rows if one is not None)
    because = (
        f"certified, replace-one: {told} from the true means, where returning the prior has {prior.mean:.2f}. Rounds "
        "of "
        "all records with messages clipped around the present mean, a floor on the precision, and, where the budget "
        "has "
        "room, several runs that share it and are told apart by a noised fit."
    )
    return (Improved(ROUNDS, because, "algorithm"),)


def notes(found: list[Found], agreement: float) -> tuple[str, ...]:
    """What a reader has to know, with the numbers of this run."""
    made = [
        "Components are matched by their means before distances are taken; the paper does not say how it did this.",
        "gamma as in equation (5): 'SEP as printed' and 'DP-SEP as printed' have gamma = 1, so that a step moves the "
        "posterior by a thousandth of a message; SEP as its authors state it (N copies) has gamma = N. Noise 'as "
        "printed' is by the accountant that the paper names, for 100 passes counted as independent draws; corrected, "
        "the least that is certified for passes.",
        f"Private full-batch rounds: {RECORDS} records at once, settings chosen on other data sets of the same law "
        "(seeds "
        "200 to 205); not the paper's algorithm. DP-EM is our own implementation of Park et al. (2017), not tuned.",
    ]
    symmetric, random = named(found, printed.SEP, start=SYMMETRIC), named(found, printed.SEP)
    if symmetric is not None and random is not None:
        made.append(
            "From a prior at 0 without a random start nothing tells the components apart: SEP ends "
            f"{symmetric.mean:.2f} "
            f"from the true means, {random.mean:.2g} from a random start."
        )
    tight = [named(found, printed.SEP_CLIPPED, start=start, clip=1.0) for start in STARTS]
    if all(one is not None for one in tight):
        values = ", ".join(f"{one.mean:.2f} ({one.start})" for one in tight if one is not None)
        made.append(
            f"Rows C = 10 and C = 1 of the paper (1.5 and 2.2) do not come out: clipped SEP at C = 1 is {values} from "
            "the "
            "true means. The covariances at C = 1 agree (0.047, paper 0.046), so that the clip acts here as it does "
            f"there. Hypothesis: two components that change places in a run put it {_swapped():.1f} away on average, "
            "and "
            "two or three such runs of five give the paper's distances. For it: a run that begins with two components "
            "swapped ends so, and its covariances stay right (papers/tests/test_vinaroz_park.py). Against it: none of "
            "our random starts ended so, and the code was not at hand."
        )
    mismatched = named(found, printed.MISMATCHED, clip=recorded.CLIP, epsilon=50.0)
    literal = named(found, printed.DP_PRINTED, clip=recorded.CLIP, epsilon=50.0)
    if mismatched is not None and literal is not None:
        made.append(
            "Noise N times too small, which could explain the paper's Table 3 (a hypothesis, see "
            f"vinaroz-park-regression), does not explain this table: at epsilon 50 it gives {mismatched.mean:.2f}, "
            f"DP-SEP as printed {literal.mean:.2f}, and the paper 2.24."
        )
    if math.isfinite(agreement):
        made.append(_certified_noise())
        made.append(f"Means of two samplers, Gibbs and NUTS, differ by at most {agreement:.2g} (F-norm).")
    return tuple(made)


def _certified_noise() -> str:
    """What the registry certifies for the paper's noise, where every pass has a fresh, secret order."""
    bounds = []
    for epsilon in recorded.EPSILONS:
        claimed = printed.claimed_multiplier(RECORDS, recorded.PASSES, epsilon)
        found = Upper(printed.certified_epsilon(RECORDS, recorded.PASSES, claimed)).shown
        bounds.append(f"{found} where {epsilon:g} is claimed")
    return f"For the paper's noise the registry certifies {', '.join(bounds)}, for passes in a fresh, secret order."


def _swapped() -> float:
    """How far two means that change places move together, on average over pairs and the data sets."""
    gaps = [
        math.sqrt(2.0) * float(np.linalg.norm(means[i] - means[j]))
        for means in (points(number).means for number in range(recorded.SETS))
        for i in range(COMPONENTS)
        for j in range(i)
    ]
    return float(np.mean(gaps))


def _draw(data: Points, found: list[Found], epsilons: tuple[float, ...], canvas: "Canvas") -> None:
    clips = [(f"SEP clipped, C = {clip:g}", named(found, printed.SEP_CLIPPED, clip=clip)) for clip in recorded.CLIPS]
    private = [
        (
            f"DP-SEP, epsilon {epsilon:g} (NOT PROVED)",
            named(found, printed.DP_PRINTED, clip=recorded.CLIP, epsilon=epsilon),
        )
        for epsilon in epsilons
    ]
    em = [(f"DP-EM, epsilon {e:g}", named(found, DP_EM, start="random start", epsilon=e)) for e in epsilons]
    rows = [
        [(_TRUTH, None), ("EP", named(found, printed.EP)), ("SEP", named(found, printed.SEP))],
        clips,
        private,
        em,
        [(f"{ROUNDS}, epsilon {e:g}", named(found, ROUNDS, start="random start", epsilon=e)) for e in epsilons],
    ]
    grid = canvas.subplots(len(rows), 3, sharex=True, sharey=True, squeeze=False)
    for line, row in zip(grid, rows, strict=True):
        shown = [(title, one) for title, one in row if one is not None or title == _TRUTH]
        for axes, (title, one) in zip(line, shown, strict=False):
            _panel(axes, data, title, one)
        for axes in line[len(shown) :]:
            axes.set_axis_off()


def _panel(axes: "Axes", data: Points, title: str, one: Found | None) -> None:
    drawn = data.X[:_DRAWN]
    means = data.means if one is None else np.array(one.example["means"])
    nearest = ((drawn[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    if one is not None:
        # Each inferred component takes the colour of the true one that it is nearest to.
        nearest = ((means[:, None] - data.means) ** 2).sum(axis=2).argmin(axis=1)[nearest]
    labels = data.labels[:_DRAWN] if one is None else nearest
    axes.scatter(*drawn[:, :2].T, c=[COLOURS[k] for k in labels], s=5, alpha=0.55, linewidths=0)
    low, high = data.X[:, :2].min(axis=0) - 0.5, data.X[:, :2].max(axis=0) + 0.5
    if one is not None:
        angles = np.linspace(0.0, 2.0 * np.pi, 60)
        circle = np.sqrt(-2.0 * np.log(0.02)) * np.column_stack([np.cos(angles), np.sin(angles)])
        for mean, covariance in zip(means, np.array(one.example["covariances"]), strict=True):
            values, vectors = np.linalg.eigh(covariance)
            ring = mean[:2] + circle * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
            axes.plot(*ring.T, color="#ffffff", linewidth=3.0)
            axes.plot(*ring.T, color="#000000", linewidth=1.4)
    axes.plot(*data.means[:, :2].T, "+", color="#d00000", markersize=6, markeredgewidth=1.2, linestyle="none")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_title(title, fontsize=9.5)
