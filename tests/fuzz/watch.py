"""Reading under observation: only our own errors, one line each, nothing written, nothing run, nothing fetched."""

import codecs
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.ma

from sordino.core.validate import SordinoError

# What a reader of files has no business doing; see the table of audit events in Python's documentation.
FORBIDDEN = (
    "compile",
    "exec",
    "os.chmod",
    "os.exec",
    "os.fork",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.system",
    "os.truncate",
    "pickle.find_class",
    "shutil.rmtree",
    "socket.connect",
    "subprocess.Popen",
    "urllib.Request",
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# One list for each reading under way; a reading may hold another.
_watching: list[list[str]] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in FORBIDDEN or (event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES):
        for seen in _watching:
            seen.append(f"{event} {arguments!r:.200}")


numpy.ma.array(0)  # NumPy loads it when it is first needed
codecs.lookup("utf-16")  # Python loads a codec by executing its module, which is no doing of the file
sys.addaudithook(_note)  # a hook stays for the life of the process; this one sleeps unless asked


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collect what happens inside that a reader must not do."""
    seen: list[str] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.pop()


def read_or_refused(read: Callable[[], object], folder: Path) -> str | None:
    """What `read` was refused with, None if it succeeded; anything but one printable line of ours is raised."""
    before = sorted(folder.rglob("*"))
    with watched() as seen:
        try:
            read()
            said = None
        except SordinoError as error:
            said = str(error)
    assert not seen, seen
    assert sorted(folder.rglob("*")) == before
    assert said is None or (said.isprintable() and said.rstrip().endswith((".", ")"))), said
    return said
