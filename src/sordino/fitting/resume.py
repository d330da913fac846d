"""Rounds of a fit on an engine that are kept on disk, so that a killed fit resumes where it was.

A file holds what was answered so far, with its noise; marks of rows, by which changed ones are found; and the secret
name of the run, under which the ledger charges it once. A question whose answer is kept is not asked again, and one
that is not kept was never seen: so a fit releases each sum once however often it is killed, and one debit pays for it.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sordino.core.arrays import Array
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.data import Schema, schema_to_text
from sordino.engines.totals import PartAnswer
from sordino.ledger import Entry, Ledger
from sordino.mechanisms.checkpoint import Record, damaged, read_record, remove_privately, write_record

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
            raise InputError(
                f"The rounds at {str(path)!r} belong to another fit: its data declaration, budget, engine, ledger "
                "or --seed differ. Repeat the command as it was, or name a new file."
            )
        # No answers but this plan's: another mechanism, another length, or numbers out of reach are damage.
        for name, sums in kept.answered.items():
            if sums.dtype != np.float64 or sums.shape != (numbers.get(name),) or not (abs(sums) < _FAR).all():
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
