"""Rounds of a fit on an engine that are kept on disk, so that a fit which was killed goes on where it was.

A file holds what was answered so far, with its noise; marks of rows, by which changed ones are found; and the ledger's
entry that paid. It is its owner's alone, because marks are made of private rows, and it is deleted when the release is
made. A question whose answer is kept is not asked again, and one that is not kept was never seen by anybody: so a fit
releases each sum once however often it is killed, and one debit pays for it. The file goes with one plan, one schema,
one engine, one ledger, and secret noise or that of a seed; with others it is refused. Of fits that go on from copies of
it the first to end makes a release, because an entry of a ledger names one; without a ledger nothing counts them.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sordino.algorithm.engines.work import PartAnswer
from sordino.core.arrays import Array
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.data import Schema, schema_to_text
from sordino.ledger import Entry, Ledger, LedgerError
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.folder import release_digest

_FORMAT = "sordino rounds 1"


@dataclass(eq=False)
class KeptRounds:
    """What a fit has done so far; written after every round.

    Attributes:
        path: of the file.
        answered: noised sums by the names of their mechanisms.
        marks: of every part's rows, private.
        key: by which units were brought together; a secret of the run.
    """

    path: Path
    run: str
    entry: tuple[int, str] | None = None
    answered: dict[str, Array] = field(default_factory=dict)
    marks: dict[str, PartAnswer] = field(default_factory=dict, repr=False)
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    begun: bool = False

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
    ) -> "KeptRounds":
        """The rounds of this run that are kept at a path, or none yet."""
        # Rounds whose noise a seed gives again are no rounds of a private fit.
        book = None if ledger is None else str(ledger.path.resolve())
        told = json.dumps([spec.to_json(), schema_to_text(schema), where, book, private], sort_keys=True)
        run, file = hashlib.sha256(told.encode()).hexdigest(), Path(path)
        if not file.exists():
            return cls(file, run)
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            kept = cls(
                file,
                found["run"],
                None if found["entry"] is None else (int(found["entry"][0]), str(found["entry"][1])),
                {name: np.array([float.fromhex(one) for one in sums]) for name, sums in found["answered"].items()},
                {key: PartAnswer(key, b"", *marks) for key, marks in found["marks"].items()},
                bytes.fromhex(found["key"]),
                begun=True,
            )
            known = found["format"] == _FORMAT
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
            known, kept = False, cls(file, run)
        if not known:
            raise InputError(f"Expected rounds of a fit at {str(path)!r}, got another file; name a new one.")
        if kept.run != run:
            raise InputError(
                f"Expected the rounds of this very fit at {str(path)!r}, got those of another: its data declaration, "
                "budget, engine, ledger or --seed differ; repeat the command as it was, or name a new file."
            )
        return kept

    def paid(self, ledger: Ledger | None) -> Entry | None:
        """The entry that paid for the rounds before, if there is one; one whose release was made is refused."""
        if ledger is None or self.entry is None:
            return None
        known = next((one for one in ledger.entries() if (one.sequence, one.digest) == self.entry), None)
        if known is None:
            raise InputError(f"Expected the ledger that paid for {str(self.path)!r}, got one without its entry.")
        if known.release is not None:
            raise InputError(
                f"Expected a fit that was not finished, got one whose release is named by entry {known.sequence}; "
                f"delete {str(self.path)!r} and fit again."
            )
        return known

    def begin(self, entry: Entry | None) -> None:
        """Write down who paid, before a row is read."""
        self.entry = None if entry is None else (entry.sequence, entry.digest)
        self.save()

    def __contains__(self, name: str) -> bool:
        return name in self.answered

    def add(self, name: str, sums: Array) -> None:
        """Keep an answer before anybody sees it."""
        self.answered[name] = sums
        self.save()

    def save(self) -> None:
        """Write the file whole, for its owner alone."""
        self.begun = True
        told = {
            "format": _FORMAT,
            "run": self.run,
            "entry": self.entry,
            "answered": {name: [float(one).hex() for one in sums] for name, sums in self.answered.items()},
            "marks": {key: [one.units, one.rows_mark, one.arithmetic] for key, one in self.marks.items()},
            "key": self.key.hex(),
        }
        beside = self.path.with_name(f".{self.path.name}.new")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)

    def name(self, ledger: Ledger | None, entry: Entry | None, release: StoredRelease) -> None:
        """Let the entry that paid name the release; where it names another, this one is refused."""
        # Two fits from copies of one file have different noise after the copy: their releases together would say more
        # than one debit pays for. The ledger is asked under its lock, so one of the two is made.
        if ledger is None or entry is None:
            return
        try:
            ledger.name_release(entry, release_digest(release))
        except LedgerError:
            raise InputError(
                f"Expected entry {entry.sequence} of the ledger to name this release, got one that cannot, because it "
                f"names another or the ledger cannot be written; nothing is released. Delete {str(self.path)!r} if it "
                "was a copy."
            ) from None

    def done(self) -> None:
        """The release is made: nothing is kept."""
        self.path.unlink(missing_ok=True)
