"""The inputs of the kernel, one block of steps after another: schedules, noise, batches, slots, and the first points.

Every supported law of noise is a Gaussian of fixed or random scale, so the kernel knows one kind of noise. Chains start
from a public point or a Gaussian draw, never from anything computed from data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import NDArray

from sordino.core.spec import GaussianStart, NoisyGradient, PointStart, Spec, StableNoise, Start
from sordino.core.validate import instance_of
from sordino.mechanisms.chain.batches import Batches
from sordino.mechanisms.chain.claims import sum_noise
from sordino.mechanisms.chain.kernel import StepBlock
from sordino.noise.lattice import Lattice
from sordino.noise.randomness import Purpose, Randomness


@dataclass(frozen=True)
class KeptSlots:
    """The kept iterates of a run, counted from 1, block by block."""

    # A block's buffer has one slot for every iterate it may keep, plus one that is written over by all the others.
    kept: range
    block: int

    @property
    def slots(self) -> int:
        """How many iterates one block may keep."""
        return min(-(-self.block // self.kept.step), len(self.kept))

    def of_block(self, first: int) -> tuple[NDArray[np.int32], int]:
        """The slot of each step of the block that begins with step `first`, and how many slots it fills."""
        iterates = first + 1 + np.arange(self.block)
        inside = (iterates >= self.kept.start) & (iterates < self.kept.stop)
        chosen = inside & ((iterates - self.kept.start) % self.kept.step == 0)
        slots = np.where(chosen, np.cumsum(chosen) - 1, self.slots)
        return slots.astype(np.int32), int(chosen.sum())


_SMALLEST = 2.0**-54  # half the resolution of a uniform draw, so that zero is never met


def mixing_scales(generator: np.random.Generator, alpha: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw s such that s * N(0, I) is stable with characteristic function exp(-|u|^alpha), 1 < alpha <= 2."""
    # Given s the characteristic function is exp(-s^2 |u|^2 / 2), so s^2 / 2 has to be positive stable of index alpha /
    # 2, with Laplace transform exp(-t^(alpha / 2)) at t = |u|^2. Its sampler is the representation of Kanter (1975,
    # Section 4), the positive case of Chambers, Mallows and Stuck (1976). At alpha = 2 the law is N(0, 2I).
    # The scale is drawn in double precision: its heavy tail comes from small exponentials, which single precision would
    # make coarse.
    # One array of draws, in order, so that longer blocks continue shorter ones.
    return mixing_scale(generator.random((*shape, 2)), alpha, np)


def mixing_scale(draws: Any, alpha: float, numbers: Any) -> Any:
    """The scale s for each pair of uniform draws in [0, 1); `numbers` is NumPy, or JAX's in double precision."""
    if alpha == 2.0:
        return numbers.full(draws.shape[:-1], np.sqrt(2.0))
    index = alpha / 2.0
    angle = np.pi * numbers.maximum(draws[..., 0], _SMALLEST)
    exponential = numbers.maximum(-numbers.log1p(-draws[..., 1]), _SMALLEST)
    turned = numbers.sin(index * angle) / numbers.sin(angle) ** (1.0 / index)
    positive = turned * (numbers.sin((1.0 - index) * angle) / exponential) ** ((1.0 - index) / index)
    return numbers.sqrt(2.0 * positive)


Scales = NDArray[np.float64]


def first_points(start: Start, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
    """The point each chain starts from, shape (chains, dim)."""
    if isinstance(start, GaussianStart):
        return jnp.asarray(start.scale, dtype) * randomness.gaussians(Purpose.START, 0, 1, shape, dtype)[0]
    values = instance_of("algorithm.start", start, PointStart).values
    return jnp.broadcast_to(jnp.asarray(0.0 if values is None else values, dtype), shape)


class Feed:
    """The blocks of a run in order. All have the same shapes; of the last one only the first steps are made."""

    def __init__(
        self,
        spec: Spec,
        algorithm: NoisyGradient,
        batches: Batches | None,
        slots: KeptSlots,
        randomness: Randomness,
        dtype: Any,
        lattice: Lattice | None = None,
    ) -> None:
        self._algorithm, self._batches, self._slots, self._randomness = algorithm, batches, slots, randomness
        self._shape, self._dtype = (algorithm.chains, spec.dim), dtype
        self._step_sizes = algorithm.step_size.values(algorithm.steps)
        hidden = lattice is not None and algorithm.rounding is not None
        self._noise_scales = algorithm.noise.scale.values(algorithm.steps) if hidden else sum_noise(algorithm, spec.n)
        self._lattice = lattice
        self._mixing = randomness.generator(Purpose.MIXING)
        self.step = 0

    def __iter__(self) -> Iterator[tuple[StepBlock, int]]:
        """Each block's inputs, and how many iterates it keeps."""
        while self.step < self._algorithm.steps:
            yield self._next()

    def skip(self, steps: int) -> None:
        """Go on as a feed that has given so many steps, in whole blocks, whose draws are made again and left."""
        if self._batches is not None:
            self._batches.skip(steps, self._slots.block)
        for first in range(0, steps, self._slots.block):
            self._scales(first)
        self.step = steps

    def _scales(self, first: int) -> Scales:
        """The scale of the noise of every step and chain of a block, random where noise is stable."""
        noise, tau = self._algorithm.noise, _part(self._noise_scales, first, self._slots.block)[:, None]
        shape = (self._slots.block, self._algorithm.chains)
        if isinstance(noise, StableNoise):
            return tau * mixing_scales(self._mixing, noise.alpha, shape)
        return np.broadcast_to(tau, shape)

    def _next(self) -> tuple[StepBlock, int]:
        first, length, algorithm = self.step, self._slots.block, self._algorithm
        placed, kept = self._slots.of_block(first)
        batches, none = None if self._batches is None else self._batches.take(length), np.zeros((length, 1), np.int32)
        block = StepBlock(
            jnp.asarray(min(length, algorithm.steps - first), jnp.int32),
            jnp.asarray(_part(self._step_sizes, first, length), float),
            jnp.asarray(self._scales(first), float),
            self._noise(first, length),
            jnp.asarray(placed),
            *map(jnp.asarray, (none[0], none, none) if batches is None else batches),
        )
        self.step = min(first + length, algorithm.steps)
        return block, kept

    def _noise(self, first: int, length: int) -> Any:
        """On the lattice of the sums where they have one, otherwise standard Gaussians in floating point."""
        if self._lattice is None:
            return self._randomness.gaussians(Purpose.NOISE, first, length, self._shape, self._dtype)
        scales = self._lattice.in_spacings(self._noise_scales)
        drawn = self._randomness.whole_gaussians(Purpose.NOISE, first, length, scales, self._shape[0] * self._shape[1])
        return jax.tree.map(jnp.asarray, self._lattice.halves(drawn.reshape(length, *self._shape)))


def _part(values: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
    return np.pad(values[first : first + length], (0, max(0, first + length - len(values))))
