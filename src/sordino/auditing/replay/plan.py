"""What the spec of a run says of every noised call, and how far a pair of neighbouring tables moved it."""

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.noise.randomness import Law, NoisedCall
from sordino.auditing.replay.port import Recording, Seen, difference, unlike
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
from sordino.core.validate import InputError, refuse

# Scales are rounded to the precision that a run computes in.
_SAME_SCALE = 1e-6
_AVERAGE_LAWS = {AverageNoiseKind.LAPLACE: Law.LAPLACE, AverageNoiseKind.GAUSSIAN: Law.GAUSSIAN}


class Planned(NamedTuple):
    """How far one record may move a call: in noise scales, or nats for a selection; None where no theorem says so.

    `scale` is the least that the noise may have: the multiplier of the plan times `contribution`, the bound on what one
    record adds. A call that names its own bound has a scale for that one.
    """

    law: Law
    bound: float | None
    scale: float | None = None
    contribution: float = 1.0

    def allows(self, call: NoisedCall) -> bool:
        """Whether a call has that much noise; numbers off the diagonal of a matrix need 1 / sqrt 2 of it."""
        if self.scale is None or not np.size(call.scale):
            return True
        least = self.scale * (1.0 if call.bound is None else call.bound / self.contribution) * (1.0 - _SAME_SCALE)
        return float(np.max(call.scale)) >= least and float(np.min(call.scale)) >= least / math.sqrt(2.0)


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
    over_moves, scales = algorithm.relative_noise(spec.relation), algorithm.sum_noise
    return tuple(
        Planned(Law.GAUSSIAN, 1.0 / float(noise), float(scale), algorithm.contribution)
        for noise, scale in zip(over_moves, scales, strict=True)
    )


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
        elif not planned.allows(recorded.call):
            faults.append(f"noised call {place + 1} has less noise than the spec says")
        elif difference(recorded.call, replayed.call) is None:
            resolution = _resolution(recorded.call, replayed.call)
            shifts.append(Shift(planned.law, _shift(recorded, replayed), planned.bound, resolution))
    faults += [f"{name} differs in what leaves" for name in unlike(first.left, second.left)]
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
