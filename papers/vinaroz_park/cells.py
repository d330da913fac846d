"""What stands in a cell of Tables 3 to 9: scores over splits, what diverged, and which epsilon is whose."""

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.framework.item import Cell, NotProved, NotValid, Upper
from papers.round_words import rounds
from papers.vinaroz_park import printed, variational
from papers.vinaroz_park.budget import DELTA
from papers.vinaroz_park.published import TABLE_2, TABLES_6_AND_7, TARGET_SPREAD, rmse
from papers.vinaroz_park.record import Recorded
from sordino.accounting.evaluate import tightest
from sordino.core.bound import Relation, View
from sordino.core.spec import ConstantSchedule, Scheme, Spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The paper's column that a row of ours stands beside; readings with another accounting or step stand beside it too.
COLUMN = {
    printed.EP: "EP",
    printed.SEP_PRINTED: "SEP",
    printed.SEP: "SEP",
    printed.SEP_CLIPPED: "SEP clipped",
    printed.DP_PRINTED: "DP-SEP",
    printed.DP_CORRECTED: "DP-SEP",
    printed.DP_COPIES: "DP-SEP",
    printed.DP_COPIES_CORRECTED: "DP-SEP",
    printed.DP_DAMPED: "DP-SEP",
    printed.MISMATCHED: "DP-SEP",
    variational.VI: "VI",
    variational.DP_VI: "DP-VI",
    variational.DP_VI_CORRECTED: "DP-VI",
}
# Errors of more than so many times a constant's are called diverged.
DIVERGED = 3.0


def spread_of(dataset: str) -> float:
    """The error of a constant."""
    return TARGET_SPREAD[dataset]


def diverged(row: Recorded) -> bool:
    """Whether a run is worse than a constant by far, on average over splits."""
    mean = float(np.mean(row.values("rmse")))
    return not mean <= DIVERGED * spread_of(row.dataset)


def shown(row: Recorded, metric: str) -> str:
    """Mean and standard deviation over splits; a run that diverged says so."""
    values = row.values(metric)
    if metric == "rmse" and diverged(row):
        low = int(np.sum(values <= DIVERGED * spread_of(row.dataset)))
        return f"diverged on {len(values) - low} of {len(values)} splits"
    if not np.all(np.isfinite(values)) or np.abs(values.mean()) > 1e3:
        return "diverged"
    return f"{values.mean():.4g} ± {values.std():.2g}"


_TRAINING_SHARE = 0.9


def training_records(name: str) -> int:
    """Records that the paper trains on: nine in ten."""
    return round(_TRAINING_SHARE * TABLE_2[name][0])


def published_spec(name: str) -> Spec:
    """DP-VI as in Table 7, read generously: Poisson batches, add-remove, sigma in units of the clip."""
    given, records = TABLES_6_AND_7[name], training_records(name)
    algorithm = rounds(
        "variational",
        Relation.ADD_REMOVE,
        records=records,
        steps=given.epochs * round(records / given.batch),
        sampling=Scheme.POISSON,
        batch=given.batch,
        clip=given.clip,
        noise_multiplier=ConstantSchedule(given.noise_multiplier),
        step_size=ConstantSchedule(given.learning_rate),
    )
    return Spec(algorithm=algorithm, relation=Relation.ADD_REMOVE, view=View.POSTERIOR_PARAMETERS)


@cache
def printed_epsilon(name: str) -> float:
    """What the registry certifies for Table 7's sigma."""
    found = tightest(published_spec(name), DELTA)
    return math.inf if found is None else found.guarantee.epsilon(DELTA)


def claim(row: Recorded) -> Cell:
    """The epsilon of a row: certified where it is, else as claimed, not proved or, where it is refuted, not valid.

    DP-VI's is that of Poisson batches under add-remove, the most favourable reading of Table 7.
    """
    if row.epsilon is not None:
        return Upper(row.epsilon)
    if row.method == printed.MISMATCHED:
        return NotValid(1.0)
    if row.method in (printed.DP_PRINTED, printed.DP_COPIES):
        return NotProved(1.0)
    if row.method == variational.DP_VI:
        return Upper(printed_epsilon(row.dataset))
    return Upper(1.0) if row.method == variational.DP_VI_CORRECTED else None


def of(rows: list[Recorded], dataset: str, method: str) -> Recorded:
    """The row of a method; of several readings, the one with the least error."""
    found = [row for row in rows if (row.dataset, row.method) == (dataset, method)]
    return min(found, key=lambda row: float(np.nan_to_num(np.mean(row.values("rmse")), nan=math.inf)))


def same(row: Recorded, paper: float) -> bool:
    """Whether the paper's error is within two standard deviations over splits of ours, at most a quarter, or 5 %."""
    values = row.values("rmse")
    room = max(min(2.0 * float(np.std(values)), 0.25 * paper), 0.05 * paper)
    return not diverged(row) and abs(float(np.mean(values)) - paper) <= room


def agrees(rows: list[Recorded], dataset: str, method: str) -> bool:
    """Whether at least one reading of a method has the paper's error of Table 3."""
    paper = rmse(dataset, COLUMN[method])
    return any(same(row, paper) for row in rows if (row.dataset, row.method) == (dataset, method))


def over_constant(row: Recorded) -> str:
    """The error over a constant's, in words."""
    return "diverged" if diverged(row) else f"{float(np.mean(row.values('rmse'))) / spread_of(row.dataset):.2f}"


def mean_of(rows: list[Recorded], dataset: str, method: str) -> float:
    """The mean error over splits of a method's best reading; infinite where it is none."""
    return float(np.nan_to_num(np.mean(of(rows, dataset, method).values("rmse")), nan=math.inf))


def listed(names: list[str]) -> str:
    """Names of sets in words."""
    return ", ".join(names) if names else "no set"


def at(rows: list[Recorded], dataset: str, method: str, clip: float) -> Recorded:
    """One reading at one clip."""
    return next(row for row in rows if (row.dataset, row.method, row.clip) == (dataset, method, clip))


def change(rows: list[Recorded], dataset: str, method: str) -> float:
    """The error at the largest clip over that at the smallest."""
    clips = sorted({row.clip for row in rows if row.clip is not None})
    last, first = (float(np.mean(at(rows, dataset, method, clip).values("rmse"))) for clip in (clips[-1], clips[0]))
    return last / first


def clip_evidence(rows: list[Recorded], sets: tuple[str, ...]) -> str:
    """Whether the error of noise N times too small rises with the clip, as the paper's Table 8 does on every set."""
    changes = {name: change(rows, name, printed.MISMATCHED) for name in sets}
    rising = [name for name in sets if changes[name] > 1.01]
    falling = [name for name in sets if changes[name] < 0.99]
    neither = [name for name in sets if name not in (*rising, *falling)]
    return (
        f"where Table 8's error rises with C on every set, this mode's rises on {listed(rising)}, falls on "
        f"{listed(falling)}, and stays within 1 % on {listed(neither)}"
    )


# A line that another one covers is drawn wide and pale beneath it.
BENEATH = {"linewidth": 5.5, "alpha": 0.35, "marker": "none", "linestyle": "-"}


def line_to_edge(
    axes: "Axes", places: list[float], errors: list[float], edge: float, style: dict[str, Any], below: float = 1.0
) -> None:
    """A line whose points above the edge stand at the edge, each with an arrow; `below` keeps two such lines apart."""
    kept = [error if error <= edge else below * edge for error in errors]
    axes.plot(places, kept, clip_on=False, **style)
    for place, error in zip(places, errors, strict=True):
        if not error <= edge:
            arrow = {"arrowstyle": "->", "color": style["color"]}
            axes.annotate("", (place, 1.25 * edge), (place, below * edge), arrowprops=arrow)


def plain_ticks(axes: "Axes", low: float, high: float) -> None:
    """Ticks of 1, 2 and 5 in plain numbers on a logarithmic axis of errors."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
