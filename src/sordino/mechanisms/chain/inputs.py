"""The inputs of the kernel, one block of steps after another: schedules, noise, batches, and the first points.

Every supported law of noise is a Gaussian of fixed or random scale, so the kernel knows one kind of noise. Chains start
from a public point or a Gaussian draw, never from anything computed from data.
"""

from typing import Any

import jax
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
from sordino.noise.lattice import Lattice
from sordino.noise.randomness import Purpose, Randomness

_SMALLEST = 2.0**-54  # half the resolution of a uniform draw, so that zero is never met


def mixing_scale(draws: Any, alpha: float, numbers: Any) -> Any:
    """For each pair of uniform draws in [0, 1) an s such that s N(0, I) is stable, of law exp(-|u|^alpha), alpha > 1.

    `numbers` is NumPy, or JAX's in double precision.
    """
    # Given s the characteristic function is exp(-s^2 |u|^2 / 2), so s^2 / 2 has to be positive stable of index alpha /
    # 2, with Laplace transform exp(-t^(alpha / 2)) at t = |u|^2. Its sampler is the representation of Kanter (1975,
    # Section 4), the positive case of Chambers, Mallows and Stuck (1976). At alpha = 2 the law is N(0, 2I).
    # The scale is drawn in double precision: its heavy tail comes from small exponentials, which single precision would
    # make coarse.
    if alpha == 2.0:
        return numbers.full(draws.shape[:-1], np.sqrt(2.0))
    index = alpha / 2.0
    angle = np.pi * numbers.maximum(draws[..., 0], _SMALLEST)
    exponential = numbers.maximum(-numbers.log1p(-draws[..., 1]), _SMALLEST)
    turned = numbers.sin(index * angle) / numbers.sin(angle) ** (1.0 / index)
    positive = turned * (numbers.sin((1.0 - index) * angle) / exponential) ** ((1.0 - index) / index)
    return numbers.sqrt(2.0 * positive)


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
        self._mixing = randomness.generator(Purpose.MIXING)
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
        # One array of draws, in order, so that longer blocks continue shorter ones.
        return tau * mixing_scale(self._mixing.random((length, self._chain.chains, 2)), noise.alpha, np)

    def _noise(self, first: int, length: int) -> Any:
        """On the lattice of the sums where they have one, otherwise standard Gaussians in floating point."""
        if self.lattice is None:
            return -self._randomness.gaussians(Purpose.NOISE, first, length, self._shape, self._dtype)
        scales = self.lattice.in_spacings(self._scales)
        drawn = self._randomness.whole_gaussians(Purpose.NOISE, first, length, scales, self._shape[0] * self._shape[1])
        return jax.tree.map(jnp.asarray, self.lattice.halves(drawn.reshape(length, *self._shape)))


def _part(values: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
    return np.pad(values[first : first + length], (0, max(0, first + length - len(values))))
