"""Who may use a ledger file, one process at a time: file, owner and mode are checked, and the lock is tested.

Three things keep two debits apart, because each fails somewhere:

- a lock on the file itself (`flock`), whatever name it goes by. It is tried first: where a second descriptor of the
  same file gets it too, locks do nothing, and the ledger is refused.
- a lock file beside the ledger, which all machines of a network disk see. One left behind by a process of this machine,
  or on a local disk, is stale once the lock on the ledger is held; one of another machine is for people to remove.
- the log only grows at its end, and a writer that finds it did not grow has not debited (`log`).
"""

import errno
import glob
import os
import re
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from sordino.ledger.budget import LedgerError

try:
    import fcntl
    import grp
    import pwd
except ImportError:  # not a POSIX system: nothing is debited there
    fcntl = grp = pwd = None

DRAFT_ENDING = ".opening"
LOCK_ENDING = ".lock"
_FARTHEST = 2**62  # beyond any file
_CHUNK = 2**26
_LONGEST_WAIT = 0.005  # seconds between two looks at a lock
# Disks that belong to one machine: every process that opens a file on them shares its locks.
_LOCAL = frozenset(
    {"bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs", "reiserfs"}
    | {"squashfs", "tmpfs", "vfat", "xfs", "zfs"}
)


def find(path: Path) -> Path:
    """Where the file really is; what is not a file is refused before anything blocks on it, and so are two names."""
    try:
        real = path.resolve(strict=True)
        status = real.stat()
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            # An opening that was killed between its two last steps leaves its draft, a second name of the ledger.
            made = re.compile(rf"\.{re.escape(real.name)}\.[a-z0-9_]{{8}}{re.escape(DRAFT_ENDING)}")
            for left in real.parent.glob(f".{glob.escape(real.name)}.*{DRAFT_ENDING}"):
                with suppress(OSError):
                    if made.fullmatch(left.name) and left.samefile(real):
                        left.unlink()
            status = real.stat()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        raise LedgerError(f"Expected {str(path)!r} to be a ledger, got: {reason}; open one first.") from None
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"{str(path)!r} is not a file.")
    if status.st_nlink > 1:
        raise LedgerError(f"The file of {str(path)!r} has {status.st_nlink} hard links. Copy it instead of linking it.")
    return real


def check_hands(path: Path, status: os.stat_result) -> None:
    """Refuse a ledger that another user could rewrite or replace: by its owner and mode, and those of its folder."""
    if pwd is None:
        return
    user = os.geteuid()
    if status.st_uid not in ({user, 0} | ({path.parent.stat().st_uid} if user == 0 else set())):
        got = f"got number {status.st_uid}; run as its owner"
        raise LedgerError(f"Expected {str(path)!r} to belong to the user who runs this (number {user}), {got}.")
    if shared(status):
        mode = f"{stat.S_IMODE(status.st_mode):04o}; find out who changed it, then run chmod go-w"
        raise LedgerError(f"Expected {str(path)!r} to be writable by its owner only, got mode {mode}.")
    check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """Refuse a folder in which others could put another file in the place of a ledger."""
    if pwd is None:
        return
    status, user = folder.stat(), os.geteuid()
    if user and status.st_uid not in {user, 0}:
        mine = f"yours (number {user}) or root's, got number {status.st_uid}, who could replace the ledger"
        raise LedgerError(f"Expected the folder {str(folder)!r} to be {mine}; keep it in a folder of your own.")
    if shared(status) and not status.st_mode & stat.S_ISVTX:
        mode = f"{stat.S_IMODE(status.st_mode):04o}: others could replace the ledger; run chmod go-w"
        raise LedgerError(f"Expected the folder {str(folder)!r} to be writable by its owner only, got mode {mode}.")


def shared(status: os.stat_result) -> bool:
    """Whether others than the owner may write; a group that is its owner's alone does not count."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _group_of_one(status.st_uid, status.st_gid)


def _group_of_one(user: int, group: int) -> bool:
    """Whether a group has the name of its owner and nobody else in it, as many systems make one for each user."""
    if pwd is None or grp is None:
        return False
    try:
        name, entry = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    # The list of a group leaves out those whose primary group it is.
    primary = {one.pw_name for one in pwd.getpwall() if one.pw_gid == group}
    return entry.gr_name == name and primary | set(entry.gr_mem) <= {name}


@contextmanager
def exclusive(path: Path, descriptor: int, timeout: float) -> Iterator[None]:
    """Hold the ledger at `path`, open for writing as `descriptor`, against every other process, or refuse."""
    deadline = time.monotonic() + timeout
    late = f"for {timeout:g} seconds; try again, nothing was changed"
    _wait(partial(_flocked, path, descriptor), path, deadline, f"another process has kept it locked {late}")
    try:
        # A lock that is held must be refused to another descriptor of the same file.
        with opened(path, os.O_RDWR) as other:
            check_same(path, other, descriptor)
            if _flocked(path, other):
                raise _without_locks(path)
        with _lock_file(path, deadline, late):
            yield
    finally:
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)


def _wait(succeeded: Callable[[], bool], path: Path, deadline: float, late: str) -> None:
    pause = 0.0005
    while not succeeded():
        if time.monotonic() >= deadline:
            raise unusable(path, late)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_WAIT)


def unusable(path: Path, reason: str) -> LedgerError:
    """The sentence for a ledger that cannot be used now."""
    return LedgerError(f"Expected {str(path)!r} to be a usable ledger, got: {reason}.")


def _flocked(path: Path, descriptor: int) -> bool:
    if fcntl is None:
        raise _without_locks(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}:
            return False
        raise _without_locks(path) from None
    return True


def check_same(path: Path, one: int, other: int) -> None:
    """Refuse a ledger whose file was exchanged meanwhile: two descriptors of its name are of two files."""
    if not os.path.samestat(os.fstat(one), os.fstat(other)):
        raise exchanged(path)


def exchanged(path: Path) -> LedgerError:
    """The sentence for a ledger whose file was exchanged meanwhile."""
    return LedgerError(f"The ledger {str(path)!r} was replaced while it was in use; try again.")


def _without_locks(path: Path) -> LedgerError:
    apart = "does not keep locks on files, so two processes could spend the same budget"
    return LedgerError(f"The disk of {str(path)!r} {apart}. Move the ledger to a local disk. Nothing was changed.")


@contextmanager
def _lock_file(path: Path, deadline: float, late: str) -> Iterator[None]:
    place, local = Path(f"{path}{LOCK_ENDING}"), is_local(path)
    made: list[os.stat_result] = []

    def placed() -> bool:
        try:
            made.append(_place(place, local))
        except FileExistsError:
            return _remove_stale(place, local) and placed()
        except OSError as error:
            # A single file mounted into a folder that cannot be written: on a local disk the other lock suffices.
            if not local or error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
                raise
        return True

    what = f"a process elsewhere has kept the lock file {place.name!r} (remove it if none runs)"
    _wait(placed, path, deadline, f"{what} {late}")
    try:
        yield
    finally:
        with suppress(OSError):
            if made and os.path.samestat(os.lstat(place), made[0]):
                os.unlink(place)


def _place(place: Path, local: bool) -> os.stat_result:
    with open(place, "xb", opener=partial(os.open, mode=0o600)) as file:
        # The kind of disk, the running system, and for people the host and the process.
        host = re.sub(r"[^\w.-]", "-", socket.gethostname(), flags=re.ASCII)[:64]
        file.write(f"{'local' if local else 'network'} {machine_name()} {host} {os.getpid()}\n".encode())
        return os.fstat(file.fileno())


def _remove_stale(place: Path, local: bool) -> bool:
    """Remove what a process left that can no longer run; whether there was such a file and it is gone.

    The lock on the ledger is held and works, so no other process of this machine is inside. An empty stamp was left by
    a process killed while it made the file: on a local disk, of this machine.
    """
    with suppress(OSError, ValueError):
        if stat.S_ISREG(os.lstat(place).st_mode):
            with opened(place, os.O_RDONLY) as descriptor:
                kind, machine, *_ = [*read_at(descriptor, 0, 200).decode("ascii", "replace").split(), "", ""]
            ours = machine not in {"", "unknown"} and machine == machine_name()
            if ours or (local and kind in {"", "local"}):
                os.unlink(place)
                return True
    return False


def machine_name() -> str:
    """What is the same for every process of a running system, containers included, and for no other."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown"


def is_local(path: Path) -> bool:
    """Whether a file is known to lie on a disk of this machine."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return False
    return kind_of_disk(mounts, path) in _LOCAL


def kind_of_disk(mounts: str, path: Path) -> str:
    """The type of the file system that holds a path, by the kernel's list of mounts; later ones cover earlier ones."""
    holds = {str(path), *map(str, path.parents)}
    deepest, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        if point in holds and len(point) >= deepest:
            deepest, kind = len(point), after.split(" ")[0]
    return kind


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """An open file, never one that a link was put in the place of, never one that blocks."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise LedgerError(f"{str(path)!r} is not a file.")
        yield descriptor
    finally:
        os.close(descriptor)


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """As many of `size` bytes as there are from an offset on."""
    parts = []
    while size > 0 and offset < _FARTHEST and (part := os.pread(descriptor, min(size, _CHUNK), offset)):
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)


def write_at(descriptor: int, offset: int, content: bytes) -> None:
    """Write all of it from an offset on."""
    while content:
        wrote = os.pwrite(descriptor, content, offset)
        content, offset = content[wrote:], offset + wrote


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it where the descriptor stands."""
    while content:
        content = content[os.write(descriptor, content) :]


def flush(descriptor: int) -> None:
    """Bring what was written to the disk."""
    getattr(os, "fdatasync", os.fsync)(descriptor)
