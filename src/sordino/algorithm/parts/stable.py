"""Rotation-invariant stable vectors as Gaussian vectors of random scale."""

import numpy as np
from numpy.typing import NDArray

_SMALLEST = 2.0**-54  # half the resolution of a uniform draw, so that zero is never met


def mixing_scales(generator: np.random.Generator, alpha: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw s such that s * N(0, I) is stable with characteristic function exp(-|u|^alpha), 1 < alpha <= 2.

    Given s the characteristic function is exp(-s^2 |u|^2 / 2), so s^2 / 2 has to be positive stable of index
    alpha / 2, with Laplace transform exp(-t^(alpha / 2)) at t = |u|^2. Its sampler is the representation of
    Kanter (1975, Section 4), the positive case of Chambers, Mallows and Stuck (1976). At alpha = 2 the law is N(0, 2I).

    The scale is drawn in double precision: its heavy tail comes from small exponentials, which single precision would
    make coarse.
    """
    draws = generator.random((*shape, 2))  # one array, in order, so that longer blocks continue shorter ones
    if alpha == 2.0:
        return np.full(shape, np.sqrt(2.0))
    index = alpha / 2.0
    angle = np.pi * np.maximum(draws[..., 0], _SMALLEST)
    exponential = np.maximum(-np.log1p(-draws[..., 1]), _SMALLEST)
    power = (1.0 - index) / index
    positive = (
        np.sin(index * angle) / np.sin(angle) ** (1.0 / index) * (np.sin((1.0 - index) * angle) / exponential) ** power
    )
    return np.sqrt(2.0 * positive)
