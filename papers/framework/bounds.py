"""Asking one theorem, or the exact law on the extremal quadratic, about a run."""

import math
from collections.abc import Callable

from papers.extremal_pair import extremal_pair
from sordino.accounting.evaluate import evaluate, theorems
from sordino.core.bound import Bound
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, RenyiDP
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.models.exact import chain_law, hockey_stick

# Mixtures of a thousand Gaussians take a moment for every epsilon tried.
_RELATIVE = 1e-5


def bound_of(theorem_id: str, spec: Spec) -> Bound | None:
    """What one theorem says of a run, or None where it does not apply."""
    found = next((theorem for theorem in theorems() if theorem.id == theorem_id), None)
    if found is None:
        raise InputError(
            f"Expected the id of a registered theorem, got {theorem_id!r}; see docs/reference/theorems.md."
        )
    answer = evaluate(found, spec)
    return answer if isinstance(answer, Bound) else None


def epsilon_of(theorem_id: str, spec: Spec, delta: float) -> float:
    """The epsilon one theorem certifies; infinite where it does not apply."""
    bound = bound_of(theorem_id, spec)
    return math.inf if bound is None else bound.guarantee.epsilon(delta)


def renyi_of(theorem_id: str, spec: Spec, order: float) -> float | None:
    """The Rényi divergence one theorem certifies at a listed order; None where it gives none."""
    bound = bound_of(theorem_id, spec)
    if bound is None:
        return None
    if isinstance(bound.guarantee, GaussianDP):
        return up(order * bound.guarantee.mu**2 / 2, 2)
    return bound.guarantee.at(order) if isinstance(bound.guarantee, RenyiDP) else None


def exact_epsilon(spec: Spec, delta: float, relative: float = _RELATIVE) -> float:
    """The true epsilon of the chain on the extremal quadratic, the record in the last place, rounded down a little.

    No valid bound is below it. The two laws are mirror images, so one direction is both. `relative` is the width of the
    search, which is what is rounded away.
    """
    pair = extremal_pair(spec, spec.n - 1)
    first, second = chain_law(spec, pair.first), chain_law(spec, pair.second)
    if hockey_stick(first, second, 0.0).low <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while hockey_stick(first, second, high).low > delta:
        low, high = high, 2 * high
    while high - low > relative * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if hockey_stick(first, second, middle).low > delta else (low, middle)
    return low


# The least noise that is enough, for experiments that calibrate many times.

_WITHIN = 1e-3


def least_noise(enough: Callable[[float], bool], wanted: str) -> float:
    """The least noise, to one part in a thousand and from the safe side, that is enough.

    `enough` holds from some noise on; `wanted` completes the refusal where it never does.
    """
    low, high = 0.0, 1e-3
    while not enough(high):
        low, high = high, 4 * high
        if high > 1e9:
            raise InputError(f"Expected {wanted}, got no such noise.")
    low = max(low, high / 4096)
    while high > low * (1 + _WITHIN):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
