"""The one place where noise meets a statistic of private rows.

A mechanism never adds noise itself: it hands the port of its randomness the exact statistic, the scale of the noise and
a way to draw the answer, and goes on with what it is given. In a run the answer is the drawn one. Another port may
write the calls down, or answer them with what an earlier run was answered: that is how `sordino.audit.replay` measures
by how much one record moves what this code noises.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from sordino.algorithm.exact_sums import Total

Answer = TypeVar("Answer")


class Law(StrEnum):
    """How the answer of a call is distributed around its statistic.

    Gaussian and Laplace noise is independent in every entry. A selection's statistic holds the logarithm of the
    probability of every choice, and its answer is the number of the chosen one.
    """

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"
    SELECTION = "selection"


class NoisedCall(NamedTuple):
    """What one call noises: the statistic, in whole numbers of `unit` or as floats, and the scale of its noise."""

    law: Law
    statistic: NDArray[Any]
    scale: ArrayLike
    unit: float = 1.0


class NoisePort:
    """Answers with the noise that is drawn; two of them are the same only if they are one object."""

    def answer(self, call: NoisedCall, draw: Callable[[], Answer]) -> Answer:
        """The noised statistic; `draw` makes it, and is asked at most once."""
        del call
        return draw()

    def added(self, total: Total, scale: Array, gaussian: Array) -> Array:
        """The same for a sum inside a compiled kernel, where standard Gaussians were drawn before."""
        return total.noised(scale * gaussian)


ADDED = NoisePort()


def gaussian_call(statistic: NDArray[Any], scale: ArrayLike, unit: float = 1.0) -> NoisedCall:
    """A call with Gaussian noise of this standard deviation, one for every entry or one for all."""
    return NoisedCall(Law.GAUSSIAN, np.asarray(statistic), scale, unit)
