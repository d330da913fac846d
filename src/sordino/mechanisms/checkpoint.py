"""Checkpoints: whose run a file belongs to, when it is written, and how a killed run goes on."""

import dataclasses
import hashlib
import re
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core import __version__
from sordino.core.validate import NON_NEGATIVE, SordinoError, number
from sordino.mechanisms import checkpoint_file as files
from sordino.noise.randomness import Randomness

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


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run after the given number of steps: arrays from which it goes on, and what its randomness holds."""

    step: int
    arrays: Mapping[str, NDArray[Any]]
    randomness: Mapping[str, Any]


class Keeper:
    """Writes a run down from time to time, and gives back what an earlier process wrote.

    `identify` describes the run, given a salt for the digest of its private rows. The first snapshot is written before
    any step is made. If a later one cannot be written, the run goes on, with a warning, and the one before it stays.
    """

    def __init__(self, checkpoint: Checkpoint, steps: int, identify: Callable[[bytes], dict[str, Any]]) -> None:
        self.checkpoint = checkpoint
        self.found: Snapshot | None = None
        self._written, self._step = 0.0, -1
        path, salt, held = checkpoint.path, secrets.token_hex(_SALT_BYTES), dict[str, Any]()
        if path.exists() or path.is_symlink():
            record = files.read_record(path)
            with self.validating():
                salt, held, step = (record.values[name] for name in ("salt", "identity", "step"))
                # A digest is no signature, so a whole file may still hold nonsense; a complete run has none.
                if len(bytes.fromhex(salt)) != _SALT_BYTES or type(step) is not int or not 0 <= step < steps:
                    raise ValueError(step)
                self.found = Snapshot(step, record.arrays, dict(record.values["randomness"]))
                held = dict(held)
        own = identify(bytes.fromhex(salt))
        for name, remedy in _REMEDIES.items():
            if self.found is not None and held.get(name) != own.get(name):
                raise files.CheckpointError(f"The checkpoint belongs to a run with another {name}; {remedy}.")
        self._bound = {"salt": salt, "identity": own}

    @contextmanager
    def validating(self) -> Iterator[None]:
        """While a snapshot is put back: whatever in it does not fit the run is the complaint about a changed file."""
        try:
            yield
        except SordinoError:
            raise
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
            raise files.damaged(self.checkpoint.path) from None

    def resumed(self, randomness: Randomness) -> Randomness:
        """The source of an earlier process where there was one, else the one that is given."""
        if self.found is None:
            return randomness
        with self.validating():
            return randomness.resumed(self.found.randomness)

    @property
    def due(self) -> bool:
        return time.monotonic() - self._written >= self.checkpoint.every

    def begin(self, snapshot: Snapshot) -> None:
        """Write the first snapshot; a run that was found keeps the one it has."""
        files.remove_partials(self.checkpoint.path)
        if self.found is None:
            self._write(snapshot)
        self._written, self._step = time.monotonic(), snapshot.step

    def keep(self, snapshot: Snapshot) -> None:
        try:
            self._write(snapshot)
            self._step = snapshot.step
        except files.CheckpointError as error:
            warnings.warn(f"{error} The checkpoint of step {self._step} stays as it was.", RuntimeWarning, stacklevel=4)
        self._written = time.monotonic()

    def complete(self) -> None:
        files.remove_privately(self.checkpoint.path)

    def _write(self, snapshot: Snapshot) -> None:
        values = {**self._bound, "step": snapshot.step, "randomness": dict(snapshot.randomness)}
        files.write_record(self.checkpoint.path, files.Record(values, snapshot.arrays))
