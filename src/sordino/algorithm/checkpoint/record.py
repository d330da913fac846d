"""The checkpoint's format: a marked line, a JSON header, raw arrays, and a digest of it all. Nothing in it can run."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.checkpoint.errors import CheckpointError
from sordino.algorithm.checkpoint.private_file import read_privately, replace_privately
from sordino.core.errors import InputError
from sordino.core.spec import Spec

_MARK = b"SORDINO CHECKPOINT 1\n"
_LENGTH_BYTES = 8
_DIGEST_BYTES = 32
_KINDS = "fiub"


@dataclass(frozen=True, eq=False)
class Record:
    """Plain values and arrays, each under a name."""

    values: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class CheckpointSummary:
    """What a checkpoint is of: the spec, and how many of its steps were made. No state, no secrets."""

    spec: Spec
    step: int
    steps: int


def checkpoint_summary(path: str | Path) -> CheckpointSummary:
    """Look at a checkpoint without going on from it."""
    record = read_record(Path(path))
    try:
        return CheckpointSummary(
            Spec.from_dict(record.values["identity"]["spec"]), record.values["step"], record.values["steps"]
        )
    except (KeyError, TypeError, InputError):
        raise damaged(Path(path)) from None


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
    replace_privately(path, [*pieces, digest.digest()])


def read_record(path: Path) -> Record:
    """Read a record; one that was cut short or changed is refused."""
    content = memoryview(read_privately(path))
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


def damaged(path: Path) -> CheckpointError:
    """The complaint about a file that is not what was written."""
    return CheckpointError(
        f"Expected a whole checkpoint at {str(path)!r}, got a file that was cut short or changed; "
        "delete it to begin again."
    )
