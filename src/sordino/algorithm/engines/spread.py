"""Units that lie in several parts are brought together before anything is computed of them.

A unit's rows have masses that see how many there are, so they are summed by whoever has all of them. Every row goes to
one of several buckets by a keyed hash of its unit: the key is drawn for the run, so nobody can choose names that fill a
bucket, and a bucket's number tells nothing of who is in it. Rows keep the order of the table, which decides which of a
unit's rows are used where it has more than may be.

The cost: the columns of the fit are read once more, and kept once, in a folder that only its owner can read and that is
deleted in the end, or in the memory of a cluster's workers; the largest bucket has to fit into memory.
"""

import hashlib
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sordino.core.validate import InputError
from sordino.data.sources.part import Part, read_without_quoting
from sordino.data.table import MISSING, Column, Table, Unreadable

_ROWS_OF_A_BUCKET = 2**20
_MOST_BUCKETS = 512

Columns = dict[str, Column]


@dataclass(frozen=True)
class Spread:
    """How rows are divided into buckets by their unit.

    Attributes:
        column: that says whose a row is.
        tokens: texts that stand for no value; rows without a value are one unit together.
        columns: that are kept.
        buckets: how many there are.
        key: of the hash, a secret of the run.
    """

    column: str
    tokens: tuple[str, ...]
    columns: tuple[str, ...]
    buckets: int
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)

    def divided(self, table: Table) -> list[Columns]:
        """The rows of each bucket, in order."""
        places = self.places(table)
        found = []
        for bucket in range(self.buckets):
            rows = np.flatnonzero(places == bucket)
            found.append({name: table.columns[name].take(rows) for name in self.columns})
        return found

    def places(self, table: Table) -> Any:
        """The bucket of each row."""
        try:
            codes = table.columns[self.column].codes(self._code)
        except Unreadable as unreadable:
            raise InputError(
                f"Expected the unit's column {self.column!r} to hold text, numbers or booleans, got {unreadable}; "
                "convert it first."
            ) from None
        return np.where(codes == MISSING, 0, codes)

    def _code(self, word: str) -> int:
        # Spelled as `data.units` compares units: without the blanks around.
        plain = word.strip()
        if plain in self.tokens:
            return MISSING
        digest = hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), key=self.key, digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.buckets


def buckets_for(rows: int, least: int = 1) -> int:
    """How many buckets so many rows are divided into."""
    return max(least, min(_MOST_BUCKETS, -(-rows // _ROWS_OF_A_BUCKET)))


@dataclass(frozen=True, eq=False)
class UnitBucket(Part):
    """Rows of whole units, wherever they are kept: which bucket it is, and the columns it has."""

    place: int
    columns: tuple[str, ...]
    shared: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"bucket {self.place + 1} of the units"

    def names(self) -> tuple[str, ...]:
        return self.columns


@dataclass(frozen=True, eq=False)
class Bucket(UnitBucket):
    """A bucket in a file of the run's own folder."""

    path: str

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        with Path(self.path).open("rb") as file:
            for pieces in read_without_quoting(self.name, _pieces(file)):
                yield Table({name: pieces[name] for name in columns})


def _pieces(file: Any) -> Iterator[Columns]:
    # Nobody but this run writes into its folder, so what is unpickled here is what it pickled.
    while file.peek(1):
        yield pickle.load(file)


def in_folder(spread: Spread, parts: Sequence[Part], folder: Path) -> list[Part]:
    """Buckets in files of a folder of one's own."""
    folder.chmod(0o700)
    paths = [folder / f"{place}.rows" for place in range(spread.buckets)]
    with ExitStack() as opened:
        files = [opened.enter_context(open(path, "wb", opener=_owner_only)) for path in paths]
        for part in parts:
            for table in part.tables(spread.columns):
                for file, piece in zip(files, spread.divided(table), strict=True):
                    pickle.dump(piece, file, protocol=5)
    return [Bucket(place, spread.columns, str(path)) for place, path in enumerate(paths)]


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
