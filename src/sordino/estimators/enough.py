"""How much more budget would be needed: what is said beside "too small"."""

import math
from dataclasses import replace

from sordino.estimators.methods import Method
from sordino.estimators.situation import Situation

# A method has to promise this much less error than the best constant, or the constant is released instead.
WORTH_WHILE = 0.98
LARGEST, _LEAST = 100.0, 1e-3
# How far apart the two ends of the search may be in the end, as a factor.
_CLOSE = 1.3
# Plans of wider tables take seconds each, so that the search would be longer than the fit.
_MOST_COLUMNS = 64


def worth_while(method: Method, situation: Situation) -> bool:
    """Whether a method promises to beat the best constant; an error that is no number promises nothing."""
    found = method.plan(situation).predicted
    return found.error <= WORTH_WHILE * found.constant


def advice(method: Method, situation: Situation) -> str:
    """What to do about a budget that is too small, with the epsilon that would do where it is quickly found."""
    if situation.features > _MOST_COLUMNS:
        return "raise epsilon, declare fewer columns or collect more records"
    found = enough_epsilon(method, situation)
    if found is None:
        return f"no epsilon up to {LARGEST:g} would do, so declare fewer columns or collect more records"
    return f"about epsilon {found:g} would be needed, or fewer columns, or more records"


def enough_epsilon(method: Method, situation: Situation) -> float | None:
    """About the least epsilon at which the method would be worth while, rounded up; None if there is none up to 100.

    The search begins at 0.001: no epsilon below that is worth a recommendation. Like every plan it looks at the
    declaration only.
    """
    low, high = math.log(min(max(situation.epsilon, _LEAST), LARGEST)), math.log(LARGEST)
    if not worth_while(method, replace(situation, epsilon=LARGEST)):
        return None
    while high - low > math.log(_CLOSE):
        middle = 0.5 * (low + high)
        if worth_while(method, replace(situation, epsilon=math.exp(middle))):
            high = middle
        else:
            low = middle
    unit = 10.0 ** math.floor(high / math.log(10.0))
    return math.ceil(math.exp(high) / unit - 1e-9) * unit
