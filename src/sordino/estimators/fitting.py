"""A fit in the one order that is private: plan, certify, debit, and only then read rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.evaluate import Explanation, explain
from sordino.accounting.explained import as_json
from sordino.core.bound import Bound
from sordino.core.errors import InputError, SordinoError, raise_alone
from sordino.core.floating_point import with_floating_point
from sordino.core.rounding import show_up
from sordino.estimators.bare_arrays import NotNumbers
from sordino.estimators.cautions import NonPrivateWarning, delta_cautions
from sordino.estimators.choosing import choose
from sordino.estimators.declaration import Declaration
from sordino.estimators.methods import Outcome, Plan
from sordino.estimators.situation import Situation
from sordino.estimators.sources import Sources
from sordino.ledger import Entry, Ledger
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.contents import posterior_arrays
from sordino.model.described import describe_model

Array = NDArray[np.float64]
Rows = Callable[[], tuple[Array, Array]]
Begin = Callable[[str], None]
# What `begin` is told, one after the other.
STAGES = ("planning", "certifying", "reading rows", "learning")


def untold(_stage: str) -> None:
    """Nobody wants to know how far the work is."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished fit: the plan that ran, what the theorems say of it, and what may leave."""

    plan: Plan
    explanation: Explanation
    outcome: Outcome
    release: StoredRelease


def fit(
    situation: Situation,
    declaration: Declaration,
    method: str,
    ledger: Ledger | None,
    sources: Sources,
    rows: Rows,
    preprocessing: str,
    *,
    begin: Begin = untold,
) -> Fit:
    """Fit; `rows` reads private rows, and is called once, after the debit."""
    begin(STAGES[0])
    cautions = delta_cautions(situation)
    plan = choose(situation, method)
    begin(STAGES[1])
    explanation = explain(plan.spec, situation.delta)
    bound = explanation.tightest
    if bound is None or explanation.epsilon > situation.epsilon:
        raise InputError(
            f"Expected a budget that method {plan.method.name!r} can keep, got epsilon {situation.epsilon:g} while the "
            f"certificate says {show_up(explanation.epsilon)}; choose another epsilon or another method."
        )
    sources.ready()
    entry = None if ledger is None else ledger.debit(_known_bounds(explanation), plan.spec)
    begin(STAGES[2])
    X, y = _read(rows, entry)
    if ledger is not None and entry is not None:
        ledger.check_content(entry, dict(zip(situation.schema.feature_names, X.T, strict=True)))
    begin(STAGES[3])
    outcome = plan.method.run(plan, X, y, sources)
    settings = {
        "task": situation.task.value,
        "method": plan.method.name,
        "predicted_error": plan.predicted.error,
        "predicted_error_of_constant": plan.predicted.constant,
        "labels": None if declaration.labels is None else list(declaration.labels),
        **outcome.settings,
    }
    release = StoredRelease(
        kind=f"{situation.task.value}/{plan.method.name}",
        spec=plan.spec,
        bound=with_floating_point(bound, plan.method.floating_point),
        delta=situation.delta,
        private=sources.private,
        arrays=posterior_arrays(outcome.posterior),
        settings=settings,
        model=describe_model(outcome.model),
        schema=situation.schema,
        answers=as_json(explanation),
        ledger=_debited(ledger, entry),
        cautions=(*plan.cautions, *cautions),
        preprocessing=preprocessing,
    )
    return Fit(plan, explanation, outcome, release)


def _read(rows: Rows, entry: Entry | None) -> tuple[Array, Array]:
    """The encoded rows; where they are refused it is said that the refusal was seen in private rows, and what it cost.

    Whatever else is raised on the way, by a library or by an object in a cell, is not passed on: it may quote a cell.
    """
    try:
        return rows()
    except (MemoryError, NonPrivateWarning):  # the latter where warnings are errors; it quotes nothing
        raise
    except InputError as error:
        kind = NotNumbers if isinstance(error, TypeError) else InputError
        raise_alone(kind(f"{error} {_seen(entry)}"))
    except Exception as error:
        raise_alone(
            SordinoError(
                f"Expected rows that can be read, got a {type(error).__name__} whose text is withheld because it may "
                f"quote a cell. {_seen(entry)}"
            )
        )


def _seen(entry: Entry | None) -> str:
    marked = "NON-PRIVATE: this was seen in private rows, so keep it with them."
    if entry is None:
        return marked
    return (
        f"{marked} The ledger was debited before a row was read (entry {entry.sequence}), and stays so; "
        "`sordino schema check` finds this without a debit."
    )


def _known_bounds(explanation: Explanation) -> list[Bound]:
    """Every bound with a finite epsilon, tightest first: the ledger debits the one that leaves most to others."""
    return [bound for bound, epsilon in explanation.bounds if math.isfinite(epsilon)]


def _debited(ledger: Ledger | None, entry: Entry | None) -> dict[str, Any] | None:
    if ledger is None or entry is None:
        return None
    return {"dataset": ledger.budget.dataset, "entry": entry.sequence, "digest": entry.digest}
