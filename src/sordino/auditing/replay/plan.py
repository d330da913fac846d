"""The shift that a spec allows for every noised call, and the shift between two neighbouring tables.

*Participation*: the steps in which a record moves the sum are those whose batch it was in. Passes are checked exactly,
independent draws by binomial tails that share the failure probability.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.auditing.replay.port import Recording, difference, unlike
from sordino.core import spec as specs
from sordino.core.bound import Relation, View
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError, refuse
from sordino.noise.randomness import Law, NoisedCall

_SAME_SCALE = 1e-6  # scales are rounded to the precision that a run computes in


class Planned(NamedTuple):
    """How far one record may move a call, in noise scales, and the least `scale` that the noise may have, where known.

    A call that names its own bound has a scale for that one, in place of `contribution`. `name` says what is summed.
    """

    law: Law
    bound: float | None
    scale: float | None = None
    contribution: float = 1.0
    name: str = ""

    def allows(self, call: NoisedCall) -> bool:
        """Whether a call has that much noise; numbers off the diagonal of a matrix need 1 / sqrt 2 of it."""
        if self.scale is None or not np.size(call.scale):
            return True
        least = self.scale * (1.0 if call.bound is None else call.bound / self.contribution) * (1.0 - _SAME_SCALE)
        return float(np.max(call.scale)) >= least and float(np.min(call.scale)) >= least / math.sqrt(2.0)


def planned_calls(spec: Spec) -> tuple[Planned, ...]:
    """Every noised call of a described run, in order, with the shift that its certificate depends on."""
    return tuple(call for part in spec.runs() for call in _planned(part.algorithm, part))


@singledispatch
def _planned(algorithm: object, spec: Spec) -> tuple[Planned, ...]:
    del spec
    raise InputError(f"A replay needs a run that adds noise to sums, not {type(algorithm).__name__}.")


@_planned.register
def _(algorithm: specs.NoisedSums, spec: Spec) -> tuple[Planned, ...]:
    over_moves, scales = algorithm.relative_noise(spec.relation), algorithm.sum_noise
    return tuple(
        Planned(Law.GAUSSIAN, 1.0 / float(noise), float(scale), algorithm.contribution, algorithm.query)
        for noise, scale in zip(over_moves, scales, strict=True)
    )


@_planned.register
def _(algorithm: specs.OutputPerturbation, spec: Spec) -> tuple[Planned, ...]:
    del spec
    moved = algorithm.lipschitz.value / algorithm.strong_convexity.value + 2.0 * algorithm.tolerance
    noise = algorithm.noise
    return (Planned(Law(noise.kind), moved / noise.scale, noise.scale),)


@_planned.register
def _(algorithm: specs.NoisyGradient, spec: Spec) -> tuple[Planned, ...]:
    """Steps of which the record is part; all chains make one call, and a released average one more, without a plan."""
    if not isinstance(algorithm.noise, specs.GaussianNoise):
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
        planned.append(Planned(Law(spec.average.noise.kind), None))
    return tuple(planned)


# Why no pair need move a sum as far as its bound, by the first words of what is summed.
_WHY = {
    "gradients": "every row includes the constant, so no two rows are opposite, and few residuals are largest at once",
    "slopes": "the longest row need not have the steepest slope, and bounds leave room for rounding",
    "square": "squares are never negative, so no two records are opposite",
    "what is cut off residuals of counts": "what is cut off is never negative, so no two records are opposite",
    "what is cut off residuals": "sizes are never negative: records differ by at most 2, and the plan allows 2 sqrt 3",
    "counts and exposures": "a record without exposure counts no event",
}


def unreached(spec: Spec, enough: float, reached: Sequence[float]) -> str:
    """Which sums moved less than `enough` of their plan, how far, and why."""
    sizes: dict[str, list[float]] = {}
    for planned, ratio in zip(planned_calls(spec), reached, strict=False):
        if ratio < enough and planned.bound:
            sizes.setdefault(planned.name.partition(", ")[0] or "a sum", []).append(ratio)
    parts = []
    for name, own in sizes.items():
        usual = "no tried record moves it further; more --seconds may find one"
        why = next((why for words, why in _WHY.items() if name.startswith(words)), usual)
        parts.append(f"{name}, {min(own):.2f}{f' to {max(own):.2f}' if len(own) > 1 else ''} ({why})")
    return f". Below {enough:g}: {'; '.join(parts)}" if parts else ""


class Shift(NamedTuple):
    """How far a pair of tables moved one call, and how far it may, over the noise scale; to the `resolution`."""

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
        return max((shift.ratio for shift in self.shifts), default=0.0)

    def holds(self) -> bool:
        return not self.faults and not self.excesses()

    def excesses(self) -> dict[int, Shift]:
        """The calls, counted from 1, that moved further than planned by more than the resolution of the statistics."""
        return {
            place: shift
            for place, shift in enumerate(self.shifts, 1)
            if shift.planned is not None and not shift.realised <= shift.planned + shift.resolution
        }

    @property
    def total(self) -> tuple[Law, float, float]:
        """Realised and planned of all calls of a law with a plan, Gaussian ones if any: root of squares, or sum."""
        for law in Law:
            order = 2 if law is Law.GAUSSIAN else 1
            of_law = [(shift.realised, shift.planned) for shift in self.shifts if shift.law is law and shift.planned]
            if of_law:
                realised, planned = np.linalg.norm(np.array(of_law, np.float64), order, axis=0)
                return law, float(realised), float(planned)
        return Law.GAUSSIAN, 0.0, 0.0


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
            shifts.append(_shift(recorded.call, replayed.call, planned.bound))
    faults += [f"{name} differs in what leaves" for name in unlike(first.left, second.left)]
    return Replayed(tuple(shifts), tuple(faults))


def _shift(call: NoisedCall, replayed: NoisedCall, planned: float | None) -> Shift:
    """How far a call moved; whole numbers are exact, and subtracted before they are rounded to floats."""
    first, second = call.statistic, replayed.statistic
    rounded = np.zeros(first.shape)
    if np.issubdtype(first.dtype, np.floating):
        # Half a unit in the last place of each of two floats.
        rounded = np.spacing(np.maximum(np.abs(first), np.abs(second))).astype(np.float64)
        first, second = first.astype(np.float64), second.astype(np.float64)
    sizes = []
    for apart in (np.abs(first - second), rounded):
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.where(apart == 0.0, 0.0, call.unit * apart / np.asarray(call.scale))
        sizes.append(float(np.sqrt(np.sum(over**2))) if call.law is Law.GAUSSIAN else float(over.sum()))
    return Shift(call.law, sizes[0], planned, sizes[1])


# Drawn once a step, whatever the other steps draw.
_INDEPENDENT = {Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT, Scheme.WITH_REPLACEMENT, Scheme.TRUNCATED_POISSON}
_PASSES = {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED}


def hidden_batches(spec: Spec) -> bool:
    """Whether it is not known beforehand which records a step uses, so that participation is tested, too."""
    return isinstance(spec.algorithm, specs.NoisyGradient) and spec.algorithm.batch.scheme is not Scheme.FULL


def participation_faults(spec: Spec, moved: Sequence[NDArray[np.float64]], failure: float) -> list[str]:
    """What the steps that records `moved`, pair by pair over the plan, say against the described batches."""
    algorithm = spec.algorithm
    if not isinstance(algorithm, specs.NoisyGradient) or not hidden_batches(spec):
        return []
    steps, n, batch = algorithm.steps, spec.n, algorithm.batch
    moved = [one[:steps] for one in moved if len(one) >= steps]
    if not moved:
        return []
    seen, length = [one > 0.0 for one in moved], algorithm.batches_per_epoch(n)
    epochs = [one[: steps - steps % length].reshape(-1, length) for one in seen]
    if batch.scheme in _PASSES:
        return _in_passes(batch.scheme, epochs, length, failure)
    if batch.scheme is Scheme.RANDOM_ALLOCATION:
        uses = batch.uses or 1
        odd = any((one.sum(axis=1) != uses).any() for one in epochs)
        return [f"a record was not used {uses} times in every round of allocated batches"] if odd else []
    if batch.scheme is Scheme.MIN_SEPARATION:
        apart = batch.apart(n)
        near = any((np.diff(np.flatnonzero(one)) < apart).any() for one in seen)
        return [f"a record was used again after fewer than {apart} steps"] if near else []
    if batch.scheme is Scheme.WITH_REPLACEMENT:
        failure /= 2
        if found := _many_times(moved, algorithm.divisor(n), n, failure):
            return found
    return _independent(batch.scheme, seen, epochs, algorithm.rate(n), failure) if batch.scheme in _INDEPENDENT else []


def _in_passes(scheme: Scheme, epochs: Sequence[NDArray[np.bool_]], length: int, failure: float) -> list[str]:
    if any((one.sum(axis=1) != 1).any() for one in epochs):
        return [f"a record did not take part once in every pass of {scheme.value} batches"]
    where = [one.argmax(axis=1) for one in epochs]
    if scheme is not Scheme.RESHUFFLED:
        moved = any((places != places[:1]).any() for places in where)
        return [f"a record changed its place between passes of {scheme.value} batches"] if moved else []
    still = all((places == places[:1]).all() for places in where)
    chance = length ** -float(sum(len(places) - 1 for places in where))
    return ["records kept their places in passes that are said to be shuffled"] if still and chance < failure else []


def _many_times(moved: Sequence[NDArray[np.float64]], size: int, n: int, failure: float) -> list[str]:
    """Places of a batch are drawn one by one, and plans are for a record in all of them; so all sums are looked at."""
    for one in moved:
        times, draws = math.floor(float(one.sum()) * size * (1 - 1e-6)), len(one) * size
        if stats.binom.sf(times - 1, draws, 1.0 / n) < failure / len(moved):
            return [
                f"a record moved {len(one)} sums as far as {times} draws of it, where about {draws / n:.3g} are "
                "described: the sensitivity that the certificate uses does not hold for this code"
            ]
    return []


def _independent(
    scheme: Scheme, seen: Sequence[NDArray[np.bool_]], epochs: Sequence[NDArray[np.bool_]], rate: float, failure: float
) -> list[str]:
    each, refuted = failure / (2 * len(seen)), []
    for one, passes in zip(seen, epochs, strict=True):
        count, uses = int(one.sum()), passes.sum(axis=1)
        low, high = stats.binom.cdf(count, len(one), rate), stats.binom.sf(count - 1, len(one), rate)
        # A cap that is rarely reached lowers the rate a little: fewer uses say nothing there.
        if high < each / 2 or (low < each / 2 and scheme is not Scheme.TRUNCATED_POISSON):
            refuted.append(
                f"a record was in {count} of {len(one)} steps where {scheme.value} batches have the rate {rate:.3g}"
            )
        once = passes.shape[1] * rate * (1 - rate) ** (passes.shape[1] - 1)
        if len(uses) and stats.binom.sf(int((uses == 1).sum()) - 1, len(uses), once) < each:
            refuted.append(f"a record takes part once in every pass, as {scheme.value} batches do not")
    return refuted[:1]
