"""Any (epsilon, delta) curve as a dominating pair, by connecting its dots."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import InputError
from sordino.core.loss.atomic_pairs import ExplicitPair

Array = NDArray[np.float64]

_ROUNDING, _UNDERFLOW = 1e-11, 1e-250


def pair_from_curve(epsilons: ArrayLike, deltas: ArrayLike) -> ExplicitPair:
    """The pair whose privacy curve passes through the convex hull of the given upper bounds.

    The curve bounds both orders of the pair, so it is mirrored: H(y) = 1 - y + y H(1/y) for y = exp(epsilon) < 1. The
    lower hull of upper bounds on a convex function is still an upper bound. Past the last epsilon the curve is flat.
    """
    epsilons, deltas = np.asarray(epsilons, float), np.asarray(deltas, float)
    if epsilons.ndim != 1 or epsilons.shape != deltas.shape or len(epsilons) == 0:
        raise InputError("Expected as many deltas as epsilons, at least one.")
    if epsilons[0] != 0.0 or np.any(np.diff(epsilons) <= 0) or np.any((deltas < 0) | (deltas > 1)):
        raise InputError("Expected epsilons to start at 0 and increase, and deltas in [0, 1].")
    # A curve never rises. The masses are second differences; a little more covers their rounding and underflow, and
    # keeps the pair above the given curve.
    deltas = np.minimum.accumulate(deltas)
    deltas = np.where(deltas > 0, np.minimum(1.0, deltas * (1 + _ROUNDING) + _UNDERFLOW), 0.0)
    y = np.exp(epsilons)
    mirrored = -np.expm1(-epsilons[:0:-1]) + np.exp(-epsilons[:0:-1]) * deltas[:0:-1]
    ys = np.concatenate([[0.0], 1 / y[:0:-1], y])
    values = np.concatenate([[1.0], mirrored, deltas])
    keep = _lower_hull(ys, values)
    ys, values = ys[keep], values[keep]
    slopes = np.append(np.diff(values) / np.diff(ys), 0.0)
    kinks = np.maximum(np.diff(slopes), 0.0)
    losses, masses = np.log(ys[1:]), ys[1:] * kinks
    # Rounding must not lose mass: what is missing from 1 is given to the largest loss.
    masses[-1] += max(0.0, 1.0 - float(values[-1]) - math.fsum(masses))
    return ExplicitPair(tuple(losses.tolist()), tuple(masses.tolist()), float(values[-1]))


def _lower_hull(x: Array, y: Array) -> list[int]:
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
