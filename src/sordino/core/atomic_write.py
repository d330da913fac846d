"""Atomic writes: a reader sees the old file or the whole new one, and a crash leaves nothing half written."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from sordino.core.validate import InputError

PARTIAL = ".partial"


def write_file(path: Path, content: bytes | Iterable[bytes | memoryview], *, private: bool = False) -> None:
    """Write beside the target, flush to disk, then rename; a `private` file is for its owner alone."""
    try:
        handle, temporary = tempfile.mkstemp(PARTIAL if private else "", f".{path.name}.", path.parent)
    except OSError as error:
        raise _refused(f"a writable place for {path}", error, "choose another folder") from error
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in [content] if isinstance(content, bytes) else content:
                file.write(piece)
            _flushed(file, b"")
        if not private:
            Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
        with suppress(OSError):  # not every disk can
            flush_folder(path.parent)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise _refused(f"to write {path}", error, "nothing was changed") from error


def write_new_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder with these files, all or none; a folder that is already there is never touched."""
    if os.path.lexists(target):
        raise InputError(f"{target} exists already. Choose another name.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # On the same disk, from which a rename puts everything into place at once.
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise _refused(f"a writable place for {target}", error, "choose another folder") from error
    try:
        for name, content in files.items():
            with open(temporary / name, "xb") as file:
                _flushed(file, content)
        temporary.chmod(0o777 & ~_umask())
        # Renaming onto a folder that appeared meanwhile fails unless that folder is empty, so nothing is lost.
        temporary.rename(target)
        flush_folder(target.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _refused(f"to write {target}", error, "nothing was changed") from error


def _flushed(file, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Make a new name in it survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refused(wanted: str, error: OSError, remedy: str) -> InputError:
    return InputError(f"Expected {wanted}, got: {error.strerror or 'unknown reason'}; {remedy}.")
