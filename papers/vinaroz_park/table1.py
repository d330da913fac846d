"""The mixture of Gaussians: distance to the true posterior of private and non-private approximations, and Figure 1."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from papers.framework.figure import COLOURS, Figure
from papers.framework.item import Beside, Cell, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.vinaroz_park import mixture as methods
from papers.vinaroz_park.budget import DELTA, Budget, certified
from papers.vinaroz_park.mixture import (
    COMPONENTS,
    DIM,
    RECORDS,
    SPREAD,
    Points,
    Posterior,
    by_gibbs,
    by_nuts,
    distances,
    points,
)
from papers.vinaroz_park.published import TABLE_1
from sordino.core.bound import Relation
from sordino.core.spec import Spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


EPSILONS = (50.0, 5.0, 1.0)
# What an earlier feasibility study reached on means; returning the prior scored 2.5 to 3.8 there.
FEASIBLE = {50.0: 0.45, 5.0: 0.39, 1.0: 1.26}
_PRIOR = "returning the prior"
_DRAWN = 250  # points in a panel
Release = Callable[[NDArray[np.float64], Budget, int], tuple[Posterior, tuple[Spec, ...]]]
Run = Callable[[Points, int], tuple[Posterior, float | None]]


@dataclass(frozen=True, eq=False)
class Found:
    """A method's distances on every data set, its epsilon where it has one, and its answer on the first."""

    name: str
    epsilon: float | None
    means: tuple[float, ...]
    covariances: tuple[float, ...]
    example: Posterior

    @property
    def mean(self) -> float:
        """Average distance of means."""
        return float(np.mean(self.means))

    @property
    def covariance(self) -> float:
        """Average distance of covariances."""
        return float(np.mean(self.covariances))


@item(
    name="vinaroz-park-table1",
    paper="vinaroz2022differentially",
    reproduces="Table 1 and Figure 1: accuracy of the posterior of a mixture of Gaussians",
)
def table_one(options: Options) -> Outcome:
    """Approximate the posterior on several data sets, and measure the distance to one found by sampling."""
    sets = [points(1000 * options.seed + number) for number in range(1 if options.quick else 6)]
    gibbs = [by_gibbs(data, options.seed, 200 if options.quick else 2000) for data in sets]
    truths = gibbs if options.quick else [by_nuts(data, options.seed, 400) for data in sets]
    epsilons = EPSILONS[-1:] if options.quick else EPSILONS
    found = [_found(_PRIOR, sets, truths, lambda _, __: (methods.from_prior(), None))]
    if not options.quick:
        clips: tuple[float | None, ...] = (None, 20.0, 10.0, 1.0)
        for clip in clips:
            name = "SEP" if clip is None else f"SEP-clipped C={clip:g}"
            found.append(_found(name, sets, truths, partial(_silent, clip)))
    for epsilon in epsilons:
        budget = Budget(epsilon, Relation.REPLACE_ONE)
        runs: tuple[tuple[str, Release], ...] = (("DP-EM", methods.dp_em), ("DP-SEP", methods.dp_sep))
        for name, run in runs[1:] if options.quick else runs:
            found.append(_found(f"{name} epsilon={epsilon:g}", sets, truths, partial(_private, run, budget)))
    agreement = max(distances(one, other)[0] for one, other in zip(gibbs, truths, strict=True))
    return Outcome(
        (_table(found),),
        (Figure("posteriors", partial(_draw, sets[0], found), _CAPTION, 9.4, 5.6),),
        _verdict(found, epsilons),
        (*_NOTES, f"Means of two samplers, Gibbs and the reference, differ by at most {agreement:.2g} (F-norm)."),
        (
            ("records", RECORDS),
            ("components, dimensions", f"{COMPONENTS}, {DIM}"),
            ("spread", SPREAD),
            ("data sets", len(sets)),
            ("reference", "Gibbs" if options.quick else "NUTS"),
            ("delta", DELTA),
            ("relation", "replace-one"),
            ("DP-SEP: rounds, clip, floor", f"{methods.ROUNDS}, {methods.CLIP:g}, {methods.FLOOR:g}"),
            (
                "DP-SEP: runs that share the budget",
                ", ".join(
                    f"{methods.restarts(Budget(epsilon, Relation.REPLACE_ONE))} at epsilon {epsilon:g}"
                    for epsilon in epsilons
                ),
            ),
            ("DP-EM: rounds, clip", f"{methods.EM_ROUNDS}, {methods.EM_CLIP:g}"),
        ),
        _beside(found),
    )


_CAPTION = (
    "One data set in its first two dimensions: 250 of its points, and the 98 % ellipses of the posteriors of the "
    "four means. Open circles are the means that the data were drawn from."
)
_NOTES = (
    "Components are matched by their means before distances are taken; the paper does not say how it did this. SEP "
    "without noise starts at the true means, private runs at random, data-free ones.",
    "DP-SEP here: full-batch rounds with centred messages and a floor on the precision, the same at every epsilon, "
    "chosen on other data sets of the same law (seeds 200 to 205). Random starts can end in a wrong optimum; where the "
    "budget has room, several runs share it and a tenth of it compares their fit, all of it in the certificate. The "
    "paper's own way (single records, natural messages, C = 1) gives its printed distances. DP-EM is ours too and was "
    "not tuned further.",
    "The points are used as they are: clipped messages bound what one record does, so nothing needs a declared bound.",
)


def _silent(clip: float | None, data: Points, seed: int) -> tuple[Posterior, float | None]:
    return methods.sep(data.X, clip, data.means, seed), None


def _private(run: Release, budget: Budget, data: Points, seed: int) -> tuple[Posterior, float | None]:
    posterior, specs = run(data.X, budget, seed)
    return posterior, certified(specs)


def _found(name: str, sets: list[Points], truths: list[Posterior], run: Run) -> Found:
    answers = [run(data, seed) for seed, data in enumerate(sets)]
    pairs = [distances(answer, truth) for (answer, _), truth in zip(answers, truths, strict=True)]
    means, covariances = zip(*pairs, strict=True)
    return Found(name, answers[0][1], means, covariances, answers[0][0])


def _table(found: list[Found]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        paper = TABLE_1.get(one.name)
        bound = None if one.epsilon is None else Upper(one.epsilon)
        average = 0.5 * (one.mean + one.covariance)
        spread = float(np.std(one.means))
        rows.append((one.name, bound, one.mean, spread, one.covariance, average, *(paper or (None, None, None))))
    columns = ("method", "epsilon", "mean", "± over sets", "covariance", "average")
    caption = (
        "Frobenius distances to the true posterior (means; covariances; their average), averaged over data sets, "
        "beside the paper's Table 1."
    )
    return Table("distances", (*columns, "paper: mean", "paper: covariance", "paper: average"), tuple(rows), caption)


def _named(found: list[Found], name: str) -> Found:
    return next(one for one in found if one.name == name)


def _beside(found: list[Found]) -> tuple[Beside, ...]:
    return tuple(
        Beside(f"{one.name}: F-norm on mean", TABLE_1[one.name][0], one.mean) for one in found if one.name in TABLE_1
    )


def _verdict(found: list[Found], epsilons: tuple[float, ...]) -> Verdict:
    prior = _named(found, _PRIOR).mean
    ours = {epsilon: _named(found, f"DP-SEP epsilon={epsilon:g}").mean for epsilon in epsilons}
    beaten = [f"{e:g}" for e, value in ours.items() if value < TABLE_1[f"DP-SEP epsilon={e:g}"][0] and value < prior]
    reached = [f"{e:g}" for e, value in ours.items() if value <= FEASIBLE[e]]
    listed = ", ".join(f"{value:.2f} at epsilon {e:g}" for e, value in ours.items())
    kind = VerdictKind.NOT_REPRODUCED
    return Verdict(
        kind,
        f"Private rounds are {listed} from the true means (returning the prior: {prior:.2f}): closer than the paper's "
        f"DP-SEP and than the prior at epsilon {', '.join(beaten) or 'none'}, and at or below our feasibility values "
        f"at epsilon {', '.join(reached) or 'none'}.",
        tried="full-batch rounds, which are not the paper's sequential algorithm.",
    )


def _draw(data: Points, found: list[Found], canvas: "Canvas") -> None:
    shown = [one for one in found if one.name in ("SEP", "SEP-clipped C=1") or one.name.startswith("DP-")]
    columns = (len(shown) + 1) // 2
    grid = canvas.subplots(2, columns, sharex=True, sharey=True, squeeze=False)
    for axes, one in zip(grid.ravel(), shown, strict=False):
        _panel(axes, data, one)
    for axes in grid.ravel()[len(shown) :]:
        axes.set_axis_off()


def _panel(axes: "Axes", data: Points, one: Found) -> None:
    drawn = data.X[:_DRAWN]
    nearest = ((drawn[:, None] - one.example.means) ** 2).sum(axis=2).argmin(axis=1)
    axes.scatter(*drawn[:, :2].T, c=[COLOURS[k] for k in nearest], s=3, alpha=0.4, linewidths=0)
    axes.plot(*data.means[:, :2].T, "o", mfc="none", color="#1a1a1a", markersize=6)
    angles = np.linspace(0.0, 2.0 * np.pi, 60)
    circle = np.sqrt(-2.0 * np.log(0.02)) * np.column_stack([np.cos(angles), np.sin(angles)])
    for mean, covariance in zip(one.example.means, one.example.covariances, strict=True):
        values, vectors = np.linalg.eigh(covariance[:2, :2])
        ring = mean[:2] + circle * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        axes.plot(*ring.T, color="#000000", linewidth=1.0)
    low, high = data.X[:, :2].min(axis=0) - 0.5, data.X[:, :2].max(axis=0) + 0.5
    axes.set(title=one.name, xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.title.set_fontsize(9.5)
