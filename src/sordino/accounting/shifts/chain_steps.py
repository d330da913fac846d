"""A chain as the shift theorems see it: contraction, move and noise of every step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.shifts.contraction import Contraction
from sordino.core.rounding import UNIT_ROUNDOFF, down, up
from sordino.core.spec import GaussianNoise, NoisyGradient

Array = NDArray[np.float64]

# A stable law with alpha = 2 and scale sigma is Gaussian with standard deviation sqrt(2) sigma; rounded down.
_STABLE_TO_GAUSSIAN = down(2.0**0.5)
# Smaller ratios are rounded up to this one, as everywhere: its square does not underflow.
_SMALLEST_RATIO = 1e-150


@dataclass(frozen=True)
class Identical:
    """Steps that are all alike: their number, contraction c, ratio kappa = s / tau, and noise tau."""

    count: int
    contraction: float
    ratio: float
    noise: float

    def relative(self, distance: float) -> float:
        """A distance in units of the noise, rounded up."""
        return up(distance / self.noise)


@dataclass(frozen=True)
class Listed:
    """Contraction, move and noise of each step."""

    contractions: Array
    moves: Array
    noises: Array


def chain_steps(chain: NoisyGradient, contraction: Contraction, move: float) -> Identical | Listed:
    """The steps of a chain, each of which moves by at most its step size times `move`."""
    step, scale = chain.step_size.constant, chain.noise.scale.constant
    gaussian = isinstance(chain.noise, GaussianNoise)
    if step is not None and scale is not None:
        noise = scale if gaussian else down(scale * _STABLE_TO_GAUSSIAN)
        return Identical(chain.steps, contraction.at(step), max(up(move * step / noise, 2), _SMALLEST_RATIO), noise)
    sizes, noises = chain.step_size.values(chain.steps), chain.noise.scale.values(chain.steps)
    if not gaussian:
        noises = noises * (_STABLE_TO_GAUSSIAN * (1 - 2 * UNIT_ROUNDOFF))
    moves = np.maximum(move * sizes * (1 + 2 * UNIT_ROUNDOFF), _SMALLEST_RATIO * noises)
    contractions = np.asarray(contraction.over(chain.step_size, chain.steps), dtype=np.float64)
    return Listed(np.broadcast_to(contractions, moves.shape), moves, noises)
