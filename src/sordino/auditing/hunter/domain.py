"""A privacy claim about a mechanism, the domain of its tables, and the neighbours to try.

A table is a tuple of records, a record a cell or a tuple of cells. Pairs of neighbours are made from the declared
domain alone: extremes, empty tables, ties and duplicates, special numbers, huge and tiny ones, likelier ones first.
"""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np

from sordino.auditing.hunter.processes import Cell, Record, Table
from sordino.core.bound import Relation
from sordino.core.spec.fields import Contradiction, Flag, Nested, Number, Schema, Section, Several, Shape, Whole, Word
from sordino.core.validate import ANY_REAL, InputError, Interval, refuse

HUGE, TINY = 1e300, 5e-324
Choice = TypeVar("Choice")
MOST_SIZE = 10_000


class Cells(Shape):
    """Two or more numbers or texts."""

    def read(self, path: str, value: Any) -> tuple[Any, ...]:
        scalars = isinstance(value, list | tuple) and all(isinstance(one, str | int | float) for one in value)
        if not scalars or len(value) < 2:
            raise refuse(path, "to be a list of two or more numbers or texts", value)
        return tuple(value)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"type": "array", "minItems": 2}


@dataclass(frozen=True)
class Field(Section):
    """A cell of a record: a number between bounds, with `special` NaN and infinities too, or one of some `values`."""

    low: Annotated[float, Number(ANY_REAL)] = -HUGE
    high: Annotated[float, Number(ANY_REAL)] = HUGE
    whole: Annotated[bool, Flag()] = False
    special: Annotated[bool, Flag()] = False
    values: Annotated[tuple[Cell, ...] | None, Cells()] = None

    def contradictions(self) -> Iterator[Contradiction]:
        if not self.low < self.high:
            yield Contradiction("high", f"above low, {self.low!r}", self.high)

    def corners(self) -> list[Cell]:
        """Cells worth trying, the likelier ones first."""
        if self.values:
            return list(self.values[:8])
        low, high = self.low, self.high
        inside = [low, high, 0.0, low / 2 + high / 2, 1.0, -1.0, low + (high - low) / 3 if high < HUGE else 1 / 3]
        inside += [TINY, float(np.nextafter(high, low)), 2.0**-30, 1e9, 2.0**53]
        kept = [float(math.floor(one)) if self.whole else one for one in inside]
        kept = list(dict.fromkeys(one for one in kept if low <= one <= high))
        cells: list[Cell] = [int(one) for one in kept] if self.whole else list(kept)
        return [*cells[:2], *([math.nan, math.inf, -math.inf] if self.special else []), *cells[2:]]

    def random(self, rng: np.random.Generator) -> Cell:
        if self.values:
            return self.values[int(rng.integers(len(self.values)))]
        bounds = max(self.low, -1e12), min(self.high, 1e12)
        return int(rng.integers(int(bounds[0]), int(bounds[1]) + 1)) if self.whole else float(rng.uniform(*bounds))


class RecordFields(Shape):
    """One field, whose records are bare cells, or a list of fields, whose records are rows."""

    def read(self, path: str, value: Any) -> Field | tuple[Field, ...]:
        if not isinstance(value, list | tuple):
            return Nested(Field).read(path, value)
        if not value:
            raise refuse(path, "to have at least one field", value)
        return tuple(Nested(Field).read(f"{path}.{place}", one) for place, one in enumerate(value))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        one = Nested(Field).schema(definitions)
        return {"anyOf": [one, {"type": "array", "items": one}]}


@dataclass(frozen=True)
class TableDomain(Section):
    """Records of one or several fields, and how many of them a table has."""

    records: Annotated[Field | tuple[Field, ...], RecordFields()]
    size: Annotated[tuple[int, ...], Several(Whole(Interval(0, MOST_SIZE)), most=2)] = (0, 8)

    def contradictions(self) -> Iterator[Contradiction]:
        if len(self.size) != 2 or self.size[0] > self.size[1] or self.size[1] < 1:
            yield Contradiction("size", "to be [smallest, largest]", list(self.size))

    @property
    def fields(self) -> tuple[Field, ...]:
        return (self.records,) if isinstance(self.records, Field) else self.records

    def record(self, cells: Sequence[Cell]) -> Record:
        return cells[0] if isinstance(self.records, Field) else tuple(cells)

    def rows(self) -> list[Record]:
        """Records worth trying: all fields low, all high, alternating, one field high or low, and so on."""
        corners = [field.corners() for field in self.fields]
        width = len(corners)
        found = [[one[0] for one in corners], [one[1 % len(one)] for one in corners]]
        if 1 < width <= 3:
            found += [list(cells) for cells in itertools.product(*[one[:2] for one in corners])]
        elif width > 3:
            found += [[one[(place + turn) % 2] for place, one in enumerate(corners)] for turn in (0, 1)]
            for chosen in range(min(width, 6)):
                found.append([one[int(place == chosen)] for place, one in enumerate(corners)])
                found.append([one[int(place != chosen)] for place, one in enumerate(corners)])
        for rank in range(2, max(map(len, corners))):
            found.append([one[min(rank, len(one) - 1)] for one in corners])
        for chosen, field in enumerate(self.fields):
            if width > 1 and field.special:
                found.append([math.nan if place == chosen else one[0] for place, one in enumerate(corners)])
        return list({repr(value): value for value in map(self.record, found)}.values())

    def random_record(self, rng: np.random.Generator) -> Record:
        return self.record([field.random(rng) for field in self.fields])


@dataclass(frozen=True)
class PrivacyClaim(Section):
    """What an author says of a mechanism, for all neighbours of the domain; "real" `arithmetic` drops last bits."""

    root: ClassVar[str] = "the claim"

    epsilon: Annotated[float, Number(Interval(0.0, 100.0))]
    relation: Annotated[Relation, Word(Relation)]
    domain: Annotated[TableDomain, Nested(TableDomain)]
    delta: Annotated[float, Number(Interval(0.0, 1.0, high_open=True))] = 0.0
    arithmetic: Annotated[str, Word({"exact": "exact", "real": "real"})] = "exact"

    def contradictions(self) -> Iterator[Contradiction]:
        if self.relation is Relation.ADD_REMOVE and self.domain.size[0] == self.domain.size[1]:
            yield Contradiction("domain.size", "to be sizes that differ for add-remove", list(self.domain.size))

    @staticmethod
    def parse(given: Any) -> "PrivacyClaim":
        """From JSON text or a mapping; the relation and the domain have no default."""
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except ValueError:
                raise InputError("The claim is not a JSON object.") from None
        return Nested(PrivacyClaim).read("", given)


@dataclass(frozen=True)
class TablePair:
    """Two neighbouring tables that share records and differ at one place, where the first may have none."""

    shared: Table
    place: int
    first: Table
    second: Table

    @property
    def tables(self) -> tuple[Table, Table]:
        before, after = self.shared[: self.place], self.shared[self.place :]
        return (*before, *self.first, *after), (*before, *self.second, *after)


def neighbours(claim: PrivacyClaim, rng: np.random.Generator, most: int = 400) -> list[TablePair]:
    """Pairs worth trying: small tables and extreme records come first, and are drawn more often."""
    domain, replaces = claim.domain, claim.relation is Relation.REPLACE_ONE
    rows, low, high = domain.rows()[:14], max(domain.size[0] - int(replaces), 0), domain.size[1] - 1
    wanted = (min(low + 2, high), low, high, low + 1, (low + high) // 2, low + 4)
    sizes = list(dict.fromkeys(size for size in wanted if low <= size <= high))
    found: dict[tuple[str, str], TablePair] = {}
    for _ in range(8 * most):
        size = _early(sizes, rng)
        # Shared records are all the same, two or several in turn, in twos, or any.
        kind = int(rng.integers(6))
        turns = rows if kind == 2 else rows[:2]
        if kind < 2:
            shared: Table = (_early(rows, rng),) * size
        elif kind < 5:
            shared = tuple(turns[place // (2 if kind == 4 else 1) % len(turns)] for place in range(size))
        else:
            shared = tuple(domain.random_record(rng) for _ in range(size))
        # Where a table is read in pieces, a record at its beginning moves all others.
        place = _early((0, size, size // 2) if kind == 4 else (size, 0, size // 2), rng)
        pair = TablePair(shared, place, (_early(rows, rng),) if replaces else (), (_early(rows, rng),))
        first, second = map(repr, pair.tables)
        if first != second:
            found.setdefault((min(first, second), max(first, second)), pair)
        if len(found) == most:
            break
    return list(found.values())


def _early(ranked: Sequence[Choice], rng: np.random.Generator) -> Choice:
    """One of several things, the first ones more often."""
    return ranked[int(rng.geometric(0.4) - 1) % len(ranked)]


def variations(pair: TablePair, claim: PrivacyClaim, rng: np.random.Generator, count: int) -> list[TablePair]:
    """Pairs near a promising one: a shared record changed, doubled or left out, the record that differs changed."""
    domain, rows = claim.domain, claim.domain.rows()
    found: list[TablePair] = []
    for _ in range(6 * count):
        row = rows[int(rng.integers(len(rows)))] if rng.random() < 0.8 else domain.random_record(rng)
        shared, first, second = list(pair.shared), pair.first, pair.second
        kind, spot = int(rng.integers(5)), int(rng.integers(len(shared) + 1))
        if kind < 3:  # one record more, one less, or another in its place
            shared[spot : spot + int(kind > 0)] = [row] if kind < 2 else []
        elif kind == 3:
            shared = [row] * len(shared)
        elif first and rng.random() < 0.5:
            first = (row,)
        else:
            second = (row,)
        new = TablePair(tuple(shared), min(pair.place, len(shared)), first, second)
        sizes = [len(table) for table in new.tables]
        if domain.size[0] <= min(sizes) and max(sizes) <= domain.size[1] and repr(first) != repr(second):
            found.append(new)
        if len(found) == count:
            break
    return found
