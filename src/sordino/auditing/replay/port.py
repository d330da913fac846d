"""Replay: measures exactly how far one record moves each noised sum of this code, on two neighbouring tables.

A run on D is recorded: statistic, scale and answer of every call to its noise port. The same code then runs on D' and
is answered with D's answers. Statement: if for all neighbours and all answers the shifts over scales of the Gaussian
calls have squares that add up to at most mu^2, the release is mu-GDP; with Laplace noise l1 shifts over scales add up
to epsilon. Kinds of noise are never mixed into one number. A shift above its plan refutes the *sensitivity* for this
code and pair, and epsilon only where shifts do not depend on answers. Batches are forced to be the same, and the law of
the noise is not tested; stable noise, posterior draws and Propose-Test-Sample cannot be replayed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations, count
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import io_callback
from jax.typing import DTypeLike
from numpy.typing import NDArray

from sordino.core.validate import Interval, whole_number
from sordino.noise.lattice import LatticeNoise, Total, noised_exactly
from sordino.noise.randomness import ADDED, Law, NoisedCall, NoisePort, Purpose, Randomness, SeededRandomness
from sordino.noise.secure import SecureRandomness

Sources = Callable[[], Randomness]
Run = Callable[[Sources], Mapping[str, Any]]
# What is drawn as noise; everything else is public, or a batch, and is the same in both runs.
_NOISE = frozenset({Purpose.NOISE, Purpose.MIXING, Purpose.AVERAGE})


class Seen(NamedTuple):
    """A call and what it was answered."""

    call: NoisedCall
    answer: Any

    @property
    def deviations(self) -> NDArray[np.float64]:
        """The added noise over the scale given to the port: standard normal numbers if the port kept to it."""
        added = np.asarray(self.answer, np.float64) - self.call.unit * self.call.statistic.astype(np.float64)
        return np.ravel(added / np.asarray(self.call.scale, np.float64))


@dataclass(frozen=True, eq=False)
class Recording:
    """The calls of one run in order, what left it, and where it parted from the run it was answered by."""

    seed: int
    calls: tuple[Seen, ...]
    left: Mapping[str, Any]
    faults: tuple[str, ...] = ()

    def deviations(self, law: Law = Law.GAUSSIAN) -> NDArray[np.float64]:
        return np.concatenate([np.zeros(0), *(one.deviations for one in self.calls if one.call.law is law)])


class Recorder(NoisePort):
    """Records runs and replays their answers, drawing noise anew; one object for many runs, as kernels are compiled."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []
        self._forced: tuple[Seen, ...] | None = None
        self._faults: list[str] = []
        self._stretch = 1.0

    def record(self, run: Run, seed: int, stretch: float = 1.0) -> Recording:
        """Run with random numbers from a seed, and write down; noise `stretch` times as large gives unusual answers."""
        whole_number("seed", seed, Interval(0, 2**64 - 1))
        return self._recorded(run, seed, None, _NOISE, stretch)

    def replay(self, recording: Recording, run: Run, anew: frozenset[Purpose] = _NOISE) -> Recording:
        """Run on other rows with the answers of a recording, and write down what was asked."""
        return self._recorded(run, recording.seed, recording.calls, anew, 1.0)

    def rebatched(self, recording: Recording, run: Run) -> list[str]:
        """What other batches change in the release of the same rows and answers: nothing may."""
        again = self.replay(recording, run, _NOISE | {Purpose.BATCHES})
        return [*again.faults, *(f"{name} differs in what leaves" for name in unlike(recording.left, again.left))]

    def unlike_production(self, recording: Recording, run: Run) -> list[str]:
        """What changes in the release when the same numbers are drawn and added as in production."""
        return unlike(recording.left, _played(ADDED, recording.seed, 1, _NOISE, run))

    def _recorded(
        self, run: Run, seed: int, forced: tuple[Seen, ...] | None, anew: frozenset[Purpose], stretch: float
    ) -> Recording:
        self._seen, self._faults, self._forced, self._stretch = [], [], forced, stretch
        left = _played(self, seed, 1 if forced is None else 2, anew, run)
        jax.effects_barrier()
        if forced is not None and len(forced) != len(self._seen):
            self._faults.append(f"{len(self._seen)} noised calls where there were {len(forced)}")
        return Recording(seed, tuple(self._seen), left, tuple(self._faults))

    def answer(self, call: NoisedCall, draw: Callable[[], Any]) -> Any:
        """Write the call down; answer as the recording does, if one is replayed."""
        scale = np.broadcast_to(np.asarray(call.scale, np.float64), np.shape(call.statistic)).copy()
        own = call._replace(statistic=np.array(call.statistic), scale=scale)
        place, forced = len(self._seen), self._forced or ()
        fault = difference(forced[place].call, own) if place < len(forced) else None
        if fault is not None:
            self._faults.append(f"noised call {place + 1} has {fault}")
        # Calls beyond those of the recording are counted in the end.
        answer = draw() if fault is not None or place >= len(forced) else forced[place].answer
        if self._stretch != 1.0 and call.law is Law.GAUSSIAN:
            exact = own.unit * own.statistic.astype(np.float64)
            answer = exact + self._stretch * (np.asarray(answer, np.float64) - exact)
        self._seen.append(Seen(own, answer))
        return answer

    def added(self, total: Total, scale: Array, drawn: Array | LatticeNoise) -> Array:
        dtype = np.dtype(total.high.dtype)
        noise = drawn if isinstance(drawn, LatticeNoise) else (drawn,)
        # A callback converts doubles to the precision of the program around the kernel; words of bits it leaves alone.
        sent = [lax.bitcast_convert_type(jnp.asarray(part, dtype), jnp.uint32) for part in (*total, scale, *noise)]
        answered = jax.ShapeDtypeStruct(sent[0].shape, jnp.uint32)
        words = io_callback(partial(self._answer_to_kernel, dtype), answered, *sent)
        return lax.bitcast_convert_type(words, dtype)

    def _answer_to_kernel(self, dtype: np.dtype, *sent: Any) -> NDArray[np.uint32]:
        # One word each in single precision, two in the last axis in double.
        last = None if dtype.itemsize == 4 else -1
        floats = (np.ascontiguousarray(words).view(dtype).reshape(np.shape(words)[:last]) for words in sent)
        high, low, scale, *noise = floats
        call = NoisedCall(Law.GAUSSIAN, high + low, scale.astype(np.float64))

        def draw() -> NDArray[Any]:
            if len(noise) > 1:
                return noised_exactly(high, low, LatticeNoise(*noise), np)
            return np.asarray(high + (low + scale * noise[0]), dtype)  # as `Total.noised`

        noised = np.asarray(self.answer(call, draw), dtype)
        return np.ascontiguousarray(noised).view(np.uint32).reshape(np.shape(sent[0]))


def _played(port: NoisePort, seed: int, other: int, anew: frozenset[Purpose], run: Run) -> Mapping[str, Any]:
    """The release of a run whose sources draw differently for some purposes."""
    places = count()
    return run(lambda: _Played(port, seed, next(places), other, anew))


class _Played(Randomness):
    """One source of a recorded run; releases made from it are not private."""

    draws_exactly: ClassVar[bool] = True

    def __init__(self, port: NoisePort, seed: int, place: int, other: int, anew: frozenset[Purpose]) -> None:
        self._port, self._anew = port, anew
        self._public, self._noise = (SeededRandomness(seed | place << 64 | of << 96) for of in (0, other))

    @property
    def port(self) -> NoisePort:
        return self._port

    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return self._of(purpose).gaussians(purpose, first, steps, shape, dtype)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        return self._of(purpose).generator(purpose)

    def whole_gaussians(self, purpose: Purpose, first: int, steps: int, scales: Any, size: int) -> Any:
        return self._of(purpose).whole_gaussians(purpose, first, steps, scales, size)

    def _of(self, purpose: Purpose) -> SeededRandomness:
        return self._noise if purpose in self._anew else self._public


def difference(first: NoisedCall, second: NoisedCall) -> str | None:
    """The differences between two calls that must be alike; only statistics may differ."""
    if first.law is not second.law:
        return f"{second.law} noise where it was {first.law}"
    if first.statistic.shape != second.statistic.shape:
        return f"shape {second.statistic.shape} where it was {first.statistic.shape}"
    if first.unit != second.unit or not np.array_equal(np.asarray(first.scale), np.asarray(second.scale)):
        return "another scale"
    return None


def unlike(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The names of what is not the same to the last bit."""
    return [name for name in sorted(first.keys() | second.keys()) if not _same(first.get(name), second.get(name))]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return (first.dtype, first.shape) == (second.dtype, second.shape) and first.tobytes() == second.tobytes()
    return type(first) is type(second) and first == second


_PIECE, _PIECES = 8192, 3  # a step of so many numbers is drawn in pieces of 8,192, each with a key derived for it


def key_faults(fresh: Callable[[], Randomness]) -> list[str]:
    """What contradicts that two sources of private fits are secret and independent; refused where there is none."""
    sources = fresh(), fresh()
    if not all(isinstance(source, SecureRandomness) for source in sources):
        return ["the noise of a private fit comes from a source that can be made again"]
    keys = [str(source.held()["key"]) for source in sources]
    if any(len({key[at : at + 8] for at in range(0, len(key), 8)}) < 8 or len(key) < 64 for key in keys):
        return ["the key of a private fit has fewer than 256 random bits"]
    drawn = [
        source.whole_gaussians(Purpose.NOISE, 0, 1, np.array([2.0**40]), _PIECE * _PIECES).reshape(_PIECES, _PIECE)
        for source in sources
    ]
    drawn += [source.generator(Purpose.NOISE).random((1, _PIECE)) for source in sources]
    pieces = [piece for one in drawn for piece in one]
    if any(bool((first == second).mean() > 0.01) for first, second in combinations(pieces, 2)):
        return ["the noise of a private fit repeats itself, or that of another fit"]
    return []
