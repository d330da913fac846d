"""What the clip does to private message passing: certified rounds beside the published single-record passes."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sordino.reproduce.cells import Cell, NotValid, Upper
from sordino.reproduce.figure import Figure
from sordino.reproduce.item import item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Beside, Outcome, Verdict, VerdictKind
from sordino.reproduce.palette import line_style, not_valid_style
from sordino.reproduce.table import Table
from sordino.reproduce.vinaroz_park.budget import DELTA, certified
from sordino.reproduce.vinaroz_park.comparison import REPLACE
from sordino.reproduce.vinaroz_park.folds import Fold, regression_set
from sordino.reproduce.vinaroz_park.propagation import RoundsSetting, fit_mismatched, fit_rounds
from sordino.reproduce.vinaroz_park.published import CLIPS, TABLE_8, TABLE_9
from sordino.reproduce.vinaroz_park.scores import averaged, scored
from sordino.reproduce.vinaroz_park.teacher import teacher

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SETS = ("kin8nm", "power", "wine_red")
_SPLITS, _EPOCHS = 2, 10


@dataclass(frozen=True)
class Clipped:
    """Test scores of one clip on one set; epsilon is None in the mismatched mode."""

    dataset: str
    clip: float
    epsilon: float | None
    rmse: float
    log_likelihood: float


@item(
    name="vinaroz-park-clipping",
    paper="vinaroz2022differentially",
    reproduces="Tables 8 and 9: the effect of the clip at epsilon 1",
)
def clipping(options: Options) -> Outcome:
    """Run certified rounds and the mismatched mode at every clip, or at two on a small public teacher."""
    if options.data_dir is None or options.quick:
        small = [teacher(400, 4, options.seed)]
        folds = {"teacher": (small, small)}
        clips, epochs, setting = CLIPS[:2], 1, replace(RoundsSetting(), steps=20)
    else:
        sets = {name: regression_set(name, options.data_dir) for name in SETS}
        folds = {
            name: (
                [data.fold(number) for number in range(_SPLITS)],
                [data.standardised(number) for number in range(_SPLITS)],
            )
            for name, data in sets.items()
        }
        clips, epochs, setting = CLIPS, _EPOCHS, RoundsSetting()
    found = [
        one
        for name, (covered, standardised) in folds.items()
        for clip in clips
        for one in (
            _private(name, covered, replace(setting, clip=clip), options.seed),
            _mismatched(name, standardised, clip, epochs, options.seed),
        )
    ]
    names = (("rounds", setting.steps), ("epochs of the mismatched mode", epochs))
    return report(found, names)


def report(found: list[Clipped], names: tuple[tuple[str, Cell], ...]) -> Outcome:
    """Tables, figure and verdict for runs that were made."""
    sets = tuple(dict.fromkeys(one.dataset for one in found))
    settings: tuple[tuple[str, Cell], ...] = (("epsilon", 1), ("delta", DELTA), ("relation", "replace-one"))
    return Outcome(
        (_table(found),),
        (Figure("clips", partial(_draw, found, sets), _CAPTION, 9.4, 3.6),),
        _verdict(found),
        _NOTES,
        (*settings, ("splits", _SPLITS), *names),
        _beside(found),
    )


_CAPTION = (
    "Test error against the clip: certified full-batch rounds at epsilon 1, the mismatched mode that has the published "
    "pattern, and the paper's Table 8."
)
_NOTES = (
    "Certified rounds clip centred messages (g, 0.3 k), the paper clips natural parameters; equal clips do not mean "
    "equal messages, only the shape of the curves compares.",
    "In certified rounds noise grows with the clip, as it must, while steps and floor stay as chosen for C = 1; a run "
    "whose error is more than ten times the best one of its set is called diverged.",
    "In the mismatched mode (NOT PRIVATE) noise is N times too small to matter, so the clip only regularises.",
    "Year is not available here; naval and protein are left out to keep the item short.",
)


def _private(name: str, folds: list[Fold], setting: RoundsSetting, seed: int) -> Clipped:
    fits = [(fold, fit_rounds(setting, fold, REPLACE, 100 * seed + k)) for k, fold in enumerate(folds)]
    mean, _ = averaged([scored(fold, fit.mean, fit.variance) for fold, fit in fits])
    return Clipped(name, setting.clip, certified(fits[0][1].specs), mean.rmse, mean.log_likelihood)


def _mismatched(name: str, folds: list[Fold], clip: float, epochs: int, seed: int) -> Clipped:
    fits = [(fold, fit_mismatched(fold, epochs, 100 * seed + k, clip)) for k, fold in enumerate(folds)]
    mean, _ = averaged([scored(fold, fit.mean, fit.variance) for fold, fit in fits])
    return Clipped(name, clip, None, mean.rmse, mean.log_likelihood)


def _table(found: list[Clipped]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        place = CLIPS.index(one.clip)
        mode = "mismatched (NOT PRIVATE)" if one.epsilon is None else "certified rounds"
        bound = NotValid(1.0) if one.epsilon is None else Upper(one.epsilon)
        papers = tuple(table[one.dataset][place] if one.dataset in table else None for table in (TABLE_8, TABLE_9))
        rows.append((one.dataset, one.clip, mode, bound, *_shown(found, one), *papers))
    columns = ("set", "C", "mode", "epsilon", "RMSE", "log-likelihood", "paper: RMSE", "paper: log-likelihood")
    caption = "A row is a clip, a set and a mode, averaged over splits, in the units of the data."
    return Table("clips", columns, tuple(rows), caption)


def _beside(found: list[Clipped]) -> tuple[Beside, ...]:
    return tuple(
        Beside(f"{one.dataset}: RMSE at C = 1", TABLE_8[one.dataset][0], one.rmse, "mismatched, NOT PRIVATE")
        for one in found
        if one.epsilon is None and one.clip == 1.0 and one.dataset in TABLE_8
    )


def _diverged(found: list[Clipped], one: Clipped) -> bool:
    """Whether noise blew a run up."""
    return not one.rmse <= 10.0 * min(other.rmse for other in found if other.dataset == one.dataset)


def _shown(found: list[Clipped], one: Clipped) -> tuple[Cell, Cell]:
    return ("diverged", None) if _diverged(found, one) else (one.rmse, one.log_likelihood)


def _growth(found: list[Clipped]) -> float:
    """The largest ratio, over sets, of the worst error to the best one over all clips, in the mismatched mode."""
    sets = {one.dataset for one in found}
    errors = [[one.rmse for one in found if one.dataset == name and one.epsilon is None] for name in sets]
    return float(np.max([max(values) / min(values) for values in errors]))


def _verdict(found: list[Clipped]) -> Verdict:
    private = [one for one in found if one.epsilon is not None]
    sets = tuple(dict.fromkeys(one.dataset for one in private))
    kept = {
        name: max((one.clip for one in private if one.dataset == name and not _diverged(found, one)), default=0.0)
        for name in sets
    }
    listed = ", ".join(f"{clip:g} on {name}" for name, clip in kept.items())
    return Verdict(
        VerdictKind.DIFFERS,
        f"With the noise that epsilon 1 needs, rounds set for C = 1 are best there and stay stable up to C = {listed}. "
        f"The mismatched mode changes its error by at most a factor {_growth(found):.2f} over all clips. The paper's "
        "Table 8 rises by at most 1.14 on kin8nm, power and wine: as little, though ours, with fewer epochs, does not.",
    )


def _draw(found: list[Clipped], sets: tuple[str, ...], canvas: "Canvas") -> None:
    panels = canvas.subplots(1, len(sets), squeeze=False)[0]
    for axes, name in zip(panels, sets, strict=True):
        for private in (True, False):
            line = [
                (one.clip, one.rmse)
                for one in found
                if one.dataset == name and (one.epsilon is None) != private and not _diverged(found, one)
            ]
            style = {"label": "certified, epsilon 1", **line_style(0)} if private else not_valid_style("mismatched")
            axes.plot(*zip(*line, strict=True), **style)
        if name in TABLE_8:
            axes.plot(CLIPS, TABLE_8[name], **not_valid_style("paper") | {"marker": ">", "linestyle": ":"})
        axes.set(xlabel="clip C", title=name)
    panels[0].set_ylabel("test RMSE")
    panels[0].legend(fontsize=8)
