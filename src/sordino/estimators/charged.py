"""What a fit or a look has to do with a ledger: the debit comes before the rows, and everything after it says so."""

import math
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sordino.accounting.evaluate import Explanation
from sordino.core.bound import Bound
from sordino.core.validate import InputError, SordinoError, instance_of, raise_alone
from sordino.estimators.bare_arrays import NonPrivateWarning, NotNumbers
from sordino.ledger import ContentWarning, Entry, Ledger, LedgerError
from sordino.ledger.budget import charged_as
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.folder import release_digest

Read = TypeVar("Read")


def as_ledger(given: Any) -> Ledger | None:
    """A ledger, or the one at a path."""
    if isinstance(given, str | Path):
        return Ledger.at(given)
    return None if given is None else instance_of("ledger", given, Ledger)


def after_debit(rows: Callable[[], Read], entry: Entry | None) -> Read:
    """The rows; where they are refused it is said that the refusal was seen in private rows, and what it cost.

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


def known_bounds(explanation: Explanation) -> list[Bound]:
    """Every bound with a finite epsilon, tightest first: the ledger debits the one that leaves most to others."""
    return [bound for bound, epsilon in explanation.bounds if math.isfinite(epsilon)]


def debited(ledger: Ledger | None, entry: Entry | None) -> dict[str, Any] | None:
    """What a release says of its debit: dataset, number and digest of the entry."""
    if ledger is None or entry is None:
        return None
    budget = ledger.budget
    said = {"dataset": budget.dataset, "entry": entry.sequence, "digest": entry.digest}
    otherwise = charged_as(entry.spec, budget)
    return said if otherwise is None else said | {"charged_as": otherwise}


def named_in_ledger(ledger: Ledger | None, entry: Entry | None, release: StoredRelease) -> StoredRelease:
    """The same release, whose digest the entry that paid for it now names; where that fails, the debit stands."""
    if ledger is None or entry is None:
        return release
    try:
        ledger.name_release(entry, release_digest(release))
    except LedgerError as error:
        warnings.warn(f"The ledger does not name the release: {error}", ContentWarning, stacklevel=3)
    return release


Store = Callable[[StoredRelease], Path | None]


def not_stored(_release: StoredRelease) -> None:
    """Leaves the release to the caller."""


def stored_and_named(ledger: Ledger | None, entry: Entry | None, release: StoredRelease, store: Store) -> None:
    """Write the release, then let the entry that paid name it; where it names another, nothing is released."""
    # Two fits from copies of one file of rounds have different noise after the copy: their releases together would say
    # more than one debit pays for. The ledger is asked under its lock, so one of the two is made.
    if ledger is None or entry is None:
        store(release)
        return
    digest = release_digest(release)
    now = next((one.release for one in ledger.entries() if one.sequence == entry.sequence), None)
    folder = store(release) if now in (None, digest) else None
    try:
        ledger.name_release(entry, digest)
    except LedgerError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise InputError(
            f"Expected entry {entry.sequence} of the ledger to name this release, got one that cannot; nothing is "
            f"released, and what was answered is kept: {error}"
        ) from None
