"""Epsilon against the number of steps, theorem by theorem, and the steps from which another theorem is the tightest."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sordino.accounting.evaluate import Theorem, evaluate, theorem_named, theorems
from sordino.accounting.scope import scheme_of
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.core.bound import Bound
from sordino.core.gaussian import least_whole
from sordino.core.guarantee import LossDistribution, check_delta
from sordino.core.spec import Composite, NoisedSums, NoisyGradient, Scheme, Spec, Thinning
from sordino.core.validate import InputError

Progress = Callable[[int, int], None]

POINTS, FEW_POINTS = 40, 20  # step counts asked about: closed forms are free, loss distributions may take seconds each
# Loss distributions answer with the upper end of a bracket of relative width 1e-3; less is not a difference.
_TIE = 2e-3
# Schemes that go through the records in passes; beyond the first epoch their curves are drawn at whole epochs.
_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
PATIENCE = 25.0  # curves that take longer than this are left out of a page, with a sentence that says so


class Crossing(NamedTuple):
    """From `steps` on, the theorem `after` gives a smaller epsilon than `before`, which was the tightest until then."""

    steps: int
    before: str
    after: str

    @property
    def sentence(self) -> str:
        return f"{self.after} beats {self.before} from step {self.steps}"


@dataclass(frozen=True)
class StepCurves:
    """What every applicable theorem says of a run stopped early, at each of `steps`; infinite where it says nothing.

    `lower` has the lower bounds that are known, by numbers of steps.
    """

    spec: Spec
    delta: float
    steps: tuple[int, ...]
    epsilons: tuple[tuple[str, tuple[float, ...]], ...]
    crossings: tuple[Crossing, ...]
    lower: tuple[tuple[float, float], ...] = ()

    @property
    def counted(self) -> str:
        return "steps of the last part" if isinstance(self.spec.algorithm, Composite) else "steps"

    @property
    def envelope(self) -> tuple[tuple[float, float], ...]:
        """The tightest certified epsilon at every number of steps."""
        columns = zip(*(line for _, line in self.epsilons), strict=True)
        return tuple((float(steps), min(column)) for steps, column in zip(self.steps, columns, strict=False))


def at_steps(spec: Spec, steps: int) -> Spec:
    """The same run stopped after `steps` steps of its last part; a schedule given as a list is cut."""
    document = spec.to_dict()
    algorithm = document["algorithm"]
    if isinstance(spec.algorithm, Composite):
        algorithm = algorithm["parts"][-1]["algorithm"]
    for section in (algorithm, algorithm.get("noise", {}), algorithm.get("options", {})):
        for name, value in section.items():
            if isinstance(value, dict) and value.get("kind") == "list":
                section[name] = value | {"values": value["values"][:steps]}
    algorithm["rounds" if "rounds" in algorithm else "steps"] = steps
    return Spec.from_dict(document)


def steps_curves(spec: Spec, delta: float, progress: Progress = lambda _done, _total: None) -> StepCurves:
    """Ask every theorem about the run stopped at 20 or 40 step counts, and find where the tightest one changes."""
    delta = check_delta(delta)
    first, last, unit = _extent(spec)
    asked = [theorem for theorem in theorems() if theorem.failure(spec) is None]
    answers = [evaluate(theorem, at_steps(spec, first)) for theorem in asked]
    slow = any(isinstance(answer, Bound) and isinstance(answer.guarantee, LossDistribution) for answer in answers)
    # Evenly in their logarithm; beyond the first epoch, whole epochs.
    spaced = np.geomspace(first, last, FEW_POINTS if slow else POINTS).round().astype(int).tolist()
    whole = {steps if steps < unit else unit * round(steps / unit) for steps in spaced}
    counts = sorted({steps for steps in whole if first <= steps <= last} | {last})
    table: dict[str, list[float]] = {theorem.id: [] for theorem in asked}
    for done, steps in enumerate(counts):
        run = at_steps(spec, steps)
        for theorem in asked:
            table[theorem.id].append(_epsilon(theorem, run, delta))
        progress(done + 1, len(counts))
    curves = {name: tuple(values) for name, values in table.items() if any(map(math.isfinite, values))}
    final = sorted(curves.items(), key=lambda named: (named[1][-1], named[0]))
    return StepCurves(spec, delta, tuple(counts), tuple(final), tuple(_crossings(spec, delta, counts, unit, curves)))


def _epsilon(theorem: Theorem, spec: Spec, delta: float) -> float:
    answer = evaluate(theorem, spec)
    return answer.guarantee.epsilon(delta) if isinstance(answer, Bound) else math.inf


def _extent(spec: Spec) -> tuple[int, int, int]:
    """The first step count a run can be stopped at, its last, and the steps of an epoch where epochs matter."""
    algorithm, problem = spec.algorithm, spec.problem
    if isinstance(algorithm, Composite):
        algorithm, problem = algorithm.parts[-1].algorithm, algorithm.parts[-1].problem
    if isinstance(algorithm, NoisedSums):
        first, steps, epoch = 1, algorithm.rounds, algorithm.batches_per_epoch
    elif isinstance(algorithm, NoisyGradient):
        first, steps = algorithm.keep.burn_in + 1 if isinstance(algorithm.keep, Thinning) else 1, algorithm.steps
        epoch = 1 if problem is None or problem.n is None else algorithm.batches_per_epoch(problem.n)
    else:
        raise InputError("This run has no steps. Omit --plot.")
    return first, steps, epoch if scheme_of(algorithm) in _PASSES else 1


def _crossings(
    spec: Spec, delta: float, counts: list[int], unit: int, curves: dict[str, tuple[float, ...]]
) -> list[Crossing]:
    crossings: list[Crossing] = []
    best: str | None = None
    for place, steps in enumerate(counts):
        column = {name: line[place] for name, line in curves.items()}
        least = min(column.values(), default=math.inf)
        if math.isinf(least):
            continue
        # Where several are as tight, the plainest is named first: composition before anything built on it.
        leader = min(name for name, value in column.items() if value <= least * (1 + _TIE))
        if best is not None and column[leader] < column[best] * (1 - _TIE):
            rivals = (theorem_named(best), theorem_named(leader))
            begins = _first_step(spec, delta, (counts[place - 1], steps), unit, *rivals)
            crossings.append(Crossing(begins, best, leader))
            best = leader
        best = best or leader
    return crossings


def _first_step(spec: Spec, delta: float, between: tuple[int, int], unit: int, before: Theorem, after: Theorem) -> int:
    """The first step count at which `after` is clearly smaller, by bisection; in whole epochs where those matter."""
    low, high = between
    size = unit if low >= unit and low % unit == 0 and high % unit == 0 else 1

    def beaten(blocks: int) -> bool:
        run = at_steps(spec, low + size * blocks)
        return _epsilon(after, run, delta) < _epsilon(before, run, delta) * (1 - _TIE)

    return low + size * least_whole(beaten, 0, (high - low) // size)


def step_bounds(spec: Spec, delta: float, patience: float = PATIENCE) -> StepCurves | str:
    """The curves with lower bounds, or why there are none; nothing of a run that has no steps to stop at."""
    end = time.monotonic() + patience

    def check(_done: int, _total: int) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    try:
        curves = steps_curves(spec, delta, check)
    except InputError:
        return ""
    except TimeoutError:
        return "Curves against steps take too long for this page; sordino certify --plot draws them."
    if len(curves.steps) == 1:
        return ""
    if not curves.epsilons:
        return "No theorem gives a finite epsilon at any number of steps."
    return replace(curves, lower=_exact_lower(spec, delta, curves.steps, end))


def _exact_lower(spec: Spec, delta: float, steps: tuple[int, ...], end: float) -> tuple[tuple[float, float], ...]:
    """Exact lower bounds on the extremal instance of the spec's constants; no data are read."""
    if spec.instance is not None:
        return ()
    # The last step count first, then a few, then those between: whenever time runs out, what is there spans the run.
    epsilons: dict[int, float] = {}
    for count in dict.fromkeys((steps[-1], *steps[::-8], *steps[::-4], *steps[::-2], *steps)):
        if time.monotonic() > end:
            break
        try:
            lower = audit(at_steps(spec, count), "exact", AuditOptions(delta=delta))
        except InputError:
            return ()
        epsilons[count] = lower.epsilon if math.isfinite(lower.epsilon) else math.nan
    return tuple((float(count), epsilons[count]) for count in sorted(epsilons))
