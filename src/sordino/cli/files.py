"""Writing results so that nothing is lost and nothing is half written."""

import os
import tempfile
from pathlib import Path

from sordino.core.errors import InputError


def write_text(path: Path, text: str) -> None:
    """Write beside the target, then rename: a reader sees the old file or the whole new one."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        reason = error.strerror or "unknown reason"
        raise InputError(f"Expected a writable place for {path}, got: {reason}; choose another folder.") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise InputError(f"Expected to write {path}, got: {error.strerror}; nothing was changed.") from error
