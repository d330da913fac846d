"""The inputs of the kernel, one block of steps after another: schedules, noise, batches, slots."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.generator_state import generator_text, set_generator
from sordino.algorithm.kernel import StepBlock
from sordino.algorithm.parts.batches import BatchBlock, Batches, BatchState
from sordino.algorithm.parts.keep import KeptSlots
from sordino.algorithm.parts.noise import draw_scales
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.core.spec import NoisyGradient
from sordino.core.validate import refuse


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
        algorithm: NoisyGradient,
        dim: int,
        batches: Batches | None,
        slots: KeptSlots,
        randomness: Randomness,
        dtype: Any,
        divisor: int,
    ) -> None:
        self._algorithm, self._batches, self._slots, self._randomness = algorithm, batches, slots, randomness
        self._shape, self._dtype = (algorithm.chains, dim), dtype
        self._step_sizes = algorithm.step_size.values(algorithm.steps)
        # Noise on the sum of gradients: the step multiplies the sum by eta / b.
        self._sum_noise = algorithm.noise.scale.values(algorithm.steps) * divisor / self._step_sizes
        if not np.isfinite(self._sum_noise).all():
            raise refuse("noise.scale", "to be finite when divided by step_size over the batch size", "infinity")
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
