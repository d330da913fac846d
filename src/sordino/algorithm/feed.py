"""The inputs of the kernel, one block of steps after another: schedules, noise, batches, slots."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.kernel import StepBlock
from sordino.algorithm.parts.batches import BatchBlock, Batches
from sordino.algorithm.parts.keep import KeptSlots
from sordino.algorithm.parts.noise import draw_scales
from sordino.algorithm.randomness import Purpose, Randomness
from sordino.core.spec import NoisyGradient


class Fed(NamedTuple):
    """A block's inputs, and how many iterates it keeps."""

    block: StepBlock
    kept: int


def feed(
    algorithm: NoisyGradient, dim: int, batches: Batches | None, slots: KeptSlots, randomness: Randomness, dtype: Any
) -> Iterator[Fed]:
    """The blocks of a run in order. All have the same shapes; of the last one only the first steps are made."""
    steps, length = algorithm.steps, slots.block
    step_sizes, tau = algorithm.step_size.values(steps), algorithm.noise.scale.values(steps)
    mixing = randomness.generator(Purpose.MIXING)
    for first in range(0, steps, length):
        scales = draw_scales(algorithm.noise, mixing, _part(tau, first, length), algorithm.chains)
        placed, kept = slots.of_block(first)
        block = StepBlock(
            jnp.asarray(min(length, steps - first), jnp.int32),
            jnp.asarray(_part(step_sizes, first, length), dtype),
            jnp.asarray(scales, dtype),
            randomness.gaussians(Purpose.NOISE, first, length, (algorithm.chains, dim), dtype),
            jnp.asarray(placed),
            *map(jnp.asarray, _no_batches(length) if batches is None else batches.take(length)),
        )
        yield Fed(block, kept)


def _part(values: NDArray[np.float64], first: int, length: int) -> NDArray[np.float64]:
    part = np.zeros(length)
    given = values[first : first + length]
    part[: len(given)] = given
    return part


def _no_batches(length: int) -> BatchBlock:
    return BatchBlock(np.zeros(1, np.int32), np.zeros((length, 1), np.int32), np.zeros((length, 1), np.int32))
