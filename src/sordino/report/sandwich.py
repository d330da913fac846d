"""Both sides of the sandwich against the number of steps: the certificate above, exact lower bounds below."""

import math
import time
from dataclasses import dataclass

from sordino.audit.method import AuditOptions, audit
from sordino.core.errors import InputError
from sordino.core.spec import Spec
from sordino.report.steps_curves import StepCurves, at_steps, steps_curves

# A page is rebuilt often; curves that take longer than this are left out, with a sentence that says so.
PATIENCE = 25.0


@dataclass(frozen=True)
class Sandwich:
    """What every theorem certifies of the run stopped early, and what is known to leak at least, where it is known."""

    curves: StepCurves
    lower: tuple[tuple[float, float], ...]

    @property
    def upper(self) -> tuple[tuple[float, float], ...]:
        """The tightest certified epsilon at every number of steps."""
        columns = zip(*(line for _, line in self.curves.epsilons), strict=True)
        return tuple((float(steps), min(column)) for steps, column in zip(self.curves.steps, columns, strict=False))


class _TooSlow(Exception):
    """The curves take longer than a page is worth."""


def sandwich(spec: Spec, delta: float, patience: float = PATIENCE) -> Sandwich | str:
    """The two curves, or why there are none."""
    end = time.monotonic() + patience
    try:
        curves = steps_curves(spec, delta, lambda _done, _total: _check(end))
    except InputError:
        return "This run has no steps to stop it at."
    except _TooSlow:
        return "Curves against steps take long for this run; sordino certify --plot draws them."
    if len(curves.steps) == 1:
        return "This run is a single step: there is no earlier one to stop it at."
    if not curves.epsilons:
        return "No theorem gives a finite epsilon at any number of steps."
    return Sandwich(curves, _exact_lower(spec, delta, curves.steps, end))


def _check(end: float) -> None:
    if time.monotonic() > end:
        raise _TooSlow


def _exact_lower(spec: Spec, delta: float, steps: tuple[int, ...], end: float) -> tuple[tuple[float, float], ...]:
    """Exact lower bounds on the extremal instance of the spec's constants; no data are read.

    The last step count first, then a few, then those between: whenever time runs out, what is there spans the run.
    """
    if spec.instance is not None:
        return ()
    order = dict.fromkeys((steps[-1], *steps[::-8], *steps[::-4], *steps[::-2], *steps))
    found: dict[int, float] = {}
    for count in order:
        if time.monotonic() > end:
            break
        try:
            lower = audit(at_steps(spec, count), "exact", AuditOptions(delta=delta))
        except InputError:
            return ()
        found[count] = lower.epsilon if math.isfinite(lower.epsilon) else math.nan
    return tuple((float(count), found[count]) for count in sorted(found))
