"""Inverting the accountant: the least noise (most steps, smallest batch, largest clip) that meets (epsilon, delta).

The search is monotone and ends on the private side: the answer satisfies the target, checked by evaluating it; the last
value rejected is within the tolerance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from sordino.accounting.evaluate import Explanation, explain
from sordino.accounting.knobs import KNOBS, Knob
from sordino.core import validate
from sordino.core.errors import InputError
from sordino.core.guarantee.base import check_delta
from sordino.core.spec import Spec

_TOLERANCE = 1e-4
_REACH = 1e12
_ROUNDS = 60


@dataclass(frozen=True)
class Calibration:
    """The calibrated run: which knob, its value, and what every theorem says of the result."""

    knob: str
    value: float
    target_epsilon: float
    explanation: Explanation

    @property
    def spec(self) -> Spec:
        """The run that meets the target."""
        return self.explanation.spec


def calibrate(spec: Spec, epsilon: float, delta: float, over: str) -> Calibration:
    """Find the least private value of a knob that still meets the target.

    Args:
        spec: the run; the knob's present value is where the search starts.
        epsilon: target epsilon > 0.
        delta: target delta in (0, 1).
        over: "noise", "steps", "batch" or "clip".
    """
    target = validate.number("epsilon", epsilon, validate.POSITIVE)
    delta = check_delta(delta)
    knob = KNOBS[validate.one_of("over", over, KNOBS)]
    start = knob.value(spec)
    spec = spec.with_values({"delta": delta})
    _require_theorem(spec, delta)

    def epsilon_at(value: float) -> float:
        return explain(knob.turned(spec, value), delta).epsilon

    search = _whole_search if knob.whole else _real_search
    value = search(knob, spec, start, target, epsilon_at)
    return Calibration(knob.name, value, target, explain(knob.turned(spec, value), delta))


def _require_theorem(spec: Spec, delta: float) -> None:
    found = explain(spec, delta)
    if not found.bounds:
        reasons = "; ".join(answer.reason for answer in found.inapplicable[:2])
        raise InputError(f"Expected a run that at least one theorem covers, got one that none does ({reasons}).")


def _unreachable(knob: Knob, target: float, value: float, reached: float) -> InputError:
    best = "no finite epsilon" if math.isinf(reached) else f"epsilon {reached:.4g}"
    return InputError(
        f"Expected a target that {knob.name} can reach, got epsilon {target:g} while {knob.name} {value:g} still gives "
        f"{best}; change another part of the run."
    )


def _real_search(knob: Knob, spec: Spec, start: float, target: float, epsilon_at: Callable[[float], float]) -> float:
    """Bracket the crossing by doubling, then close in with a safeguarded secant on log-log axes."""
    outwards = 2.0 if knob.private_upwards(spec) else 0.5

    def gap(value: float) -> float:
        # A total-variation guarantee gives epsilon 0 or none: infinite gaps, which `_between` answers by halving.
        epsilon = epsilon_at(value)
        return math.log(epsilon) - math.log(target) if epsilon > 0.0 else -math.inf

    good, good_gap = start, gap(start)
    bad, bad_gap = start, good_gap
    while good_gap > 0:
        bad, bad_gap = good, good_gap
        good *= outwards
        if not start / _REACH < good < start * _REACH:
            raise _unreachable(knob, target, good, target * math.exp(good_gap))
        good_gap = gap(good)
    while bad_gap <= 0:
        good, good_gap = bad, bad_gap
        bad /= outwards
        if not start / _REACH < bad < start * _REACH:
            return good
        bad_gap = gap(bad)
    for _ in range(_ROUNDS):
        if abs(math.log(good / bad)) <= _TOLERANCE:
            break
        value = _between(good, good_gap, bad, bad_gap)
        value_gap = gap(value)
        if value_gap <= 0:
            good, good_gap = value, value_gap
        else:
            bad, bad_gap = value, value_gap
    return good


def _between(good: float, good_gap: float, bad: float, bad_gap: float) -> float:
    """A point between: the secant's, kept a little inside so that both ends close in."""
    share = bad_gap / (bad_gap - good_gap) if math.isfinite(bad_gap) and math.isfinite(good_gap) else 0.5
    width = abs(math.log(good / bad))
    margin = min(0.3, 0.4 * _TOLERANCE / width)
    share = min(max(share + margin, margin), 1 - margin) if width > 0 else 0.5
    return math.exp(math.log(bad) + share * (math.log(good) - math.log(bad)))


def _whole_search(knob: Knob, spec: Spec, start: float, target: float, epsilon_at: Callable[[float], float]) -> float:
    """Bisection over whole numbers between 1 and the knob's limit."""
    del start
    limit = knob.limit(spec)
    low, high = 1, round(limit if limit is not None else 1e9)
    upwards = knob.private_upwards(spec)
    safest, riskiest = (high, low) if upwards else (low, high)
    if epsilon_at(safest) > target:
        raise _unreachable(knob, target, safest, epsilon_at(safest))
    if epsilon_at(riskiest) <= target:
        return riskiest
    good, bad = safest, riskiest
    while abs(good - bad) > 1:
        middle = _midway(good, bad)
        good, bad = (middle, bad) if epsilon_at(middle) <= target else (good, middle)
    return good


def _midway(a: int, b: int) -> int:
    """Geometric while the ends are far apart, arithmetic when they are close."""
    low, high = min(a, b), max(a, b)
    middle = round(math.sqrt(low * high)) if high > 4 * low else (low + high) // 2
    return min(max(middle, low + 1), high - 1)
