"""Checkpoints: the file, whose run it belongs to, when it is written, and how a killed run resumes.

A file is for its owner alone, the old one or the new one and never half of each. Its format is a marked line, a JSON
header, raw arrays, and a digest of it all: nothing in it can run.
"""

import dataclasses
import hashlib
import json
import math
import os
import re
import secrets
import stat
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core import __version__
from sordino.core.atomic_write import PARTIAL, write_file
from sordino.core.validate import NON_NEGATIVE, InputError, SordinoError, instance_of, number
from sordino.noise.randomness import Randomness


class CheckpointError(InputError):
    """A checkpoint cannot be written, or cannot be used for this run."""


def damaged(path: Path) -> CheckpointError:
    """The complaint about a file that is not what was written."""
    return CheckpointError(f"The checkpoint {str(path)!r} was cut short or changed. Delete it to start again.")


_MARK = b"SORDINO CHECKPOINT 1\n"
_LENGTH_BYTES, _DIGEST_BYTES = 8, 32
# NumPy reads other words as well, and evaluates part of some.
_DTYPES = frozenset(np.dtype(code).str for code in "?bBhHiIlLqQefd")
_OTHERS = 0o077


class Record(NamedTuple):
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
            arrays[name], end = _array(body, end, given["dtype"], tuple(given["shape"]))
        return Record(dict(header["values"]), arrays)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError):
        raise damaged(path) from None


def _array(body: memoryview, begin: int, dtype: str, shape: tuple[int, ...]) -> tuple[NDArray[Any], int]:
    if dtype not in _DTYPES or any(size < 0 for size in shape):
        raise ValueError(dtype)
    end = begin + np.dtype(dtype).itemsize * math.prod(shape)
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


_SALT_BYTES = 32
# In the order in which a difference is reported, with what to do about it.
_REMEDIES = {
    **dict.fromkeys(("sordino", "jax", "numpy"), "finish the run with the version that began it"),
    "device": "finish the run on the kind of machine that began it",
    "precision": "finish the run in the precision that began it",
    "block": "give the steps_per_block the run began with",
    "spec": "give the spec the run began with",
    "model": "give the model the run began with",
    "function": "give the averaged function the run began with",
    "rows": "give the rows the run began with",
    "content": "give the rows the run began with: continuing with others would use their noise twice",
}
# The text of a program may hold where in memory a function lies, which is another place in every process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def platform() -> dict[str, Any]:
    """The versions and the device that decide the bits of a run."""
    return {
        "sordino": __version__,
        "jax": [jax.__version__, version("jaxlib")],
        "numpy": np.__version__,
        "device": [jax.default_backend(), jax.devices()[0].device_kind],
    }


def traced(function: Callable[..., Any], *arguments: jax.ShapeDtypeStruct) -> str:
    """A digest of what a function of floats computes: its compiled program and that of its gradient, constants too."""

    # A custom rule for the gradient shows in the gradient alone.
    def gradient(*given: Any) -> Any:
        answer, back = jax.vjp(lambda first: function(first, *given[1:]), given[0])
        return back(jax.tree.map(jnp.ones_like, answer))

    texts = [jax.jit(part).lower(*arguments).as_text() for part in (function, gradient)]
    return hashlib.blake2b(_ADDRESS.sub("", "".join(texts)).encode(), digest_size=32).hexdigest()


def described(value: Any) -> Any:
    """A value as text that is the same in every process: names instead of addresses, fields instead of objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: described(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return [type(value).__qualname__, fields]
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    if isinstance(value, str | int | float | bool | None):
        return value
    return type(value).__qualname__


def content_digest(salt: bytes, *arrays: NDArray[Any]) -> str:
    """A keyed digest of private arrays; without the salt it cannot be compared with guesses."""
    digest = hashlib.blake2b(key=salt, digest_size=32)
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape} ".encode())
        if array.size:
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds a run while it goes: written every `every` seconds, deleted when the run is complete.

    A run that finds the file resumes from it, and reproduces the uninterrupted run bit for bit. The file holds
    iterates and, for secure randomness, the key of the noise: only its owner may read it, and it is no part of a
    release.
    """

    path: Path
    every: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        object.__setattr__(self, "every", number("every", self.every, NON_NEGATIVE))


class Snapshot(NamedTuple):
    """A run after the given number of steps: arrays from which it resumes, and the state of its randomness."""

    step: int
    arrays: Mapping[str, NDArray[Any]]
    randomness: Mapping[str, Any]


class Keeper:
    """Writes a run down from time to time, and gives back what an earlier process wrote.

    `identify` describes the run, given a salt for the digest of its private rows. The first snapshot is written before
    any step is made. If a later one cannot be written, the run goes on, with a warning, and the one before it stays.
    Without a checkpoint nothing is written. `randomness` is the source of an earlier process where there was one.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        steps: int,
        identify: Callable[[bytes], dict[str, Any]],
        randomness: Randomness,
    ) -> None:
        self.checkpoint, self.randomness, self.begun = checkpoint, randomness, 0
        self.found: Snapshot | None = None
        self._written, self._step = 0.0, -1
        if checkpoint is None:
            return
        path, salt, held = checkpoint.path, secrets.token_hex(_SALT_BYTES), dict[str, Any]()
        if path.exists() or path.is_symlink():
            record = read_record(path)
            with self.validating():
                salt, held, step = (record.values[name] for name in ("salt", "identity", "step"))
                # A digest is no signature, so a whole file may still hold nonsense; a complete run has none.
                if len(bytes.fromhex(salt)) != _SALT_BYTES or type(step) is not int or not 0 <= step < steps:
                    raise ValueError(step)
                self.found, self.begun = Snapshot(step, record.arrays, dict(record.values["randomness"])), step
                held = dict(held)
        own = identify(bytes.fromhex(salt))
        for name, remedy in _REMEDIES.items():
            if self.found is not None and held.get(name) != own.get(name):
                raise CheckpointError(f"The checkpoint belongs to a run with another {name}; {remedy}.")
        self._bound = {"salt": salt, "identity": own}
        if self.found is not None:
            with self.validating():
                self.randomness = randomness.resumed(self.found.randomness)

    @contextmanager
    def validating(self) -> Iterator[None]:
        """While a snapshot is put back: whatever in it does not fit the run is the complaint about a changed file."""
        try:
            yield
        except SordinoError:
            raise
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
            raise damaged(self._path) from None

    @property
    def _path(self) -> Path:
        return instance_of("checkpoint", self.checkpoint, Checkpoint).path

    @property
    def due(self) -> bool:
        return self.checkpoint is not None and time.monotonic() - self._written >= self.checkpoint.every

    def begin(self, snapshot: Callable[[int], Snapshot]) -> None:
        """Write the first snapshot; a run that was found keeps the one it has."""
        if self.checkpoint is not None:
            remove_partials(self._path)
            if self.found is None:
                self._write(snapshot(0))
            self._written, self._step = time.monotonic(), self.begun

    def keep(self, snapshot: Snapshot) -> None:
        try:
            self._write(snapshot)
            self._step = snapshot.step
        except CheckpointError as error:
            warnings.warn(f"{error} The checkpoint of step {self._step} stays as it was.", RuntimeWarning, stacklevel=4)
        self._written = time.monotonic()

    def complete(self) -> None:
        if self.checkpoint is not None:
            remove_privately(self._path)

    def _write(self, snapshot: Snapshot) -> None:
        values = {**self._bound, "step": snapshot.step, "randomness": dict(snapshot.randomness)}
        write_record(self._path, Record(values, snapshot.arrays))
