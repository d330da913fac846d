"""Ledgers of format 1: SQLite databases with a write-ahead log. They are read here, in memory, and never written.

Nothing of SQLite touches the disk: the file's bytes, with the pages of a log that a killed process may have left, are
handed to it as they are. A log is believed only as a whole. It must belong to the owner of the ledger and to nobody
else's pen, every frame of it must have the checksum that continues the one before, and its last frame must end a
transaction; a log that is cut, damaged or planted is refused by its name. (That a whole transaction was cut off its
end, or the log deleted, cannot be seen in this format; in the present one there is no second file.)
"""

import math
import os
import sqlite3
import stat
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from sordino.core.spec.document import parse
from sordino.ledger import access, book
from sordino.ledger.budget import LedgerError
from sordino.ledger.filters import Charge

MAGIC = b"SQLite format 3\0"
APPLICATION_ID = 0x534F5244  # "SORD"
FORMAT = 1
LARGEST_FILE, LARGEST_VALUE = 2**30, 64 * 2**20
TABLES = (
    "CREATE TABLE ledger (place INTEGER PRIMARY KEY CHECK (place = 1), key BLOB NOT NULL, budget TEXT NOT NULL, "
    "filter TEXT NOT NULL, opened TEXT NOT NULL, releases INTEGER NOT NULL, head BLOB NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, charge TEXT NOT NULL, content BLOB NOT NULL, "
    "digest BLOB NOT NULL, time TEXT NOT NULL, theorem TEXT NOT NULL, epsilon REAL, spec TEXT NOT NULL, "
    "bound TEXT NOT NULL, versions TEXT NOT NULL)",
    "CREATE TABLE fingerprints (sequence INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL)",
)
_HEADER = "SELECT key, budget, filter, opened, releases, head, seal FROM ledger"
_ENTRIES = (
    "SELECT sequence, charge, content, digest, time, theorem, epsilon, spec, bound, versions FROM entries "
    "ORDER BY sequence"
)
_FINGERPRINTS = "SELECT sequence, fingerprint FROM fingerprints ORDER BY sequence"
# The bytes that every connection of SQLite locks while it has the file open.
_SQLITE_LOCK, _SQLITE_LOCK_BYTES = 0x40000000, 512

Json = dict[str, Any]


def is_old(head: bytes) -> bool:
    """Whether a file that begins so is a database."""
    return head.startswith(MAGIC)


def size(head: bytes) -> int:
    """How many bytes the pages of a database take, by its header; behind them may be what nobody reads."""
    page = int.from_bytes(head[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")


def contents(path: Path, real: Path, main: bytes) -> tuple[Json, list[Json]]:
    """The opening and the records of a ledger of format 1, every digest checked; `main` is the file's content."""
    pages = bytearray(main[: size(main)] if 0 < size(main) < len(main) else main)
    alone = bytes(pages)
    log = _apply_log(path, real, pages)
    opening, records = _read(path, bytes(pages))
    if log is not None:
        # Where the file can be read without its log, the log goes on where the file ends; another's would replace it.
        before = _entries_without_log(path, alone)
        if before is not None and (before[0] != opening or before[1] != records[: len(before[1])]):
            raise _log_refused(path, log, "the log of another ledger")
    return opening, records


def _entries_without_log(path: Path, pages: bytes) -> tuple[Json, list[Json]] | None:
    """What the file says without its log; None where it was being brought up to date when the process was killed."""
    try:
        opening, records = _read(path, pages)
    except LedgerError:
        return None
    return opening, [record for record in records if record["kind"] == book.ENTRY]


def _read(path: Path, pages: bytes) -> tuple[Json, list[Json]]:
    try:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            for pragma in ("trusted_schema=OFF", "cell_size_check=ON"):
                connection.execute(f"PRAGMA {pragma}")
            connection.deserialize(pages[:18] + b"\1\1" + pages[20:])  # a database in memory has no log
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
            _check_format(path, connection)
            return _rows(path, connection)
    except (sqlite3.Error, UnicodeDecodeError, MemoryError, OverflowError):
        raise access.unusable(path, "it is not a ledger, or it is damaged; restore it from a copy") from None


@contextmanager
def alone(path: Path, descriptor: int, timeout: float) -> Iterator[None]:
    """Wait until no process of an older version has the database open, and keep it so."""
    import fcntl  # noqa: PLC0415  (here the ledger is held already, so there is one)

    region = (_SQLITE_LOCK_BYTES, _SQLITE_LOCK)
    deadline = monotonic() + timeout
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, *region)
            break
        except OSError:
            if monotonic() >= deadline:
                raise access.busy(path, timeout, "a process of an older version has kept it locked") from None
            sleep(0.01)
    try:
        yield
    finally:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, *region)


def remove_logs(real: Path) -> None:
    """Remove what SQLite kept beside a ledger whose content is elsewhere now."""
    for ending in ("-wal", "-shm"):
        with suppress(OSError):
            os.unlink(f"{real}{ending}")


def _apply_log(path: Path, real: Path, pages: bytearray) -> Path | None:
    """Put the pages of a write-ahead log that was left beside the file where they belong, or refuse it by name."""
    if os.path.lexists(f"{real}-journal"):
        raise _log_refused(path, Path(f"{real}-journal"), "a journal that no version of Sordino makes")
    log = Path(f"{real}-wal")
    try:
        status = os.lstat(log)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != os.stat(real).st_uid:
        raise _log_refused(path, log, "a log that is not a file of the ledger's owner")
    if access.shared(status):
        raise _log_refused(path, log, "a log that others than its owner may write")
    if not status.st_size:
        return None
    content = log.read_bytes() if status.st_size <= LARGEST_FILE else b""
    if not _applied(content, pages):
        raise _log_refused(path, log, "a log that is damaged or cut")
    return log


def _applied(log: bytes, pages: bytearray) -> bool:
    """Apply a whole log (https://sqlite.org/fileformat2.html#walformat); False where any byte of it is not right."""
    if len(log) < 32:
        return False
    magic, version, page, _, *salts, first, second = struct.unpack(">8I", log[:32])
    order = ">" if magic == 0x377F0683 else "<"
    if magic not in {0x377F0682, 0x377F0683} or version != 3007000 or page not in {1 << k for k in range(9, 17)}:
        return False
    sums = _checksum(order, log[:24], (0, 0))
    if sums != (first, second) or (len(log) - 32) % (24 + page) or len(log) == 32:
        return False
    committed = 0
    for place in range(32, len(log), 24 + page):
        number, committed, *sealed = struct.unpack(">6I", log[place : place + 24])
        content = log[place + 24 : place + 24 + page]
        sums = _checksum(order, log[place : place + 8] + content, sums)
        if sealed != [*salts, *sums] or not 0 < number * page <= LARGEST_FILE:
            return False
        if len(pages) < number * page:
            pages.extend(bytes(number * page - len(pages)))
        pages[(number - 1) * page : number * page] = content
    del pages[committed * page :]
    return committed > 0


def _checksum(order: str, content: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for place in range(0, len(words), 2):
        first = (first + words[place] + second) & 0xFFFFFFFF
        second = (second + words[place + 1] + first) & 0xFFFFFFFF
    return first, second


def _log_refused(path: Path, log: Path, what: str) -> LedgerError:
    return access.unusable(
        path,
        f"beside it lies {log.name!r}, {what}, and debits may be in it; restore both from a copy, or find out where it "
        "came from before you remove it",
    )


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse foreign databases, newer formats, and any table, view or trigger that is not ours."""
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if identity != APPLICATION_ID:
        raise LedgerError(f"Expected {str(path)!r} to be a ledger, got a database of another program.")
    if version > FORMAT:
        raise LedgerError(
            f"Expected {str(path)!r} in ledger format 2 or older, got a database of format {version}; it was written "
            "by a newer Sordino, upgrade to read it."
        )
    tables = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if version < 1 or tables != set(TABLES):
        raise LedgerError(f"Expected {str(path)!r} to hold the tables of a ledger, got others; restore it from a copy.")
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise LedgerError(
            f"Expected {str(path)!r} to be a whole ledger, got one with pages that do not fit together; restore it "
            "from a copy."
        )


def _rows(path: Path, connection: sqlite3.Connection) -> tuple[Json, list[Json]]:
    headers = connection.execute(_HEADER).fetchall()
    if len(headers) != 1 or not _are(headers[0], (bytes, str, str, str, int, bytes, bytes)):
        raise book.damaged(path)
    key, budget, rule, opened, releases, head, sealed = headers[0]
    if not book.same(sealed, book.digest(key, "header", budget, rule, opened, str(releases), head)):
        raise book.damaged(path)
    opening = book.opening_record(key, (budget, rule, opened))
    top = book.header(path, opening)
    link, state, records = book.BEGINNING, book.state(path, top, opening), []
    for place, row in enumerate(connection.execute(_ENTRIES), start=1):
        if not _are(row, (int, str, bytes, bytes, str, str, float | None, str, str, str)):
            raise book.damaged(path)
        sequence, charge, content, digest, *words = row
        link = book.digest(key, "entry", link, str(sequence), charge, content)
        if sequence != place or not book.same(link, digest) or not book.same(content, _content(key, words)):
            raise book.damaged(path)
        time, theorem, epsilon, spec, bound, versions = words
        if epsilon is not None and not 0 <= epsilon < math.inf:
            raise book.damaged(path)
        price, software = _parsed(path, charge, versions)
        record = book.entry_record(top, state, price, time, theorem, epsilon, spec, bound, software)
        state = book.state(path, top, record)
        records.append(record)
    if len(records) != releases or not book.same(link, head):
        raise book.damaged(path)
    # The fingerprints of rows say nothing of what was spent, so those of no sense are left out.
    known = [row for row in connection.execute(_FINGERPRINTS).fetchall() if _are(row, (int, bytes))]
    return opening, records + book.fingerprint_records(state, known)


def _content(key: bytes, words: list[Any]) -> bytes:
    return book.digest(key, "content", *(repr(word) if isinstance(word, float | None) else word for word in words))


def _parsed(path: Path, charge: str, versions: str) -> tuple[Charge, Json]:
    try:
        price, software = Charge.from_dict(parse(charge)), parse(versions)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise book.damaged(path) from error
    if not isinstance(software, dict):
        raise book.damaged(path)
    return price, software


def _are(row: tuple[Any, ...], kinds: tuple[Any, ...]) -> bool:
    return all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True))
