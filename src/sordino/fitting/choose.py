"""Which method fits a problem, and whether anything can be learned at its budget; looks at no row."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

from sordino.core.validate import InputError, one_of
from sordino.fitting.methods import METHODS, Method, Plan, methods_of
from sordino.fitting.problem import MOST_COLUMNS, FitProblem
from sordino.fitting.tasks import AUTO, AUTO_OR_CONSTANT, FALLBACK

# A method has to promise this much less error than the best constant, or nothing is worth releasing.
BEATS_CONSTANT = 0.98
LARGEST, _LEAST = 100.0, 1e-3
# How far apart the two ends of the search may be in the end, as a factor.
_CLOSE = 1.3


class BudgetWarning(UserWarning):
    """The budget is too small, for this many records and columns, to learn more than a constant.

    Examples:
        >>> import sordino
        >>> issubclass(sordino.estimators.BudgetWarning, UserWarning)
        True
    """


def beats_constant(plan: Plan) -> bool:
    """Whether a plan promises to beat the best constant; with intervals that hold, to inform about coefficients."""
    if plan.method.intervals_hold:
        return plan.method.informs(plan.problem)
    return plan.predicted <= BEATS_CONSTANT


def enough_epsilon(methods: Sequence[Method], problem: FitProblem) -> float | None:
    """About the least epsilon at which a method would beat a constant, rounded up; None if there is none up to 100.

    The search begins at 0.001: no epsilon below that is worth a recommendation. Like every plan it looks at the
    declaration only.
    """

    def enough(logarithm: float) -> bool:
        asked = replace(problem, epsilon=math.exp(logarithm))
        return any(beats_constant(method.plan(asked)) for method in methods)

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
    applying = methods_of(problem.task)
    if name not in (AUTO, AUTO_OR_CONSTANT):
        one_of("method", name, (AUTO, *((AUTO_OR_CONSTANT,) if FALLBACK in applying else ()), *applying))
        reason = applying[name].why_not(problem)
        if reason is not None:
            raise InputError(f"Expected a method that this schema allows, got {name!r}, which {reason}.")
        return applying[name].plan(problem)
    if name == AUTO_OR_CONSTANT and FALLBACK not in applying:
        raise InputError(f"Expected a model that has a constant for {name!r}, got {problem.task.word}; use {AUTO!r}.")
    if problem.task.linear and problem.features > MOST_COLUMNS:
        raise InputError(
            f"Expected at most {MOST_COLUMNS} encoded columns, got {problem.features}; declare fewer columns, or "
            "shorter lists of categories."
        )
    constant = applying[FALLBACK].why_not(problem) if name == AUTO_OR_CONSTANT else None
    if constant is not None:
        raise InputError(
            f"{name!r} cannot learn a constant from this schema: method {FALLBACK!r} refuses it, because it "
            f"{constant}. Use {AUTO!r}."
        )
    plans: list[Plan] = []
    for word, method in applying.items():
        if word == FALLBACK or not method.considered(problem) or method.why_not(problem) is not None:
            continue
        plan = method.plan(problem)
        if method.intervals_hold and not method.too_wide(problem) and beats_constant(plan):
            return plan  # intervals go before a smaller expected error
        plans.append(plan)
    if not plans:
        reasons = {word: method.why_not(problem) for word, method in applying.items()}
        listed = "; ".join(f"{word} {reason}" for word, reason in reasons.items() if reason is not None)
        raise InputError(f"No method can fit this schema: {listed}.")
    worth = [plan for plan in plans if beats_constant(plan)]
    if worth:
        return min(worth, key=_preference)
    return _refuse_or_fall_back(problem, plans, name)


def _preference(plan: Plan) -> tuple[bool, float]:
    """The least expected error; a method with too many coefficients to predict well comes last."""
    return plan.method.too_wide(plan.problem), plan.predicted


def _refuse_or_fall_back(problem: FitProblem, plans: list[Plan], name: str) -> Plan:
    """The plan of a constant with a warning, or a refusal."""
    constant = methods_of(problem.task).get(FALLBACK)
    usable, best = constant is not None and constant.why_not(problem) is None, min(plans, key=_preference)
    sentence = (
        f"epsilon {problem.epsilon:g} is too small for {_counted(problem.records, problem.unit)} and "
        f"{_counted(problem.features, 'encoded column')}: method {best.method.name!r} would "
        + (
            "know coefficients to no better than half their prior"
            if best.method.intervals_hold
            else f"have {best.predicted:.0%} of the error of a constant"
        )
    )
    enough = enough_epsilon([plan.method for plan in plans], problem)
    advice = (
        f"no epsilon up to {LARGEST:g} would do, so declare fewer columns or collect more {problem.unit}s"
        if enough is None
        else f"about epsilon {enough:g} would be enough, or fewer columns, or more {problem.unit}s"
    )
    if name == AUTO and (usable or any(plan.method.intervals_hold for plan in plans)):
        instead = (
            f"; method {AUTO_OR_CONSTANT!r} (--or-constant) would learn a constant and nothing about any column"
            if usable
            else ""
        )
        raise InputError(
            f"The budget is too small to learn from: {sentence}; {advice}. Nothing was read and nothing was "
            f"spent{instead}."
        )
    rest = "so only the best constant is learned" if usable else "so expect little of it"
    caution = f"{sentence}, {rest}; {advice}."
    warnings.warn(caution, BudgetWarning, stacklevel=2)
    plan = METHODS[FALLBACK].plan(problem) if usable else best
    return replace(plan, cautions=(*plan.cautions, caution))


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
