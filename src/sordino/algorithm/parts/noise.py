"""The noise of a step: standard Gaussians times a scale for every step and chain.

Every supported law is a Gaussian of fixed or random scale, so the kernel knows one kind of noise. A new law registers
how its scales are drawn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.parts.stable import mixing_scales
from sordino.core.spec import GaussianNoise, Noise, StableNoise

Scales = NDArray[np.float64]


class NoiseLaw(ABC):
    """How the scales of one kind of noise are drawn."""

    @abstractmethod
    def scales(self, noise: Any, generator: np.random.Generator, tau: Scales, chains: int) -> Scales:
        """The scale of the Gaussian of each step and chain, shape (steps, chains), given tau of the steps."""


_LAWS: dict[type[Noise], NoiseLaw] = {}


def law(noise: type[Noise]) -> Callable[[type[NoiseLaw]], type[NoiseLaw]]:
    """Class decorator: draw the scales of a noise section with this law."""

    def registered(drawn: type[NoiseLaw]) -> type[NoiseLaw]:
        _LAWS[noise] = drawn()
        return drawn

    return registered


def draw_scales(noise: Noise, generator: np.random.Generator, tau: Scales, chains: int) -> Scales:
    """The scale of the Gaussian noise of each step and chain, shape (steps, chains)."""
    return _LAWS[type(noise)].scales(noise, generator, tau, chains)


@law(GaussianNoise)
class _Gaussian(NoiseLaw):
    def scales(self, noise: GaussianNoise, generator: np.random.Generator, tau: Scales, chains: int) -> Scales:
        return np.broadcast_to(tau[:, None], (len(tau), chains))


@law(StableNoise)
class _Stable(NoiseLaw):
    def scales(self, noise: StableNoise, generator: np.random.Generator, tau: Scales, chains: int) -> Scales:
        return tau[:, None] * mixing_scales(generator, noise.alpha, (len(tau), chains))
