"""What an author claims of a mechanism, which tables it may be given, and the neighbours worth trying.

A table is a tuple of records, a record a cell or a tuple of cells. Pairs of neighbours are made from the declared
domain alone: extremes, empty tables, ties and duplicates, special numbers, huge and tiny ones, likelier ones first.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sordino.auditing.hunter.processes import Table
from sordino.core.bound import Relation
from sordino.core.validate import InputError, Interval, number, one_of, refuse, whole_number

HUGE, TINY = 1e300, 5e-324
ARITHMETICS = ("exact", "real")
_CLAIM_KEYS = {"epsilon", "delta", "relation", "domain", "arithmetic"}
_FIELD_KEYS = {"low", "high", "whole", "special", "values"}
_EXAMPLE = '{"records": {"low": 0, "high": 1}, "size": [0, 8]}'
MOST_SIZE = 10_000


@dataclass(frozen=True)
class Field:
    """One cell of a record: a number between bounds, or one of some values.

    With `special` NaN and infinities are allowed too; `values` are the only values, numbers or texts.
    """

    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    special: bool = False
    values: tuple[Any, ...] = ()

    @staticmethod
    def parse(given: Any) -> "Field":
        """From {"low":, "high":, "whole":, "special":} or {"values": [...]}; a missing bound is a huge one."""
        if not isinstance(given, Mapping) or not set(given) <= _FIELD_KEYS:
            raise InputError(f"Expected a field of the domain with keys from {sorted(_FIELD_KEYS)}, got {given!r}.")
        if "values" in given:
            values = given["values"]
            scalar = isinstance(values, list) and all(isinstance(one, str | int | float) for one in values)
            if not scalar or len(values) < 2:
                raise refuse("values", "to be a list of two or more numbers or texts", values)
            return Field(values=tuple(values))
        low = number("low", given["low"] if given.get("low") is not None else -HUGE)
        high = number("high", given["high"] if given.get("high") is not None else HUGE)
        if not low < high:
            raise refuse("high", f"above low, {low!r}", high)
        for name in ("whole", "special"):
            if not isinstance(given.get(name, False), bool):
                raise refuse(name, "to be true or false", given[name])
        return Field(low, high, given.get("whole", False), given.get("special", False))

    def corners(self) -> list[Any]:
        """Cells worth trying, the likelier ones first."""
        if self.values:
            return list(self.values[:8])
        low, high = self.low, self.high
        inside = [low, high, 0.0, low / 2 + high / 2, 1.0, -1.0, low + (high - low) / 3 if high < HUGE else 1 / 3]
        inside += [TINY, float(np.nextafter(high, low)), 2.0**-30, 1e9, 2.0**53]
        kept = [float(math.floor(one)) if self.whole else one for one in inside]
        kept = list(dict.fromkeys(one for one in kept if low <= one <= high))
        cells: list[Any] = [int(one) for one in kept] if self.whole else list(kept)
        return cells + ([math.nan, math.inf, -math.inf] if self.special else [])

    def random(self, rng: np.random.Generator) -> Any:
        """Any cell of the field."""
        if self.values:
            return self.values[int(rng.integers(len(self.values)))]
        bounds = max(self.low, -1e12), min(self.high, 1e12)
        return int(rng.integers(int(bounds[0]), int(bounds[1]) + 1)) if self.whole else float(rng.uniform(*bounds))


@dataclass(frozen=True)
class TableDomain:
    """Records of one or several fields, and how many of them a table has.

    A `single` record is one bare cell, not a row.
    """

    fields: tuple[Field, ...]
    single: bool
    smallest: int
    largest: int

    @staticmethod
    def parse(given: Any) -> "TableDomain":
        """From {"records": FIELD or [FIELD, ...], "size": [smallest, largest]}."""
        if not isinstance(given, Mapping) or "records" not in given or not set(given) <= {"records", "size"}:
            raise InputError(f"Expected a domain such as {_EXAMPLE}, got {given!r}.")
        records = given["records"]
        single = not isinstance(records, list)
        if not single and not records:
            raise InputError("Expected at least one field in the domain's records, got none.")
        fields = tuple(Field.parse(one) for one in ([records] if single else records))
        size = given.get("size", [0, 8])
        if not isinstance(size, list) or len(size) != 2:
            raise refuse("size", "to be [smallest, largest]", size)
        smallest = whole_number("smallest size", size[0], Interval(0, MOST_SIZE))
        largest = whole_number("largest size", size[1], Interval(max(smallest, 1), MOST_SIZE))
        return TableDomain(fields, single, smallest, largest)

    def record(self, cells: Sequence[Any]) -> Any:
        """A record of these cells."""
        return cells[0] if self.single else tuple(cells)

    def rows(self) -> list[Any]:
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
        if width > 1 and any(field.special for field in self.fields):
            for chosen, field in enumerate(self.fields):
                if field.special:
                    found.append([math.nan if place == chosen else one[0] for place, one in enumerate(corners)])
        return list({repr(value): value for value in map(self.record, found)}.values())

    def random_record(self, rng: np.random.Generator) -> Any:
        """Any record."""
        return self.record([field.random(rng) for field in self.fields])


@dataclass(frozen=True)
class PrivacyClaim:
    """What an author says of a mechanism: for all neighbours of this domain, epsilon and delta.

    Attributes:
        epsilon: claimed.
        delta: claimed; 0 for pure privacy.
        relation: of the neighbours.
        domain: of the tables.
        arithmetic: "exact", the claim is about the floats that come out, to the last bit; or "real", it is about real
            numbers, and what the last bits of a float tell is left aside.
    """

    epsilon: float
    delta: float
    relation: Relation
    domain: TableDomain
    arithmetic: str = "exact"

    @staticmethod
    def parse(given: Any) -> "PrivacyClaim":
        """From JSON text or a mapping; the relation and the domain have no default."""
        if isinstance(given, PrivacyClaim):
            return given
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except ValueError:
                raise InputError("Expected the claim to be a JSON object, got text that is none.") from None
        if not isinstance(given, Mapping) or not set(given) <= _CLAIM_KEYS:
            raise InputError(f"Expected a claim with keys from {sorted(_CLAIM_KEYS)}, got {given!r}.")
        for key, example in (("epsilon", "1"), ("relation", '"replace-one"'), ("domain", _EXAMPLE)):
            if key not in given:
                raise InputError(f'Expected the claim to say "{key}", got none; for instance "{key}": {example}.')
        relation = Relation(one_of("relation", given["relation"], [one.value for one in Relation]))
        domain = TableDomain.parse(given["domain"])
        if relation is Relation.ADD_REMOVE and domain.smallest == domain.largest:
            raise InputError("Expected sizes that differ for add-remove neighbours, got one size; allow a range.")
        return PrivacyClaim(
            number("epsilon", given["epsilon"], Interval(0.0, 100.0)),
            number("delta", given.get("delta", 0.0), Interval(0.0, 1.0, high_open=True)),
            relation,
            domain,
            one_of("arithmetic", given.get("arithmetic", "exact"), ARITHMETICS),
        )


class TablePair(NamedTuple):
    """Two neighbouring tables."""

    first: Table
    second: Table


def neighbours(claim: PrivacyClaim, rng: np.random.Generator, most: int = 400) -> list[TablePair]:
    """Pairs worth trying, the likelier ones first."""
    domain, replaces = claim.domain, claim.relation is Relation.REPLACE_ONE
    rows = domain.rows()[:14]
    shared = _sizes(domain, replaces)
    ranked: list[tuple[float, int, TablePair]] = []
    for (size_rank, size), (change_rank, change) in itertools.product(enumerate(shared), enumerate(rows)):
        for base_rank, base in enumerate(_bases(domain, rows, size, rng)):
            # Where a table is read in pieces, a record at its beginning moves all others.
            places = (0, size, size // 2) if base == _in_twos(rows, size) else (size, 0, size // 2)
            for place_rank, place in enumerate(dict.fromkeys(places)):
                # A replaced record takes the place of another corner, so that both ends of the domain meet.
                others = rows[:6] if replaces else [None]
                for other_rank, other in enumerate(others):
                    rank = size_rank + change_rank + base_rank + 4.0 * place_rank + other_rank
                    if rank > 20:
                        continue
                    bigger = (*base[:place], change, *base[place:])
                    smaller = (*base[:place], other, *base[place:]) if replaces else base
                    if repr(bigger) != repr(smaller):
                        ranked.append((rank, len(ranked), TablePair(smaller, bigger)))
    ranked.sort(key=lambda one: one[:2])
    found: dict[frozenset[str], TablePair] = {}
    for _, _, pair in ranked:
        found.setdefault(frozenset((repr(pair.first), repr(pair.second))), pair)
        if len(found) >= most:
            break
    return list(found.values())


def _sizes(domain: TableDomain, replaces: bool) -> list[int]:
    """How many records the two tables share, in the order in which sizes are tried."""
    low, high = domain.smallest - int(replaces), domain.largest - 1
    low = max(low, 0)
    wanted = [min(low + 2, high), low, high, low + 1, (low + high) // 2, low + 4]
    return list(dict.fromkeys(size for size in wanted if low <= size <= high))


def _bases(domain: TableDomain, rows: list[Any], size: int, rng: np.random.Generator) -> list[Table]:
    """Shared records: the same one everywhere, two in turn, one by one and in twos, several in turn, random ones."""
    if size == 0:
        return [()]
    constant = [(row,) * size for row in rows[:6]]
    turns = [tuple(rows[place % 2] for place in range(size)), tuple(rows[place % len(rows)] for place in range(size))]
    mixed = [tuple(domain.random_record(rng) for _ in range(size))]
    twos = [_in_twos(rows, size)] if size > 2 else []
    return [*constant[:2], turns[0], *twos, *mixed, *constant[2:], turns[1]]


def _in_twos(rows: list[Any], size: int) -> Table:
    return tuple(rows[place // 2 % 2] for place in range(size))


def variations(pair: TablePair, claim: PrivacyClaim, rng: np.random.Generator, count: int) -> list[TablePair]:
    """Pairs near a promising one: a shared record changed, doubled or left out, the record that differs changed."""
    domain, rows = claim.domain, claim.domain.rows()
    place, shared, first, second = split(pair)
    found: list[TablePair] = []
    for _ in range(6 * count):
        row = rows[int(rng.integers(len(rows)))] if rng.random() < 0.8 else domain.random_record(rng)
        kept, a, b = list(shared), first, second
        kind = int(rng.integers(5))
        spot = int(rng.integers(len(kept))) if kept else 0
        if kind == 0 and kept:
            kept[spot] = row
        elif kind == 1:
            kept.insert(spot, row)
        elif kind == 2 and kept:
            del kept[spot]
        elif kind == 3 and kept:
            kept = [row] * len(kept)
        elif a is not None and rng.random() < 0.5:
            a = (row,)
        elif b:
            b = (row,)
        new = joined(min(place, len(kept)), kept, a, b)
        sizes = len(new.first), len(new.second)
        fits = domain.smallest <= min(sizes) and max(sizes) <= domain.largest
        if fits and repr(new.first) != repr(new.second):
            found.append(new)
        if len(found) >= count:
            break
    return found


def split(pair: TablePair) -> tuple[int, list[Any], Table | None, Table]:
    """Where the tables differ, what they share, and the records there: first's (None when removed) and second's."""
    first, second = pair
    swapped = len(first) > len(second)
    if swapped:
        first, second = second, first
    place = 0
    while place < len(first) and repr(first[place]) == repr(second[place]):
        place += 1
    if len(first) == len(second):
        place = min(place, len(first) - 1)
        return place, [*first[:place], *first[place + 1 :]], (first[place],), (second[place],)
    return place, list(first), None, (second[place],)


def joined(place: int, shared: Sequence[Any], first: Table | None, second: Table) -> TablePair:
    """The inverse of `split`; a removed record is the first table's lack."""
    before, after = tuple(shared[:place]), tuple(shared[place:])
    return TablePair((*before, *(first or ()), *after), (*before, *second, *after))


def simpler(pair: TablePair, claim: PrivacyClaim) -> Iterator[TablePair]:
    """Smaller or plainer pairs of the same relation, the boldest first."""
    place, shared, first, second = split(pair)
    smallest = claim.domain.smallest - (1 if first is not None else 0)
    for kept in dict.fromkeys((max(smallest, 0), len(shared) // 2, len(shared) - 1)):
        if max(smallest, 0) <= kept < len(shared):
            yield joined(min(place, kept), shared[:kept], first, second)
    plain = claim.domain.rows()[0]
    for spot, record in enumerate(shared):
        if repr(record) != repr(plain):
            yield joined(place, [*shared[:spot], plain, *shared[spot + 1 :]], first, second)
            if spot > 8:
                break
