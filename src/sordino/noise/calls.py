"""One noised call: what is noised, with which scale, and who answers it.

A mechanism hands the port of its randomness the exact statistic, the scale of the noise and a way to draw the answer.
The port of `auditing/replay/port.py` writes calls down, or answers them as an earlier run was answered.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from jax import Array as DeviceArray
from numpy.typing import ArrayLike, NDArray

from sordino.noise.lattice import LatticeNoise, Total, noised_exactly

Answer = TypeVar("Answer")


class Law(StrEnum):
    """How the answer of a call is distributed around its statistic, independently in every entry."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


class NoisedCall(NamedTuple):
    """What one call noises: the statistic, in whole numbers of `unit` or as floats, and the scale of its noise."""

    law: Law
    statistic: NDArray[Any]
    scale: ArrayLike
    unit: float = 1.0
    bound: float | None = None  # the longest contribution, where it follows from earlier answers and no spec can say it
    mu: float | None = None  # of the Gaussian mechanism, where the port computed the scale from a bound that it checked


class NoisePort:
    """Answers with the noise that is drawn; two of them are the same only if they are one object."""

    def answer(self, call: NoisedCall, draw: Callable[[], Answer]) -> Answer:
        """The noised statistic; `draw` makes it, and is asked at most once."""
        del call
        return draw()

    def added(self, total: Total, scale: DeviceArray, drawn: DeviceArray | LatticeNoise) -> DeviceArray:
        """The same for a sum inside a compiled kernel, where noise on its lattice, or standard Gaussians, was drawn."""
        if isinstance(drawn, LatticeNoise):
            return noised_exactly(*total, drawn)
        return total.noised(scale * drawn)


ADDED = NoisePort()
