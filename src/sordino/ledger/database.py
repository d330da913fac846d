"""The SQLite file: creation in one piece, short connections, one writer at a time, errors in one sentence.

Each operation has a connection of its own, so a `Ledger` can be pickled, forked and shared between threads. Writers
take the database's write lock before they read, so what they decide on cannot change under them.
"""

import os
import re
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sordino.core.validate import refuse
from sordino.ledger.errors import LedgerError

APPLICATION_ID = 0x534F5244  # "SORD"
FORMAT = 1
TABLES = (
    "CREATE TABLE ledger (place INTEGER PRIMARY KEY CHECK (place = 1), key BLOB NOT NULL, budget TEXT NOT NULL, "
    "filter TEXT NOT NULL, opened TEXT NOT NULL, releases INTEGER NOT NULL, head BLOB NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, charge TEXT NOT NULL, content BLOB NOT NULL, "
    "digest BLOB NOT NULL, time TEXT NOT NULL, theorem TEXT NOT NULL, epsilon REAL, spec TEXT NOT NULL, "
    "bound TEXT NOT NULL, versions TEXT NOT NULL)",
    "CREATE TABLE fingerprints (sequence INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL)",
)
LARGEST_VALUE = 64 * 2**20

_DRAFT = ".draft"
_SIDE_FILES = ("-wal", "-shm", "-journal")
_SENTENCES = {
    sqlite3.SQLITE_BUSY: "another process has kept it locked for {timeout:g} seconds; try again, nothing was changed",
    sqlite3.SQLITE_LOCKED: "another connection has kept it locked; try again, nothing was changed",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the permissions of file and folder, nothing was changed",
    sqlite3.SQLITE_FULL: "the disk is full; nothing was changed, free some space and try again",
    sqlite3.SQLITE_IOERR: "the disk refused to read or write; ledger show tells whether the entry was recorded",
    sqlite3.SQLITE_NOTADB: "it is not a ledger, or it is damaged; restore it from a copy",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it from a copy",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the permissions of the file and its folder",
    sqlite3.SQLITE_PERM: "access is denied; check the permissions of the file and its folder",
    sqlite3.SQLITE_NOMEM: "it holds a value too large to read; restore it from a copy",
    sqlite3.SQLITE_TOOBIG: f"it holds a value above {LARGEST_VALUE} bytes",
}


def create(path: Path, fill: Callable[[sqlite3.Connection], None], timeout: float) -> None:
    """Make a ledger file, owner-only and whole or not at all; an existing file is never touched."""
    _refuse_left_overs(path)
    try:
        # mkstemp: readable by the owner only
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_DRAFT)
        os.close(handle)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise LedgerError(f"Expected a writable place for the ledger {str(path)!r}, got: {reason}.") from None
    draft = Path(name)
    try:
        with speaking(path, timeout), closing(_connect(draft, "rw", timeout)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            for statement in TABLES:
                connection.execute(statement)
            fill(connection)
            connection.execute("COMMIT")
        os.link(draft, path)  # unlike a rename, refuses to replace
        _sync_folder(path.parent)
    except FileExistsError:
        raise LedgerError(f"Expected no file at {str(path)!r}, got one; a budget is opened once, then used.") from None
    except OSError as error:
        raise LedgerError(f"Expected to create the ledger {str(path)!r}, got: {error.strerror}.") from None
    finally:
        for ending in ("", *_SIDE_FILES):
            with suppress(OSError):
                os.unlink(f"{draft}{ending}")


@contextmanager
def reading(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A consistent snapshot of a ledger; works in a folder that cannot be written."""
    real = one_regular_file(path)
    with speaking(path, timeout), closing(_connect(real, _reading_mode(real), timeout)) as connection:
        connection.execute("BEGIN")
        _check_format(path, connection)
        yield connection


@contextmanager
def writing(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """One transaction that holds the write lock from its first statement; left by an exception, it changes nothing."""
    real = one_regular_file(path)
    with speaking(path, timeout), closing(_connect(real, "rw", timeout)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _check_format(path, connection)
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


@contextmanager
def speaking(path: Path, timeout: float) -> Iterator[None]:
    """Turn SQLite's errors into one sentence."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where SQLite quotes damaged text
        code = getattr(error, "sqlite_errorcode", -1)
        sentence = _SENTENCES.get(code & 0xFF, _SENTENCES[sqlite3.SQLITE_CORRUPT])
        message = f"Expected {str(path)!r} to be a usable ledger, got: {sentence.format(timeout=timeout)}."
        raise LedgerError(message) from None


def one_regular_file(path: Path) -> Path:
    """Where the file really is; what is not a file is refused before anything blocks on it, and so are two names.

    SQLite keeps its log beside the name it was given. Through a symbolic link that is the place of the link's target;
    but two hard links to one file have two logs, and a debit made under one name would not be seen under the other.
    """
    try:
        real = path.resolve(strict=True)
        status = real.stat()
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            _remove_drafts(real)
            status = real.stat()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise LedgerError(f"Expected {str(path)!r} to be a ledger, got: {reason}; open one first.") from None
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"Expected {str(path)!r} to be a ledger file, got something that is not a file.")
    if status.st_nlink > 1:
        raise LedgerError(
            f"Expected {str(path)!r} to be the only name of its file, got {status.st_nlink} hard links; copy the file "
            "instead of linking it, a debit under one name could be lost under another."
        )
    return real


def _remove_drafts(path: Path) -> None:
    """An opening that was killed between its two last steps leaves its draft, a second name of the ledger.

    Only a name that `create` gives is removed: a link that a person made, whatever it is called, stays and is refused.
    """
    made = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}{re.escape(_DRAFT)}")
    for left in path.parent.iterdir():
        with suppress(OSError):
            if made.fullmatch(left.name) and left.samefile(path):
                left.unlink()


def _connect(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, timeout=timeout, isolation_level=None, uri=True)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _reading_mode(path: Path) -> str:
    """Readers of a WAL database write beside it; where they cannot, it may be read as it stands if no log is left."""
    effective = os.access in os.supports_effective_ids
    if all(os.access(place, os.W_OK, effective_ids=effective) for place in (path, path.parent)):
        return "rw"
    log = Path(f"{path}-wal")
    return "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse foreign databases, newer formats, and any table, view or trigger that is not ours."""
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if identity != APPLICATION_ID:
        raise LedgerError(f"Expected {str(path)!r} to be a ledger, got a database of another program.")
    if version > FORMAT:
        raise LedgerError(
            f"Expected {str(path)!r} in ledger format {FORMAT} or older, got format {version}; it was written by a "
            "newer Sordino, upgrade to read it."
        )
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if version < 1 or found != set(TABLES):
        raise LedgerError(f"Expected {str(path)!r} to hold the tables of a ledger, got others; restore it from a copy.")
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise LedgerError(f"Expected {str(path)!r} to be a whole ledger, got one with pages that do not fit together.")


def _refuse_left_overs(path: Path) -> None:
    """SQLite would replay a journal left beside a deleted database into the new one."""
    if not path.name:
        raise refuse("ledger", "to be a file name", str(path))
    for ending in _SIDE_FILES:
        if os.path.lexists(f"{path}{ending}"):
            raise LedgerError(
                f"Expected no {path.name}{ending} beside a new ledger, got one, left by another database; remove it."
            )


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where folders can be synced."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
