"""Epsilon against the number of steps, theorem by theorem, and the steps from which another theorem is the tightest."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from sordino.accounting.evaluate import evaluate, theorems
from sordino.accounting.scope import scheme_of
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.core.bound import Bound
from sordino.core.guarantee import LossDistribution, check_delta
from sordino.core.spec import Composite, NoisedSums, NoisyGradient, Scheme, Spec, Thinning
from sordino.core.validate import InputError

POINTS, FEW_POINTS = 40, 20  # step counts asked about: closed forms are free, loss distributions may take seconds each
# Loss distributions answer with the upper end of a bracket of relative width 1e-3; less is not a difference.
_TIE = 2e-3
# Schemes that go through the records in passes; beyond the first epoch their curves are drawn at whole epochs.
_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})
PATIENCE = 25.0  # curves that take longer than this are left out of a page, with a sentence that says so


@dataclass(frozen=True)
class StepCurves:
    """What every applicable theorem says of a run stopped early, at each of `steps`; infinite where it says nothing.

    `lower` has the lower bounds that are known, by numbers of steps.
    """

    spec: Spec
    delta: float
    steps: tuple[int, ...]
    epsilons: tuple[tuple[str, tuple[float, ...]], ...]
    lower: tuple[tuple[float, float], ...] = ()

    @property
    def crossings(self) -> tuple[tuple[int, str, str], ...]:
        """At the latest from the number of steps on, the tightest theorem is the second and not the first named."""
        crossings, best, lines = [], "", dict(self.epsilons)
        for place, steps in enumerate(self.steps):
            column = {name: line[place] for name, line in lines.items()}
            least = min(column.values(), default=math.inf)
            if math.isinf(least):
                continue
            # Where several are as tight, the plainest is named first: composition before anything built on it.
            leader = min(name for name, value in column.items() if value <= least * (1 + _TIE))
            if best and column[leader] < column[best] * (1 - _TIE):
                crossings.append((steps, best, leader))
                best = leader
            best = best or leader
        return tuple(crossings)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which theorem is the tightest where, in words."""
        if not self.epsilons:
            return ("No theorem gives a finite epsilon for this run.",)
        if not (crossings := self.crossings):
            return (f"{self.epsilons[0][0]} is the tightest, or as tight as any, at every number of steps.",)
        return tuple(f"{after} beats {before} from step {steps} at the latest." for steps, before, after in crossings)

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


def steps_curves(spec: Spec, delta: float, progress: Callable[[], object] = lambda: None) -> StepCurves:
    """Ask every theorem about the run stopped at 20 or 40 step counts, and find where the tightest one changes."""
    delta = check_delta(delta)
    # The first step count the run can be stopped at, its last, and the steps of an epoch where epochs matter.
    algorithm, problem = spec.algorithm, spec.problem
    if isinstance(algorithm, Composite):
        algorithm, problem = algorithm.parts[-1].algorithm, algorithm.parts[-1].problem
    if isinstance(algorithm, NoisedSums):
        first, last, epoch = 1, algorithm.rounds, algorithm.batches_per_epoch
    elif isinstance(algorithm, NoisyGradient):
        first, last = algorithm.keep.burn_in + 1 if isinstance(algorithm.keep, Thinning) else 1, algorithm.steps
        epoch = 1 if problem is None or problem.n is None else algorithm.batches_per_epoch(problem.n)
    else:
        raise InputError("This run has no steps. Omit --plot.")
    unit = epoch if scheme_of(algorithm) in _PASSES else 1
    asked = [theorem for theorem in theorems() if theorem.failure(spec) is None]
    answers = [evaluate(theorem, at_steps(spec, first)) for theorem in asked]
    slow = any(isinstance(answer, Bound) and isinstance(answer.guarantee, LossDistribution) for answer in answers)
    # Evenly in their logarithm; beyond the first epoch, whole epochs.
    spaced = np.geomspace(first, last, FEW_POINTS if slow else POINTS).round().astype(int).tolist()
    whole = {steps if steps < unit else unit * round(steps / unit) for steps in spaced}
    counts = sorted({steps for steps in whole if first <= steps <= last} | {last})
    table: dict[str, list[float]] = {theorem.id: [] for theorem in asked}
    for steps in counts:
        run = at_steps(spec, steps)
        for theorem in asked:
            answer = evaluate(theorem, run)
            table[theorem.id].append(answer.guarantee.epsilon(delta) if isinstance(answer, Bound) else math.inf)
        progress()
    curves = {name: tuple(values) for name, values in table.items() if any(map(math.isfinite, values))}
    final = sorted(curves.items(), key=lambda named: (named[1][-1], named[0]))
    return StepCurves(spec, delta, tuple(counts), tuple(final))


def step_bounds(spec: Spec, delta: float, patience: float = PATIENCE) -> StepCurves | str:
    """The curves with lower bounds, or why there are none; nothing of a run that has no steps to stop at."""
    end = time.monotonic() + patience

    def check() -> None:
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
    # Exact lower bounds on the extremal instance of the spec's constants; no data are read. The last step count first,
    # then a few, then those between: whenever time runs out, what is there spans the run.
    epsilons, steps = dict[int, float](), curves.steps
    order = dict.fromkeys((steps[-1], *steps[::-8], *steps[::-4], *steps[::-2], *steps))
    with suppress(InputError):
        for count in order if spec.instance is None else ():
            if time.monotonic() > end:
                break
            lower = audit(at_steps(spec, count), "exact", AuditOptions(delta=delta))
            epsilons[count] = lower.epsilon if math.isfinite(lower.epsilon) else math.nan
    return replace(curves, lower=tuple((float(count), epsilons[count]) for count in sorted(epsilons)))
