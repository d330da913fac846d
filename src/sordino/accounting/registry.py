"""The theorem registry: a theorem is one file with one decorated function; there is no list to edit."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from sordino.accounting.assumption import Assumption, CheckedBy
from sordino.accounting.scope import Scope
from sordino.core.bound import Bound, Inapplicable, Status
from sordino.core.certificate import Certificate
from sordino.core.citation import Citation
from sordino.core.errors import SordinoError
from sordino.core.guarantee import Guarantee
from sordino.core.spec import Spec

Proof = Callable[[Spec], Guarantee]


class Monotone(IntEnum):
    """How epsilon moves when a value of the spec grows; checked by the conformance suite."""

    FALLS = -1
    RISES = 1


@dataclass(frozen=True)
class Theorem:
    """A proved statement: what it is about, what it assumes, who proved it, and how to compute its guarantee.

    The proof is a pure function of the spec and returns the guarantee of **one** run of the algorithm; several chains
    or draws are composed by `evaluate`. `rests_on` names the theorems used for the parts of a run, each with its part.
    """

    id: str
    statement: str
    citation: Citation
    status: Status
    scope: Scope
    assumptions: tuple[Assumption, ...]
    certificates: Callable[[Spec], tuple[Certificate, ...]]
    monotone: tuple[tuple[str, Monotone], ...]
    proof: Proof
    rests_on: Callable[[Spec], tuple[tuple[str, Spec], ...]] = lambda _: ()

    def failure(self, spec: Spec) -> str | None:
        """Why the theorem does not apply to a run, or None when it does."""
        reason = self.scope.failure(spec)
        for assumption in self.assumptions:
            reason = reason or assumption.failure(spec)
        return reason


_THEOREMS: dict[str, Theorem] = {}


def theorem(
    *,
    id: str,  # noqa: A002
    statement: str,
    citation: Citation,
    status: Status,
    scope: Scope,
    assumptions: tuple[Assumption, ...] = (),
    certificates: Callable[[Spec], tuple[Certificate, ...]] = lambda _: (),
    monotone: tuple[tuple[str, Monotone], ...] = (),
    rests_on: Callable[[Spec], tuple[tuple[str, Spec], ...]] = lambda _: (),
) -> Callable[[Proof], Theorem]:
    """Register a proof as a theorem."""

    def registered(proof: Proof) -> Theorem:
        if id in _THEOREMS and _THEOREMS[id].proof.__qualname__ != proof.__qualname__:
            raise SordinoError(f"Two theorems are registered as {id!r}; ids must be unique.")
        made = Theorem(id, statement, citation, status, scope, assumptions, certificates, monotone, proof, rests_on)
        _THEOREMS[id] = made
        return made

    return registered


@cache
def _load() -> None:
    package = importlib.import_module("sordino.accounting.theorems")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def theorems() -> tuple[Theorem, ...]:
    """Every registered theorem, by id."""
    _load()
    return tuple(_THEOREMS[name] for name in sorted(_THEOREMS))


def caller_checks(name: str, spec: Spec) -> tuple[str, ...]:
    """What the theorem of this name, and those it rests on, leave for people to check of a run; each statement once.

    An unknown name has none: nothing is known of what it assumes.
    """
    _load()
    if name not in _THEOREMS:
        return ()
    found = _THEOREMS[name]
    own = [one.statement for one in found.assumptions if one.checked_by is CheckedBy.CALLER and one.concerns(spec)]
    below = [statement for used, part in found.rests_on(spec) for statement in caller_checks(used, part)]
    return tuple(dict.fromkeys([*own, *below]))


def unregister(name: str) -> None:
    """Forget a theorem; for tests that register one of their own."""
    del _THEOREMS[name]


Answer = Bound | Inapplicable
