"""The ledger file: one log that only grows, each record tied to the one before, and two marks that say how far it goes.

    preamble    what the file is; in a block of its own, as the marks are
    mark A, B   number, place and digest of the last record, sealed
    records     a new line, length, digest of the record before, digest of this one, JSON; the first one is the opening

Of two records that follow the same one the first in the file counts; the other is void, and so is what a killed process
did not finish; nothing is ever cut off. So even processes that no lock keeps apart agree on what was debited.

A debit writes the record at the end of the file, mark A, flushes, writes mark B, reads all of it back through the
file's name, and returns. Wherever the process is killed:

- A and B agree: the record they name is there, or the file is damaged and refused;
- B is behind A, or A is torn: the debit has not returned. Whole records beyond B count, a torn one does not;
- A is whole and B is torn: what A names is there, or the file is damaged.

So damage at rest never takes back a debit that has returned. Digests are keyed with a key in the opening: they find
accidents, and not an owner who restores an older copy. A debit's cost does not grow with the log.
"""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path

from sordino.core.atomic_write import flush_folder
from sordino.core.spec.document import parse
from sordino.core.validate import InputError, refuse
from sordino.ledger import access, book
from sordino.ledger.book import Json
from sordino.ledger.budget import LedgerError

FORMAT = 2
LARGEST_VALUE = 64 * 2**20
BLOCK = 4096

_MAGIC = b"sordino ledger\nformat "
PREAMBLE = (_MAGIC + f"{FORMAT}\n".encode()).ljust(BLOCK, b"\0")
_MARKS = (0, BLOCK)  # where the two marks and the records lie, from the beginning of the log
_RECORDS = 2 * BLOCK
_MARK_BYTES = 3 * 17 + 2 * 65
_HEAD = 10 + 2 * 65  # a new line, length and two digests, before the JSON of a record
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Read = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Mark:
    """The last record: how many there are, where it begins and ends, and its digest."""

    number: int
    start: int
    end: int
    link: bytes

    def to_bytes(self, key: bytes) -> bytes:
        """The sealed form, always of the same length."""
        words = f"{self.number:016x} {self.start:016x} {self.end:016x} {self.link.hex()}"
        return f"{words} {book.digest(key, 'mark', words).hex()}\n".encode()

    @classmethod
    def from_bytes(cls, content: bytes, key: bytes) -> "Mark | None":
        """The mark, or None where it is torn, damaged or of another ledger."""
        words, _, sealed = content.rstrip(b"\n").rpartition(b" ")
        if len(content) != _MARK_BYTES or not compare_digest(book.digest(key, "mark", words).hex().encode(), sealed):
            return None
        number, start, end, link = words.split(b" ")
        return cls(int(number, 16), int(start, 16), int(end, 16), bytes.fromhex(link.decode()))


class Log:
    """What a file, or an image of one in memory, holds; `read(offset, size)` gives bytes from the log's beginning."""

    def __init__(self, path: Path, read: Read) -> None:
        self.path, self._read, self.key = path, read, b""
        opening = _record(read, _RECORDS)
        self.opening = _json(opening.text) if opening else {}
        with suppress(KeyError, TypeError, ValueError):  # without a key no digest agrees
            self.key = bytes.fromhex(self.opening["key"])
        if opening is None or not opening.follows(book.BEGINNING, self.key):
            raise book.damaged(path)
        # The log ends where the marks name, and whole records beyond that.
        first, second = (Mark.from_bytes(read(place, _MARK_BYTES), self.key) for place in _MARKS)
        if first and second and first.number > second.number and not self._holds(first):
            first = None  # the debit that was being made had not returned
        mark = max(filter(None, (first, second)), key=lambda mark: mark.number, default=None)
        if mark is None or not self._holds(mark):
            raise book.damaged(path)
        while (beyond := self.after(mark)) is not None:
            mark = beyond
        self.mark, self.state = mark, self.record_at(mark.start)

    def records(self) -> Iterator[tuple[Mark, Json]]:
        """Every record after the opening, oldest first, with the chain followed from its beginning to its end."""
        place: Mark | None = Mark(0, 0, _RECORDS, book.BEGINNING)
        while place is not None and place.number < self.mark.number:
            place = self.after(place)
            if place is not None and place.number > 1:
                yield place, self.record_at(place.start)
        if place != self.mark:
            raise book.damaged(self.path)

    def record_at(self, start: int) -> Json:
        """The record that begins at a place, which another record names."""
        record = self._whole(start)
        if record is None:
            raise book.damaged(self.path)
        return _json(record.text)

    def behind(self, start: int, link: bytes) -> list[Json] | None:
        """What was recorded after the record with this digest; None where none of the log begins at that place."""
        record = self._whole(start)
        if record is None or record.link != link:
            return None
        found, place = [], Mark(0, start, record.end, link)
        while (following := self.after(place)) is not None:
            place = following
            found.append(self.record_at(place.start))
        return found if place.link == self.mark.link else None

    def after(self, mark: Mark) -> Mark | None:
        """The record that follows another: the first one in the file that names it; None at the end."""
        place, size = mark.end, BLOCK
        while part := self._read(place, size):
            if place - mark.end > 16 * LARGEST_VALUE:
                raise book.damaged(self.path)
            at = part.find(b"\n")  # a record begins with a new line; its length a torn one only promises
            if at < 0:
                place, size = place + len(part), min(2 * size, 2**20)
                continue
            record = _record(self._read, place + at)
            if record is not None and record.follows(mark.link, self.key):
                return Mark(mark.number + 1, place + at, record.end, record.link)
            place, size = place + at + 1, BLOCK
        return None

    def _holds(self, mark: Mark) -> bool:
        record = self._whole(mark.start)
        return record is not None and (record.end, record.link) == (mark.end, mark.link)

    def _whole(self, start: int) -> "_Record | None":
        """The record that begins at a place, where its digest is right."""
        record = _record(self._read, start) if start >= _RECORDS else None
        return record if record is not None and record.follows(record.before, self.key) else None


class OpenLog(Log):
    """A log held for writing, by this process alone."""

    def __init__(self, path: Path, descriptor: int, tail: int) -> None:
        self._descriptor, self._tail = descriptor, tail
        super().__init__(path, _reader(path, descriptor))

    def append(self, content: Json) -> Mark:
        """Add a record; on return it is on the disk, read back through the file's own name."""
        line = _line(self.key, self.mark.link, content)
        access.write_all(self._tail, line)
        mark = self.after(self.mark)
        if mark is None or mark.start != os.lseek(self._tail, 0, os.SEEK_CUR) - len(line) - BLOCK:
            raise _written_by_two(self.path)
        marked = mark.to_bytes(self.key)
        try:
            access.write_at(self._descriptor, BLOCK + _MARKS[0], marked)
            access.flush(self._descriptor)
            access.write_at(self._descriptor, BLOCK + _MARKS[1], marked)
        except OSError as error:
            why = f"{error.strerror}; the disk refused; `sordino ledger show` says whether the entry was recorded"
            raise LedgerError(f"Expected to write to {str(self.path)!r}, got: {why}.") from None
        # What others will see under the file's name is what was written.
        with access.opened(self.path, os.O_RDONLY) as seen:
            access.check_same(self.path, seen, self._descriptor)
            log = Log(self.path, read := _reader(self.path, seen))
            if log.mark.number < mark.number or read(mark.start, len(line)) != line:
                raise _written_by_two(self.path)
        self.mark, self.state = mark, content
        return mark


@dataclass(frozen=True)
class _Record:
    """The bytes of a whole record: nothing is known yet of whether its digest is right."""

    before: bytes
    link: bytes
    text: bytes
    end: int

    def follows(self, link: bytes, key: bytes) -> bool:
        """Whether the record is what was written after the one with this digest."""
        return self.before == link and compare_digest(book.digest(key, "record", link, self.text), self.link)


def _record(read: Read, start: int) -> _Record | None:
    """The record that begins at a place, or None where there is no whole one."""
    head = read(start, _HEAD)
    if len(head) != _HEAD or head[:1] != b"\n":
        return None
    try:
        size, before, link = head[1:-1].decode("ascii").split(" ")
        length = int(size, 16)
        text = read(start + _HEAD, length) if 0 < length <= LARGEST_VALUE else b""
        if text and len(text) == length:
            return _Record(bytes.fromhex(before), bytes.fromhex(link), text, start + _HEAD + length)
    except ValueError:
        pass
    return None


def image(opening: Json, further: Iterable[Json] = ()) -> bytes:
    """A whole log from its opening and the records after it."""
    key, mark, lines = bytes.fromhex(opening["key"]), Mark(0, 0, _RECORDS, book.BEGINNING), []
    for content in (opening, *further):
        line = _line(key, mark.link, content)
        link = bytes.fromhex(line[_HEAD - 65 : _HEAD - 1].decode())
        mark = Mark(mark.number + 1, mark.end, mark.end + len(line), link)
        lines.append(line)
    marked = mark.to_bytes(key).ljust(BLOCK, b"\0")
    return marked + marked + b"".join(lines)


def create(path: Path, opening: Json) -> None:
    """Make a ledger file, owner-only and whole or not at all; an existing file is never touched."""
    if not path.name:
        raise refuse("ledger", "to be a file name", str(path))
    draft, wanted = "", f"a writable place for the ledger {str(path)!r}"
    try:
        access.check_folder(path.parent.resolve(strict=True))
        # mkstemp: readable by its owner only.
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=access.DRAFT_ENDING)
        try:
            access.write_all(handle, PREAMBLE + image(opening))
            os.fsync(handle)
        finally:
            os.close(handle)
        wanted = f"to create the ledger {str(path)!r}"
        os.link(draft, path)  # unlike a rename, refuses to replace
        with suppress(OSError):  # not every disk can
            flush_folder(path.parent)
    except LedgerError:
        raise
    except FileExistsError:
        raise LedgerError(f"{str(path)!r} exists already. A budget is opened once, then used.") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise LedgerError(f"Expected {wanted}, got: {reason}.") from None
    finally:
        with suppress(OSError):
            os.unlink(draft)


@contextmanager
def reading(path: Path) -> Iterator[Log]:
    """The log as it stands; nothing is written and nobody has to wait."""
    with _opened(path, os.O_RDONLY) as (_, descriptor):
        yield Log(path, _reader(path, descriptor))


@contextmanager
def writing(path: Path, timeout: float) -> Iterator[OpenLog]:
    """The log, held against every other process from before it is read."""
    with (
        _opened(path, os.O_RDWR) as (real, descriptor),
        access.exclusive(real, descriptor, timeout),
        access.opened(real, os.O_WRONLY | os.O_APPEND) as tail,
    ):
        access.check_same(path, tail, descriptor)
        yield OpenLog(real, descriptor, tail)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[tuple[Path, int]]:
    """Where the file really is, and the open file; the system's errors become one sentence."""
    real = access.find(path)
    try:
        with access.opened(real, flags) as descriptor:
            access.check_hands(real, os.fstat(descriptor))
            yield real, descriptor
    except OSError as error:
        if error.errno in _FULL:
            reason = "the disk is full; nothing was changed, free some space and try again"
        elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            reason = "it cannot be opened or written; check the permissions of the file and its folder"
        else:
            reason = f"the disk refused ({error.strerror}); ledger show says whether the entry was recorded"
        raise access.unusable(path, reason) from None


def _reader(path: Path, descriptor: int) -> Read:
    """Gives bytes from the beginning of the log, which lies behind the preamble."""
    head = access.read_at(descriptor, 0, BLOCK)
    version, _, _ = head.removeprefix(_MAGIC).partition(b"\n")
    if not head.startswith(_MAGIC) or not version.isdigit():
        raise LedgerError(f"{str(path)!r} is not a ledger.")
    if int(version) > FORMAT:
        raise LedgerError(f"{str(path)!r} has ledger format {int(version)} of a newer Sordino. Upgrade to read it.")
    if head != PREAMBLE:
        raise book.damaged(path)
    return lambda offset, size: access.read_at(descriptor, BLOCK + offset, size)


def _line(key: bytes, before: bytes, content: Json) -> bytes:
    text = book.text(content).encode()
    if len(text) > LARGEST_VALUE:
        raise InputError(f"An entry has at most {LARGEST_VALUE} bytes, got {len(text)}; describe a smaller run.")
    return f"\n{len(text):08x} {before.hex()} {book.digest(key, 'record', before, text).hex()} ".encode() + text


def _json(text: bytes) -> Json:
    try:
        value = parse(text.decode("utf-8"))
    except (InputError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _written_by_two(path: Path) -> LedgerError:
    wrong = f"A second process wrote to {str(path)!r} at the same time: the locks of its disk do not work"
    return LedgerError(f"{wrong}. Move it to a local disk. Nothing may be released on this debit.")
