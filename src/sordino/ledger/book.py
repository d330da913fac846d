"""Reading and writing the rows of a ledger. Every read checks the chain of digests before anything is believed."""

import json
import platform
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sordino.core.spec import json_text
from sordino.core.version import __version__
from sordino.ledger import seal
from sordino.ledger.budget import Budget
from sordino.ledger.entry import Entry
from sordino.ledger.errors import LedgerError
from sordino.ledger.filters import Charge, Filter, filter_from_dict

_HEADER = "SELECT key, budget, filter, opened, releases, head, seal FROM ledger"
_CHAIN = "SELECT sequence, charge, content, digest FROM entries ORDER BY sequence"
_ENTRY = (
    "SELECT sequence, charge, content, time, theorem, epsilon, spec, bound, versions FROM entries ORDER BY sequence"
)
_INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Header:
    """What opening fixed, the key, and where the chain of entries ends.

    `fixed` holds the texts of budget, filter and opening time as stored: they are sealed again as they are, whatever a
    later version would write.
    """

    key: bytes
    fixed: tuple[str, str, str]
    budget: Budget
    rule: Filter
    releases: int
    head: bytes


@dataclass(frozen=True)
class Page:
    """A new entry before it has a number."""

    charge: Charge
    theorem: str
    epsilon: float
    spec_text: str
    bound_text: str


def begin(connection: sqlite3.Connection, budget: Budget, rule: Filter) -> None:
    """Write the header of a new ledger."""
    key, texts = seal.new_key(), (text(budget.to_dict()), text(rule.to_dict()), _now())
    sealed = _sealed(key, *texts, 0, seal.BEGINNING)
    connection.execute("INSERT INTO ledger VALUES (1, ?, ?, ?, ?, 0, ?, ?)", (key, *texts, seal.BEGINNING, sealed))


def header(path: Path, connection: sqlite3.Connection) -> Header:
    """Read and check the header."""
    rows = connection.execute(_HEADER).fetchall()
    kinds = (bytes, str, str, str, int, bytes, bytes)
    if len(rows) != 1 or not _are(rows[0], kinds):
        raise _damaged(path)
    key, budget, rule, opened, releases, head, sealed = rows[0]
    if not seal.same(sealed, _sealed(key, budget, rule, opened, releases, head)):
        raise _damaged(path)
    try:
        terms, parsed = Budget.from_dict(json_text.parse(budget)), filter_from_dict(json_text.parse(rule))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error
    return Header(key, (budget, rule, opened), terms, parsed, releases, head)


def total(path: Path, connection: sqlite3.Connection, top: Header) -> Charge:
    """The sum of all charges, once the chain of entries has been followed to its end."""
    link, charges = seal.BEGINNING, []
    for place, row in enumerate(connection.execute(_CHAIN), start=1):
        if not _are(row, (int, str, bytes, bytes)):
            raise _damaged(path)
        sequence, charge, content, digest = row
        link = _linked(top.key, link, sequence, charge, content)
        if sequence != place or not seal.same(link, digest):
            raise _damaged(path)
        charges.append(_charge(path, charge))
    if len(charges) != top.releases or not seal.same(link, top.head):
        raise _damaged(path)
    return top.rule.total(charges)


def append(connection: sqlite3.Connection, top: Header, page: Page) -> Entry:
    """Add an entry and move the end of the chain."""
    sequence, time, versions = top.releases + 1, _now(), text(_versions())
    charge = text(page.charge.to_dict())
    epsilon = None if page.epsilon == float("inf") else page.epsilon
    content = _content(top.key, (time, page.theorem, epsilon, page.spec_text, page.bound_text, versions))
    link = _linked(top.key, top.head, sequence, charge, content)
    words = (page.theorem, epsilon, page.spec_text, page.bound_text, versions)
    connection.execute(_INSERT, (sequence, charge, content, link, time, *words))
    sealed = _sealed(top.key, *top.fixed, sequence, link)
    connection.execute("UPDATE ledger SET releases = ?, head = ?, seal = ?", (sequence, link, sealed))
    software = tuple(sorted(_versions().items()))
    return Entry(sequence, time, page.theorem, page.epsilon, page.charge, page.spec_text, page.bound_text, software)


def entries(path: Path, connection: sqlite3.Connection, top: Header) -> Iterator[Entry]:
    """Every entry in full, its content checked against the chain; call `total` first, which checks the chain."""
    for row in connection.execute(_ENTRY):
        sequence, charge, content, *words = row
        if not _are(row, (int, str, bytes, str, str, float | None, str, str, str)):
            raise _damaged(path)
        if not seal.same(content, _content(top.key, tuple(words))):
            raise _damaged(path)
        time, theorem, epsilon, spec, bound, versions = words
        alone = float("inf") if epsilon is None else epsilon
        yield Entry(sequence, time, theorem, alone, _charge(path, charge), spec, bound, _named(path, versions))


def fingerprints(connection: sqlite3.Connection) -> list[tuple[int, bytes]]:
    """Every fingerprint of rows with the entry it belongs to, oldest first."""
    rows = connection.execute("SELECT sequence, fingerprint FROM fingerprints ORDER BY sequence").fetchall()
    return [row for row in rows if _are(row, (int, bytes))]


def keep_fingerprint(connection: sqlite3.Connection, sequence: int, fingerprint: bytes) -> None:
    """Remember which rows an entry was computed from."""
    connection.execute("INSERT OR REPLACE INTO fingerprints VALUES (?, ?)", (sequence, fingerprint))


def _named(path: Path, versions: str) -> tuple[tuple[str, str], ...]:
    found = json_text.parse(versions)
    if not isinstance(found, dict):
        raise _damaged(path)
    return tuple(sorted((name, str(number)) for name, number in found.items()))


def _charge(path: Path, text: str) -> Charge:
    try:
        return Charge.from_dict(json_text.parse(text))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error


def _are(row: tuple[Any, ...], kinds: tuple[Any, ...]) -> bool:
    return all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True))


def _linked(key: bytes, link: bytes, sequence: int, charge: str, content: bytes) -> bytes:
    return seal.digest(key, "entry", link, str(sequence), charge, content)


def _content(key: bytes, words: tuple[Any, ...]) -> bytes:
    return seal.digest(key, "content", *(repr(word) if isinstance(word, float | None) else word for word in words))


def _sealed(key: bytes, budget: str, rule: str, opened: str, releases: int, head: bytes) -> bytes:
    return seal.digest(key, "header", budget, rule, opened, str(releases), head)


def text(value: dict[str, Any]) -> str:
    """Canonical JSON text: the same value is always the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in ("numpy", "scipy")}
    return found | {
        "sordino": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _damaged(path: Path) -> LedgerError:
    return LedgerError(f"Expected {str(path)!r} to be a whole ledger, got one that is damaged; restore it from a copy.")
