"""The norm-clipped softmax gradient of one record: its Jacobian, how a step expands, and the worst probabilities."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

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
