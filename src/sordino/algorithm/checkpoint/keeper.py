"""When a running chain is written down, and where it goes on."""

import secrets
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.algorithm.checkpoint.errors import CheckpointError, Interrupted
from sordino.algorithm.checkpoint.identity import check_identity
from sordino.algorithm.checkpoint.private_file import remove_partials, remove_privately
from sordino.algorithm.checkpoint.record import Record, damaged, read_record, write_record
from sordino.algorithm.checkpoint.signals import StopRequest
from sordino.core.errors import SordinoError
from sordino.core.validate import NON_NEGATIVE, number

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
class Moment:
    """A run between two blocks of steps: values and arrays from which it can go on."""

    step: int
    record: Record


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
        found = read_record(path) if path.exists() or path.is_symlink() else None
        held = None if found is None else _held(path, found)
        salt = secrets.token_hex(_SALT_BYTES) if held is None else held[0]
        self._bound = {"salt": salt, "steps": steps, "identity": identify(bytes.fromhex(salt))}
        self.found: Moment | None = None
        if held is not None:
            check_identity(held[1], self._bound["identity"])
            if held[2].step >= steps:  # a run that is complete has no checkpoint
                raise damaged(path)
            self.found = held[2]

    @property
    def due(self) -> bool:
        """Whether it is time to write, or somebody asked to stop."""
        return self.stop.asked or time.monotonic() - self._written >= self.checkpoint.every

    def begin(self, moment: Moment) -> None:
        """Write the first moment; a run that was found keeps the one it has."""
        remove_partials(self.checkpoint.path)
        if self.found is None:
            self._write(moment)
        self._written, self._step = time.monotonic(), moment.step

    def keep(self, moment: Moment) -> None:
        """Write a moment; if somebody asked to stop, stop."""
        try:
            self._write(moment)
            self._step = moment.step
        except CheckpointError as error:
            warnings.warn(f"{error} The checkpoint of step {self._step} stays as it was.", RuntimeWarning, stacklevel=4)
        self._written = time.monotonic()
        if self.stop.asked:
            raise Interrupted(self.checkpoint.path, self._step, self.steps)

    def complete(self) -> None:
        """Delete the checkpoint."""
        remove_privately(self.checkpoint.path)

    def _write(self, moment: Moment) -> None:
        values = {**self._bound, "step": moment.step, "moment": dict(moment.record.values)}
        write_record(self.checkpoint.path, Record(values, moment.record.arrays))


@contextmanager
def believing(path: Path) -> Iterator[None]:
    """While a moment is put back: whatever in it does not fit the run is the complaint about a changed file."""
    try:
        yield
    except SordinoError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        raise damaged(path) from None


def checked_block(moment: Moment, longest: int) -> int:
    """The length of a moment's blocks; `ValueError` where its step is not at the end of one."""
    length = moment.record.values["block"]
    if not is_count(length) or not 0 < length <= max(longest, _LONGEST_BLOCK) or moment.step % length:
        raise ValueError(length)
    return length


def is_count(value: Any) -> bool:
    """Whether a value is a whole number, 0 or more; true is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _held(path: Path, found: Record) -> tuple[str, dict[str, Any], Moment]:
    """Salt, identity and moment of a file; its digest is no signature, so a whole file may still hold nonsense."""
    try:
        salt, identity, step, moment = (found.values[name] for name in ("salt", "identity", "step", "moment"))
        sound = len(bytes.fromhex(salt)) == _SALT_BYTES and is_count(step)
    except (KeyError, TypeError, ValueError):
        raise damaged(path) from None
    if not sound or not isinstance(identity, dict) or not isinstance(moment, dict):
        raise damaged(path)
    return salt, identity, Moment(step, Record(moment, found.arrays))
