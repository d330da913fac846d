"""What the records of a ledger say: the opening, the entries with the total after each, and fingerprints of rows."""

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.errors import InputError
from sordino.core.spec import json_text
from sordino.core.version import __version__
from sordino.ledger import seal
from sordino.ledger.budget import Budget
from sordino.ledger.entry import Entry
from sordino.ledger.errors import LedgerError
from sordino.ledger.filters import Charge, Filter, filter_from_dict

if TYPE_CHECKING:
    from sordino.ledger.log import Log, OpenLog

ENTRY, ROWS = "entry", "rows"
MOST_FINGERPRINTS = 64

Json = dict[str, Any]
Fingerprints = list[tuple[int, bytes]]


@dataclass(frozen=True)
class Header:
    """What opening fixed, and the key.

    `fixed` holds the texts of budget, filter and opening time as stored.
    """

    key: bytes
    fixed: tuple[str, str, str]
    budget: Budget
    rule: Filter


@dataclass(frozen=True)
class State:
    """Where a ledger stands after a record: how many releases, and what they cost together."""

    releases: int
    total: Charge


@dataclass(frozen=True)
class Page:
    """A new entry before it has a number."""

    charge: Charge
    theorem: str
    epsilon: float
    spec_text: str
    bound_text: str


def opening(budget: Budget, rule: Filter) -> Json:
    """The first record of a new ledger."""
    return opening_record(seal.new_key(), (text(budget.to_dict()), text(rule.to_dict()), _now()))


def opening_record(key: bytes, fixed: tuple[str, str, str]) -> Json:
    """The first record, with a key and texts that are known."""
    budget, rule, opened = fixed
    return {"kind": "opening", "key": key.hex(), "budget": budget, "filter": rule, "opened": opened}


def header(path: Path, record: Json) -> Header:
    """Read the opening."""
    try:
        fixed = record["budget"], record["filter"], record["opened"]
        if record["kind"] != "opening" or not all(isinstance(word, str) for word in fixed):
            raise damaged(path)
        budget, rule = _parsed(*fixed[:2])
        return Header(bytes.fromhex(record["key"]), fixed, budget, rule)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path) from error


@lru_cache(maxsize=16)
def _parsed(budget: str, rule: str) -> tuple[Budget, Filter]:
    return Budget.from_dict(json_text.parse(budget)), filter_from_dict(json_text.parse(rule))


def state(path: Path, top: Header, record: Json) -> State:
    """Where the ledger stands after this record."""
    if record.get("kind") == "opening":
        return State(0, top.rule.total([]))
    try:
        releases, total = record["releases"], Charge.from_dict(record["total"])
        if record["kind"] not in {ENTRY, ROWS} or type(releases) is not int or releases < 0:
            raise damaged(path)
        return State(releases, top.rule.total([total]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path) from error


def standing(log: "Log") -> tuple[Header, State]:
    """What opening fixed and where the ledger stands now, from its first and its last record."""
    top = header(log.path, log.opening)
    return top, state(log.path, top, log.state)


def append(log: "OpenLog", top: Header, before: State, page: Page) -> Entry:
    """Add an entry; on return it is on the disk."""
    alone = None if page.epsilon == float("inf") else page.epsilon
    words = (_now(), page.theorem, alone, page.spec_text, page.bound_text)
    record = entry_record(top, before, page.charge, *words, _versions()) | {"rows": _place_of_rows(log)}
    digest = log.append(record).link.hex()
    return _entry(log.path, record, digest)


def entry_record(
    top: Header,
    before: State,
    charge: Charge,
    time: str,
    theorem: str,
    epsilon: float | None,
    spec: str,
    bound: str,
    versions: Json,
) -> Json:
    """The record of the entry that follows a state."""
    return {
        "kind": ENTRY,
        "releases": before.releases + 1,
        "charge": charge.to_dict(),
        "total": top.rule.total([before.total, charge]).to_dict(),
        "rows": None,
        "time": time,
        "theorem": theorem,
        "epsilon": epsilon,
        "spec": spec,
        "bound": bound,
        "versions": versions,
    }


def entries(log: "Log") -> Iterator[Entry]:
    """Every entry in full, with the chain followed and the totals added up again from its beginning."""
    top = header(log.path, log.opening)
    before = state(log.path, top, log.opening)
    for mark, record in log.records():
        after = state(log.path, top, record)
        if record["kind"] == ENTRY:
            entry = _entry(log.path, record, mark.link.hex())
            before = State(before.releases + 1, _added(log.path, top, before.total, entry.charge))
            yield entry
        if after != before:
            raise damaged(log.path)


def fingerprints(log: "Log") -> Fingerprints:
    """Fingerprints of rows that differ, each with the entry it first belonged to: the first one and the latest."""
    place = _place_of_rows(log)
    if place is None:
        return []
    record = log.state if log.state.get("kind") == ROWS else log.record_at(place)
    try:
        return [(int(sequence), bytes.fromhex(found)) for sequence, found in record["fingerprints"]]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(log.path) from error


def keep_fingerprint(log: "OpenLog", top: Header, sequence: int, fingerprint: bytes) -> None:
    """Remember which rows an entry was computed from, unless they are known."""
    known = fingerprints(log)
    if all(found != fingerprint for _, found in known):
        before = state(log.path, top, log.state)
        log.append(_rows_record(before, [*known, (sequence, fingerprint)]))


def fingerprint_records(before: State, known: Fingerprints) -> list[Json]:
    """The record of fingerprints that are known already, if there are any."""
    first: dict[bytes, int] = {}
    for sequence, found in known:
        first.setdefault(found, sequence)
    return [_rows_record(before, [(sequence, found) for found, sequence in first.items()])] if first else []


def _rows_record(before: State, known: Fingerprints) -> Json:
    kept = known[:1] + known[1:][1 - MOST_FINGERPRINTS :]
    return {
        "kind": ROWS,
        "releases": before.releases,
        "total": before.total.to_dict(),
        "fingerprints": [[sequence, found.hex()] for sequence, found in kept],
    }


def _place_of_rows(log: "Log") -> int | None:
    """Where the latest record of fingerprints begins."""
    if log.state.get("kind") == ROWS:
        return log.mark.start
    place = log.state.get("rows")
    return place if type(place) is int and place >= 0 else None


def _entry(path: Path, record: Json, digest: str) -> Entry:
    try:
        words = [record[name] for name in ("time", "theorem", "spec", "bound")]
        epsilon, versions = record["epsilon"], record["versions"]
        if not all(isinstance(word, str) for word in words) or not isinstance(versions, dict):
            raise damaged(path)
        if epsilon is not None and (type(epsilon) not in {int, float} or epsilon < 0):
            raise damaged(path)
        time, theorem, spec, bound = words
        alone = float("inf") if epsilon is None else float(epsilon)
        software = tuple(sorted((name, str(number)) for name, number in versions.items()))
        charge = Charge.from_dict(record["charge"])
        return Entry(record["releases"], time, theorem, alone, charge, spec, bound, software, digest)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path) from error


def _added(path: Path, top: Header, total: Charge, charge: Charge) -> Charge:
    try:
        return top.rule.total([total, charge])
    except InputError as error:
        raise damaged(path) from error


def text(value: Json) -> str:
    """Canonical JSON text: the same value is always the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def damaged(path: Path) -> LedgerError:
    """The sentence for a ledger that cannot be believed."""
    return LedgerError(f"Expected {str(path)!r} to be a whole ledger, got one that is damaged; restore it from a copy.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@lru_cache(maxsize=1)
def _software() -> tuple[tuple[str, str], ...]:
    found = {name: version(name) for name in ("numpy", "scipy")}
    return tuple((found | {"sordino": __version__, "python": platform.python_version()}).items())


def _versions() -> Json:
    return dict(_software())
