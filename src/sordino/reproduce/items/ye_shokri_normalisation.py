"""Private feature normalisation, the first line of Ye & Shokri's Algorithm 2: its own cost, and what it buys."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sordino.core.spec import Scheme
from sordino.reproduce.cells import Cell, NotValid, Upper
from sordino.reproduce.figure import Figure
from sordino.reproduce.item import item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Beside, Outcome, Verdict, VerdictKind
from sordino.reproduce.palette import line_style
from sordino.reproduce.table import Table
from sordino.reproduce.ye_shokri import normalisation as scaling
from sordino.reproduce.ye_shokri.regression import BATCHES, DECAY, DELTA, STEP_SIZE, Method, accuracy
from sordino.reproduce.ye_shokri.rows import Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

METHOD = Method("Theorem 4.2", Scheme.SHUFFLE_ONCE, "hidden-state.shuffle-once")
FREE = ("none", "group, free")


@dataclass(frozen=True)
class Trained:
    """One kind of normalisation at one epsilon: the noise that keeps the whole within it, and test accuracies."""

    kind: str
    epsilon: float
    noise: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean accuracy over seeds, in per cent; nothing where the normalisation alone is over budget."""
        return 100 * float(np.mean(self.accuracies)) if self.accuracies else math.nan


@item(
    name="ye-shokri-normalisation",
    paper="ye2022differentially",
    reproduces="Algorithm 2's private feature normalisation: its cost composed with the training's",
)
def normalisation(options: Options) -> Outcome:
    """Cost of the noisy statistics, the whole pipeline's epsilon, and accuracy at equal epsilon."""
    given = scaling.images(options)
    epochs, seeds = (5, 1) if options.quick else (40, 3)
    multipliers = (5.0, 30.0) if options.quick else (2.0, 5.0, 20.0, 100.0)
    epsilons = (2.0,) if options.quick else (0.5, 1.0, 2.0, 4.0)
    found = [
        _trained(given, kind, epsilon, epochs, seeds, options.seed)
        for epsilon in epsilons
        for kind in (*FREE, *multipliers)
    ]
    target = epsilons[-2] if len(epsilons) > 1 else epsilons[-1]
    costs = [_cost_row(given, multiplier, target, epochs) for multiplier in multipliers]
    best = {kind: _best(found, target, kind) for kind in ("none", "group", "batch")}
    forgotten = scaling.whole_epsilon(
        METHOD, _rows(given, 2.0, 0), epochs, _alone(given, target, epochs), scaling.cost(2.0)
    )
    return Outcome(
        (
            Table(
                "cost",
                ("noise multiplier", "epsilon of the statistics", f"epsilon if forgotten, training at {target:g}"),
                tuple(costs),
                f"Means and mean squares of {given.train.shape[1]} features at delta {DELTA:g}, replace-one, and the "
                "whole when the training alone was calibrated to the target.",
            ),
            Table(
                "accuracy",
                ("epsilon of the whole", *FREE, *(f"batch, multiplier {value:g}" for value in multipliers)),
                tuple(_accuracy_row(found, epsilon) for epsilon in epsilons),
                f"Test accuracy in per cent, mean over {seeds} seed(s), {epochs} epochs; - where the statistics alone "
                "are over budget.",
            ),
        ),
        (Figure("accuracy", lambda canvas: _draw(canvas, found, epsilons, multipliers), _CAPTION, 7.4, 4.4),),
        Verdict(
            VerdictKind.PARAMETERS_NOT_PUBLISHED,
            "The appendix names the scheme and gives neither data nor its cost. Composed with the training, noisy "
            f"means and variances are charged here; forgetting them would turn epsilon {target:g} into "
            f"{forgotten:.2f} at multiplier 2. At epsilon {target:g} the best private batch normalisation gives "
            f"{best['batch'].mean:.1f} % test accuracy, group normalisation, which is free, {best['group'].mean:.1f} "
            f"% and none {best['none'].mean:.1f} %.",
        ),
        (
            "Replace-one: the means move by 2C/n and the mean squares by sqrt(2) C^2/n for rows clipped to length C; "
            "each release is Gaussian, and everything later reads only them and the record itself.",
            "After normalisation rows are clipped to length one with an intercept, so that Proposition 5.1's constants "
            "hold; gradients are not clipped by norm (see ye-shokri-clipping).",
            "The training is certified by Theorem 4.2, converted to Rényi and added to the Gaussian releases; it keeps "
            "the paper's shuffled batches.",
            "Choosing the multiplier by test accuracy is not charged; it flatters batch normalisation.",
        ),
        (
            ("data", given.name),
            ("row clip C of the statistics", scaling.LENGTH),
            ("batches in a pass", BATCHES),
            ("epochs", epochs),
            ("step size", STEP_SIZE),
            ("weight decay", DECAY),
            ("delta", DELTA),
            ("relation", "replace-one"),
        ),
        (Beside("epsilon with the statistics forgotten", NotValid(target), Upper(forgotten), "multiplier 2"),),
    )


_CAPTION = "Test accuracy at an epsilon for the whole pipeline, by kind of normalisation."


def _rows(given: scaling.Images, kind: str | float, seed: int) -> Rows:
    if isinstance(kind, float):
        return scaling.normalised(given, kind, seed)
    return scaling.unscaled(given) if kind == "none" else scaling.by_image(given)


def _alone(given: scaling.Images, epsilon: float, epochs: int) -> float:
    return scaling.needed_noise(METHOD, _rows(given, "none", 0), epochs, epsilon, None)


def _trained(given: scaling.Images, kind: str | float, epsilon: float, epochs: int, seeds: int, seed: int) -> Trained:
    release = scaling.cost(kind) if isinstance(kind, float) else None
    noise = scaling.needed_noise(METHOD, _rows(given, kind, seed), epochs, epsilon, release)
    name = kind if isinstance(kind, str) else f"{kind:g}"
    if math.isinf(noise):
        return Trained(name, epsilon, noise, ())
    chosen = [1000 * seed + place for place in range(seeds)]
    return Trained(
        name,
        epsilon,
        noise,
        tuple(accuracy(METHOD, _rows(given, kind, one), epochs, noise, one) for one in chosen),
    )


def _best(found: list[Trained], epsilon: float, kind: str) -> Trained:
    names = {"none": FREE[:1], "group": FREE[1:]}.get(kind)
    chosen = [one for one in found if one.epsilon == epsilon and one.accuracies]
    return max((one for one in chosen if (one.kind in names if names else one.kind not in FREE)), key=_mean)


def _mean(one: Trained) -> float:
    return one.mean


def _cost_row(given: scaling.Images, multiplier: float, target: float, epochs: int) -> tuple[Cell, ...]:
    release = scaling.cost(multiplier)
    whole = scaling.whole_epsilon(METHOD, _rows(given, "none", 0), epochs, _alone(given, target, epochs), release)
    return multiplier, Upper(release.epsilon(DELTA)), Upper(whole)


def _accuracy_row(found: list[Trained], epsilon: float) -> tuple[Cell, ...]:
    cells = (f"{one.mean:.1f}" if one.accuracies else None for one in found if one.epsilon == epsilon)
    return epsilon, *cells


def _draw(canvas: "Canvas", found: list[Trained], epsilons: tuple[float, ...], multipliers: tuple[float, ...]) -> None:
    axes = canvas.add_subplot()
    names = {FREE[0]: "no normalisation", FREE[1]: "group normalisation, free"}
    names |= {f"{value:g}": f"private batch normalisation, multiplier {value:g}" for value in multipliers}
    for place, (kind, label) in enumerate(names.items()):
        points = [one.mean for one in found if one.kind == kind]
        axes.plot(epsilons, points, label=label, **line_style(place))
    axes.set(xscale="log", xlabel=f"epsilon of the whole at delta {DELTA:g}", ylabel="test accuracy, %")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.legend(fontsize=8.5)
