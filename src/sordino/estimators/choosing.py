"""Which method is used: the one asked for, or the one that predicts the smallest error; and when there is no hope."""

import warnings

from sordino.core.errors import InputError
from sordino.core.validate import one_of
from sordino.estimators.methods import METHODS, Plan
from sordino.estimators.situation import Situation

AUTO, FALLBACK = "auto", "constant"
# A method has to promise this much less error than the best constant, or the constant is released instead.
_WORTH_WHILE = 0.98


class BudgetWarning(UserWarning):
    """The budget is too small, for this many records and columns, to learn more than a constant."""


def choose(situation: Situation, name: str) -> Plan:
    """The plan of a fit; looks at no row."""
    applying = {word: one for word, one in METHODS.items() if situation.task in one.tasks}
    if name != AUTO:
        one_of("method", name, (AUTO, *applying))
        reason = applying[name].refusal(situation)
        if reason is not None:
            raise InputError(f"Expected a method that this schema allows, got {name!r}, which {reason}.")
        return applying[name].plan(situation)
    reasons = {word: one.refusal(situation) for word, one in applying.items()}
    chosen = [one for word, one in applying.items() if one.automatic and reasons[word] is None and word != FALLBACK]
    plans = [one.plan(situation) for one in chosen]
    if not plans:
        listed = "; ".join(f"{word} {reason}" for word, reason in reasons.items() if reason is not None)
        raise InputError(f"Expected a schema that some method can fit, got one that none can: {listed}.")
    best = min(plans, key=lambda plan: plan.predicted.error)
    if best.predicted.error <= _WORTH_WHILE * best.predicted.constant:
        return best
    return _without_hope(situation, best, usable=FALLBACK in reasons and reasons[FALLBACK] is None)


def _without_hope(situation: Situation, best: Plan, usable: bool) -> Plan:
    found = best.predicted
    rest = "so only the best constant is learned" if usable else "so expect little of it"
    warnings.warn(
        f"epsilon {situation.epsilon:g} is too small for {situation.records} records and {situation.features} columns: "
        f"method {best.method.name!r} predicts an error of {found.error:.4g}, a constant has {found.constant:.4g}, "
        f"{rest}; raise epsilon, declare fewer columns, or collect more records.",
        BudgetWarning,
        stacklevel=2,
    )
    return METHODS[FALLBACK].plan(situation) if usable else best
