"""Exact privacy curves of one-dimensional stable noise: the density by Fourier inversion, steps by convolution."""

import math
from functools import lru_cache

import numpy as np

SPACING, POINTS = 0.01, 2**20
_REACH = 2500.0  # beyond it nothing is counted, which makes the curve smaller
_LOSS_SPACING = 2e-4


@lru_cache(maxsize=4)
def density(alpha: float) -> np.ndarray:
    """f on the grid -REACH, ..., REACH; a Fourier series, so with a period of 10,486, which adds less than 1e-8."""
    frequencies = 2 * math.pi * np.fft.rfftfreq(POINTS, SPACING)
    values = np.fft.irfft(np.exp(-(frequencies**alpha)), POINTS) / SPACING
    half = round(_REACH / SPACING)
    return np.concatenate([values[-half:], values[: half + 1]])


def moved(alpha: float, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Masses of the law moved by `shift` grid points, and of the law itself, where both are known."""
    law = density(alpha) * SPACING
    return law[: len(law) - shift], law[shift:]


def one_step(alpha: float, shift: int, epsilons: np.ndarray) -> np.ndarray:
    """delta(epsilon) of one step that moves by `shift` grid points."""
    first, second = moved(alpha, shift)
    return np.array([np.maximum(first - math.exp(epsilon) * second, 0.0).sum() for epsilon in epsilons])


def many_steps(alpha: float, shift: int, steps: int, epsilons: np.ndarray) -> np.ndarray:
    """A lower bound on delta(epsilon) of `steps` such steps: losses are rounded down before they are added."""
    first, second = moved(alpha, shift)
    places = np.floor(np.log(first / second) / _LOSS_SPACING).astype(int)
    low, size = int(places.min()), int(np.ptp(places)) + 1
    masses = np.bincount(places - low, first, size)
    length = 1 << (steps * size).bit_length()
    composed = np.maximum(np.fft.irfft(np.fft.rfft(masses, length) ** steps, length) - 1e-15, 0.0)
    losses = (np.arange(length) + steps * low) * _LOSS_SPACING
    return np.array([(composed * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum() for epsilon in epsilons])
