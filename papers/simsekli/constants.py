"""Lemmas 6 to 8 and 13 to 15 on the two experiments: their constants, and the quantities they bound, computed."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from papers.framework.figure import PANELS, Figure, line_style
from papers.framework.item import (
    Beside,
    Cell,
    Lower,
    Options,
    Outcome,
    Table,
    Upper,
    Verdict,
    VerdictKind,
    item,
)
from papers.simsekli.setting import BATCH, DIM, LINEAR, LOGISTIC, Array, Setting
from sordino.accounting.bounds.heavy_tail import Dissipative, Lyapunov, absolute_moment, lyapunov
from sordino.models.exact.line import central

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


_ANGLES = 241


@dataclass(frozen=True)
class Constants:
    """Everything the lemmas name for one run, as the paper prints it.

    Attributes:
        full: beta, H of (16), kappa and M of Lemma 7 and 8 for full gradients, without a universal stable point.
        universal: the same with one, H of (17).
        batches: (45) and (46), for mini-batches.
        drift_offset: q of Lemma 6.
        ball: the radius of the set A of Lemma 6.
        batch_offset: C_1 of Lemma 13.
        least_batch: the batch size from which on Lemmas 13 and 14 hold without a universal stable point.
        least_noise: sigma_* of Theorem 9 with C = 1.
        most_noise: sigma^* of Theorem 9.
        factor: what the proof of Theorem 9 drops, (2 C (H + 1))^(1 / log(n / M)), with C = 1 and H of (16).
    """

    full: Lyapunov
    universal: Lyapunov
    batches: Lyapunov
    drift_offset: float
    ball: float
    batch_offset: float
    least_batch: int
    least_noise: float
    most_noise: float
    factor: float


def constants(setting: Setting, alpha: float, scale: float) -> Constants:
    """The lemmas' constants for a run from the origin."""
    loss, step = setting.constants, setting.step
    left_out = 1 - BATCH / setting.n
    full, universal, batches = (
        lyapunov(loss, alpha, scale, step, DIM, 0.0, share, point)
        for share, point in ((0.0, False), (0.0, True), (left_out, False))
    )
    mean = absolute_moment(alpha, 1.0, DIM)
    curved = math.sqrt(2 * step * loss.K)
    quarter = step * loss.m / 4
    offset = quarter + curved + scale * mean + quarter * loss.stable_point
    rest = 2 - full.rate + curved + (full.rate + 1) * 2 * loss.stable_point
    return Constants(
        full,
        universal,
        batches,
        offset,
        offset / quarter,
        2 * loss.K2 * loss.D * (loss.stable_point + 1),
        math.ceil((1 - loss.m / (8 * loss.K2 * loss.D)) * setting.n),
        max(0.0, (0.5 - rest) / mean),
        full.distance * scale / (2 * math.e),
        (2 * (full.offset + 1)) ** (1 / math.log(setting.n / full.distance)),
    )


def stability_of_the_minimiser(loss: Dissipative, n: int) -> float:
    """How far one record moves the minimiser of a strongly convex loss: K2 D (1 + 2 |theta_*|) / (m n).

    Lemma 7 puts the whole (B + sqrt(B^2 + 4 m K)) / m there, which does not fall with n.
    """
    return loss.K2 * loss.D * (1 + 2 * loss.stable_point) / (loss.m * n)


def mean_length(shift: Array, scale: float) -> Array:
    """E |shift + scale xi| for the Gaussian case xi ~ N(0, 2 I), exactly; `shift` holds lengths."""
    spread = math.sqrt(2) * scale
    base = spread * math.sqrt(2) * math.exp(math.lgamma((DIM + 1) / 2) - math.lgamma(DIM / 2))
    return base * special.hyp1f1(-0.5, DIM / 2, -(shift**2) / (2 * spread**2))


def farthest_gradients(setting: Setting, lengths: Array) -> Array:
    """sup |grad f(theta, x) - grad f(theta, x')| over records with |a| = 1, |b| <= 1, at |theta| = `lengths`.

    Gradients are multiples s a of unit vectors: s between a.theta - 1 and a.theta + 1 for ridge regression, between
    -1 and 1 over 1 + e^{+-a.theta} for logistic regression. Two of them in a plane through theta are farthest apart.
    """
    angles = np.linspace(0.0, math.pi, _ANGLES)
    cosines = np.cos(angles[:, None] - angles[None, :])
    found = []
    for length in lengths:
        along = length * np.cos(angles)
        ends = (along - 1, along + 1) if setting.name == LINEAR.name else _logistic_ends(along)
        squares = [
            one[:, None] ** 2 + other[None, :] ** 2 - 2 * one[:, None] * other[None, :] * cosines
            for one in ends
            for other in ends
        ]
        found.append(math.sqrt(max(float(square.max()) for square in squares)))
    return np.array(found)


def _logistic_ends(along: Array) -> tuple[Array, Array]:
    return -special.expit(-along), special.expit(along)


def _shifted(alpha: float, shift: float) -> float:
    """TV between the stable law and its shift by so many scales, rounded up; the best test is a half-space."""
    return min(1.0, float(central(alpha, shift / 2)) * (1 + 1e-12))


def one_step_distance(setting: Setting, alpha: float, scale: float, centre: float, radii: Array) -> Array:
    """TV(P(theta, .), P'(theta, .)) / V(theta) on a ray from theta_*, |theta_*| = centre, for the worst two records."""
    moves = setting.step / setting.n * farthest_gradients(setting, centre + radii)
    exact = [_shifted(alpha, float(move) / scale) for move in moves]
    return np.array(exact) / (1 + radii)


def drift_excess(setting: Setting, scale: float, radii: Array) -> Array:
    """(P V)(theta) - beta V(theta) at |theta - theta_*| = radii: H is meant to bound it; Gaussian noise.

    The slowest contraction that the strong convexity allows, which a record can attain.
    """
    contraction = 1 - setting.step * setting.decay
    beta = 1 - setting.step * setting.decay / 2
    return 1 + mean_length(contraction * radii, scale) - beta * (1 + radii)


# Lemmas 6 to 8 and 13 to 18 of Simsekli et al.: the constants of both experiments beside what they bound.

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
        (Figure("lemmas", lambda canvas: _draw(canvas, radii, found), _CAPTION, *PANELS),),
        Verdict(
            VerdictKind.CORRECTED,
            f"The bounds of Lemmas 7 and 8 hold and are loose (the one-step distance by a factor {ratio:.0f}). But "
            f"SGD with the paper's batch of {BATCH} is outside Lemmas 13 and 14, which ask for "
            f"{found[0].least_batch:,} of 30,000 records. The factor that the proof of Theorem "
            f"9 drops as at most 1 is {found[0].factor:.2f} and {found[2].factor:.2f} at alpha = 2. With it kept the "
            "bound follows, for the C and rho that the paper does not give.",
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
            Beside("factor dropped, linear, alpha = 2", None, found[0].factor, "with C = 1; dropped as at most 1"),
            Beside(
                "sup of P V - beta V, linear, alpha = 2", None, Lower(drift), "H of (16)", Upper(found[0].full.offset)
            ),
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
    return alpha, _shifted(alpha, shift), Upper(linear), Upper(math.sqrt(2) * linear)


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
