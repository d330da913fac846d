"""The one way from a certificate to a release: certify, debit, only then use the rows, run, and name the release.

Nothing before the debit depends on a private row: rows are opened by a `RowAccess`, which exists after it alone.
"""

import math
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from sordino.accounting.evaluate import Explanation, as_json
from sordino.core.bound import Bound, Certificate, Relation, exactly_computed, with_floating_point
from sordino.core.gaussian import show_up
from sordino.core.spec import Spec
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import InputError, SordinoError, instance_of, raise_alone
from sordino.data import Schema
from sordino.data.encode import check_number
from sordino.data.sources.registry import check_rows
from sordino.fitting.array_schema import NonPrivateWarning, NotNumbers
from sordino.fitting.problem import Sources
from sordino.fitting.resume import FitCheckpoint
from sordino.ledger import ContentWarning, Entry, Ledger, LedgerError, LedgerRefusal
from sordino.ledger.budget import charged_as
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import CALLERS_WORD
from sordino.ledger.release.folder import release_digest
from sordino.noise import integer_sums as sums

Read = TypeVar("Read")
Result = TypeVar("Result")
Store = Callable[[StoredRelease], Path | None]


def not_stored(_release: StoredRelease) -> None:
    """Leaves the release to the caller."""


@dataclass(frozen=True, eq=False)
class RowAccess:
    """A debit that was made, or none where there is no ledger; `checkpoint` holds rounds that a killed run answered."""

    ledger: Ledger | None
    entry: Entry | None
    checkpoint: FitCheckpoint | None = None

    def read(self, rows: Callable[[], Read]) -> Read:
        """The private rows, or anything that is computed from them."""
        return guarded(rows, self.entry)

    def receipt(self, spec: Spec) -> dict[str, object] | None:
        """What a release of this run says of its debit: dataset, number and digest of the entry."""
        if self.ledger is None or self.entry is None:
            return None
        budget, entry = self.ledger.budget, self.entry
        otherwise = charged_as(spec, budget)
        receipt: dict[str, object] = {"dataset": budget.dataset, "entry": entry.sequence, "digest": entry.digest}
        return receipt if otherwise is None else receipt | {"charged_as": otherwise}


@dataclass(frozen=True, eq=False)
class RunContents(Generic[Result]):
    """What a run releases besides its certificate, as in `StoredRelease`, and the `result` that its caller gets."""

    kind: str
    arrays: Mapping[str, np.ndarray]
    result: Result
    floating_point: Certificate | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    model: NamedModel | None = None
    schema: Schema | None = None
    cautions: tuple[str, ...] = ()
    preprocessing: str = CALLERS_WORD

    def release(self, explanation: Explanation, *, private: bool, access: RowAccess | None = None) -> StoredRelease:
        """These contents under the certificate of their run, with the receipt of its debit."""
        bound, answers = explanation.tightest, as_json(explanation)
        if bound is None:
            raise InputError("No theorem gives a finite epsilon for this run.")
        # Everything here was noised, so this says nothing of a row; a folder with such numbers could not be read.
        if not all(np.isfinite(values).all() for values in self.arrays.values()):
            raise InputError(
                "The run diverged: its answers are not finite. Use a smaller step size. The debit remains."
            )
        return StoredRelease(
            kind=self.kind,
            spec=explanation.spec,
            bound=bound if self.floating_point is None else with_floating_point(bound, self.floating_point),
            delta=explanation.delta,
            private=private,
            arrays=self.arrays,
            settings=self.settings,
            model=self.model,
            schema=self.schema,
            answers=answers,
            ledger=None if access is None else access.receipt(explanation.spec),
            cautions=self.cautions,
            preprocessing=self.preprocessing,
        )


def charged_run(
    explanation: Explanation,
    run: Callable[[RowAccess], RunContents[Result]],
    *,
    words: str,
    epsilon: float,
    ledger: Ledger | None,
    sources: Sources,
    check: Callable[[], None] = lambda: None,
    checkpoint: Callable[[], FitCheckpoint | None] = lambda: None,
    store: Store = not_stored,
) -> tuple[StoredRelease, Result]:
    """Certify, debit, open the rows and run, and let the ledger name the release.

    `run` reads private rows through the access that it is given; refusals call it by its `words`. Before the debit
    `check` refuses by what is public, and `checkpoint` finds or makes the file of a run that can resume. With such a
    file `store` writes the release before the ledger names it and before the file is deleted, so that a kill or a full
    disk loses nothing.

    Raises:
        InputError: where the certificate is above `epsilon`, or a public number is wrong; nothing is spent then.
        LedgerRefusal: where the budget does not cover the run; nothing is spent or read.
    """
    if explanation.epsilon > epsilon:
        raise InputError(
            f"Expected a budget that {words} can keep, got epsilon {epsilon:g} while the certificate says "
            f"{show_up(explanation.epsilon)}; choose another epsilon."
        )
    sources.ready()
    check()
    access = _debited(explanation, ledger, checkpoint())
    contents = run(access)
    release = contents.release(explanation, private=sources.private, access=access)
    if access.checkpoint is None:
        if access.ledger is not None and access.entry is not None:
            try:
                access.ledger.name_release(access.entry, release_digest(release))
            except LedgerError as error:  # the debit stands
                warnings.warn(f"The ledger does not name the release: {error}", ContentWarning, stacklevel=3)
        store(release)
    else:
        _store_and_name(access, release, store)
        access.checkpoint.done()
    return release, contents.result


def _debited(explanation: Explanation, ledger: Ledger | None, checkpoint: FitCheckpoint | None) -> RowAccess:
    """Debit the ledger once, however often a run with a checkpoint was killed before."""
    if ledger is None:
        entry = None
    else:
        try:
            entry = ledger.debit(known_bounds(explanation), explanation.spec, run=checkpoint and checkpoint.name)
        except LedgerRefusal:
            if checkpoint is not None and checkpoint.new:
                checkpoint.done()
            raise
    if checkpoint is not None:
        checkpoint.refuse_finished(entry)
    return RowAccess(ledger, entry, checkpoint)


def known_bounds(explanation: Explanation) -> list[Bound]:
    """Every bound with a finite epsilon, tightest first: the ledger debits the one that leaves most to others."""
    return [bound for bound, epsilon in explanation.bounds if math.isfinite(epsilon)]


def _store_and_name(access: RowAccess, release: StoredRelease, store: Store) -> None:
    """Write the release, then let the entry that paid name it; where it names another, nothing is released."""
    # Two fits from copies of one checkpoint have different noise after the copy: their releases together would say
    # more than one debit pays for. The ledger is asked under its lock, so one of the two is made.
    ledger, entry = access.ledger, access.entry
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
            f"Entry {entry.sequence} of the ledger cannot name this release. Nothing is released, and the "
            f"answers are kept: {error}"
        ) from None


def exact_sums_line(schema: Schema) -> Certificate:
    """What a release of noised sums of whole numbers says about floating point."""
    return exactly_computed(sums.COVERED if schema.unit_column is None else sums.COVERED_UNITS)


def as_ledger(given: object) -> Ledger | None:
    """A ledger, or the one at a path."""
    if isinstance(given, str | Path):
        return Ledger.at(given)
    return None if given is None else instance_of("ledger", given, Ledger)


def check_public(schema: Schema, relation: Relation, number: Callable[[], int], table: object = None) -> None:
    """Refuse a file whose rows do not make a table, and under replace-one another number than the declared one."""
    if table is not None:
        guarded(partial(check_rows, schema.source(table)), None)
    if relation is Relation.REPLACE_ONE:
        check_number(schema, relation, guarded(number, None))


def guarded(rows: Callable[[], Read], entry: Entry | None) -> Read:
    """The rows; a refusal says that it was seen in private rows and what it cost, and no error may quote a cell."""
    try:
        return rows()
    except (MemoryError, NonPrivateWarning):  # the latter where warnings are errors; it quotes nothing
        raise
    except InputError as error:
        kind = NotNumbers if isinstance(error, TypeError) else InputError
        raise_alone(kind(f"{error} {_seen(entry)}"))
    except Exception as error:
        withheld = "The text is withheld because it may quote a cell."
        raise_alone(SordinoError(f"The rows cannot be read ({type(error).__name__}). {withheld} {_seen(entry)}"))


def _seen(entry: Entry | None) -> str:
    marked = "NON-PRIVATE: this was seen in private rows, so keep it with them."
    if entry is None:
        return marked
    return (
        f"{marked} The ledger was debited before anything was computed from the rows' values (entry "
        f"{entry.sequence}), and stays so; `sordino schema check` finds this without a debit."
    )
