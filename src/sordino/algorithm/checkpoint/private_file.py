"""Files that only their owner may read, and that are either the old ones or the new ones, never half of each."""

import os
import re
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sordino.algorithm.checkpoint.errors import CheckpointError

_OWNER_ONLY = 0o600
_OTHERS = 0o077


def replace_privately(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file in full beside the old one, on the disk itself, and only then put it in its place."""
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        _write(beside, pieces)
        os.replace(beside, path)
        _settle_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise CheckpointError(
            f"Expected to be able to write the checkpoint {str(path)!r}, got: {error.strerror or error}; "
            "make room there, or choose another folder."
        ) from None


def read_privately(path: Path) -> bytes:
    """The content of a file that nobody but its owner may read; another one is refused."""
    try:
        # Not blocking, because a pipe nobody writes to would be waited for.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, os.O_RDONLY | flags)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            mode = stat.S_IMODE(status.st_mode)
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"Expected {str(path)!r} to be a regular file, got something else.")
            if os.name == "posix" and status.st_uid != os.geteuid():
                raise CheckpointError(
                    f"Expected {str(path)!r} to belong to whoever runs this, got somebody else's file; whoever made it "
                    "knows its noise, so delete it and begin again."
                )
            if os.name == "posix" and mode & _OTHERS:
                raise CheckpointError(
                    f"Expected {str(path)!r} to be readable by its owner alone, got permissions {mode:o}; "
                    "it may have been read by others, so delete it and begin again."
                )
            return file.read()
    except OSError as error:
        raise CheckpointError(f"Expected to be able to read {str(path)!r}, got: {error.strerror or error}.") from None


def remove_privately(path: Path) -> None:
    """Delete the file and whatever a crash left half-written beside it."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
    remove_partials(path)


def remove_partials(path: Path) -> None:
    """Delete what a crash left half-written beside the file: it holds secrets too.

    Only names that `replace_privately` gives: a file that a person called something like it is theirs.
    """
    made = re.compile(rf"\.{re.escape(path.name)}\.\d+-[0-9a-f]{{8}}\.partial")
    with suppress(OSError):
        for left in path.parent.iterdir():
            if made.fullmatch(left.name):
                left.unlink(missing_ok=True)


def _write(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _settle_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
