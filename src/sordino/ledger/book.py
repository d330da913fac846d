"""The records of a ledger: its opening, its entries with the total after each, and fingerprints of rows."""

import hashlib
import hmac
import json
import platform
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core import __version__
from sordino.core.bound import Bound
from sordino.core.spec import Spec
from sordino.core.spec.document import parse
from sordino.core.validate import InputError, refuse
from sordino.ledger.budget import Budget, LedgerError
from sordino.ledger.privacy_filter import Charge, PrivacyFilter

if TYPE_CHECKING:
    from sordino.ledger.log import Log, Mark, OpenLog

BEGINNING = bytes(32)  # as long as a digest


def digest(key: bytes, purpose: str, *parts: str | bytes) -> bytes:
    """HMAC-SHA256 of parts, each preceded by its length so that no two lists of parts agree."""
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in (purpose, *parts):
        content = part.encode("utf-8") if isinstance(part, str) else part
        mac.update(len(content).to_bytes(8, "big"))
        mac.update(content)
    return mac.digest()


@dataclass(frozen=True)
class Entry:
    """A debit: the run as SPEC.json, its bound with certificates as JSON, and the software that computed it.

    `epsilon` is that of this release alone, at the budget's delta; `digest` that of the entry and all before it, keyed.
    `release` is the SHA-256 of the release.json that was made on it, `run` the secret name of a run that can be
    resumed, and `place` is where its record begins in the log.
    """

    sequence: int
    time: str
    theorem: str
    epsilon: float
    charge: Charge
    spec_text: str
    bound_text: str
    versions: tuple[tuple[str, str], ...]
    digest: str
    release: str | None = None
    run: str | None = field(default=None, repr=False)
    place: int = field(default=0, compare=False, repr=False)

    @property
    def spec(self) -> Spec:
        return Spec.from_json(self.spec_text)

    @property
    def bound(self) -> Bound:
        try:
            return Bound.from_dict(parse(self.bound_text))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LedgerError(f"The bound of entry {self.sequence} cannot be read.") from error

    def to_dict(self) -> dict[str, object]:
        head = {"sequence": self.sequence, "time": self.time, "theorem": self.theorem}
        told = {"epsilon": None if self.epsilon == float("inf") else self.epsilon, "charge": self.charge.to_dict()}
        texts = {"spec": parse(self.spec_text), "bound": parse(self.bound_text), "versions": dict(self.versions)}
        return head | told | texts | {"digest": self.digest, "release": self.release}


OPENING, ENTRY, ROWS, RELEASE = "opening", "entry", "rows", "release"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WORDS = ("time", "theorem", "epsilon", "spec", "bound", "versions")

Json = dict[str, Any]
# A table's digests: for each column that of its content, under the digest of its name; under no name its length's.
Fingerprint = dict[str, str]


class Standing(NamedTuple):
    """What opening fixed, as stored and as read, and where the ledger stands: its releases, and their cost together."""

    opening: Json
    budget: Budget
    rule: PrivacyFilter
    releases: int
    total: Charge


class Page(NamedTuple):
    """A new entry before it has a number."""

    charge: Charge
    theorem: str
    epsilon: float
    spec_text: str
    bound_text: str


def opening(budget: Budget, rule: PrivacyFilter) -> Json:
    """The first record of a new ledger."""
    fixed = {"budget": text(budget.to_dict()), "filter": text(rule.to_dict()), "opened": _now()}
    return {"kind": OPENING, "key": secrets.token_hex(32)} | fixed


def standing(log: "Log", record: Json | None = None) -> Standing:
    """What opening fixed, and where the ledger stands after a record: the last one, where none is given."""
    opening, record = log.opening, log.state if record is None else record
    try:
        if opening["kind"] != OPENING or not isinstance(opening["opened"], str):
            raise damaged(log.path)
        budget, rule = _parsed(opening["budget"], opening["filter"])
        if record.get("kind") == OPENING:
            return Standing(opening, budget, rule, 0, rule.total([]))
        releases, total = record["releases"], rule.total([Charge.from_dict(record["total"])])
        if record["kind"] not in {ENTRY, ROWS, RELEASE} or type(releases) is not int or releases < 0:
            raise damaged(log.path)
        return Standing(opening, budget, rule, releases, total)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(log.path) from error


@lru_cache(maxsize=16)
def _parsed(budget: str, rule: str) -> tuple[Budget, PrivacyFilter]:
    return Budget.from_dict(parse(budget)), PrivacyFilter.from_dict(parse(rule))


def append(log: "OpenLog", before: Standing, page: Page, run: str | None = None) -> Entry:
    """Add an entry; on return it is on the disk."""
    alone = None if page.epsilon == float("inf") else page.epsilon
    words = (_now(), page.theorem, alone, page.spec_text, page.bound_text, _versions())
    after = before._replace(releases=before.releases + 1, total=before.rule.total([before.total, page.charge]))
    record = _record(log, ENTRY, after, charge=page.charge.to_dict(), run=run, **dict(zip(_WORDS, words, strict=True)))
    return _entry(log.path, record, log.append(record))


def _record(log: "Log", kind: str, after: Standing, **content: Any) -> Json:
    """A record: where the ledger stands after it, and where the fingerprint of the rows lies."""
    return {"kind": kind, "releases": after.releases, "total": after.total.to_dict(), "rows": _rows_at(log)} | content


def entries(log: "Log") -> tuple[Entry, ...]:
    """Every entry in full, with the chain followed and the totals added up again from its beginning."""
    before = standing(log, log.opening)
    found: dict[int, Entry] = {}
    for mark, record in log.records():
        if record.get("kind") == ENTRY:
            entry = _entry(log.path, record, mark)
            try:
                total = before.rule.total([before.total, entry.charge])
            except InputError as error:
                raise damaged(log.path) from error
            before = before._replace(releases=before.releases + 1, total=total)
            found[entry.sequence] = entry
        elif record.get("kind") == RELEASE:
            sequence, named = _released(log.path, record)
            if sequence not in found:
                raise damaged(log.path)
            # The first name counts: one debit is for one release.
            if found[sequence].release is None:
                found[sequence] = replace(found[sequence], release=named)
        if standing(log, record) != before:
            raise damaged(log.path)
    return tuple(found.values())


def name_release(log: "OpenLog", entry: Entry, named: str) -> None:
    """Remember which release was made on an entry; reads what was recorded after it, however long the log is."""
    behind = log.behind(entry.place, bytes.fromhex(entry.digest))
    if behind is None:
        raise LedgerError(f"Expected an entry of {str(log.path)!r}, got {entry.sequence} of another ledger.")
    names = dict(reversed([_released(log.path, record) for record in behind if record.get("kind") == RELEASE]))
    if names.get(entry.sequence, named) != named:
        raise LedgerError(f"Entry {entry.sequence} of {str(log.path)!r} already names a release.")
    if entry.sequence not in names:
        log.append(_record(log, RELEASE, standing(log), release=[entry.sequence, named]))


def _released(path: Path, record: Json) -> tuple[int, str]:
    try:
        sequence, named = record["release"]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path) from error
    if type(sequence) is not int or not isinstance(named, str) or not _SHA256.fullmatch(named):
        raise damaged(path)
    return sequence, named


def known_rows(log: "Log") -> Fingerprint:
    """The fingerprint of the rows that were read so far; empty where none were."""
    place = _rows_at(log)
    if place is None:
        return {}
    columns = log.record_at(place).get("columns")
    if not isinstance(columns, dict) or not all(isinstance(content, str) for content in columns.values()):
        raise damaged(log.path)
    return columns


def keep_rows(log: "OpenLog", rows: Fingerprint) -> bool:
    """Remember columns of the rows that were read; whether they may be those that were read before.

    They are others where their number differs, or every common column. Of a column that is known the first content
    stays.
    """
    known = known_rows(log)
    common = known.keys() & rows.keys() - {""}
    if known and (known[""] != rows[""] or (common and all(known[name] != rows[name] for name in common))):
        return False
    if rows.keys() - known.keys():
        log.append(_record(log, ROWS, standing(log), columns=rows | known))
    return True


def _rows_at(log: "Log") -> int | None:
    place = log.mark.start if log.state.get("kind") == ROWS else log.state.get("rows")
    return place if type(place) is int and place >= 0 else None


def _entry(path: Path, record: Json, mark: "Mark") -> Entry:
    try:
        time, theorem, epsilon, spec, bound, versions = (record[name] for name in _WORDS)
        if not all(isinstance(word, str) for word in (time, theorem, spec, bound)) or not isinstance(versions, dict):
            raise damaged(path)
        if epsilon is not None and (type(epsilon) not in {int, float} or epsilon < 0):
            raise damaged(path)
        alone, charge = float("inf") if epsilon is None else float(epsilon), Charge.from_dict(record["charge"])
        software = tuple(sorted((name, str(number)) for name, number in versions.items()))
        tied = {"digest": mark.link.hex(), "place": mark.start, "run": record["run"]}
        return Entry(record["releases"], time, theorem, alone, charge, spec, bound, software, **tied)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise damaged(path) from error


def text(value: Json) -> str:
    """Canonical JSON text: the same value is always the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def damaged(path: Path) -> LedgerError:
    """The sentence for a ledger that cannot be believed."""
    return LedgerError(f"The ledger {str(path)!r} is damaged. Restore it from a copy.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def _versions() -> dict[str, str]:
    versions = {name: version(name) for name in ("numpy", "scipy")}
    return versions | {"sordino": __version__, "python": platform.python_version()}


def fingerprint(key: bytes, columns: Mapping[str, NDArray]) -> Fingerprint:
    """The digests of named columns of one length, keyed with the ledger's own key; constant ones are left out."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    lengths = {len(column) if column.ndim else -1 for column in arrays.values()}
    if len(lengths) != 1 or min(lengths) < 0:
        raise refuse("columns", "to be arrays of one length, at least one", sorted(lengths))
    rows = {"": digest(key, "number of rows", str(lengths.pop())).hex()}
    for name, column in arrays.items():
        if column.dtype.hasobject:
            raise refuse("columns", "to be arrays of numbers or text", f"an array of {column.dtype} values")
        if len(column) and (column != column[0]).any():
            form, content = f"{column.dtype.str}{column.shape}", np.ascontiguousarray(column).tobytes()
            rows[digest(key, "column", name).hex()] = digest(key, "content", name, form, content).hex()
    return rows
