"""What stands in a cell of Tables 3 to 9: scores over splits, what diverged, and which epsilon is whose."""

import math
from typing import TYPE_CHECKING

import numpy as np

from papers.framework.item import Cell, NotValid, Upper
from papers.vinaroz_park import printed, variational
from papers.vinaroz_park.published import TARGET_SPREAD
from papers.vinaroz_park.record import Recorded

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


def claim(row: Recorded) -> Cell:
    """The epsilon of a row: certified where it is, not valid where the paper's accounting says 1, or none."""
    if row.epsilon is not None:
        return Upper(row.epsilon)
    if row.method in (printed.DP_PRINTED, printed.DP_COPIES, printed.MISMATCHED, variational.DP_VI):
        return NotValid(1.0)
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
    rising = [name for name in sets if change(rows, name, printed.MISMATCHED) > 1.0]
    falling = [name for name in sets if name not in rising]
    return (
        f"for it, its error rises with C as Table 8's does on {listed(rising)}; against it, it falls on "
        f"{listed(falling)}"
    )


def plain_ticks(axes: "Axes", low: float, high: float) -> None:
    """Ticks of 1, 2 and 5 in plain numbers on a logarithmic axis of errors."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
