"""Which method is used: the one asked for, or the one that predicts the smallest error; and when there is no hope."""

import math
import warnings
from dataclasses import replace

from sordino.core.errors import InputError
from sordino.core.validate import one_of
from sordino.estimators.enough import WORTH_WHILE, advice
from sordino.estimators.methods import METHODS, Plan
from sordino.estimators.situation import LINEAR, MOST_COLUMNS, Situation

AUTO, FALLBACK = "auto", "constant"


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
    if situation.task in LINEAR and situation.features > MOST_COLUMNS:
        raise InputError(
            f"Expected at most {MOST_COLUMNS} encoded columns, got {situation.features}; declare fewer columns, or "
            "shorter lists of categories."
        )
    reasons = {word: one.refusal(situation) for word, one in applying.items()}
    chosen = [one for word, one in applying.items() if one.automatic and reasons[word] is None and word != FALLBACK]
    plans = [one.plan(situation) for one in chosen]
    if not plans:
        listed = "; ".join(f"{word} {reason}" for word, reason in reasons.items() if reason is not None)
        raise InputError(f"Expected a schema that some method can fit, got one that none can: {listed}.")
    best = min(plans, key=lambda plan: math.inf if math.isnan(plan.predicted.error) else plan.predicted.error)
    if best.predicted.error <= WORTH_WHILE * best.predicted.constant:
        return best
    return _without_hope(situation, best, usable=FALLBACK in reasons and reasons[FALLBACK] is None)


def _without_hope(situation: Situation, best: Plan, usable: bool) -> Plan:
    found = best.predicted
    predicted = "no finite error" if math.isnan(found.error) else f"an error of {found.error:.4g}"
    rest = "so only the best constant is learned" if usable else "so expect little of it"
    sentence = (
        f"epsilon {situation.epsilon:g} is too small for {_counted(situation.records, 'record')} and "
        f"{_counted(situation.features, 'column')}: method {best.method.name!r} predicts {predicted}, a constant has "
        f"{found.constant:.4g}, {rest}; {advice(best.method, situation)}."
    )
    warnings.warn(sentence, BudgetWarning, stacklevel=2)
    plan = METHODS[FALLBACK].plan(situation) if usable else best
    return replace(plan, cautions=(*plan.cautions, sentence))


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
