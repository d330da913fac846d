"""Sources of random numbers, with a stream for every purpose, and the port through which a source adds noise."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import partial
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from sordino.core.validate import InputError, Interval, Json, refuse, whole_number
from sordino.noise.lattice import LatticeNoise, Total, noised_exactly
from sordino.noise.rounded_gaussian import CHUNK, rounded_gaussians

_SEEDS = Interval(0, 2**128 - 1)
STEPS = Interval(0, 2**32)
_GROUP = CHUNK // 2  # draws of one generator
Whole = NDArray[np.int64]
DeviceWords = tuple[NDArray[np.uint32], Callable[[int], np.random.Generator]]
_ON_DEVICE = (0, 0, 0)  # longer than the number of a group and a piece: a stream of its own


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Purpose(IntEnum):
    """What random numbers are for; every purpose has a stream of its own, so that none shifts another."""

    NOISE = 0
    MIXING = 1
    BATCHES = 2
    START = 3
    AVERAGE = 4
    DRAWS = 5


_forks: list[None] = []  # one for every fork that lies between this process and the first one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _forks.append(None))


def this_process() -> tuple[int, int]:
    """Tells a process from its forks: by its number, and by a count should a fork be given an ancestor's."""
    return os.getpid(), len(_forks)


class OneProcess:
    """What serves the process that made it: no fork, copy or pickle, whose noise would cancel in a difference."""

    _made_in: tuple[int, int]

    def __new__(cls, *_: Any, **__: Any) -> Any:
        made = super().__new__(cls)
        made._made_in = this_process()
        return made

    def check_process(self) -> None:
        """Refuse to go on in a fork."""
        if object.__getattribute__(self, "_made_in") != this_process():
            raise InputError(
                f"{type(self).__name__} belongs to the process that made it. A fork would draw the same noise; "
                "make a new one there."
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InputError(
            f"{type(self).__name__} must stay in one process: it cannot be copied or pickled. Make a new one."
        )

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(2)

    __reduce__ = __getstate__


# A noised call, and who answers it: a mechanism hands the port the exact statistic, the scale and a way to draw.

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

    def added(self, total: Total, scale: Array, drawn: Array | LatticeNoise) -> Array:
        """The same for a sum inside a compiled kernel, where noise on its lattice, or standard Gaussians, was drawn."""
        if isinstance(drawn, LatticeNoise):
            return noised_exactly(*total, drawn)
        return total.noised(scale * drawn)


ADDED = NoisePort()


class Randomness(ABC):
    """A source of independent streams, one for each purpose; noise meets statistics in its `port`.

    A run may be cut into blocks anywhere: the Gaussians of a step depend on the step's number alone.
    """

    # Whether whole-number Gaussians come from this source; otherwise a run has Gaussians in floating point.
    draws_exactly: ClassVar[bool] = False

    @property
    def port(self) -> NoisePort:
        """Where the noise of a run is added to the statistics of its rows."""
        return ADDED

    @abstractmethod
    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Standard Gaussians of steps `first`, ..., `first + steps - 1`: an array of shape (steps, *shape)."""

    @abstractmethod
    def generator(self, purpose: Purpose) -> np.random.Generator:
        """A NumPy generator at the beginning of the purpose's stream."""

    def whole_gaussians(
        self, purpose: Purpose, first: int, steps: int, scales: NDArray[np.float64], size: int
    ) -> Whole:
        """Whole-number Gaussians of steps `first`, ..., `first + steps - 1`: an array of shape (steps, size).

        `scales` are those of *all* steps of the run. Groups of steps are always drawn as a whole.
        """
        # Groups of steps, and pieces of them, have generators of their own: pieces are drawn on several cores.
        together = max(1, _GROUP // size)
        groups = range(first // together, -(-(first + steps) // together))
        pieces = [(group, piece) for group in groups for piece in range(-(-together * size // _GROUP))]
        numbers = np.arange(groups.start * together, groups.stop * together)
        padded = scales[np.minimum(numbers, len(scales) - 1)]
        skipped = first - groups.start * together

        def drawn(piece: tuple[int, int]) -> Whole:
            start = (piece[0] - groups.start) * together
            entries, each = min(_GROUP, together * size - piece[1] * _GROUP), padded[start : start + together]
            if (each == each[0]).all():
                return rounded_gaussians(self._of_group(purpose, *piece), entries, each[0])
            each = np.repeat(each, size)[piece[1] * _GROUP :][:entries]
            return rounded_gaussians(self._of_group(purpose, *piece), entries, each)

        with ThreadPoolExecutor(min(len(pieces), cores())) as pool:
            found = np.concatenate(list(pool.map(drawn, pieces)))
        return found.reshape(-1, size)[skipped : skipped + steps]

    def _of_group(self, purpose: Purpose, *part: int) -> np.random.Generator:
        """The generator of a piece of a group of steps, each used for nothing else."""
        raise refuse("randomness", "that draws whole numbers", self)

    def device_words(self, purpose: Purpose, first: int, steps: int) -> DeviceWords:
        """A key's eight words for Gaussians on the device, given once, and bits for what a step leaves open."""
        raise refuse("randomness", "that draws whole numbers on a device", self)

    def held(self) -> Json:
        """What a checkpoint must contain to resume with the same draws: plain values, secrets included."""
        raise refuse("randomness", "that a checkpoint can hold", self, "run without a checkpoint")

    def resumed(self, held: Mapping[str, Any]) -> "Randomness":
        """A source that continues the one that gave `held`; refused if this one has a different kind or seed."""
        raise refuse("randomness", "that a checkpoint can hold", self, "run without a checkpoint")


@dataclass(frozen=True)
class SeededRandomness(Randomness):
    """Reproducible streams from a seed, for research and tests: who knows the seed can subtract the noise."""

    draws_exactly: ClassVar[bool] = True

    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole_number("seed", self.seed, _SEEDS))

    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        # A step number that wrapped round would use noise twice.
        whole_number("the last step", first + steps, STEPS)
        words = self._sequence(purpose).generate_state(2, np.uint32)
        return _gaussians(words, np.uint32(first), steps, shape, jnp.dtype(dtype))

    def generator(self, purpose: Purpose) -> np.random.Generator:
        return self._of_group(purpose)

    def held(self) -> Json:
        return {"kind": "seeded", "seed": self.seed}

    def resumed(self, held: Mapping[str, Any]) -> "SeededRandomness":
        if held != self.held():
            raise InputError("The checkpoint was made with different randomness; give the same seed.")
        return self

    def _of_group(self, purpose: Purpose, *part: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64DXSM(self._sequence(purpose, *part)))

    def device_words(self, purpose: Purpose, first: int, steps: int) -> DeviceWords:
        whole_number("the last step", first + steps, STEPS)
        words = self._sequence(purpose, *_ON_DEVICE).generate_state(8).astype(np.uint32)
        return words, lambda step: self._of_group(purpose, *_ON_DEVICE, step)

    def _sequence(self, purpose: Purpose, *part: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(int(purpose), *part))


@partial(jax.jit, static_argnums=(2, 3, 4))
def _gaussians(words: Array, first: Array, steps: int, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    key = jax.random.wrap_key_data(words)
    numbers = first + jnp.arange(steps, dtype=jnp.uint32)
    return jax.vmap(lambda number: jax.random.normal(jax.random.fold_in(key, number), shape, dtype))(numbers)
