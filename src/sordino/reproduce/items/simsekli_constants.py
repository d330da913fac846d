"""Lemmas 6 to 8 and 13 to 18 of Simsekli et al.: the constants of both experiments beside what they bound."""

import math
from typing import TYPE_CHECKING

import numpy as np

from sordino.model.exact import shift_total_variation
from sordino.reproduce.cells import Cell, Lower, NotValid, Upper
from sordino.reproduce.figure import Figure
from sordino.reproduce.item import item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Beside, Outcome, Verdict, VerdictKind
from sordino.reproduce.palette import line_style
from sordino.reproduce.simsekli.lemmas import (
    Constants,
    constants,
    drift_excess,
    one_step_distance,
    stability_of_the_minimiser,
)
from sordino.reproduce.simsekli.setting import BATCH, LINEAR, LOGISTIC, Array, Setting
from sordino.reproduce.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# The noise that section 5 says is needed.
RUNS = ((LINEAR, 2.0, 0.02), (LINEAR, 1.6, 0.05), (LOGISTIC, 2.0, 0.009), (LOGISTIC, 1.6, 0.012))


@item(
    name="simsekli-constants",
    paper="simsekli2024differential",
    reproduces="Lemmas 6 to 8 and 13 to 18, and the range of sigma of Theorems 9 and 10: their constants",
)
def lemma_constants(options: Options) -> Outcome:
    """Every constant for both experiments, and the exact one-step distance and drift under them."""
    radii = np.geomspace(1e-3, 1e3, 19 if options.quick else 61)
    found = [constants(*run) for run in RUNS]
    drift = float(drift_excess(LINEAR, 0.02, radii).max())
    exact = {run: float(one_step_distance(*run, 0.0, radii).max()) for run in RUNS}
    ratio = found[0].full.distance / LINEAR.n / exact[RUNS[0]]
    return Outcome(
        (
            Table("constants", ("constant", *(_name(run) for run in RUNS)), _rows(found), _TABLE),
            Table(
                "truth",
                ("quantity", *(_name(run) for run in RUNS)),
                (
                    ("Lemma 8: sup TV / V, stated", *(Upper(c.full.distance / r[0].n) for c, r in _with(found))),
                    ("the same, exact for unit rows", *(Lower(exact[run]) for run in RUNS)),
                    ("|theta_* - theta'_*|, as Lemma 7 charges it", *(_charged(run[0]) for run in RUNS)),
                    (
                        "the same, of a strongly convex loss",
                        *(Upper(stability_of_the_minimiser(run[0].constants, run[0].n)) for run in RUNS),
                    ),
                ),
                "What the lemmas bound, computed for the experiments' rows.",
            ),
            Table(
                "shifts",
                ("alpha", "exact", "Lemma 18 with the sqrt(2) left out", "Lemma 18"),
                tuple(_shift_row(alpha) for alpha in (2.0, 1.8, 1.5)),
                "Total variation between a stable law of scale 1 and its shift by 0.5, in any dimension; at alpha = 2 "
                "the exact value is Lemma 17's.",
            ),
        ),
        (Figure("lemmas", lambda canvas: _draw(canvas, radii, found), _CAPTION, 9.4, 4.0),),
        Verdict(
            VerdictKind.DIFFERS,
            f"The bounds of Lemmas 7 and 8 hold and are loose (the one-step distance by a factor {ratio:.0f}); but "
            f"SGD with the paper's batch of {BATCH} is outside Lemmas 13 and 14, which ask for "
            f"{found[0].least_batch:,} of 30,000 records, and the factor that Theorem 9 drops is "
            f"{found[0].factor:.2f} and {found[2].factor:.2f} at alpha = 2, not below 1.",
        ),
        (
            "H of (17) needs Assumption 3, which neither experiment satisfies (see simsekli-assumption3). It is nearly "
            "right all the same: Lemma 7 bounds how far one record moves the minimiser by the size of the whole "
            "parameter; for a strongly convex loss it is of order 1/n, and (16) with that in its place is (17) plus "
            "a term of order 1/n.",
            "That repairs H and not the theorem: C and rho of Lemma 6 stay unknown, and rho = beta takes a rate of "
            "drift for a rate of convergence.",
            "sigma^* as printed is half of the largest sigma for which M >= e; harmless. Both experiments run at "
            "eta = m / K1^2, the end that the lemmas leave out; harmless too, (25) holds there.",
            "Lemma 18's constant is sqrt(2) too large in every dimension: the best test is a half-space.",
            "Lemma 15 writes 1/n for the move of a batch gradient that holds the record; it is 1/b, which happens with "
            "probability b/n, so the bound is right for batches drawn afresh and wrong for passes.",
        ),
        tuple((f"sigma, {_name(run)}", run[2]) for run in RUNS),
        (
            Beside("batch size that Theorem 10 needs", BATCH, found[0].least_batch, "linear regression; paper: used"),
            Beside("factor dropped, linear, alpha = 2", NotValid(1.0), found[0].factor, "with C = 1"),
            Beside("sup of P V - beta V, linear, alpha = 2", Upper(found[0].full.offset), Lower(drift), "H of (16)"),
        ),
    )


_TABLE = "As printed, from the origin and with the paper's noise; C = 1 where the paper leaves C open."
_CAPTION = (
    "Linear regression, alpha = 2, sigma = 0.02. Left: one-step total variation over V on a ray from the stable point, "
    "exact for the worst two records, and Lemma 8's bound. Right: what a step adds to V beyond beta V, exactly, and "
    "the two H of Lemma 7."
)


def _with(found: list[Constants]) -> list[tuple[Constants, tuple[Setting, float, float]]]:
    return list(zip(found, RUNS, strict=True))


def _name(run: tuple[Setting, float, float]) -> str:
    return f"{run[0].name.split()[0]}, alpha = {run[1]:g}"


def _shift_row(alpha: float) -> tuple[Cell, ...]:
    shift = 0.5
    linear = shift * math.gamma(1 + 1 / alpha) / math.pi
    return alpha, shift_total_variation(alpha, shift, 1.0).high, Upper(linear), Upper(math.sqrt(2) * linear)


def _charged(setting: Setting) -> Cell:
    return Upper(2 * setting.constants.stable_point)


def _rows(found: list[Constants]) -> tuple[tuple[Cell, ...], ...]:
    rows: dict[str, list[Cell]] = {
        "beta (15)": [one.full.rate for one in found],
        "H (16)": [one.full.offset for one in found],
        "H (17), with Assumption 3": [one.universal.offset for one in found],
        "beta (45), mini-batches": [one.batches.rate for one in found],
        "H (46), mini-batches": [one.batches.offset for one in found],
        "q of Lemma 6": [one.drift_offset for one in found],
        "radius of A, Lemma 6": [one.ball for one in found],
        "C_1 of Lemma 13": [one.batch_offset for one in found],
        "least batch of Lemmas 13 and 14": [one.least_batch for one in found],
        "kappa with (16)": [one.full.weight for one in found],
        "M of Theorem 9": [one.full.distance for one in found],
        "sigma_*": [one.least_noise for one in found],
        "sigma^*": [one.most_noise for one in found],
        "factor dropped by Theorem 9": [one.factor for one in found],
    }
    return tuple((name, *values) for name, values in rows.items())


def _draw(canvas: "Canvas", radii: Array, found: list[Constants]) -> None:
    left, right = canvas.subplots(1, 2)
    setting, alpha, scale = RUNS[0]
    left.plot(radii, one_step_distance(setting, alpha, scale, 0.0, radii), label="exact", **line_style(0, False))
    left.axhline(found[0].full.distance / setting.n, label="Lemma 8", **line_style(1, False))
    left.set(xscale="log", yscale="log", xlabel="|theta - theta_*|", ylabel="one-step total variation / V")
    left.set_ylim(1e-6, 1e-2)
    left.legend(loc="lower left")
    shown = radii[radii <= 10]
    right.plot(shown, drift_excess(setting, scale, shown), label="exact", **line_style(0, False))
    right.axhline(found[0].full.offset, label="H of (16)", **line_style(1, False))
    right.axhline(found[0].universal.offset, label="H of (17)", **line_style(2, False))
    right.set(xscale="log", xlabel="|theta - theta_*|", ylabel="P V - beta V", ylim=(-1.5, 2.2))
    right.legend(loc="lower left")
