"""The one way from a certificate to a release: certify, debit, only then use the rows, run, and name the release.

Nothing before the debit depends on a private row: rows are opened by a `RowAccess`, which exists after it alone.

A fit on an engine can be killed and resume. The file of its checkpoint holds what was answered so far, with its noise;
marks of rows, by which changed ones are found; and the secret name of the run, under which the ledger charges it once.
A question whose answer is kept is not asked again, and one that is not kept was never seen: so a fit releases each sum
once however often it is killed, and one debit pays for it.
"""

import hashlib
import json
import math
import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from sordino.accounting.evaluate import Explanation, as_json
from sordino.core.arrays import Array
from sordino.core.bound import Certificate, Relation, exactly_computed, with_floating_point
from sordino.core.gaussian import show_up
from sordino.core.spec import Spec
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import InputError, SordinoError, instance_of, raise_alone
from sordino.data import Schema, schema_to_text
from sordino.data.encode import check_number, number_of
from sordino.data.sources.registry import check_rows
from sordino.engines.totals import PartAnswer
from sordino.fitting.array_schema import NonPrivateWarning, NotNumbers
from sordino.fitting.problem import Sources
from sordino.ledger import ContentWarning, Entry, Ledger, LedgerError, LedgerRefusal
from sordino.ledger.budget import charged_as
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import CALLERS_WORD
from sordino.ledger.release.folder import release_digest
from sordino.mechanisms.checkpoint import Record, damaged, read_record, remove_privately, write_record
from sordino.noise import integer_sums as sums

_FORMAT = "rounds 2"
_FAR = 1e100  # no sum of clipped contributions, nor its noise, comes near


@dataclass(eq=False)
class FitCheckpoint:
    """What a fit has done so far; written after every round.

    `run` is a digest of what the fit is, `answered` are noised sums by mechanism, `numbers` how many each has, `key` is
    the secret by which units were brought together; `new`: the file was made now.
    """

    path: Path
    run: str
    name: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    answered: dict[str, Array] = field(default_factory=dict)
    marks: dict[str, PartAnswer] = field(default_factory=dict, repr=False)
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    numbers: Mapping[str, int] = field(default_factory=dict)
    new: bool = False

    @classmethod
    def at(
        cls,
        path: str | Path,
        spec: Spec,
        schema: Schema,
        where: dict[str, Any],
        ledger: Ledger | None,
        *,
        private: bool,
        numbers: Mapping[str, int] = MappingProxyType({}),
    ) -> Self:
        """The rounds of this run that are kept at a path; where there are none a file is made, before anybody pays."""
        # Rounds whose noise a seed gives again are no rounds of a private fit.
        book = None if ledger is None else str(ledger.path.resolve())
        description = json.dumps([spec.to_json(), schema_to_text(schema), where, book, private], sort_keys=True)
        run, file = hashlib.sha256(description.encode()).hexdigest(), Path(path)
        if not os.path.lexists(file):
            made = cls(file, run, numbers=numbers, new=True)
            made.save()
            return made
        record = read_record(file)
        try:
            found = record.values
            known = found["format"] == _FORMAT
            marks = {key: PartAnswer(key, b"", *mark) for key, mark in found["marks"].items()}
            kept = cls(
                file, found["run"], str(found["name"]), dict(record.arrays), marks, bytes.fromhex(found["key"]), numbers
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise damaged(file) from None
        if not known or kept.run != run:
            why = "its data declaration, budget, engine, ledger or --seed differ"
            advice = "Repeat the command as it was, or name a new file."
            raise InputError(f"The rounds at {str(path)!r} belong to another fit: {why}. {advice}")
        # No answers but this plan's: another mechanism, another length, or numbers out of reach are damage.
        for name, found in kept.answered.items():
            if found.dtype != np.float64 or found.shape != (numbers.get(name),) or not (abs(found) < _FAR).all():
                raise damaged(file)
        # Rows were read after a debit alone, so a name that paid for nothing was changed.
        paid = ledger is None or any(entry.run == kept.name for entry in ledger.entries())
        if (kept.answered or kept.marks) and not paid:
            raise InputError(f"No entry of the ledger pays for the rounds in {str(path)!r}. Name a new file.")
        return kept

    def refuse_finished(self, entry: Entry | None) -> None:
        """Refuse to ask more of rows for an entry whose release was made; one that is whole is made again, alike."""
        if entry is not None and entry.release is not None and not self.answered.keys() >= set(self.numbers):
            finished = f"This fit is finished: entry {entry.sequence} names its release."
            raise InputError(f"{finished} Delete {str(self.path)!r} and fit again.")

    def add(self, name: str, sums: Array) -> None:
        """Keep an answer before anybody sees it."""
        self.answered[name] = sums
        self.save()

    def save(self) -> None:
        """Write the file whole, for its owner alone."""
        marks = {key: [one.units, one.rows_mark, one.arithmetic] for key, one in self.marks.items()}
        values = {"format": _FORMAT, "run": self.run, "name": self.name, "marks": marks, "key": self.key.hex()}
        write_record(self.path, Record(values, self.answered))

    def done(self) -> None:
        remove_privately(self.path)


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
        bound = explanation.tightest
        if bound is None:
            raise InputError("No theorem gives a finite epsilon for this run.")
        # Everything here was noised, so this says nothing of a row; a folder with such numbers could not be read.
        if not all(np.isfinite(values).all() for values in self.arrays.values()):
            why = "The run diverged: its answers are not finite"
            raise InputError(f"{why}. Use a smaller step size. The debit remains.")
        own: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        del own["result"]
        line = own.pop("floating_point")
        return StoredRelease(
            spec=explanation.spec,
            bound=bound if line is None else with_floating_point(bound, line),
            delta=explanation.delta,
            private=private,
            answers=as_json(explanation),
            ledger=None if access is None else access.receipt(explanation.spec),
            **own,
        )


def charged_run(
    explanation: Explanation,
    run: Callable[[RowAccess], RunContents[Result]],
    *,
    words: str,
    epsilon: float,
    ledger: object,
    sources: Sources,
    check: Callable[[], None] = lambda: None,
    checkpoint: Callable[[], FitCheckpoint | None] = lambda: None,
    store: Store = not_stored,
) -> tuple[StoredRelease, Result]:
    """Certify, debit a `Ledger` or the one at a path, open the rows and run, and let the ledger name the release.

    `run` reads private rows through the access that it is given; refusals call it by its `words`. Before the debit
    `check` refuses by what is public, and `checkpoint` finds or makes the file of a run that can resume. With such a
    file `store` writes the release before the ledger names it and before the file is deleted, so that a kill or a full
    disk loses nothing.

    Raises:
        InputError: where the certificate is above `epsilon`, or a public number is wrong; nothing is spent then.
        LedgerRefusal: where the budget does not cover the run; nothing is spent or read.
    """
    if explanation.epsilon > epsilon:
        wanted = f"Expected a budget that {words} can keep, got epsilon {epsilon:g}"
        raise InputError(f"{wanted} while the certificate says {show_up(explanation.epsilon)}; choose another epsilon.")
    sources.ready()
    book = as_ledger(ledger)
    check()
    access = _debited(explanation, book, checkpoint())
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
    entry = None
    if ledger is not None:
        # Every bound with a finite epsilon, tightest first: the ledger debits the one that leaves most to others.
        bounds = [bound for bound, epsilon in explanation.bounds if math.isfinite(epsilon)]
        try:
            entry = ledger.debit(bounds, explanation.spec, run=checkpoint and checkpoint.name)
        except LedgerRefusal:
            if checkpoint is not None and checkpoint.new:
                checkpoint.done()
            raise
    if checkpoint is not None:
        checkpoint.refuse_finished(entry)
    return RowAccess(ledger, entry, checkpoint)


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
        why = f"Entry {entry.sequence} of the ledger cannot name this release"
        raise InputError(f"{why}. Nothing is released, and the answers are kept: {error}") from None


def exact_sums_line(schema: Schema) -> Certificate:
    """What a release of noised sums of whole numbers says about floating point."""
    return exactly_computed(sums.COVERED if schema.unit_column is None else sums.COVERED_UNITS)


def as_ledger(given: object) -> Ledger | None:
    """A ledger, or the one at a path."""
    if isinstance(given, str | Path):
        return Ledger.at(given)
    return None if given is None else instance_of("ledger", given, Ledger)


def check_public(schema: Schema, relation: Relation, table: object, number: Callable[[], int] | None = None) -> None:
    """Refuse a file whose rows do not make a table, and under replace-one another number than the declared one."""
    if table is not None:
        guarded(partial(check_rows, schema.source(table)), None)
    if relation is Relation.REPLACE_ONE:
        check_number(schema, relation, guarded(number or partial(number_of, schema, table), None))


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
    paid = f"The ledger was debited before anything was computed from the rows' values (entry {entry.sequence})"
    return f"{marked} {paid}, and stays so; `sordino schema check` finds this without a debit."
