"""The unit of privacy, whose records belong together and which are used; and survey weights, how much each counts.

A unit is all records that share a value of a declared column, text or an integer, which is never quoted; records
without one are a unit together. Of more than `most_records` the first are kept, which the unit's own records decide; a
refusal would reveal them. A weight is cut to its declared bounds and divided by the upper one, so that a record counts
at most as much as one without weights. Noise stays, and records add up to `records * mean / high`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.spec import AnyUnit, ColumnUnit, Unit
from sordino.core.spec.fields import Contradiction, Number, Section, Text, Whole
from sordino.core.validate import NON_NEGATIVE, POSITIVE, InputError, Interval
from sordino.data.columns.base import TextLine
from sordino.data.raw_columns import MISSING, Column, Indices
from sordino.data.table import as_numbers

# Sums over so many records of one unit are still exact; see `sordino.mechanisms.regression.statistics`.
MOST_RECORDS = Interval(1, 4096)
# Common names of columns that identify the unit. A name is public, so the schema alone decides.
_KEYS = {"id", "ids", "key", "uid", "uuid", "guid", "identifier", "pseudonym", "ssn", "nhs", "mrn"}
_HOLDERS = {"person", "patient", "subject", "participant", "respondent", "individual", "client", "customer", "member"}
_NAMES = _KEYS | _HOLDERS | {"user", "account", "household", "family"}
# What such a name may end in, and words that are one only before such an ending.
_ENDINGS = ("id", "nr", "no", "num", "number", "nummer", "code", "key")
_BEFORE_ENDINGS = _NAMES | {"pat", "patienten", "versicherten", "probanden", "case", "fall"}


@dataclass(frozen=True, kw_only=True)
class DeclaredUnit(Section):
    """Whose records belong together, and how many of one unit are used at most."""

    column: Annotated[str | None, Text(), "column that identifies the unit; absent: a record is the unit"] = None
    most_records: Annotated[int, Whole(MOST_RECORDS), "records of one unit that are used at most, the first ones"]

    @property
    def stated(self) -> AnyUnit:
        """The unit that a spec may state: without a column no run can keep records together."""
        return Unit.RECORD if self.column is None else ColumnUnit(self.column, self.most_records)

    @property
    def words(self) -> str:
        if self.column is None:
            most = f"up to {self.most_records} records belong together"
            return f"one record; {most}, and no column says which, so that a run cannot keep them together"
        return f"all records with one value of {self.column!r}, of which the first {self.most_records} are used"


class UnitGroups(NamedTuple):
    """The unit of each record that is used, numbered from 0, and its place in the table; the counts are NON-PRIVATE."""

    units: NDArray[np.intp]
    kept: Indices
    number: int
    largest: int
    cut: int
    missing: int


def grouped(name: str, column: Column, most_records: int, tokens: Sequence[str]) -> UnitGroups:
    """Group records by a column."""
    codes = key_codes(name, column, tokens)
    _, units = np.unique(codes, return_inverse=True)
    units = units.astype(np.intp)
    sizes = np.bincount(units) if len(units) else np.zeros(0, np.intp)
    order = np.argsort(units, kind="stable")
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = np.sort(order[place < most_records])
    largest, cut, missing = sizes.max(initial=0), (sizes > most_records).sum(), (codes == MISSING).sum()
    return UnitGroups(units[kept], kept, len(sizes), int(largest), int(cut), int(missing))


def key_codes(name: str, column: Column, tokens: Sequence[str]) -> NDArray[np.int64]:
    """A number for each different value of a column, `MISSING` where there is none."""
    known: dict[str, int] = {}
    return keys(name, column, tokens, lambda word: known.setdefault(word, len(known)))


def keys(name: str, column: Column, tokens: Sequence[str], code_of: Callable[[str], int]) -> NDArray[np.int64]:
    """The code of each record's key, without blanks around it; `MISSING` where it has none or one that says nothing."""
    absent = frozenset(tokens)

    def code(word: str) -> int:
        plain = word.strip()
        return MISSING if plain in absent else code_of(plain)

    if not column.tells_keys_apart:
        raise InputError(f"Expected the unit's column {name!r} to hold text or integers, got {column.holds}.")
    return np.maximum(column.codes(code), MISSING)


def sounds_like_an_identifier(name: str) -> bool:
    """Whether a column's name suggests that it identifies the unit."""
    words = "".join(letter if letter.isalnum() else " " for letter in name.replace("ID", " id ")).lower().split()
    ended = {word.removesuffix(end) for word in words for end in _ENDINGS if word.endswith(end)}
    return not _NAMES.isdisjoint(words) or not _BEFORE_ENDINGS.isdisjoint(ended)


@dataclass(frozen=True, kw_only=True)
class DeclaredWeight(Section):
    """The column of survey weights, its public bounds, and the public mean of the weights."""

    column: Annotated[str, TextLine(blank=False), "column that says how much a record counts"]
    low: Annotated[float, Number(NON_NEGATIVE), "public lower bound; smaller weights count as this"]
    high: Annotated[float, Number(POSITIVE), "public upper bound; larger weights count as this, and it sets the noise"]
    mean: Annotated[float, Number(POSITIVE), "public mean of the weights, 1 where they were scaled to it"]

    def contradictions(self) -> Iterator[Contradiction]:
        if not self.low < self.high:
            yield Contradiction("high", f"above low = {self.low:g}", self.high)
        elif not self.low <= self.mean <= self.high:
            yield Contradiction("mean", f"between {self.low:g} and {self.high:g}", self.mean)

    def shares(self, column: Column, tokens: Sequence[str]) -> Array:
        """For every record its weight as a share of the largest, in [0, 1]; a cell that is no number has the mean."""
        values = as_numbers(column, self.column, tokens)
        values[np.isnan(values)] = self.mean
        return np.clip(values, self.low, self.high) / self.high

    def effective(self, records: int) -> int:
        """How many records of the largest weight the weights add up to, by their declared mean."""
        return max(1, round(records * self.mean / self.high))
