"""Whole-number Gaussians of Sordino from a secure source."""

import noise_task
import numpy as np

from sordino.mechanisms import Purpose, SecureRandomness


def draw(scale: float, size: int) -> object:
    return SecureRandomness().whole_gaussians(Purpose.NOISE, 0, 32, np.full(1, scale), size // 32)


if __name__ == "__main__":
    noise_task.report(draw, 2**21, {})
