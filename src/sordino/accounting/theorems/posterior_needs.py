"""What the theorems about exact posterior draws need of a run, and how they read its potential."""

import math
from collections.abc import Callable
from typing import TypeVar

from sordino.accounting.assumption import Assumption
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.step_needs import LARGEST_RATIO
from sordino.core.certificate import Certificate
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.spec import BoundedPotential, LinearRegression, PosteriorSample, Spec, StronglyLogConcave
from sordino.core.spec.posterior import POTENTIALS
from sordino.core.spec.section import Section
from sordino.core.view import View

Kind = TypeVar("Kind", bound=Section)

# One draw; two neighbours' potentials are compared under the spec's own relation.
DRAWS = Scope(
    frozenset({"posterior-sample"}),
    frozenset({View.ONE_SAMPLE}),
    {Relation.REPLACE_ONE: frozenset(), Relation.ADD_REMOVE: frozenset()},
)


def potential_of(spec: Spec, kind: type[Kind]) -> Kind | None:
    """The potential of a posterior draw, if it is of this kind."""
    if isinstance(spec.algorithm, PosteriorSample) and isinstance(spec.algorithm.potential, kind):
        return spec.algorithm.potential
    return None


def required_potential(spec: Spec, kind: type[Kind]) -> Kind:
    """The potential of a run that is known to have one of this kind."""
    found = potential_of(spec, kind)
    if found is None:
        raise InputError(f"Expected a posterior draw with a potential of type {kind.__name__}; use evaluate.")
    return found


def concave_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """Lipschitz constant and strong convexity of a strongly log-concave posterior."""
    found = potential_of(spec, StronglyLogConcave)
    return () if found is None else (found.lipschitz, found.strong_convexity)


def bounded_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """Lipschitz constant and diameter of a posterior on a bounded set."""
    found = potential_of(spec, BoundedPotential)
    return () if found is None else (found.lipschitz, found.diameter)


def has_potential(kind: type[StronglyLogConcave] | type[BoundedPotential] | type[LinearRegression]) -> Assumption:
    """The potential is of one kind."""
    word = next(name for name, member in POTENTIALS.table.items() if member is kind)

    def failure(spec: Spec) -> str | None:
        if potential_of(spec, kind) is not None or not isinstance(spec.algorithm, PosteriorSample):
            return None
        return f"is about {word} potentials, and the potential is {POTENTIALS.word_of(spec.algorithm.potential)}"

    def violated(spec: Spec) -> Spec:
        other = {"kind": "bounded", "lipschitz": 1.0, "diameter": 1.0}
        if kind is BoundedPotential:
            other = {"kind": "strongly-log-concave", "lipschitz": 1.0, "strong_convexity": 1.0}
        return spec.with_values({"algorithm.potential": other})

    return Assumption("potential", f"the potential is {word}", failure, violated)


def within_reach(name: str, value: Callable[[Spec], float]) -> Assumption:
    """A quantity is small enough for a guarantee to say anything."""

    def failure(spec: Spec) -> str | None:
        found = value(spec)
        if found <= LARGEST_RATIO and not math.isnan(found):
            return None
        return f"evaluates {name} up to {LARGEST_RATIO:g}, and it is {found:.3g}"

    def violated(spec: Spec) -> Spec:
        return spec.with_values({"algorithm.potential.lipschitz": 1e200})

    return Assumption("reach", f"{name} is at most {LARGEST_RATIO:g}", failure, violated)
