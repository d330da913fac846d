"""Epsilon against the number of steps, theorem by theorem, and the steps from which another theorem is the tightest."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sordino.accounting.evaluate import evaluate
from sordino.accounting.noisy_steps import scheme_of
from sordino.accounting.registry import Theorem, theorems
from sordino.core.bound import Bound
from sordino.core.errors import InputError
from sordino.core.guarantee import LossDistribution
from sordino.core.guarantee.base import check_delta
from sordino.core.spec import Composite, NoisyGradient, Rounds, Scheme, Spec, Thinning

Progress = Callable[[int, int], None]

# Step counts asked about: closed forms are free, loss distributions may take seconds each.
POINTS, FEW_POINTS = 40, 20
# Loss distributions answer with the upper end of a bracket of relative width 1e-3; less is not a difference.
_TIE = 2e-3
# Schemes that go through the records in passes; beyond the first epoch their curves are drawn at whole epochs.
_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
_SCHEDULES = ("step_size", "damping", "noise_multiplier")


@dataclass(frozen=True)
class Crossing:
    """From `steps` on, the theorem `after` gives a smaller epsilon than `before`, which was the tightest until then."""

    steps: int
    before: str
    after: str

    @property
    def sentence(self) -> str:
        """The crossing in words."""
        return f"{self.after} beats {self.before} from step {self.steps}"


@dataclass(frozen=True)
class StepCurves:
    """What every applicable theorem says of a run stopped early, at each of `steps`; infinite where it says nothing."""

    spec: Spec
    delta: float
    steps: tuple[int, ...]
    epsilons: tuple[tuple[str, tuple[float, ...]], ...]
    crossings: tuple[Crossing, ...]

    @property
    def counted(self) -> str:
        """What the numbers of steps count."""
        return "steps of the last part" if isinstance(self.spec.algorithm, Composite) else "steps"


def at_steps(spec: Spec, steps: int) -> Spec:
    """The same run stopped after so many steps, of its last part if it has parts; a schedule given as a list is cut."""
    document = spec.to_dict()
    algorithm = document["algorithm"]
    if isinstance(spec.algorithm, Composite):
        algorithm = algorithm["parts"][-1]["algorithm"]
    places = [(algorithm, name) for name in _SCHEDULES if name in algorithm]
    if "noise" in algorithm:
        places.append((algorithm["noise"], "scale"))
    for section, name in places:
        if isinstance(section[name], dict) and "values" in section[name]:
            section[name] = section[name] | {"values": section[name]["values"][:steps]}
    algorithm["steps"] = steps
    return Spec.from_dict(document)


def steps_curves(spec: Spec, delta: float, progress: Progress = lambda _done, _total: None) -> StepCurves:
    """Ask every theorem about the run stopped at 20 or 40 step counts, and find where the tightest one changes."""
    delta = check_delta(delta)
    first, last, unit = _extent(spec)
    asked = [theorem for theorem in theorems() if theorem.failure(spec) is None]
    answers = [evaluate(theorem, at_steps(spec, first)) for theorem in asked]
    slow = any(isinstance(one, Bound) and isinstance(one.guarantee, LossDistribution) for one in answers)
    counts = _counts(first, last, unit, FEW_POINTS if slow else POINTS)
    table: dict[str, list[float]] = {theorem.id: [] for theorem in asked}
    for done, steps in enumerate(counts):
        run = at_steps(spec, steps)
        for theorem in asked:
            table[theorem.id].append(_epsilon(theorem, run, delta))
        progress(done + 1, len(counts))
    curves = {name: tuple(values) for name, values in table.items() if any(map(math.isfinite, values))}
    final = sorted(curves, key=lambda name: (curves[name][-1], name))
    found = _crossings(spec, delta, counts, unit, curves, {theorem.id: theorem for theorem in asked})
    return StepCurves(spec, delta, tuple(counts), tuple((name, curves[name]) for name in final), tuple(found))


def _epsilon(theorem: Theorem, spec: Spec, delta: float) -> float:
    answer = evaluate(theorem, spec)
    return answer.guarantee.epsilon(delta) if isinstance(answer, Bound) else math.inf


def _extent(spec: Spec) -> tuple[int, int, int]:
    """The first step count a run can be stopped at, its last, and the steps of an epoch where epochs matter."""
    algorithm, problem = spec.algorithm, spec.problem
    if isinstance(algorithm, Composite):
        algorithm, problem = algorithm.parts[-1].algorithm, algorithm.parts[-1].problem
    if not isinstance(algorithm, NoisyGradient | Rounds):
        raise InputError("Expected a run with steps for --plot, got one without; leave out --plot.")
    kept = algorithm.keep if isinstance(algorithm, NoisyGradient) else None
    first = kept.burn_in + 1 if isinstance(kept, Thinning) else 1
    if isinstance(algorithm, Rounds):
        epoch = algorithm.batches_per_epoch
    else:
        epoch = 1 if problem is None or problem.n is None else algorithm.batches_per_epoch(problem.n)
    return first, algorithm.steps, epoch if scheme_of(algorithm) in _PASSES else 1


def _counts(first: int, last: int, unit: int, points: int) -> list[int]:
    """Step counts spaced evenly in their logarithm; beyond the first epoch, whole epochs."""
    spaced = np.geomspace(first, last, points).round().astype(int).tolist()
    whole = {steps if steps < unit else unit * round(steps / unit) for steps in spaced}
    return sorted({steps for steps in whole if first <= steps <= last} | {last})


def _crossings(
    spec: Spec,
    delta: float,
    counts: list[int],
    unit: int,
    curves: dict[str, tuple[float, ...]],
    named: dict[str, Theorem],
) -> list[Crossing]:
    found: list[Crossing] = []
    best: str | None = None
    for place, steps in enumerate(counts):
        column = {name: line[place] for name, line in curves.items()}
        least = min(column.values(), default=math.inf)
        if math.isinf(least):
            continue
        # Where several are as tight, the plainest is named first: composition before anything built on it.
        leader = min(name for name, value in column.items() if value <= least * (1 + _TIE))
        if best is not None and column[leader] < column[best] * (1 - _TIE):
            since = _first_step(spec, delta, (counts[place - 1], steps), unit, named[best], named[leader])
            found.append(Crossing(since, best, leader))
            best = leader
        best = best or leader
    return found


def _first_step(spec: Spec, delta: float, between: tuple[int, int], unit: int, before: Theorem, after: Theorem) -> int:
    """The first step count at which `after` is clearly smaller, by bisection; in whole epochs where those matter."""
    low, high = between
    size = unit if low >= unit and low % unit == 0 and high % unit == 0 else 1
    while high - low > size:
        middle = low + size * ((high - low) // size // 2)
        run = at_steps(spec, middle)
        beaten = _epsilon(after, run, delta) < _epsilon(before, run, delta) * (1 - _TIE)
        low, high = (low, middle) if beaten else (middle, high)
    return high
