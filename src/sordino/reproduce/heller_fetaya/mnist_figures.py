"""The figures of the network audit: lower bounds and accuracy by epoch, and the canaries."""

from typing import TYPE_CHECKING

from sordino.reproduce.heller_fetaya.mnist_experiment import Experiment
from sordino.reproduce.heller_fetaya.mnist_setting import CLAIMED
from sordino.reproduce.palette import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

NAMES = {
    "probabilities": "attack of the paper",
    "log-odds": "attack on log-odds",
    "log-odds, chosen cut": "the same, cut chosen",
}
_PLACES = {"probabilities": 0, "log-odds": 1, "log-odds, chosen cut": 4}
_SIZES = {"probabilities": 10.0, "log-odds": 6.5, "log-odds, chosen cut": 3.5}  # so that equal bounds stay in sight


def draw_experiment(canvas: "Canvas", experiment: Experiment) -> None:
    """Bounds above, accuracy below, over the same epochs."""
    upper, lower = canvas.subplots(2, 1, sharex=True, height_ratios=(2.4, 1))
    _draw_bounds(upper, experiment)
    epochs = experiment.findings.epochs
    lower.plot([each.epoch for each in epochs], [100 * each.accuracy for each in epochs], **line_style(5))
    lower.set(xlabel="epoch", ylabel="accuracy, %")
    lower.xaxis.get_major_locator().set_params(integer=True)


def _draw_bounds(axes: "Axes", experiment: Experiment) -> None:
    findings = experiment.findings
    numbers = [each.epoch for each in findings.epochs]
    if experiment.certified:
        certified = [bound.guarantee.epsilon(CLAIMED.delta) for bound in experiment.certified]
        axes.plot(numbers, certified, label="certified: no more than this", **line_style(2))
    axes.axhline(findings.cap, label="the most these models could show", **line_style(3, markers=False))
    for attack in findings.attacks:
        bounds = [bound.epsilon for bound in findings.bounds(attack, joint=False)]
        axes.plot(
            numbers,
            bounds,
            label=f"{NAMES[attack]}: at least this",
            markersize=_SIZES[attack],
            **line_style(_PLACES[attack]),
        )
    top = max([findings.cap, *(bound.guarantee.epsilon(CLAIMED.delta) for bound in experiment.certified)])
    axes.set(ylabel=f"epsilon at delta {CLAIMED.delta:g}", ylim=(-0.05 * top, 1.65 * top))
    axes.legend(loc="upper left")


def draw_canaries(canvas: "Canvas", experiments: tuple[Experiment, ...]) -> None:
    """Each record and what it was pushed to."""
    panels = canvas.subplots(1, 2 * len(experiments))
    pairs = [
        (f"{experiment.variant.name}:\n{word}", image, experiment.canary.x_star)
        for experiment in experiments
        for word, image in (("record", experiment.canary.x_zero), ("canary", experiment.canary.x_star))
    ]
    for axes, (title, image, widest) in zip(panels, pairs, strict=True):
        side = round(len(image) ** 0.5)
        axes.imshow(image.reshape(side, side), cmap="gray_r", vmin=widest.min(), vmax=widest.max())
        axes.set_title(title, fontsize=8.5)
        axes.set_axis_off()
