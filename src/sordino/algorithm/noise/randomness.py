"""Where random numbers come from, and the one port through which noise meets a statistic."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from sordino.algorithm.noise.exact_sums import Total
from sordino.algorithm.noise.lattice import LatticeNoise, noised_exactly
from sordino.algorithm.noise.rounded_gaussian import CHUNK, rounded_gaussians, rounded_gaussians_of
from sordino.core.validate import InputError, Interval, refuse, whole_number

# The one place where noise meets a statistic of private rows.
#
# A mechanism never adds noise itself: it hands the port of its randomness the exact statistic, the scale of the noise
# and a way to draw the answer, and goes on with what it is given. In a run the answer is the drawn one. Another port
# may write the calls down, or answer them with what an earlier run was answered: that is how `auditing/replay/port.py`
# measures by how much one record moves what this code noises.

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
    """What one call noises: the statistic, in whole numbers of `unit` or as floats, and the scale of its noise.

    `bound` is the longest contribution of a record, where it follows from earlier answers and no spec can say it.
    """

    law: Law
    statistic: NDArray[Any]
    scale: ArrayLike
    unit: float = 1.0
    bound: float | None = None


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


def gaussian_call(
    statistic: NDArray[Any], scale: ArrayLike, unit: float = 1.0, bound: float | None = None
) -> NoisedCall:
    """A call with Gaussian noise of this standard deviation, one for every entry or one for all."""
    return NoisedCall(Law.GAUSSIAN, np.asarray(statistic), scale, unit, bound)


# The kind of a generator, its key, and how it works: the same from the first draw to the last.
_FIXED = frozenset({"bit_generator", "keysetup", "rounds", "inc"})


def generator_text(generator: np.random.Generator) -> str:
    """The generator's state; equal texts mean equal draws to come."""
    return state_text(generator.bit_generator.state)


def state_text(state: Any) -> str:
    """The text of a state that was taken earlier from `generator.bit_generator.state`."""
    return json.dumps(state, default=_plain, sort_keys=True)


def set_generator(generator: np.random.Generator, text: str) -> None:
    """Put a generator of the same kind and key into the state that `text` describes; `ValueError` for another."""
    found, present = json.loads(text, object_hook=_arrays), generator.bit_generator.state
    if not _alike(found, present):
        raise ValueError("not a state of this generator")
    generator.bit_generator.state = found


def _alike(found: Any, present: Any, name: str = "") -> bool:
    """Whether a state has the form of the present one, and the same in it that a stream never changes."""
    if isinstance(present, dict):
        if not isinstance(found, dict) or found.keys() != present.keys():
            return False
        return all(_alike(found[key], present[key], key) for key in present)
    if isinstance(present, np.ndarray):
        of_form = isinstance(found, np.ndarray) and (found.dtype, found.shape) == (present.dtype, present.shape)
        return of_form and (name not in _FIXED or np.array_equal(found, present))
    if isinstance(found, bool) or not isinstance(found, int if isinstance(present, int) else type(present)):
        return False
    return found == present if name in _FIXED else not isinstance(found, int) or 0 <= found < 2**128


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item()


def _arrays(value: dict[str, Any]) -> Any:
    return np.array(value["values"], value["dtype"]) if set(value) == {"dtype", "values"} else value


# Where a run's randomness comes from: one small interface, so that a secure source can take the place of a seed.
#
# Gaussian noise is asked for in blocks of steps, by step number, and lands on the device; batches, mixing scales and
# the noise of a released average are drawn on the host. Nothing in a run draws random numbers any other way.

_SEEDS = Interval(0, 2**128 - 1)
STEPS = Interval(0, 2**32)
_GROUP = CHUNK // 2  # draws of one generator
_PIECES = 16  # generators that one thread works on at once
Whole = NDArray[np.int64]
_ON_DEVICE = (0, 0, 0)  # longer than the number of a group and a piece: a stream of its own


def usable_cores() -> int:
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


class _Forks:
    """How many forks lie between this process and the first one."""

    number = 0

    @classmethod
    def add(cls) -> None:
        cls.number += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forks.add)


def this_process() -> tuple[int, int]:
    """Tells a process from its forks: by its number, and by a count should a fork be given the number of an ancestor.

    A fork that Python did not make is told by its number alone.
    """
    return os.getpid(), _Forks.number


class OneProcess:
    """What serves the process that made it and no other, once: not a fork of it, not a copy, not what a pickle holds.

    Both sides of a fork have the same state, so they would draw the same noise, and noise on two releases cancels in
    their difference.
    """

    _made_in: tuple[int, int]

    def __new__(cls, *_: Any, **__: Any) -> Any:
        made = super().__new__(cls)
        made._made_in = this_process()
        return made

    def check_process(self) -> None:
        """Refuse to go on in a fork."""
        if object.__getattribute__(self, "_made_in") != this_process():
            raise InputError(
                f"Expected {type(self).__name__} in the process that made it, got a fork of it, which would draw the "
                "same noise; make a new one there."
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InputError(
            f"Expected {type(self).__name__} to stay in one process, got an attempt to copy or pickle it; make a new "
            "one."
        )

    def __reduce__(self) -> NoReturn:
        self.__reduce_ex__(2)

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(2)


class Randomness(ABC):
    """A source of independent streams, one for each purpose.

    A source answers the same way however a run is cut into blocks: the Gaussians of a step depend on the step's number
    alone, and a generator is drawn from in order. What is drawn as noise meets statistics in its `port`.
    """

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

    @property
    def draws_exactly(self) -> bool:
        """Whether whole-number Gaussians come from this source; otherwise a run has Gaussians in floating point."""
        return False

    def whole_gaussians(
        self, purpose: Purpose, first: int, steps: int, scales: NDArray[np.float64], size: int
    ) -> Whole:
        """Whole-number Gaussians of steps `first`, ..., `first + steps - 1`: an array of shape (steps, size).

        `scales` are those of *all* steps of the run, from the first one on; a step behind the last has the last one's.
        Groups of steps share a generator and are always drawn as a whole, so a run may be cut into blocks anywhere, and
        no bits that were used for one step are ever used for another.
        """
        # Groups of steps, and pieces of them, have generators of their own: pieces are drawn on several cores.
        together = max(1, _GROUP // size)
        groups = range(first // together, -(-(first + steps) // together))
        pieces = [(group, piece) for group in groups for piece in range(-(-together * size // _GROUP))]
        numbers = np.arange(groups.start * together, groups.stop * together)
        padded = scales[np.minimum(numbers, len(scales) - 1)]
        skipped = first - groups.start * together

        def drawn(asked: list[tuple[int, int]]) -> Whole:
            generators = [self._of_group(purpose, *one) for one in asked]
            sizes = [min(_GROUP, together * size - piece * _GROUP) for _, piece in asked]
            if alike:
                return rounded_gaussians_of(generators, sizes, float(padded[0]))
            found = []
            for (group, piece), generator, entries in zip(asked, generators, sizes, strict=True):
                start = (group - groups.start) * together
                each = np.repeat(padded[start : start + together], size)[piece * _GROUP :][:entries]
                one = bool((each == each[0]).all())
                found.append(rounded_gaussians(generator, entries, each[0] if one else each))
            return np.concatenate(found)

        alike, cores = bool((padded == padded[0]).all()), usable_cores()
        # Several pieces to a job, as long as every core has one.
        jobs = max(1, min(_PIECES, len(pieces) // cores))
        asked = [pieces[begin : begin + jobs] for begin in range(0, len(pieces), jobs)]
        if len(asked) == 1:
            found = [drawn(asked[0])]
        else:
            with ThreadPoolExecutor(min(len(asked), cores)) as pool:
                found = list(pool.map(drawn, asked))
        return np.concatenate(found).reshape(-1, size)[skipped : skipped + steps]

    def _of_group(self, purpose: Purpose, group: int, piece: int) -> np.random.Generator:
        """The generator of a piece of a group of steps, each used for nothing else."""
        raise refuse("randomness", "that draws whole numbers", self)

    def device_words(
        self, purpose: Purpose, first: int, steps: int
    ) -> tuple[NDArray[np.uint32], Callable[[int], np.random.Generator]]:
        """Eight words of a key for whole-number Gaussians on the device, and bits for what a step leaves open there.

        Steps `first`, ..., `first + steps - 1` are given once, as with `whole_gaussians`.
        """
        raise refuse("randomness", "that draws whole numbers on a device", self)

    def held(self) -> dict[str, Any]:
        """What a checkpoint has to hold for the run to go on with the same draws: plain values, secrets included."""
        raise refuse("randomness", "that a checkpoint can hold", self, "run without a checkpoint")

    def resumed(self, held: Mapping[str, Any]) -> "Randomness":
        """A source that goes on as the one that gave `held`; refused if this one is of another kind or seed."""
        raise refuse("randomness", "that a checkpoint can hold", self, "run without a checkpoint")


@dataclass(frozen=True)
class SeededRandomness(Randomness):
    """Reproducible streams from a seed, for research and tests: the same seed gives the same run, bit for bit.

    Whoever knows the seed can subtract the noise, so a release that is to be private needs a secret seed.
    """

    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole_number("seed", self.seed, _SEEDS))

    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        # A step number that wrapped round would use noise twice.
        whole_number("the last step", first + steps, STEPS)
        words = self._sequence(purpose).generate_state(2, np.uint32)
        return _gaussians(words, np.uint32(first), steps, shape, jnp.dtype(dtype))

    def generator(self, purpose: Purpose) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64DXSM(self._sequence(purpose)))

    def held(self) -> dict[str, Any]:
        return {"kind": "seeded", "seed": self.seed}

    def resumed(self, held: Mapping[str, Any]) -> "SeededRandomness":
        if held != self.held():
            raise InputError("Expected the randomness the checkpoint was made with, got another; give the same seed.")
        return self

    @property
    def draws_exactly(self) -> bool:
        return True

    def _of_group(self, purpose: Purpose, group: int, piece: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64DXSM(self._sequence(purpose, group, piece)))

    def device_words(
        self, purpose: Purpose, first: int, steps: int
    ) -> tuple[NDArray[np.uint32], Callable[[int], np.random.Generator]]:
        whole_number("the last step", first + steps, STEPS)

        def more(step: int) -> np.random.Generator:
            return np.random.Generator(np.random.PCG64DXSM(self._sequence(purpose, *_ON_DEVICE, step)))

        return self._sequence(purpose, *_ON_DEVICE).generate_state(8).astype(np.uint32), more

    def _sequence(self, purpose: Purpose, *part: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.seed, spawn_key=(int(purpose), *part))


@partial(jax.jit, static_argnums=(2, 3, 4))
def _gaussians(words: Array, first: Array, steps: int, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    key = jax.random.wrap_key_data(words)
    numbers = first + jnp.arange(steps, dtype=jnp.uint32)
    return jax.vmap(lambda number: jax.random.normal(jax.random.fold_in(key, number), shape, dtype))(numbers)
