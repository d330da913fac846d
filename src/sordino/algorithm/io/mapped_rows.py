"""Rows in a file that is mapped into memory: any row can be reached, and few are held at a time."""

import json
import mmap
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.io.checkpoint import file_digest
from sordino.algorithm.io.stream import Piece, StreamedRows
from sordino.algorithm.noise.sums import checked_rows
from sordino.core.spec.document import parse, read_text
from sordino.core.validate import InputError

_FEATURES, _TARGET, _LAYOUT = "features", "target", "layout.json"
# Mapped pages count as memory of the process until they are let go; whoever touches a row gets its neighbourhood too.
_HELD_BYTES = 64 * 2**20
_NEIGHBOURHOOD_BYTES = 2**16


class MappedRows(StreamedRows):
    """Encoded rows in a folder that only its owner may open; every batch scheme runs on them.

    The folder holds private rows: call `delete`, or use the object in a `with` statement, when the run is done.
    """

    anywhere = True

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        try:
            layout = parse(read_text(self._folder / _LAYOUT))
            self._target_type = np.dtype(layout["target"])
            super().__init__(int(layout["rows"]), int(layout["width"]))
            self._map = _mapped(self._folder / _FEATURES, self.count * self.width * 4)
            self._target = np.fromfile(self._folder / _TARGET, self._target_type)
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            raise _not_rows(self._folder) from None
        if len(self._target) != self.count:
            raise _not_rows(self._folder)
        self._features = np.frombuffer(self._map, np.float32, self.count * self.width).reshape(self.count, self.width)
        self._touched = 0

    @classmethod
    def write(cls, folder: str | Path, pieces: Iterable[tuple[Any, Any]]) -> "MappedRows":
        """Write rows, given in pieces of features and targets, to a new folder."""
        path = Path(folder)
        try:
            path.mkdir(mode=0o700, parents=True)
            layout = _written(path, pieces)
            (path / _LAYOUT).write_text(json.dumps(layout), encoding="utf-8")
        except FileExistsError:
            raise InputError(f"Expected a new folder for mapped rows, got {str(path)!r}, which exists.") from None
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise InputError(
                f"Expected to be able to write mapped rows to {str(path)!r}, got: {error.strerror or error}; "
                "make room there, or choose another folder."
            ) from None
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return cls(path)

    def between(self, first: int, stop: int) -> Piece:
        # Read, not mapped: rows in order are needed once, and would only fill the memory of the process.
        features = np.fromfile(
            self._folder / _FEATURES, np.float32, (stop - first) * self.width, offset=4 * first * self.width
        )
        return Piece(features.reshape(-1, self.width), self._target[first:stop])

    def at(self, positions: NDArray[np.integer]) -> Piece:
        features = np.empty((len(positions), self.width), np.float32)
        at_once = max(1, _HELD_BYTES // max(_NEIGHBOURHOOD_BYTES, 4 * self.width))
        for first in range(0, len(positions), at_once):
            chosen = positions[first : first + at_once]
            np.take(self._features, chosen, axis=0, out=features[first : first + at_once])
            self._let_go(len(chosen), at_once)
        return Piece(features, self._target[positions])

    def _let_go(self, touched: int, limit: int) -> None:
        self._touched += touched
        if self._touched >= limit and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0

    def delete(self) -> None:
        """Delete the folder; the rows cannot be read any more."""
        self._features = np.zeros((0, self.width), np.float32)
        with suppress(BufferError):
            self._map.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "MappedRows":
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def content(self, salt: bytes) -> str:
        return file_digest(salt, [self._folder / name for name in (_LAYOUT, _FEATURES, _TARGET)])


def _written(folder: Path, pieces: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    rows, width, target_type = 0, None, None
    with _private(folder / _FEATURES) as features, _private(folder / _TARGET) as target:
        for piece in pieces:
            X, y = checked_rows(*piece, np.float32)
            if width not in (None, X.shape[1]) or target_type not in (None, y.dtype):
                raise InputError("Expected pieces of one width and one kind of target, got different ones.")
            rows, width, target_type = rows + len(X), X.shape[1], y.dtype
            features.write(np.ascontiguousarray(X, np.float32).tobytes())
            target.write(np.ascontiguousarray(y).tobytes())
    if target_type is None:
        raise InputError("Expected at least one piece of rows to write, which may be empty, got none.")
    return {"rows": rows, "width": width, "target": target_type.str}


def _private(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _mapped(path: Path, size: int) -> mmap.mmap:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != size:
            raise ValueError(path)
        # Nothing cannot be mapped; a page without a file is as empty.
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else mmap.mmap(-1, mmap.PAGESIZE)


def _not_rows(folder: Path) -> InputError:
    return InputError(
        f"Expected a folder of mapped rows at {str(folder)!r}, got one that is absent or incomplete; "
        "write it with MappedRows.write."
    )
