"""Where a fleet has got to, on disk: one file for each chunk, replaced as a whole after every epoch.

Files are for their owner only, and gone when the fleet is complete: they hold iterates, which no release may contain.
All that a fleet draws is fixed by numbers and steps, so there is no generator state to keep.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import jax
import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float32]]


class Saved(NamedTuple):
    """A chunk after `epochs` epochs: its parameters, and every probe's readings so far, shape (epochs, models, k)."""

    epochs: int
    theta: NDArray[np.float32]
    readings: Arrays


@dataclass(frozen=True)
class Checkpoints:
    """A folder of chunks of one fleet; `fingerprint` tells fleets apart."""

    folder: Path
    fingerprint: str

    def save(self, chunk: int, saved: Saved) -> None:
        """Put a chunk's file in place in one move, so that a reader sees the old one or the new one."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        readings: dict[str, Any] = {f"reading:{name}": values for name, values in saved.readings.items()}
        descriptor, name = tempfile.mkstemp(dir=self.folder, suffix=".part")  # for the owner only
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez(file, epochs=np.int64(saved.epochs), theta=saved.theta, **readings)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._file(chunk))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def load(self, chunk: int) -> Saved | None:
        """What was saved of a chunk of this very fleet, or None."""
        try:
            with self._file(chunk).open("rb") as file, np.load(file, allow_pickle=False) as held:
                readings = {name.removeprefix("reading:"): held[name] for name in held.files if ":" in name}
                return Saved(int(held["epochs"]), held["theta"], readings)
        except (FileNotFoundError, BadZipFile, EOFError, KeyError):
            return None

    def remove(self, chunks: int) -> None:
        """Delete the files of a complete fleet, and the folder if nothing else is in it."""
        for chunk in range(chunks):
            self._file(chunk).unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, chunk: int) -> Path:
        return self.folder / f"fleet-{self.fingerprint[:16]}-{chunk:05d}.npz"


def fingerprint(described: Mapping[str, Any], arrays: Any) -> str:
    """A digest of everything that makes a fleet what it is: its description, and the arrays of a JAX tree."""
    digest = hashlib.sha256(repr(sorted(described.items())).encode())
    leaves, tree = jax.tree.flatten(arrays)
    digest.update(str(tree).encode())
    for leaf in leaves:
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
