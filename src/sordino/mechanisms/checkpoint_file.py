"""The file of a checkpoint: for its owner alone, the old one or the new one and never half of each, and its records.

Its format is a marked line, a JSON header, raw arrays, and a digest of it all: nothing in it can run.
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.atomic_write import PARTIAL, write_file
from sordino.core.validate import InputError


class CheckpointError(InputError):
    """A checkpoint cannot be written, or cannot be used for this run."""


def damaged(path: Path) -> CheckpointError:
    """The complaint about a file that is not what was written."""
    return CheckpointError(f"The checkpoint {str(path)!r} was cut short or changed. Delete it to start again.")


_MARK = b"SORDINO CHECKPOINT 1\n"
_LENGTH_BYTES, _DIGEST_BYTES = 8, 32
_KINDS = "fiub"
_OTHERS = 0o077


@dataclass(frozen=True, eq=False)
class Record:
    """Plain values and arrays, each under a name."""

    values: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def write_record(path: Path, record: Record) -> None:
    """Write a record in place of the one that may be there."""
    arrays = {name: np.ascontiguousarray(array) for name, array in record.arrays.items()}
    layout = {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in arrays.items()}
    header = json.dumps({"values": dict(record.values), "arrays": layout}).encode()
    pieces = [_MARK, len(header).to_bytes(_LENGTH_BYTES, "little"), header]
    pieces += [array.data.cast("B") for array in arrays.values() if array.size]
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    try:
        write_file(path, [*pieces, digest.digest()], private=True)
    except InputError as error:
        reason = getattr(error.__cause__, "strerror", None) or error.__cause__
        raise CheckpointError(
            f"Expected to be able to write the checkpoint {str(path)!r}, got: {reason}; "
            "make room there, or choose another folder."
        ) from None


def read_record(path: Path) -> Record:
    """Read a record; one that was cut short or changed is refused."""
    content = memoryview(_read(path))
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if not content[: len(_MARK)] == _MARK or hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise damaged(path)
    begin = len(_MARK) + _LENGTH_BYTES
    end = begin + int.from_bytes(body[len(_MARK) : begin], "little")
    try:
        header = json.loads(bytes(body[begin:end]).decode("utf-8"))
        arrays = {}
        for name, given in header["arrays"].items():
            arrays[name], end = _array(body, end, np.dtype(given["dtype"]), tuple(given["shape"]))
        return Record(dict(header["values"]), arrays)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError):
        raise damaged(path) from None


def _array(body: memoryview, begin: int, dtype: np.dtype, shape: tuple[int, ...]) -> tuple[NDArray[Any], int]:
    if dtype.kind not in _KINDS or any(size < 0 for size in shape):
        raise ValueError(dtype)
    end = begin + dtype.itemsize * math.prod(shape)
    return np.frombuffer(body[begin:end], dtype).reshape(shape).copy(), end


def _read(path: Path) -> bytes:
    """The content of a file that nobody but its owner may read; another one is refused."""
    try:
        # Not blocking, because a pipe nobody writes to would be waited for.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{str(path)!r} is not a regular file.")
            if os.name == "posix" and status.st_uid != os.geteuid():
                raise CheckpointError(
                    f"{str(path)!r} belongs to another user, who may know its noise. Delete it and start again."
                )
            if os.name == "posix" and (mode := stat.S_IMODE(status.st_mode)) & _OTHERS:
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
    """Delete what a crash left half-written beside the file: it holds secrets too."""
    # Only names that `write_file` gives: a file that a person called something like it is theirs.
    given = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}{re.escape(PARTIAL)}")
    with suppress(OSError):
        for entry in path.parent.iterdir():
            if given.fullmatch(entry.name):
                entry.unlink(missing_ok=True)
