"""Inverting the accountant: the least noise (most steps, smallest batch) that meets (epsilon, delta)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from sordino.accounting.evaluate import Explanation, explain
from sordino.core import spec as specs
from sordino.core import validate
from sordino.core.gaussian import least_whole
from sordino.core.guarantee import check_delta
from sordino.core.spec.problem import ConstantSchedule, ListSchedule, PolynomialSchedule, Scheduled
from sordino.core.validate import InputError


@dataclass(frozen=True)
class Knob:
    """One number of a spec to search over, by the word on the command line."""

    name: str
    found: Callable[[specs.Spec], tuple[str, specs.Schedule | float]]  # its path and value; raises where there is none

    def value(self, spec: specs.Spec) -> float:
        """Its present value, of a schedule the first one; `InputError` where the spec has no such knob."""
        _, now = self.found(spec)
        if not isinstance(now, specs.Schedule):
            return now
        return now.entries[0] if isinstance(now, ListSchedule) else float(now.values(1)[0])

    def turned(self, spec: specs.Spec, value: float) -> specs.Spec:
        """The spec with the knob at another value; of a schedule every value is scaled."""
        path, now = self.found(spec)
        match now:
            case ConstantSchedule():
                written = value
            case PolynomialSchedule():
                written = Scheduled().write(replace(now, initial=value))
            case specs.Schedule():
                written = Scheduled().write(now.times(value / self.value(spec)))
            case _:
                written = round(value) if isinstance(now, int) else value
        return spec.with_values({path: written})


def _refused(knob: str, why: str) -> InputError:
    return InputError(f"{knob} cannot be calibrated for this run: {why}. Choose another quantity.")


def _noise(spec: specs.Spec) -> tuple[str, specs.Schedule | float]:
    if isinstance(spec.algorithm, specs.NoisyGradient | specs.NoisedAnswer):
        return "algorithm.noise.scale", spec.algorithm.noise.scale
    if isinstance(spec.algorithm, specs.NoisedSums | specs.MatrixMechanism):
        return "algorithm.noise_multiplier", spec.algorithm.noise_multiplier
    raise _refused("noise", "the algorithm adds no noise of its own step by step")


def _steps(spec: specs.Spec) -> tuple[str, int]:
    chain = spec.algorithm
    if isinstance(chain, specs.NoisyGradient):
        numbers, steps = (chain.step_size, chain.noise.scale), ("algorithm.steps", chain.steps)
    elif isinstance(chain, specs.NoisedSums):
        numbers = (chain.noise_multiplier, *(value for _, value in chain.options))
        steps = ("algorithm.rounds", chain.rounds)
    else:
        raise _refused("steps", "the algorithm has no steps")
    if any(isinstance(value, ListSchedule) for value in numbers):
        raise _refused("steps", "a schedule lists one value per step")
    return steps


def _batch(spec: specs.Spec) -> tuple[str, int]:
    if isinstance(spec.algorithm, specs.NoisyGradient) and spec.algorithm.batch.scheme != specs.Scheme.FULL:
        return "algorithm.batch.size", spec.algorithm.divisor(spec.n)
    if isinstance(spec.algorithm, specs.NoisedSums) and spec.algorithm.sampling.size is not None:
        return "algorithm.sampling.size", spec.algorithm.sampling.size
    raise _refused("batch", "the batch is the whole dataset or absent")


KNOBS = {name: Knob(name, found) for name, found in (("noise", _noise), ("steps", _steps), ("batch", _batch))}


Epsilon = Callable[[float], float]
_TOLERANCE = 1e-4
_REACH = 1e12
_ROUNDS = 60
_MOST_STEPS = 10**9


@dataclass(frozen=True)
class Calibration:
    """The calibrated run, `spec`: the `value` of the `knob` that was turned towards `target_epsilon`.

    The `explanation` has what every theorem says of it.

    >>> import sordino
    >>> run = sordino.accounting.gaussian(noise_multiplier=1.0, relation="add-remove")
    >>> calibration = sordino.calibrate(run.spec, epsilon=1.0, delta=1e-5, over="noise")
    >>> calibration.knob, calibration.explanation.epsilon <= 1.0
    ('noise', True)
    """

    knob: str
    value: float
    target_epsilon: float
    explanation: Explanation

    @property
    def spec(self) -> specs.Spec:
        """The run that meets the target."""
        return self.explanation.spec


def calibrate(spec: specs.Spec, epsilon: float, delta: float, over: str) -> Calibration:
    """Find the least private value of a number of a run, the `spec`, that still meets an `epsilon` and a `delta`.

    The number is `over`: "noise", "steps" or "batch"; the search starts at its present value. Epsilon 0 asks
    for a total variation distance of at most delta.

    Returns: a `Calibration`: the value, the run that has it, and what theorems say of that run. Raises: `InputError`
    for a knob that the run has not, or a target that the knob cannot reach.

    >>> import sordino
    >>> run = sordino.accounting.gaussian(noise_multiplier=1.0, relation="add-remove")
    >>> 3.7 < sordino.calibrate(run.spec, epsilon=1.0, delta=1e-5, over="noise").value < 3.8
    True
    """
    target = validate.number("epsilon", epsilon, validate.NON_NEGATIVE)
    delta = check_delta(delta)
    knob = KNOBS[validate.one_of("over", over, KNOBS)]
    start = knob.value(spec)
    spec = spec.with_values({"delta": delta})
    covered = explain(spec, delta)
    if not covered.bounds:
        reasons = "; ".join(list(dict.fromkeys(answer.reason for answer in covered.inapplicable))[:2])
        raise InputError(f"No theorem covers this run ({reasons}).")

    def epsilon_at(value: float) -> float:
        return explain(knob.turned(spec, value), delta).epsilon

    if over == "noise":
        value = _least_noise(start, target, epsilon_at)
    else:
        value = _whole_search(knob.name, spec, target, epsilon_at)
    return Calibration(knob.name, value, target, explain(knob.turned(spec, value), delta))


def _unreachable(knob: str, target: float, value: float, reached: float) -> InputError:
    best = "no finite epsilon" if math.isinf(reached) else f"epsilon {reached:.4g}"
    return InputError(
        f"Expected a target that {knob} can reach, got epsilon {target:g} while {knob} {value:g} still gives "
        f"{best}; change another part of the run."
    )


def _least_noise(start: float, target: float, epsilon_at: Epsilon) -> float:
    """Bracket the crossing by doubling, then close in with a safeguarded secant on log-log axes."""

    def gap(value: float) -> float:
        # A total variation gives epsilon 0 or none, and a target may be 0: infinite gaps, which are halved below.
        epsilon = epsilon_at(value)
        if min(epsilon, target) > 0.0:
            return math.log(epsilon) - math.log(target)
        return -math.inf if epsilon <= target else math.inf

    good = bad = start
    good_gap = bad_gap = gap(start)
    while good_gap > 0:
        bad, bad_gap = good, good_gap
        good *= 2.0
        if not start / _REACH < good < start * _REACH:
            raise _unreachable("noise", target, good, epsilon_at(bad))
        good_gap = gap(good)
    while bad_gap <= 0:
        good, good_gap = bad, bad_gap
        bad /= 2.0
        if not start / _REACH < bad < start * _REACH:
            return good
        bad_gap = gap(bad)
    for _ in range(_ROUNDS):
        if (width := abs(math.log(good / bad))) <= _TOLERANCE:
            break
        # The secant's point, kept a little inside so that both ends close in.
        share = bad_gap / (bad_gap - good_gap) if math.isfinite(bad_gap) and math.isfinite(good_gap) else 0.5
        margin = min(0.3, 0.4 * _TOLERANCE / width)
        share = min(max(share + margin, margin), 1 - margin)
        value = math.exp(math.log(bad) + share * (math.log(good) - math.log(bad)))
        if (value_gap := gap(value)) <= 0:
            good, good_gap = value, value_gap
        else:
            bad, bad_gap = value, value_gap
    return good


def _whole_search(over: str, spec: specs.Spec, target: float, epsilon_at: Epsilon) -> float:
    """The most steps; the smallest batch of a chain, the largest of rounds.

    A chain's noise is absolute and its batch sum is divided by b: larger batches move less, so they are more private. A
    round's noise is relative to its contribution bound: larger batches only mean a higher rate.
    """
    records = spec.algorithm.records if isinstance(spec.algorithm, specs.NoisedSums) else spec.n
    high, upwards = _MOST_STEPS, False
    if over == "batch":
        high, upwards = records, isinstance(spec.algorithm, specs.NoisyGradient)
    safest, riskiest = (high, 1) if upwards else (1, high)
    if epsilon_at(safest) > target:
        raise _unreachable(over, target, safest, epsilon_at(safest))
    if epsilon_at(riskiest) <= target:
        return riskiest
    if upwards:
        return least_whole(lambda value: epsilon_at(value) <= target, 1, high, _midway)
    return least_whole(lambda value: not epsilon_at(value) <= target, 1, high, _midway) - 1


def _midway(low: int, high: int) -> int:
    """Geometric while the ends are far apart, arithmetic when they are close."""
    middle = round(math.sqrt(low * high)) if high > 4 * low else (low + high) // 2
    return min(max(middle, low + 1), high - 1)
