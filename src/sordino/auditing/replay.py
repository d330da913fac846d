"""Replay: how far one record moves what this code noises, measured exactly on a pair of neighbouring tables.

A run on D is recorded: the statistic, the scale and the answer of every call to its noise port. Then the same code runs
on D' and is answered with D's answers, so it follows the same path, and what it would have noised is compared call by
call. Statement: if for all neighbours and all answers the shifts over scales of the Gaussian calls have squares that
add up to at most mu^2, the release is mu-GDP; with Laplace noise l1 shifts over scales add up to epsilon, and so do the
log ratios of forced selections. Kinds of noise are never mixed into one number.

What it shows and what not. A shift above its plan refutes the *sensitivity* that the certificate rests on, for this
code and this pair; it refutes epsilon only where shifts do not depend on answers. Shifts are compared with the plan of
their own call, never with a bound that hides iterates, samples batches or couples runs. Batches are forced to be the
same, so samplers are not tested; nor is the law of the noise. Stable noise, posterior draws and Propose-Test-Sample
cannot be replayed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import io_callback
from jax.typing import DTypeLike
from numpy.typing import NDArray

from sordino.algorithm.noise.exact_sums import Total
from sordino.algorithm.noise.lattice import LatticeNoise, noised_exactly
from sordino.algorithm.noise.randomness import (
    ADDED,
    Law,
    NoisedCall,
    NoisePort,
    Purpose,
    Randomness,
    SeededRandomness,
    gaussian_call,
)
from sordino.core.bound import Relation, View
from sordino.core.spec import (
    AverageNoiseKind,
    GaussianNoise,
    NoisedSums,
    NoisyGradient,
    OutputPerturbation,
    Scheme,
    Spec,
)
from sordino.core.validate import InputError, Interval, refuse, whole_number

Sources = Callable[[], Randomness]
Run = Callable[[Sources], Mapping[str, Any]]
# What is drawn as noise; everything else is public, or a batch, and is the same in both runs.
_NOISE = frozenset({Purpose.NOISE, Purpose.MIXING, Purpose.AVERAGE})
_SEEDS = Interval(0, 2**64 - 1)
# Scales are rounded to the precision that a run computes in.
_SAME_SCALE = 1e-6
_AVERAGE_LAWS = {AverageNoiseKind.LAPLACE: Law.LAPLACE, AverageNoiseKind.GAUSSIAN: Law.GAUSSIAN}


class Seen(NamedTuple):
    """A call and what it was answered."""

    call: NoisedCall
    answer: Any


@dataclass(frozen=True, eq=False)
class Recording:
    """The calls of one run in order, what left it, and where it parted from the run it was answered by."""

    seed: int
    calls: tuple[Seen, ...]
    left: Mapping[str, Any]
    faults: tuple[str, ...] = ()

    def deviations(self, law: Law = Law.GAUSSIAN) -> NDArray[np.float64]:
        """What was added in calls of a law, over the scales that the port was told: standard ones if they are so."""
        deviations = [np.zeros(0)]
        for call, answer in self.calls:
            if call.law is law:
                added = np.asarray(answer, np.float64) - call.unit * call.statistic.astype(np.float64)
                deviations.append(np.ravel(added / np.asarray(call.scale, np.float64)))
        return np.concatenate(deviations)


class Recorder(NoisePort):
    """Records runs and replays their answers; one object for many runs, because each has its kernels compiled for it.

    A run gets a function that hands out its sources of randomness. In a replay all but the noise is drawn as in the
    recording; noise is drawn anew, so that noise which bypasses the port shows in what leaves.
    """

    def __init__(self) -> None:
        self._seen: list[Seen] = []
        self._forced: tuple[Seen, ...] | None = None
        self._faults: list[str] = []

    def record(self, run: Run, seed: int) -> Recording:
        """Run with random numbers from a seed, and write down."""
        return self._recorded(run, seed, None)

    def replay(self, recording: Recording, run: Run) -> Recording:
        """Run on other rows with the answers of a recording, and write down what was asked."""
        return self._recorded(run, recording.seed, recording.calls)

    def rebatched(self, recording: Recording, run: Run) -> list[str]:
        """What leaves otherwise when the same rows are answered alike in other batches: nothing may.

        A release depends on rows, and on which of them were in a batch, through noised answers alone. A sum that is
        divided by the number of records that happened to be in the batch shows here.
        """
        self._seen, self._faults, self._forced = [], [], recording.calls
        given = iter(range(2**32))
        left = run(lambda: _Played(self, recording.seed, next(given), anew=True, batches=True))
        jax.effects_barrier()
        return [*self._faults, *(f"{name} differs in what leaves" for name in _unlike(recording.left, left))]

    def unlike_production(self, recording: Recording, run: Run) -> list[str]:
        """The names of what leaves otherwise when the same numbers are drawn and added as in any other run."""
        given = iter(range(2**32))
        left = run(lambda: _Played(ADDED, recording.seed, next(given), anew=False))
        return _unlike(recording.left, left)

    def _recorded(self, run: Run, seed: int, forced: tuple[Seen, ...] | None) -> Recording:
        whole_number("seed", seed, _SEEDS)
        self._seen, self._faults, self._forced = [], [], forced
        given = iter(range(2**32))
        left = run(lambda: _Played(self, seed, next(given), anew=forced is not None))
        jax.effects_barrier()
        if forced is not None and len(forced) != len(self._seen):
            self._faults.append(f"{len(self._seen)} noised calls where there were {len(forced)}")
        return Recording(seed, tuple(self._seen), left, tuple(self._faults))

    def answer(self, call: NoisedCall, draw: Callable[[], Any]) -> Any:
        """Write the call down; answer as the recording does, if one is replayed."""
        scale = np.broadcast_to(np.asarray(call.scale, np.float64), np.shape(call.statistic)).copy()
        own = call._replace(statistic=np.array(call.statistic), scale=scale)
        answer = draw() if self._forced is None else self._forced_answer(own, draw)
        self._seen.append(Seen(own, answer))
        return answer

    def added(self, total: Total, scale: Array, drawn: Array | LatticeNoise) -> Array:
        """The same from inside a compiled kernel."""
        dtype = np.dtype(total.high.dtype)
        noise = drawn if isinstance(drawn, LatticeNoise) else (drawn,)
        # A callback converts doubles to the precision of the program around the kernel; words of bits it leaves alone.
        sent = [lax.bitcast_convert_type(jnp.asarray(part, dtype), jnp.uint32) for part in (*total, scale, *noise)]
        answered = jax.ShapeDtypeStruct(sent[0].shape, jnp.uint32)
        words = io_callback(partial(self._answer_to_kernel, dtype), answered, *sent)
        return lax.bitcast_convert_type(words, dtype)

    def _answer_to_kernel(self, dtype: np.dtype, *sent: Any) -> NDArray[np.uint32]:
        high, low, scale, *noise = (_from_words(np.asarray(words), dtype) for words in sent)
        call = gaussian_call(high + low, scale.astype(np.float64))

        def draw() -> NDArray[Any]:
            if len(noise) > 1:
                return noised_exactly(high, low, LatticeNoise(*noise), np)
            return np.asarray(high + (low + scale * noise[0]), dtype)  # as `Total.noised`

        noised = self.answer(call, draw)
        return np.ascontiguousarray(noised).view(np.uint32).reshape(np.shape(sent[0]))

    def _forced_answer(self, call: NoisedCall, draw: Callable[[], Any]) -> Any:
        place = len(self._seen)
        forced = self._forced or ()
        if place >= len(forced):
            return draw()  # counted in the end
        fault = _difference(forced[place].call, call)
        if fault is None:
            return forced[place].answer
        self._faults.append(f"noised call {place + 1} has {fault}")
        return draw()


def _from_words(words: NDArray[np.uint32], dtype: np.dtype) -> NDArray[Any]:
    """Floats from their bits: one word each in single precision, two in the last axis in double."""
    shape = words.shape if dtype.itemsize == words.itemsize else words.shape[:-1]
    return np.ascontiguousarray(words).view(dtype).reshape(shape)


class _Played(Randomness):
    """One source of a recorded run; releases made from it are not private."""

    def __init__(self, port: NoisePort, seed: int, place: int, *, anew: bool, batches: bool = False) -> None:
        self._port = port
        self._anew = _NOISE | {Purpose.BATCHES} if batches else _NOISE
        self._public, self._noise = (
            SeededRandomness(seed | place << 64 | other << 96) for other in (0, 2 if anew else 1)
        )

    @property
    def port(self) -> NoisePort:
        return self._port

    def gaussians(self, purpose: Purpose, first: int, steps: int, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return self._of(purpose).gaussians(purpose, first, steps, shape, dtype)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        return self._of(purpose).generator(purpose)

    @property
    def draws_exactly(self) -> bool:
        return True

    def whole_gaussians(self, purpose: Purpose, first: int, steps: int, scales: Any, size: int) -> Any:
        return self._of(purpose).whole_gaussians(purpose, first, steps, scales, size)

    def _of(self, purpose: Purpose) -> SeededRandomness:
        return self._noise if purpose in self._anew else self._public


def _difference(first: NoisedCall, second: NoisedCall) -> str | None:
    """What tells two calls apart that have to be alike; statistics may differ, and only they."""
    if first.law is not second.law:
        return f"{second.law} noise where it was {first.law}"
    if first.statistic.shape != second.statistic.shape:
        return f"shape {second.statistic.shape} where it was {first.statistic.shape}"
    if first.unit != second.unit or not np.array_equal(np.asarray(first.scale), np.asarray(second.scale)):
        return "another scale"
    return None


class Planned(NamedTuple):
    """How far one record may move a call: in noise scales, or nats for a selection; None where no theorem says so.

    `scale` is that of the noise where the spec states it in the units of the statistic.
    """

    law: Law
    bound: float | None
    scale: float | None = None


def planned_calls(spec: Spec) -> tuple[Planned, ...]:
    """Every noised call of a described run, in order, with the shift that its certificate rests on."""
    return tuple(call for part in spec.runs() for call in _planned(part.algorithm, part))


@singledispatch
def _planned(algorithm: Any, spec: Spec) -> tuple[Planned, ...]:
    del spec
    raise InputError(
        f"Expected a run whose noise is added to sums, got {type(algorithm).__name__}, which is not replayable; "
        "audit it in another way."
    )


@_planned.register
def _(algorithm: NoisedSums, spec: Spec) -> tuple[Planned, ...]:
    return tuple(Planned(Law.GAUSSIAN, 1.0 / float(noise)) for noise in algorithm.relative_noise(spec.relation))


@_planned.register
def _(algorithm: OutputPerturbation, spec: Spec) -> tuple[Planned, ...]:
    del spec
    moved = algorithm.lipschitz.value / algorithm.strong_convexity.value + 2.0 * algorithm.tolerance
    noise = algorithm.noise
    return (Planned(_AVERAGE_LAWS[noise.kind], moved / noise.scale, noise.scale),)


@_planned.register
def _(algorithm: NoisyGradient, spec: Spec) -> tuple[Planned, ...]:
    """Steps of which the record is part; all chains make one call, and a released average one more, without a plan."""
    if not isinstance(algorithm.noise, GaussianNoise):
        raise refuse("algorithm.noise", "to be gaussian for a replay", type(algorithm.noise).__name__)
    problem, steps = spec.problem, algorithm.steps
    name = "gradient_sensitivity" if spec.relation is Relation.REPLACE_ONE else "gradient_bound"
    constant = None if problem is None else getattr(problem, name)
    if constant is None:
        raise refuse(f"problem.{name}", f"to be given for a replay under {spec.relation.value}", None)
    moved = math.sqrt(algorithm.chains) * constant.value / algorithm.divisor(spec.n)
    if algorithm.batch.scheme is Scheme.WITH_REPLACEMENT:
        moved *= algorithm.divisor(spec.n)  # a batch may hold one record as often as it has places
    bounds = moved * algorithm.step_size.values(steps) / algorithm.noise.scale.values(steps)
    planned = [Planned(Law.GAUSSIAN, float(bound)) for bound in bounds]
    if spec.view is View.AVERAGE and spec.average is not None:
        planned.append(Planned(_AVERAGE_LAWS[spec.average.noise.kind], None))
    return tuple(planned)


class Shift(NamedTuple):
    """How far a pair of tables moved one call, and how far it may; over the noise scale, or nats for a selection.

    `resolution` is how far two statistics can seem apart because each was rounded once to the precision it has.
    """

    law: Law
    realised: float
    planned: float | None
    resolution: float

    @property
    def ratio(self) -> float:
        """Realised over planned; 0 where nothing is planned."""
        return 0.0 if self.planned is None else self.realised / self.planned


@dataclass(frozen=True)
class Replayed:
    """The shifts of a pair of neighbouring tables, call by call, and what else differed between the two runs."""

    shifts: tuple[Shift, ...]
    faults: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """The largest realised shift over its plan."""
        return max((shift.ratio for shift in self.shifts), default=0.0)

    def holds(self, reserve: float = 0.0) -> bool:
        """Whether the runs were alike and no call moved further than planned.

        What is allowed above the plan is the resolution of the statistics, and `reserve`, a share of the plan.
        """
        return not self.faults and not self.excesses(reserve)

    def excesses(self, reserve: float = 0.0) -> dict[int, Shift]:
        """The calls, counted from 1, that moved further than that."""
        return {
            place: shift
            for place, shift in enumerate(self.shifts, 1)
            if shift.planned is not None and not shift.realised <= shift.planned * (1.0 + reserve) + shift.resolution
        }

    def total(self, law: Law) -> tuple[float, float]:
        """Realised and planned of all calls of one law that have a plan: root of squares for Gaussians, else sums."""
        of_law = [(shift.realised, shift.planned) for shift in self.shifts if shift.law is law and shift.planned]
        realised, planned = np.array(of_law or [(0.0, 0.0)], np.float64).T
        if law is Law.GAUSSIAN:
            return float(np.sqrt(np.sum(realised**2))), float(np.sqrt(np.sum(planned**2)))
        return float(realised.sum()), float(planned.sum())


def compare(spec: Spec, first: Recording, second: Recording) -> Replayed:
    """A recording against the replay of its answers on a neighbouring table, by the plan of the spec."""
    faults, plan = list(second.faults), planned_calls(spec)
    if len(plan) != len(first.calls):
        faults.append(f"{len(first.calls)} noised calls where the spec describes {len(plan)}")
    shifts = []
    for place, (recorded, replayed, planned) in enumerate(zip(first.calls, second.calls, plan, strict=False)):
        if recorded.call.law is not planned.law:
            faults.append(f"noised call {place + 1} has {recorded.call.law} noise where the spec says {planned.law}")
        elif planned.scale is not None and np.any(np.asarray(recorded.call.scale) < planned.scale * (1 - _SAME_SCALE)):
            faults.append(f"noised call {place + 1} has less noise than the spec says")
        elif _difference(recorded.call, replayed.call) is None:
            resolution = _resolution(recorded.call, replayed.call)
            shifts.append(Shift(planned.law, _shift(recorded, replayed), planned.bound, resolution))
    faults += [f"{name} differs in what leaves" for name in _unlike(first.left, second.left)]
    return Replayed(tuple(shifts), tuple(faults))


def _shift(recorded: Seen, replayed: Seen) -> float:
    first, second = recorded.call.statistic, replayed.call.statistic
    if np.issubdtype(first.dtype, np.floating):
        first, second = first.astype(np.float64), second.astype(np.float64)
    # Whole numbers are subtracted before they are rounded to floats.
    apart = recorded.call.unit * (first - second)
    if recorded.call.law is Law.SELECTION:
        return float(abs(apart[recorded.answer]))
    return _over_scale(recorded.call, np.abs(apart))


def _over_scale(call: NoisedCall, lengths: NDArray[np.float64]) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(lengths == 0.0, 0.0, lengths / np.asarray(call.scale))
    return float(np.sqrt(np.sum(over**2))) if call.law is Law.GAUSSIAN else float(over.sum())


def _resolution(recorded: NoisedCall, replayed: NoisedCall) -> float:
    """Half a unit in the last place of each of two floats; whole numbers are exact."""
    if recorded.law is Law.SELECTION or not np.issubdtype(recorded.statistic.dtype, np.floating):
        return 0.0
    largest = np.maximum(np.abs(recorded.statistic), np.abs(replayed.statistic))
    return _over_scale(recorded, recorded.unit * np.spacing(largest).astype(np.float64))


def _unlike(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """The names of what is not the same to the last bit."""
    return [name for name in sorted(first.keys() | second.keys()) if not _same(first.get(name), second.get(name))]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return (first.dtype, first.shape) == (second.dtype, second.shape) and first.tobytes() == second.tobytes()
    return type(first) is type(second) and first == second
