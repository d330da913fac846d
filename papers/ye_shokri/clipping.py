"""The norm-clipped softmax gradient of one record: its Jacobian, how a step expands, and the worst probabilities."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from papers.framework.figure import COLOURS, PANELS, Figure, line_style, not_valid_style
from papers.framework.item import Beside, NotValid, Options, Outcome, Table, Upper, Verdict, VerdictKind, item
from sordino.accounting.bounds.contraction import clipped_modulus

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


Array = NDArray[np.float64]


def hessian(p: Array, row_square: float) -> Array:
    """The Hessian in the scores' direction: |x|^2 (diag(p) - p p^T); its norm is at most beta = |x|^2 / 2."""
    return row_square * (np.diag(p) - np.outer(p, p))


def clipped_jacobian(p: Array, label: int, shrink: float, row_square: float) -> Array:
    """Equation (181): shrink * P * H, with P the projection orthogonal to the gradient and shrink = C / |g| <= 1."""
    gradient = p - np.eye(len(p))[label]
    unit = gradient / np.linalg.norm(gradient)
    return shrink * (np.eye(len(p)) - np.outer(unit, unit)) @ hessian(p, row_square)


def expansion(jacobian: Array, eta: float) -> float:
    """The norm of I - eta J: how far one step can drive two close points apart."""
    return float(np.linalg.norm(np.eye(len(jacobian)) - eta * jacobian, 2))


def clipped_step(theta: Array, label: int, eta: float, bound: float, row_square: float) -> Array:
    """One step on the scores' coordinates, theta along x / |x| with one entry a class, as the paper's F.1 takes it."""
    length = math.sqrt(row_square)
    gradient = length * (softmax(length * theta) - np.eye(len(theta))[label])
    return theta - eta * gradient * min(1.0, bound / float(np.linalg.norm(gradient)))


def softmax(scores: Array) -> Array:
    """Probabilities from scores."""
    grown = np.exp(scores - scores.max())
    return grown / grown.sum()


def expanded_pair(p: Array, label: int, share: float, eta: float, row_square: float, apart: float) -> float:
    """|step(theta) - step(theta')| / |theta - theta'| for two points `apart`, clipped at `share` of the gradient."""
    length = math.sqrt(row_square)
    theta = np.log(p) / length
    bound = share * length * float(np.linalg.norm(p - np.eye(len(p))[label]))
    jacobian = clipped_jacobian(p, label, share, row_square)
    direction = np.linalg.svd(np.eye(len(p)) - eta * jacobian)[2][0]
    pair = (theta - 0.5 * apart * direction, theta + 0.5 * apart * direction)
    moved = [clipped_step(point, label, eta, bound, row_square) for point in pair]
    return float(np.linalg.norm(moved[1] - moved[0])) / apart


def worst_curvature(classes: int) -> float:
    """The least eigenvalue of the symmetric part of P H over beta, over all probabilities, for clipping that bites.

    The search is over the label's probability, one other class and the rest shared evenly; searches over all
    probabilities with up to 10 classes end in the same place.
    """
    if classes == 2:
        return 0.0

    def least(scores: Array) -> float:
        label, other, rest = softmax(np.append(scores, 0.0))
        jacobian = clipped_jacobian(
            np.concatenate([[label, other], np.full(classes - 2, rest / (classes - 2))]), 0, 1.0, 2.0
        )
        return float(np.linalg.eigvalsh((jacobian + jacobian.T) / 2)[0])

    starts = [np.array([label, other]) for label in (-6.0, -2.0) for other in (0.0, 2.0)]
    searches = (
        minimize(least, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}) for start in starts
    )
    return min(float(search.fun) for search in searches)


def worst_of_any_convex_loss() -> float:
    """The same for any convex loss, attained where P and H / beta are projections 60 degrees apart: -1/8."""
    first, second = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])
    product = np.outer(first, first) @ np.outer(second, second)
    return float(np.linalg.eigvalsh((product + product.T) / 2)[0])


# Proposition F.2 of Ye & Shokri, that norm clipping keeps contraction, executed and refuted.

P, LABEL, SHARE, ROW_SQUARE = np.array([0.001, 0.836, 0.163]), 0, 0.98, 2.0
BETA = ROW_SQUARE / 2
STEPS = (0.01, 0.1, 0.5, 1.0)
APART = 1e-3
DECAYED = ((0.1, 0.2), (0.5, 0.1), (0.1, 0.05), (1.0, 0.0))


@item(
    name="ye-shokri-clipping",
    paper="ye2022differentially",
    reproduces="Proposition F.2 (5.2), clipped gradients contract like unclipped ones",
)
def clipping(options: Options) -> Outcome:
    """Execute the counterexample, and show the modulus that holds instead."""
    jacobian = clipped_jacobian(P, LABEL, SHARE, ROW_SQUARE)
    found = [(eta, expansion(jacobian, eta), _pair(eta)) for eta in STEPS]
    counts = (2, 3, 4) if options.quick else (2, 3, 4, 5, 10, 100, 400)
    curvature = [(str(classes), worst_curvature(classes)) for classes in counts]
    curvature.append(("any convex loss", worst_of_any_convex_loss()))
    tables = (
        Table(
            "expansion",
            ("step size", "claimed", "two points, executed", "norm of the Jacobian", "corrected modulus"),
            tuple(
                (eta, NotValid(1.0), f"{pair:.6f}", f"{limit:.6f}", Upper(clipped_modulus(eta, 0.0, BETA)))
                for eta, limit, pair in found
            ),
            f"How much one clipped step without weight decay expands a distance, beta = {BETA:g}; above 1 it does not "
            "contract.",
        ),
        Table(
            "curvature",
            ("classes", "claimed, at least", "worst, over beta"),
            tuple((name, 0.0 if name == "2" else NotValid(0.0), value) for name, value in curvature),
            "Least eigenvalue of the symmetric part of the clipped gradient's Jacobian.",
        ),
        Table(
            "modulus",
            ("step size", "weight decay", "claimed", "corrected modulus"),
            tuple((eta, lam, NotValid(1 - eta * lam), Upper(clipped_modulus(eta, lam, 1.0))) for eta, lam in DECAYED),
            "Contraction factor of one step on any convex loss with beta = 1, clipped by norm.",
        ),
    )
    return Outcome(
        tables,
        (Figure("expansion", lambda canvas: _draw(canvas, curvature), _CAPTION, *PANELS),),
        Verdict(
            VerdictKind.REFUTED,
            "Proposition F.2 is false for three or more classes: the clipped step drives two points apart. With two "
            "classes it holds.",
            counterexample=f"two parameters of a softmax with three classes whose distance grows by a factor "
            f"{found[1][2]:.4f} in one step of size 0.1, where at most 1 is claimed (first table).",
        ),
        (
            "The Jacobian is a projection times the Hessian. Both are positive semi-definite, their product is not "
            "symmetric, and its symmetric part has a negative eigenvalue; the proof's step from (181) to (182) fails.",
            "With two classes the residual is a scalar times a fixed vector, and the claim holds. Clipping features "
            "or a scalar residual keeps contraction for any number of classes.",
            "The corrected modulus holds for every convex loss with smoothness beta and is attained by some; for small "
            "steps it is 1 - eta (lambda - beta / 8), so weight decay above beta / 8 restores contraction.",
        ),
        (
            ("probabilities", "(0.001, 0.836, 0.163)"),
            ("label", "the first class"),
            ("clipped at", f"{SHARE:g} of the gradient's norm"),
            ("|x|^2, intercept included", ROW_SQUARE),
            ("beta", BETA),
            ("distance of the two points", APART),
        ),
        (
            Beside(
                "expansion at step size 0.1, no weight decay",
                None,
                f"{found[1][2]:.6f}",
                "two points, executed",
                NotValid(1.0),
            ),
            Beside(
                "least eigenvalue over beta, 3 classes", None, curvature[1][1], "worst probabilities", NotValid(0.0)
            ),
            Beside(
                "contraction, step size 0.1, weight decay 0.2",
                None,
                Upper(clipped_modulus(0.1, 0.2, 1.0)),
                "",
                NotValid(0.98),
            ),
        ),
    )


_CAPTION = (
    "Left: one norm-clipped softmax step expands distances (circles: two points, executed), where Proposition F.2 "
    "claims it does not. Right: how negative the curvature of the clipped gradient gets."
)


def _pair(eta: float) -> float:
    return expanded_pair(P, LABEL, SHARE, eta, ROW_SQUARE, APART)


def _draw(canvas: "Canvas", curvature: list[tuple[str, float]]) -> None:
    left, right = canvas.subplots(1, 2, width_ratios=(1.35, 1))
    etas = np.linspace(0.005, 1.2, 120)
    jacobian = clipped_jacobian(P, LABEL, SHARE, ROW_SQUARE)
    corrected = [clipped_modulus(float(eta), 0.0, BETA) for eta in etas]
    left.plot(etas, corrected, label="corrected modulus, any convex loss", **line_style(0, markers=False))
    left.plot(
        etas,
        [expansion(jacobian, float(eta)) for eta in etas],
        label="3-class softmax, this record",
        **line_style(1, markers=False),
    )
    left.plot(STEPS, [_pair(eta) for eta in STEPS], "o", color=COLOURS[1], label="two points, executed")
    left.plot(etas[::17], np.ones(len(etas[::17])), **not_valid_style("claimed: at most 1"))
    left.set(xlabel="step size × smoothness", ylabel="expansion of a distance in one step", yscale="linear")
    left.legend(loc="upper left")
    names, values = zip(*curvature, strict=True)
    places = range(len(names))
    right.barh(places, values, color=[COLOURS[1]] * (len(names) - 1) + [COLOURS[0]], height=0.6)
    for place, value in zip(places, values, strict=True):
        right.annotate(
            f"{value:.4f}", (value, place), (-4, 0), textcoords="offset points", ha="right", va="center", fontsize=9
        )
    right.set_yticks(list(places), [name.replace("any convex loss", "any convex\nloss") for name in names])
    right.set(
        xlim=(-0.165, 0.004),
        xticks=(-0.15, -0.1, -0.05, 0.0),
        xlabel="worst curvature / smoothness",
        ylabel="classes (softmax)",
    )
    right.invert_yaxis()
    right.grid(visible=False, axis="y")
