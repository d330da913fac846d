"""The inputs of the kernel, one block of steps after another: schedules, noise, batches, and the first points.

Every supported law of noise is a Gaussian of fixed or random scale, so the kernel knows one kind of noise. Chains start
from a public point or a Gaussian draw, never from anything computed from data.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import NDArray

from sordino.core.spec import GaussianStart, PointStart, StableNoise, Start
from sordino.core.validate import instance_of, refuse
from sordino.mechanisms.chain.batches import Batches, described_batches
from sordino.mechanisms.chain.claims import ChainPlan
from sordino.mechanisms.chain.kernel import StepBlock, StepInputs
from sordino.noise.kernel_noise import StableScales, floating_noise, lattice_noise
from sordino.noise.lattice import Lattice
from sordino.noise.randomness import Purpose, Randomness


def first_points(start: Start, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
    """The point each chain starts from, shape (chains, dim)."""
    if isinstance(start, GaussianStart):
        return jnp.asarray(start.scale, dtype) * randomness.gaussians(Purpose.START, 0, 1, shape, dtype)[0]
    values = instance_of("algorithm.start", start, PointStart).values
    return jnp.broadcast_to(jnp.asarray(0.0 if values is None else values, dtype), shape)


class Feed:
    """The inputs of a run on so many rows; blocks are asked for in order."""

    def __init__(self, plan: ChainPlan, rows: int, randomness: Randomness, dtype: Any) -> None:
        chain, self._randomness, self._dtype = plan.chain, randomness, dtype
        self._chain, self._shape = chain, (chain.chains, plan.spec.dim)
        self.lattice: Lattice | None = plan.lattice if randomness.draws_exactly else None
        if chain.rounding is not None and self.lattice is None:
            raise refuse("algorithm.rounding", "to be absent where gradients have no bound", chain.rounding)
        # Hidden iterates have the noise themselves, others the sums that they are made of.
        self._scales = plan.sum_noise if chain.rounding is None else chain.noise.scale.values(chain.steps)
        self._step_sizes = chain.step_size.values(chain.steps)
        self._stable = StableScales(randomness)
        drawn = randomness.generator(Purpose.BATCHES)
        self.batches: Batches | None = described_batches(
            chain.batch, plan.spec.n, rows, chain.steps, drawn, chain.chains
        )

    def block(self, first: int, length: int) -> StepBlock:
        """The inputs of `length` steps from `first` on; behind the last step of the run they are zeros."""
        none = np.zeros((length, 1), np.int32)
        drawn = (none[0], none, none) if self.batches is None else self.batches.take(length)
        inputs = StepInputs(
            jnp.asarray(_part(self._step_sizes, first, length), float),
            jnp.asarray(self._noise_scales(first, length), float),
            self._noise(first, length),
        )
        made = jnp.asarray(min(length, self._chain.steps - first), jnp.int32)
        return StepBlock(made, inputs, *map(jnp.asarray, drawn))

    def skip(self, steps: int, length: int) -> None:
        """Go on behind so many steps, whose draws are made again, a block at a time, and left."""
        if self.batches is not None:
            self.batches.skip(steps, length)
        for first in range(0, steps, length):
            self._noise_scales(first, length)

    def _noise_scales(self, first: int, length: int) -> NDArray[np.float64]:
        """The scale of the noise of every step and chain of a block, random where noise is stable."""
        noise, tau = self._chain.noise, _part(self._scales, first, length)[:, None]
        if not isinstance(noise, StableNoise):
            return np.broadcast_to(tau, (length, self._chain.chains))
        return tau * self._stable.take(length, self._chain.chains, noise.alpha)

    def _noise(self, first: int, length: int) -> Any:
        """On the lattice of the sums where they have one, otherwise standard Gaussians in floating point."""
        shape = (length, *self._shape)
        if self.lattice is None:
            return -floating_noise(self._randomness, first, shape, self._dtype)
        return lattice_noise(self._randomness, self.lattice, self._scales, first, shape)


def _part(values: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
    return np.pad(values[first : first + length], (0, max(0, first + length - len(values))))
