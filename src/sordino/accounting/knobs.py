"""What calibration may turn: each knob knows how to read and set itself on a spec and which way is private."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sordino.core.errors import InputError
from sordino.core.spec import (
    ClippingKind,
    ConstantSchedule,
    ListSchedule,
    NoisyGradient,
    PolynomialSchedule,
    Rounds,
    Schedule,
    Scheme,
    Spec,
)


@dataclass(frozen=True)
class Knob:
    """One number of a spec to search over.

    Attributes:
        name: the word on the command line.
        whole: whether it is a whole number.
        private_upwards: whether larger values are more private on the given spec.
        value: its present value on a spec; raises InputError where the spec has no such knob.
        turned: the spec with the knob at another value.
        limit: the largest value allowed, if any.
    """

    name: str
    whole: bool
    private_upwards: Callable[[Spec], bool]
    value: Callable[[Spec], float]
    turned: Callable[[Spec, float], Spec]
    limit: Callable[[Spec], float | None]


def _refused(knob: str, why: str) -> InputError:
    return InputError(f"Expected a run whose {knob} can be calibrated, got one where {why}; choose another knob.")


def _noise_path(spec: Spec) -> tuple[str, Schedule]:
    if isinstance(spec.algorithm, NoisyGradient):
        return "algorithm.noise.scale", spec.algorithm.noise.scale
    if isinstance(spec.algorithm, Rounds):
        return "algorithm.noise_multiplier", spec.algorithm.noise_multiplier
    raise _refused("noise", "the algorithm adds no noise of its own step by step")


def _first_value(schedule: Schedule) -> float:
    """The value a schedule is known by; calibration scales the whole schedule with it."""
    if isinstance(schedule, ListSchedule):
        return schedule.entries[0]
    return schedule.initial if isinstance(schedule, PolynomialSchedule) else float(schedule.values(1)[0])


def _scaled(schedule: Schedule, value: float) -> Any:
    factor = value / _first_value(schedule)
    if isinstance(schedule, ConstantSchedule):
        return value
    if isinstance(schedule, ListSchedule):
        return {"kind": "list", "values": [entry * factor for entry in schedule.entries]}
    if isinstance(schedule, PolynomialSchedule):
        return {"kind": "polynomial", "initial": value, "offset": schedule.offset, "power": schedule.power}
    raise _refused("noise", f"the schedule is a {type(schedule).__name__}")


def _turn_noise(spec: Spec, value: float) -> Spec:
    path, schedule = _noise_path(spec)
    return spec.with_values({path: _scaled(schedule, value)})


def _steps(spec: Spec) -> float:
    if not isinstance(spec.algorithm, (NoisyGradient, Rounds)):
        raise _refused("steps", "the algorithm has no steps")
    schedules = [value for value in vars(spec.algorithm).values() if isinstance(value, Schedule)]
    if isinstance(spec.algorithm, NoisyGradient):
        schedules.append(spec.algorithm.noise.scale)
    if any(isinstance(schedule, ListSchedule) for schedule in schedules):
        raise _refused("steps", "a schedule lists one value per step")
    return spec.algorithm.steps


def _batch_path(spec: Spec) -> tuple[str, int]:
    if isinstance(spec.algorithm, NoisyGradient) and spec.algorithm.batch.scheme != Scheme.FULL:
        return "algorithm.batch.size", spec.algorithm.divisor(spec.n)
    if isinstance(spec.algorithm, Rounds) and spec.algorithm.batch is not None:
        return "algorithm.batch", spec.algorithm.batch
    raise _refused("batch", "the batch is the whole dataset or absent")


def _records(spec: Spec) -> float:
    return spec.algorithm.records if isinstance(spec.algorithm, Rounds) else spec.n


def _clip(spec: Spec) -> float:
    chain = spec.algorithm
    if not isinstance(chain, NoisyGradient) or chain.clipping is None:
        raise _refused("clip", "the noise is relative to the clip, or nothing is clipped")
    if chain.clipping.kind is ClippingKind.FEATURE:
        raise _refused("clip", "features are clipped, which does not bound the gradient")
    for name, implied in (("gradient_bound", chain.clipping.bound), ("gradient_sensitivity", 2 * chain.clipping.bound)):
        declared = getattr(spec.problem, name)
        if declared is not None and declared.value != implied:
            raise _refused("clip", f"problem.{name} is declared as {declared.value:g}, not the {implied:g} of the clip")
    return chain.clipping.bound


def _turn_clip(spec: Spec, value: float) -> Spec:
    """Constants that only repeated the clip are left out; they follow from the new clip by construction."""
    gone = {"problem.gradient_bound": None, "problem.gradient_sensitivity": None}
    return spec.with_values({"algorithm.clipping.bound": value, **gone})


KNOBS = {
    knob.name: knob
    for knob in (
        Knob(
            "noise", False, lambda _: True, lambda spec: _first_value(_noise_path(spec)[1]), _turn_noise, lambda _: None
        ),
        Knob(
            "steps",
            True,
            lambda _: False,
            _steps,
            lambda spec, value: spec.with_values({"algorithm.steps": round(value)}),
            lambda _: 1e9,
        ),
        # A chain's noise is absolute and its batch sum is divided by b: larger batches move less, so they are more
        # private. A round's noise is relative to its sensitivity: larger batches only mean a higher rate.
        Knob(
            "batch",
            True,
            lambda spec: isinstance(spec.algorithm, NoisyGradient),
            lambda spec: _batch_path(spec)[1],
            lambda spec, value: spec.with_values({_batch_path(spec)[0]: round(value)}),
            _records,
        ),
        Knob(
            "clip",
            False,
            lambda _: False,
            _clip,
            _turn_clip,
            lambda _: None,
        ),
    )
}
