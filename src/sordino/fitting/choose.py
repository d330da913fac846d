"""Which method fits a problem, and whether anything can be learned at its budget; looks at no row."""

import math
import warnings
from dataclasses import replace

from sordino.core.validate import InputError, one_of
from sordino.fitting.methods import METHODS, Method, Plan
from sordino.fitting.problem import MOST_COLUMNS, FitProblem
from sordino.fitting.tasks import AUTO, AUTO_OR_CONSTANT, FALLBACK, LINEAR

# A method has to promise this much less error than the best constant, or nothing is worth releasing.
BEATS_CONSTANT = 0.98
# A method whose intervals hold is taken unless another gains more than this much more over the best constant; and one
# that tells its intervals, unless another that withholds them gains this much more.
_GAINS_MORE, _GAINS_MORE_WITHOUT = 1.2, 1.015
LARGEST, _LEAST = 100.0, 1e-3
# How far apart the two ends of the search may be in the end, as a factor.
_CLOSE = 1.3
# Plans of wider tables take seconds each, so that the search would be longer than the fit.
_MOST_COLUMNS = 64


class BudgetWarning(UserWarning):
    """The budget is too small, for this many records and columns, to learn more than a constant.

    Examples:
        >>> import sordino
        >>> issubclass(sordino.estimators.BudgetWarning, UserWarning)
        True
    """


def beats_constant(plan: Plan) -> bool:
    """Whether a plan promises to beat the best constant, in error or in what is known of coefficients afterwards.

    An error that is no number promises nothing.
    """
    predicted = plan.predicted
    return predicted.informs or predicted.error <= BEATS_CONSTANT * predicted.constant


def advice(method: Method, problem: FitProblem) -> str:
    """What to do about a budget that is too small, with the epsilon that would do where it is quickly found."""
    if problem.features > _MOST_COLUMNS and not method.intervals_hold:
        return f"raise epsilon, declare fewer columns or collect more {problem.unit}s"
    enough = enough_epsilon(method, problem)
    if enough is None:
        return f"no epsilon up to {LARGEST:g} would do, so declare fewer columns or collect more {problem.unit}s"
    return f"about epsilon {enough:g} would be enough, or fewer columns, or more {problem.unit}s"


def enough_epsilon(method: Method, problem: FitProblem) -> float | None:
    """About the least epsilon at which the method would be worth while, rounded up; None if there is none up to 100.

    The search begins at 0.001: no epsilon below that is worth a recommendation. Like every plan it looks at the
    declaration only.
    """

    def enough(logarithm: float) -> bool:
        asked = replace(problem, epsilon=math.exp(logarithm))
        return method.informs(asked) or (not method.intervals_hold and beats_constant(method.plan(asked)))

    low, high = math.log(min(max(problem.epsilon, _LEAST), LARGEST)), math.log(LARGEST)
    if not enough(high):
        return None
    while high - low > math.log(_CLOSE):
        middle = 0.5 * (low + high)
        if enough(middle):
            high = middle
        else:
            low = middle
    unit = 10.0 ** math.floor(high / math.log(10.0))
    return math.ceil(math.exp(high) / unit - 1e-9) * unit


def choose(problem: FitProblem, name: str) -> Plan:
    """The plan of a fit; looks at no row.

    Raises:
        InputError: for a method that the schema does not allow; and with "auto" where the declared numbers say that
            nothing but a constant could be learned, which "auto-or-constant" does.
    """
    applying = {word: method for word, method in METHODS.items() if problem.task in method.tasks}
    if name not in (AUTO, AUTO_OR_CONSTANT):
        one_of("method", name, (AUTO, *((AUTO_OR_CONSTANT,) if FALLBACK in applying else ()), *applying))
        reason = applying[name].why_not(problem)
        if reason is not None:
            raise InputError(f"Expected a method that this schema allows, got {name!r}, which {reason}.")
        return applying[name].plan(problem)
    if name == AUTO_OR_CONSTANT and FALLBACK not in applying:
        raise InputError(f"Expected a model that has a constant for {name!r}, got {problem.task.value}; use {AUTO!r}.")
    if problem.task in LINEAR and problem.features > MOST_COLUMNS:
        raise InputError(
            f"Expected at most {MOST_COLUMNS} encoded columns, got {problem.features}; declare fewer columns, or "
            "shorter lists of categories."
        )
    reasons = {word: method.why_not(problem) for word, method in applying.items()}
    if name == AUTO_OR_CONSTANT and reasons[FALLBACK] is not None:
        raise InputError(
            f"Expected a schema that a constant can be learned from, for {name!r}, got one that method {FALLBACK!r} "
            f"refuses, because it {reasons[FALLBACK]}; use {AUTO!r}."
        )
    usable = {word: method for word, method in applying.items() if reasons[word] is None and word != FALLBACK}
    plans = [method.plan(problem) for method in usable.values() if method.considered(problem)]
    if not plans:
        listed = "; ".join(f"{word} {reason}" for word, reason in reasons.items() if reason is not None)
        raise InputError(f"Expected a schema that some method can fit, got one that none can: {listed}.")
    best = _least_error(plans)
    holding = [plan for plan in plans if plan.method.intervals_hold and _tells(plan) and _as_good(plan, best)]
    chosen = min(holding, key=_interval_score) if holding else best
    if beats_constant(chosen):
        return chosen
    return refuse_or_fall_back(problem, plans, chosen, name, usable=reasons.get(FALLBACK, "") is None)


def _least_error(plans: list[Plan]) -> Plan:
    """The plan of least predicted error; one that tells its intervals is taken where it gains nearly as much."""

    def error(plan: Plan) -> float:
        return math.inf if math.isnan(plan.predicted.error) else plan.predicted.error

    best = min(plans, key=error)
    telling = [plan for plan in plans if _tells(plan)]
    if _tells(best) or not telling:
        return best
    other = min(telling, key=error)
    return other if _gain(other) > 0.0 and _gain(other) * _GAINS_MORE_WITHOUT >= _gain(best) else best


def _tells(plan: Plan) -> bool:
    return plan.method.tells_intervals(plan.problem)


def _gain(plan: Plan) -> float:
    """Over the best constant, on stand-in data."""
    return plan.predicted.constant - plan.predicted.error


def _interval_score(plan: Plan) -> float:
    """In units of the prior's; where nothing was rehearsed, as if nothing would be learned."""
    return 1.0 if plan.predicted.intervals is None else plan.predicted.intervals.score


def _as_good(plan: Plan, best: Plan) -> bool:
    """Whether intervals hold and say more than the prior, and a plan gains nearly as much over the best constant.

    Where the best gains nothing, it is enough that coefficients will be known.
    """
    if not beats_constant(best):
        return plan.predicted.informs
    rehearsed = plan.predicted.intervals
    if rehearsed is not None and not (rehearsed.hold and rehearsed.score < 1.0):
        return plan is best
    # Intervals of coefficients that stay as open as they were are no reason to predict classes worse; stand-in data
    # flatter the method where little is known.
    if plan.problem.classes is not None and not plan.predicted.informs:
        return plan is best
    return _gain(plan) * _GAINS_MORE >= _gain(best)


def refuse_or_fall_back(problem: FitProblem, plans: list[Plan], best: Plan, name: str, usable: bool) -> Plan:
    """The plan of a constant with a warning, or a refusal; `usable` says whether a constant can be learned."""
    errors = best.predicted
    predicted = "no finite error" if math.isnan(errors.error) else f"an error of {errors.error:.4g}"
    told = (
        f"epsilon {problem.epsilon:g} is too small for {_counted(problem.records, problem.unit)} and "
        f"{_counted(problem.features, 'encoded column')}: method {best.method.name!r} predicts {predicted}, a "
        f"constant has {errors.constant:.4g}"
    )
    quickest = next((plan.method for plan in plans if plan.method.intervals_hold), best.method)
    if name == AUTO and (usable or quickest.intervals_hold):
        instead = (
            f"; method {AUTO_OR_CONSTANT!r} (--or-constant) would learn a constant and nothing about any column"
            if usable
            else ""
        )
        raise InputError(
            f"Expected a budget from which something can be learned, got one that is too small: {told}; "
            f"{advice(quickest, problem)}. Nothing was read and nothing was spent{instead}."
        )
    rest = "so only the best constant is learned" if usable else "so expect little of it"
    sentence = f"{told}, {rest}; {advice(quickest, problem)}."
    warnings.warn(sentence, BudgetWarning, stacklevel=2)
    plan = METHODS[FALLBACK].plan(problem) if usable else best
    return replace(plan, cautions=(*plan.cautions, sentence))


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
