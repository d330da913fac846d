"""Algorithm 2 of Ye & Shokri (F.1) run as it is written, beside the chain that Sordino runs for it."""

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from papers.framework.figure import PANELS, Figure, line_style
from papers.framework.item import Beside, Cell, NotValid, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from papers.ye_shokri import printed_algorithms as code
from sordino.accounting.theorems import hidden_state as random_batches
from sordino.core.spec import Scheme

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


MULTIPLIER = 2.0
FALSE_ALARM = 1e-6
ORDER = 10.0


@item(
    name="ye-shokri-pseudocode",
    paper="ye2022differentially",
    reproduces="Appendix F.1, Algorithm 2: DP-SGD on regularised logistic regression as pseudocode",
)
def algorithm_two(options: Options) -> Outcome:
    """The same batches without noise, and the two laws of the last iterate with noise and shuffled batches."""
    data = code.Table.drawn(options.seed)
    rng = np.random.default_rng([options.seed, 31])
    chains = 40 if options.quick else 2000
    plain = code.algorithm_two(data, 0.0, np.arange(code.RECORDS), rng)
    # A quick run has one shape of noise to compile.
    ours = code.our_chain(data, 1e-9, Scheme.CYCLIC, chains if options.quick else 1, options.seed)[0]
    gap = float(np.abs(plain - ours).max())
    written = np.array(
        [code.algorithm_two(data, MULTIPLIER, rng.permutation(code.RECORDS), rng) for _ in range(chains)]
    ).reshape(chains, -1)
    drawn = code.our_chain(data, MULTIPLIER, Scheme.SHUFFLE_ONCE, chains, options.seed).reshape(chains, -1)
    means, spreads = _statistics(written, drawn)
    limit = float(stats.norm.isf(FALSE_ALARM / (2 * 2 * written.shape[1])))
    worst = max(float(np.abs(means).max()), float(np.abs(spreads).max()))
    same = gap < 1e-4 and worst < limit
    printed = code.algorithm_two(data, 0.0, np.arange(code.RECORDS), rng, as_printed=True)
    return Outcome(
        (
            Table(
                "agreement",
                ("comparison", "found", "allowed"),
                (
                    ("largest difference of a coordinate, same batches, no noise", gap, 1e-4),
                    ("largest z of a mean, shuffled batches", float(np.abs(means).max()), limit),
                    ("largest z of a log-variance, shuffled batches", float(np.abs(spreads).max()), limit),
                ),
                f"{chains} chains each; if the laws agree, anything above the limits happens with probability at most "
                f"{FALSE_ALARM:g}.",
            ),
            Table(
                "noise",
                (
                    "sigma_mul",
                    "sigma, eta under the root",
                    "sigma with n under it",
                    "u = 2 / sigma_mul^2",
                    "Corollary 5.3",
                ),
                tuple(_noise_row(multiplier) for multiplier in (1.0, 2.0, 4.0, 8.0)),
                "The noise of Algorithm 1 that a noise multiplier stands for, and the Rényi divergence at order "
                f"{ORDER:g} by Theorem 4.2 if steps contracted by 1 - eta lambda.",
            ),
        ),
        (Figure("law", lambda canvas: _draw(canvas, written, drawn), _CAPTION, *PANELS),),
        Verdict(
            VerdictKind.CORRECTED if same else VerdictKind.NOT_REPRODUCED,
            (
                "With the unregularised gradient clipped, the pseudocode and the chain agree in mean and variance of "
                f"every coordinate over {chains} chains; as printed the decay counts twice."
                if same
                else f"The pseudocode and the chain disagree: {gap:.1e} without noise, {worst:.1f} deviations with."
            ),
            tried="" if same else f"{chains} chains of the pseudocode against as many of the library's.",
        ),
        (
            "Algorithm 2, in that copy, divides the gradient of the regularised loss by the length of the other "
            "one; Proposition F.2 clips the unregularised gradient, as is done here. Taken literally the weight "
            f"decay is counted twice (the iterate differs by {np.abs(printed - plain).max():.3f}) and the sensitivity "
            f"is not S_g: at |theta| = 100 it reaches {code.printed_sensitivity(100.0, 0.5):.2f} instead of "
            f"{code.SENSITIVITY:g}.",
            "The scale of the noise is eta sigma_mul S_g / (2b), so the equivalent sigma has eta under its root; the "
            "copy of F.1 at hand has n there, most likely a misread eta.",
            "Clipping by norm breaks contraction with three classes (see ye-shokri-clipping), so the last column is "
            "the paper's claim, not a certificate.",
            "Private feature normalisation, the first line of Algorithm 2, is in ye-shokri-normalisation.",
        ),
        (
            ("records", code.RECORDS),
            ("features, without the intercept", code.FEATURES),
            ("classes", code.CLASSES),
            ("batch size", code.BATCH),
            ("epochs", code.EPOCHS),
            ("step size", code.STEP_SIZE),
            ("weight decay", code.DECAY),
            ("S_g", code.SENSITIVITY),
            ("sigma_mul, figure", MULTIPLIER),
        ),
        (
            Beside(
                "sigma for sigma_mul = 1",
                None,
                code.equivalent_sigma(1.0),
                "formula: sqrt(n/2) in the copy at hand",
                NotValid(code.printed_sigma(1.0)),
            ),
        ),
    )


_CAPTION = "Two coordinates of the last iterate: histograms of Algorithm 2 as code and of the chain that Sordino runs."


def _statistics(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z-scores of the differences of means and of log-variances, coordinate by coordinate."""
    count = len(one)
    mean = (one.mean(0) - other.mean(0)) / np.sqrt((one.var(0) + other.var(0)) / count)
    kurtosis = (stats.kurtosis(one, axis=0) + stats.kurtosis(other, axis=0)) / 2
    spread = (np.log(one.var(0)) - np.log(other.var(0))) / np.sqrt((2 + np.maximum(kurtosis, 0)) * 2 / count)
    return mean, spread


def _noise_row(multiplier: float) -> tuple[Cell, ...]:
    u = 2 / multiplier**2
    contraction = 1 - code.STEP_SIZE * code.DECAY
    period = code.RECORDS // code.BATCH
    claimed = float(random_batches.shuffled(np.array([ORDER]), contraction, u, period, code.EPOCHS * period)[0])
    return (
        multiplier,
        code.equivalent_sigma(multiplier),
        NotValid(code.printed_sigma(multiplier)),
        Upper(u),
        NotValid(claimed),
    )


def _draw(canvas: "Canvas", written: np.ndarray, drawn: np.ndarray) -> None:
    panels = canvas.subplots(1, 2, squeeze=False)[0]
    for axes, coordinate in zip(panels, (0, written.shape[1] - 1), strict=True):
        both = np.concatenate([written[:, coordinate], drawn[:, coordinate]])
        low, high = (float(end) for end in np.quantile(both, (0.001, 0.999)))
        edges = np.linspace(low, high, 2 + round(2 * math.sqrt(len(written)) / 3))
        for place, (name, values) in enumerate((("Algorithm 2 as code", written), ("Sordino's chain", drawn))):
            heights, _ = np.histogram(values[:, coordinate], edges, density=True)
            style = line_style(place, markers=False)
            axes.stairs(heights, edges, label=name, color=style["color"], linestyle=style["linestyle"], linewidth=1.4)
        axes.set(xlabel=f"coordinate {coordinate + 1} of {written.shape[1]}")
    panels[0].set_ylabel("density")
    panels[0].legend(loc="upper left")
