"""Checkpoints: whose run a file belongs to, when it is written, and how a run stops when asked."""

import dataclasses
import hashlib
import re
import secrets
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core import __version__
from sordino.core.spec import Spec
from sordino.core.validate import NON_NEGATIVE, SordinoError, number
from sordino.mechanisms import checkpoint_file as files
from sordino.models.base import Model
from sordino.noise.randomness import Randomness

_ASKING = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """While entered, the first signal only sets `asked`; a second one acts as it would have without this."""

    # Signals reach the main thread only, so elsewhere nothing changes.
    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = {asking: signal.signal(asking, self._note) for asking in _ASKING}
        return self

    def __exit__(self, *_: object) -> None:
        for asking, handler in self._before.items():
            signal.signal(asking, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self.__exit__()
            signal.raise_signal(number)
        self.asked = True


# The text of a program may hold where in memory a function lies, which is another place in every process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# In the order in which a difference is reported, with what to do about it.
_REMEDIES = {
    **dict.fromkeys(("sordino", "jax", "numpy"), "finish the run with the version that began it"),
    "device": "finish the run on the kind of machine that began it",
    "precision": "finish the run in the precision that began it",
    "spec": "give the spec the run began with",
    "model": "give the model the run began with",
    "function": "give the averaged function the run began with",
    "rows": "give the rows the run began with",
    "content": "give the rows the run began with: going on with others would use their noise twice",
    "placement": "give the devices the run began with",
}


def identity(
    spec: Spec, model: Model, averaged: Callable[..., Any] | None, rows: Mapping[str, Any], dtype: np.dtype
) -> dict[str, Any]:
    """Everything a checkpoint is bound to, in plain values; `rows` describes the rows and where they are."""
    return platform() | {
        "precision": dtype.name,
        "spec": spec.to_dict(),
        "model": [described(model), *_of_model(spec, model, rows["rows"][1])],
        "function": None if averaged is None else traced(averaged, _numbers(spec.dim)),
        **rows,
    }


def platform() -> dict[str, Any]:
    """The versions and the device that decide the bits of a run."""
    return {
        "sordino": __version__,
        "jax": [jax.__version__, version("jaxlib")],
        "numpy": np.__version__,
        "device": [jax.default_backend(), jax.devices()[0].device_kind],
    }


def traced(function: Callable[..., Any], *arguments: jax.ShapeDtypeStruct) -> str:
    """A digest of what a function computes: the programs JAX makes of it and of its gradient, and their constants."""
    # A name is not enough: two functions may have one, and one may hold numbers that change. A custom rule for
    # the gradient shows in the gradient alone.
    program = jax.make_jaxpr(function)(*arguments)
    programs = [program, *_of_gradient(function, program, arguments)]
    digest = hashlib.blake2b(digest_size=32)
    for one in programs:
        digest.update(_ADDRESS.sub("", str(one.jaxpr)).encode())
        for constant in _constants(one):
            _add(digest, np.asarray(constant))
    return digest.hexdigest()


def _of_gradient(function: Callable[..., Any], program: Any, arguments: tuple[jax.ShapeDtypeStruct, ...]) -> list[Any]:
    """The program of the gradient in the first argument, where there is one."""
    one_number = [(value.shape, jnp.issubdtype(value.dtype, jnp.floating)) for value in program.out_avals] == [
        ((), True)
    ]
    if not one_number or not arguments or not jnp.issubdtype(arguments[0].dtype, jnp.floating):
        return []
    return [jax.make_jaxpr(jax.grad(function))(*arguments)]


def _constants(program: Any) -> Iterator[Any]:
    """The constants of a program and of every program inside it, such as that of an inner jit, in their order."""
    yield from jax.tree.leaves(getattr(program, "consts", ()))
    for equation in getattr(program, "jaxpr", program).eqns:
        for value in equation.params.values():
            for inner in jax.tree.leaves(value, is_leaf=lambda one: hasattr(one, "eqns") or hasattr(one, "jaxpr")):
                if hasattr(inner, "eqns") or hasattr(getattr(inner, "jaxpr", None), "eqns"):
                    yield from _constants(inner)


def _of_model(spec: Spec, model: Model, features: int) -> list[str]:
    """The model's loss and penalty, which may be functions of the caller's own."""
    point, row, target = (_numbers(*shape) for shape in ((spec.dim,), (features,), ()))
    try:
        loss = traced(model.loss, point, row, target)
    except (TypeError, IndexError):  # a loss that chooses by its target
        loss = traced(model.loss, point, row, jax.ShapeDtypeStruct((), jnp.int32))
    return [loss, traced(model.penalty, point)]


def _numbers(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.zeros(()).dtype)


def check_identity(held: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that belongs to another run, naming the first thing that differs."""
    for name, remedy in _REMEDIES.items():
        if held.get(name) != present.get(name):
            raise files.CheckpointError(f"Expected the checkpoint of this run, got one with another {name}; {remedy}.")


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
        _add(digest, array)
    return digest.hexdigest()


def _add(digest: Any, array: NDArray[Any]) -> None:
    digest.update(f"{array.dtype.str} {array.shape} ".encode())
    if array.size:
        digest.update(np.ascontiguousarray(array).data.cast("B"))


_SALT_BYTES = 32
_LONGEST_BLOCK = 2**16


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds a run while it goes: written every `every` seconds, deleted when the run is complete.

    A run that finds the file goes on from it, and reproduces the uninterrupted run bit for bit. The file holds
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
    """A run between two blocks of steps: values and arrays from which it can go on."""

    step: int
    record: files.Record


class Keeper:
    """Writes a run down from time to time, and gives back what an earlier process wrote.

    `identify` describes the run, given a salt for the digest of its private rows. The first moment is written before
    any step is made: a folder that cannot be written to is found out then, not after hours. If a later one cannot be
    written, the run goes on, with a warning, and the one before it stays.
    """

    def __init__(self, checkpoint: Checkpoint, steps: int, identify: Callable[[bytes], dict[str, Any]]) -> None:
        self.checkpoint, self.steps, self.stop = checkpoint, steps, StopRequest()
        self._written, self._step = 0.0, -1
        path = checkpoint.path
        found = files.read_record(path) if path.exists() or path.is_symlink() else None
        held = None if found is None else _held(path, found)
        salt = secrets.token_hex(_SALT_BYTES) if held is None else held[0]
        self._bound = {"salt": salt, "steps": steps, "identity": identify(bytes.fromhex(salt))}
        self.found: Snapshot | None = None
        if held is not None:
            check_identity(held[1], self._bound["identity"])
            if held[2].step >= steps:  # a run that is complete has no checkpoint
                raise files.damaged(path)
            self.found = held[2]

    def resumed(self, randomness: Randomness) -> Randomness:
        """The source of an earlier process where there was one, else the one that is given."""
        if self.found is None:
            return randomness
        with validating(self.checkpoint.path):
            return randomness.resumed(self.found.record.values["randomness"])

    @property
    def due(self) -> bool:
        """Whether it is time to write, or a stop was requested."""
        return self.stop.asked or time.monotonic() - self._written >= self.checkpoint.every

    def begin(self, moment: Snapshot) -> None:
        """Write the first moment; a run that was found keeps the one it has."""
        files.remove_partials(self.checkpoint.path)
        if self.found is None:
            self._write(moment)
        self._written, self._step = time.monotonic(), moment.step

    def keep(self, moment: Snapshot) -> None:
        """Write a snapshot, and stop if a stop was requested."""
        try:
            self._write(moment)
            self._step = moment.step
        except files.CheckpointError as error:
            warnings.warn(f"{error} The checkpoint of step {self._step} stays as it was.", RuntimeWarning, stacklevel=4)
        self._written = time.monotonic()
        if self.stop.asked:
            raise files.Interrupted(self.checkpoint.path, self._step, self.steps)

    def complete(self) -> None:
        """Delete the checkpoint."""
        files.remove_privately(self.checkpoint.path)

    def _write(self, moment: Snapshot) -> None:
        values = {**self._bound, "step": moment.step, "moment": dict(moment.record.values)}
        files.write_record(self.checkpoint.path, files.Record(values, moment.record.arrays))


@contextmanager
def validating(path: Path) -> Iterator[None]:
    """While a moment is put back: whatever in it does not fit the run is the complaint about a changed file."""
    try:
        yield
    except SordinoError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        raise files.damaged(path) from None


def checked_block(moment: Snapshot, longest: int) -> int:
    """The length of a moment's blocks; `ValueError` where its step is not at the end of one."""
    length = moment.record.values["block"]
    if not is_count(length) or not 0 < length <= max(longest, _LONGEST_BLOCK) or moment.step % length:
        raise ValueError(length)
    return length


def is_count(value: Any) -> bool:
    """Whether a value is a whole number, 0 or more; true is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _held(path: Path, found: files.Record) -> tuple[str, dict[str, Any], Snapshot]:
    """Salt, identity and moment of a file; its digest is no signature, so a whole file may still hold nonsense."""
    try:
        salt, identity, step, moment = (found.values[name] for name in ("salt", "identity", "step", "moment"))
        sound = len(bytes.fromhex(salt)) == _SALT_BYTES and is_count(step)
    except (KeyError, TypeError, ValueError):
        raise files.damaged(path) from None
    if not sound or not isinstance(identity, dict) or not isinstance(moment, dict):
        raise files.damaged(path)
    return salt, identity, Snapshot(step, files.Record(moment, found.arrays))
