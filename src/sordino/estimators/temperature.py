"""How steep a classifier's scores should be, from two rounds of noised sums.

Clipped gradients make a network too sure of itself, or not sure enough. With scores z, centred and cut to a public
length, the loss of softmax(t z) has the derivatives g = (p - y).z and h = the variance of z under p; the sums of both,
noised, give a step of Newton's method in t. One record moves g by at most sqrt(2) times the length and h by half its
square.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.rounding import up

Array = NDArray[np.float64]

ROUNDS = 2
_LENGTH = 4.0
_STEEPEST, _CURVED = math.sqrt(2.0) * _LENGTH, 0.5 * _LENGTH**2
_LEAST, _LARGEST = 0.2, 3.0
_LEAST_CURVATURE = 0.02

# The largest length of one record's pair (g / its bound, h / its bound), rounded up.
LENGTH = up(math.sqrt(2.0), 2)


def contributions(z: Array, codes: NDArray[np.int64], t: float) -> Array:
    """Each record's (g, h) at t over their bounds, shape (records, 2)."""
    centred = z - z.mean(axis=1, keepdims=True)
    centred *= np.minimum(1.0, _LENGTH / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-300))
    shares = special.softmax(t * centred, axis=1)
    mean = (shares * centred).sum(axis=1)
    slope = mean - centred[np.arange(len(codes)), codes]
    curvature = (shares * centred**2).sum(axis=1) - mean**2
    return np.stack([np.clip(slope / _STEEPEST, -1.0, 1.0), np.clip(curvature / _CURVED, 0.0, 1.0)], axis=1)


def temperature(z: Array, codes: NDArray[np.int64], noised_mean: Callable[[Array, int], Array]) -> float:
    """The factor of the scores; `noised_mean` answers each round with the noised mean of contributions."""
    t = 1.0
    for k in range(ROUNDS):
        slope, curvature = noised_mean(contributions(z, codes, t), k) * np.array([_STEEPEST, _CURVED])
        t = float(np.clip(t - slope / max(curvature, _LEAST_CURVATURE), max(_LEAST, 0.4 * t), min(_LARGEST, 2.0 * t)))
    return t
