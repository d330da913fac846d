"""How much of the noise, and of the start's error, is left in the average of the last points.

Along an eigenvector of the mean loss's curvature with value a, a round moves the error by delta <- delta - p (a delta +
e) with a public pace p and noise e of known size. Both answers are sums over rounds; momentum is left out, which
shifts noise between neighbouring rounds and hardly changes what an average holds of it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class NoiseLeft(NamedTuple):
    """For each eigenvalue: the variance of the noise in the averaged point, and the share of the start's error."""

    variance: Array
    start_share: Array


def noise_left(eigenvalues: Array, paces: Array, noise: float, averaged: int) -> NoiseLeft:
    """Follow the two linear recursions; a pace that would overshoot is taken as one that lands on the optimum."""
    shares = np.ones_like(eigenvalues)
    variance, with_sum, of_sum, summed = (np.zeros_like(eigenvalues) for _ in range(4))
    for k, pace in enumerate(paces):
        kept = 1.0 - np.minimum(pace * eigenvalues, 1.0)
        step = np.where(pace * eigenvalues > 1.0, 1.0 / np.maximum(eigenvalues, 1e-300), pace)
        shares = shares * kept
        variance = kept * kept * variance + (step * noise) ** 2
        with_sum = kept * with_sum
        if k >= len(paces) - averaged:
            of_sum = of_sum + 2.0 * with_sum + variance
            with_sum = with_sum + variance
            summed = summed + shares
    return NoiseLeft(of_sum / averaged**2, summed / averaged)
