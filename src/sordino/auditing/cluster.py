"""Blocks of an audit's models here, on processes of this machine or on a dask cluster, each kept once it is done.

A block comes out as it does here, bit for bit, and a lost worker costs time alone. Anyone who can reach a scheduler
without authentication can run code on its workers, and what workers answer is unpickled by the auditor: client,
scheduler and workers are one trust boundary. Processes of this machine have no address.
"""

import asyncio
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sordino.auditing.experiment import FitMany, Releases, Seeds, blocks_of, fitted
from sordino.core.validate import InputError, SordinoError, whole_number
from sordino.core.worker_processes import done_in_processes

LOCAL = "local"
_FOUND_WITHIN = "10s"
_PATIENCE = 60  # so many seconds without a finished block and without a worker, and the cluster counts as lost

Finished = Callable[[int, Releases], None]


@dataclass(frozen=True)
class ClusterOptions:
    """How to reach workers: the `address` of a dask scheduler (tls://host:8786), or "local" and how many."""

    address: str
    workers: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.address, str) or not self.address:
            raise InputError(f"Expected the address of a scheduler or {LOCAL!r}, got {self.address!r}.")
        object.__setattr__(self, "workers", whole_number("workers", self.workers))

    @property
    def local(self) -> bool:
        return self.address == LOCAL

    @property
    def authenticated(self) -> bool:
        """Whether nobody but the parties can give the workers something to run."""
        return self.local or self.address.startswith("tls://")


Block = tuple[int, Seeds]  # models of one of the datasets, by its place, and their seeds


@dataclass(frozen=True, eq=False)
class FitWork:
    """A mechanism, and the datasets it is run on; sent to every worker once."""

    fit_many: FitMany
    datasets: tuple[Any, ...]

    def done(self, unit: Block) -> Releases:
        side, seeds = unit
        return fitted(self.fit_many, self.datasets[side], seeds)


@dataclass(frozen=True)
class Checkpoints:
    """Finished blocks of an audit in a folder, for their owner only; `fingerprint` tells audits apart."""

    folder: Path
    fingerprint: str

    @classmethod
    def of(cls, folder: Path, work: FitWork, units: Sequence[Block]) -> "Checkpoints":
        digest = hashlib.sha256(repr(work.fit_many).encode())
        sides = [part for data in work.datasets for part in (data.features, data.target)]
        for array in map(np.ascontiguousarray, (*sides, *(seeds for _, seeds in units))):
            digest.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
        return cls(folder, digest.hexdigest())

    def save(self, number: int, releases: Releases) -> None:
        """Put a block's file in place in one move, so that a reader sees the old one or the new one."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self.folder, suffix=".part")  # for the owner only
        with os.fdopen(descriptor, "wb") as file:
            np.save(file, releases)
        Path(name).replace(self._file(number))

    def load(self, number: int) -> Releases | None:
        """What was saved of a block, or None; a torn file counts as none."""
        try:
            return np.load(self._file(number), allow_pickle=False)
        except (FileNotFoundError, EOFError, ValueError):
            return None

    def remove(self, count: int) -> None:
        for number in range(count):
            self._file(number).unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _file(self, number: int) -> Path:
        return self.folder / f"fleet-{self.fingerprint[:16]}-{number:05d}.npy"


@dataclass(frozen=True)
class FitOnCluster:
    """How `fit_sides` fits on a cluster, or here; blocks kept in `partial_results` let the same audit resume."""

    options: ClusterOptions | None
    partial_results: Path | None = None

    def __call__(self, fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
        """The releases of each dataset's models, one row for each seed."""
        work = FitWork(fit_many, tuple(datasets))
        units = [(side, block) for side, own in enumerate(seeds) for block in blocks_of(fit_many, own)]
        kept = None if self.partial_results is None else Checkpoints.of(self.partial_results, work, units)
        loaded = {} if kept is None else {number: kept.load(number) for number in range(len(units))}
        results = {number: releases for number, releases in loaded.items() if releases is not None}

        def finished(number: int, releases: Releases) -> None:
            if kept is not None:
                kept.save(number, releases)
            results[number] = releases

        missing = [number for number in range(len(units)) if number not in results]
        if self.options is None:
            for number in missing:
                finished(number, work.done(units[number]))
        elif missing and self.options.local:
            done_in_processes(work, units, missing, self.options.workers, finished)
        elif missing:
            _on_scheduler(work, units, missing, self.options, finished)
        if kept is not None:
            kept.remove(len(units))
        return [
            np.concatenate([results[number] for number, (place, _) in enumerate(units) if place == side])
            for side in range(len(work.datasets))
        ]


def _on_scheduler(
    work: FitWork, units: Sequence[Block], missing: Sequence[int], options: ClusterOptions, finished: Finished
) -> None:
    """The scheduler holds the work and sends it, and the block in hand, to another worker where one is lost."""
    with _connected(options) as client:
        distributed = import_module("distributed")
        sent = client.submit(_same, work, pure=False)
        left = {client.submit(FitWork.done, sent, units[number], pure=False): number for number in missing}
        while left:
            try:
                done = distributed.wait(list(left), _PATIENCE, "FIRST_COMPLETED").done
            except TimeoutError:
                if client.nthreads():
                    continue
                raise _gone(options, f"no worker for {_PATIENCE} seconds") from None
            for future in done:
                if future.status == "error":
                    error = future.exception(timeout=_PATIENCE)
                    words = f"A task failed on its worker: {type(error).__name__}: {_first_line(error)}"
                    raise error if isinstance(error, InputError) else SordinoError(words)
                finished(left.pop(future), future.result(timeout=_PATIENCE))


def _same(work: FitWork) -> FitWork:
    return work


@contextmanager
def _connected(options: ClusterOptions) -> Iterator[Any]:
    """A client of the scheduler; its certificates, for a tls:// address, are those of dask's own configuration."""
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise InputError("This needs dask. Install sordino[cluster].") from None
    # The audit reports a lost connection in one sentence, in place of dask's log of it.
    logging.disable(logging.CRITICAL)
    try:
        try:
            client = distributed.Client(options.address, timeout=_FOUND_WITHIN)
        except (OSError, ValueError, TypeError) as error:
            got = f"{options.address!r}, got: {_first_line(error)}"
            raise InputError(f"Expected a dask scheduler at {got}; start it, or use local.") from None
        with client:
            yield client
    except (OSError, TimeoutError, CancelledError, asyncio.CancelledError, RuntimeError) as error:
        raise _gone(options, f"{type(error).__name__}, {_first_line(error)}") from None
    finally:
        logging.disable(logging.NOTSET)


def _gone(options: ClusterOptions, reason: str) -> SordinoError:
    return SordinoError(
        f"The cluster at {options.address!r} was lost before the work was done ({reason}); start it again and run the "
        "same command: with --keep and --seed it continues from the finished units."
    )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
