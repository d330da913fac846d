"""The inputs of the kernel, one block of steps after another: schedules, noise, batches, slots, and the first points.

Every supported law of noise is a Gaussian of fixed or random scale, so the kernel knows one kind of noise; a new law
registers how its scales are drawn. Chains start from a public point or a Gaussian draw, never from anything computed
from data.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import NDArray

from sordino.algorithm.chain.batches import BatchBlock, Batches, BatchState
from sordino.algorithm.chain.claims import sum_noise
from sordino.algorithm.chain.kernel import StepBlock
from sordino.algorithm.noise.randomness import Purpose, Randomness, generator_text, set_generator
from sordino.core.spec import GaussianNoise, GaussianStart, Noise, NoisyGradient, PointStart, Spec, StableNoise, Start


@dataclass(frozen=True)
class KeptSlots:
    """The kept iterates of a run, counted from 1, block by block.

    A block's buffer has one slot for every iterate it may keep, plus one that is written over by all the others.
    """

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
    """Draw s such that s * N(0, I) is stable with characteristic function exp(-|u|^alpha), 1 < alpha <= 2.

    Given s the characteristic function is exp(-s^2 |u|^2 / 2), so s^2 / 2 has to be positive stable of index
    alpha / 2, with Laplace transform exp(-t^(alpha / 2)) at t = |u|^2. Its sampler is the representation of
    Kanter (1975, Section 4), the positive case of Chambers, Mallows and Stuck (1976). At alpha = 2 the law is N(0, 2I).

    The scale is drawn in double precision: its heavy tail comes from small exponentials, which single precision would
    make coarse.
    """
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


class StartLaw(ABC):
    """How one kind of start becomes the chains' first points."""

    @abstractmethod
    def points(self, start: Any, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
        """The first points, shape (chains, dim)."""


_START_LAWS: dict[type[Start], StartLaw] = {}


def start_law(start: type[Start]) -> Callable[[type[StartLaw]], type[StartLaw]]:
    """Class decorator: draw the first points of a start section with this law."""

    def registered(drawn: type[StartLaw]) -> type[StartLaw]:
        _START_LAWS[start] = drawn()
        return drawn

    return registered


def first_points(start: Start, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
    """The point each chain starts from, shape (chains, dim)."""
    return _START_LAWS[type(start)].points(start, randomness, shape, dtype)


@start_law(PointStart)
class _Point(StartLaw):
    def points(self, start: PointStart, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
        return jnp.broadcast_to(jnp.asarray(0.0 if start.values is None else start.values, dtype), shape)


@start_law(GaussianStart)
class _GaussianStart(StartLaw):
    def points(self, start: GaussianStart, randomness: Randomness, shape: tuple[int, int], dtype: DTypeLike) -> Array:
        return jnp.asarray(start.scale, dtype) * randomness.gaussians(Purpose.START, 0, 1, shape, dtype)[0]


class Fed(NamedTuple):
    """A block's inputs, how many iterates it keeps, and its batches on the host."""

    block: StepBlock
    kept: int
    batches: BatchBlock | None


class FeedState(NamedTuple):
    """Where a feed is: the next step, the generator of random scales, and the stream of batches."""

    step: int
    mixing: str
    batches: BatchState | None


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
    ) -> None:
        self._algorithm, self._batches, self._slots, self._randomness = algorithm, batches, slots, randomness
        self._shape, self._dtype = (algorithm.chains, spec.dim), dtype
        self._step_sizes = algorithm.step_size.values(algorithm.steps)
        self._sum_noise = sum_noise(algorithm, spec.n)
        self._mixing = randomness.generator(Purpose.MIXING)
        self.step = 0

    def __iter__(self) -> Iterator[Fed]:
        while self.step < self._algorithm.steps:
            yield self._next()

    def state(self) -> FeedState:
        """What the blocks to come depend on, besides the spec and the randomness."""
        return FeedState(
            self.step, generator_text(self._mixing), None if self._batches is None else self._batches.state()
        )

    def restore(self, state: FeedState) -> None:
        """Go on as the feed that gave `state`; `ValueError` for one that cannot have."""
        if (self._batches is None) != (state.batches is None):
            raise ValueError("batches of another scheme")
        set_generator(self._mixing, state.mixing)
        if self._batches is not None and state.batches is not None:
            self._batches.restore(state.batches, state.step)
        self.step = state.step

    def _next(self) -> Fed:
        first, length, algorithm = self.step, self._slots.block, self._algorithm
        scales = draw_scales(algorithm.noise, self._mixing, _part(self._sum_noise, first, length), algorithm.chains)
        placed, kept = self._slots.of_block(first)
        batches = None if self._batches is None else self._batches.take(length)
        block = StepBlock(
            jnp.asarray(min(length, algorithm.steps - first), jnp.int32),
            jnp.asarray(_part(self._step_sizes, first, length), float),
            jnp.asarray(scales, float),
            self._randomness.gaussians(Purpose.NOISE, first, length, self._shape, self._dtype),
            jnp.asarray(placed),
            *map(jnp.asarray, _no_batches(length) if batches is None else batches),
        )
        self.step = min(first + length, algorithm.steps)
        return Fed(block, kept, batches)


def _part(values: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
    part = np.zeros(length)
    given = values[first : first + length]
    part[: len(given)] = given
    return part


def _no_batches(length: int) -> BatchBlock:
    return BatchBlock(np.zeros(1, np.int32), np.zeros((length, 1), np.int32), np.zeros((length, 1), np.int32))
