"""Pieces of work here, on processes of this machine or on a dask cluster, each kept once it is done.

Models of an attack or a fleet are fitted in blocks, which come out as they do here, bit for bit. A lost worker costs
time and changes nothing. Where a cluster is lost altogether, one sentence says so, and what was kept is not done again.

Anyone who can reach a scheduler without authentication can run code on its workers. What workers answer is unpickled
by the auditor: client, scheduler and workers are one trust boundary. Processes of this machine have no address.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from sordino.auditing.attack.experiment import FitMany, Releases, Seeds, blocks_of, fitted
from sordino.auditing.fleet.engine import Checkpoints, Saved, fingerprint
from sordino.core.validate import COUNT, InputError, SordinoError, whole_number
from sordino.core.worker_processes import done_in_processes

LOCAL = "local"
# A unit that loses its worker is tried again this often before the audit gives up.
_LOSSES = 20
_FOUND_WITHIN = "10s"


@dataclass(frozen=True)
class ClusterOptions:
    """How to reach the workers and how to cut the work.

    `address` is that of a dask scheduler such as tls://host:8786, or "local" for so many `workers` on this machine.
    """

    address: str
    workers: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.address, str) or not self.address:
            raise InputError(f"Expected the address of a scheduler or {LOCAL!r}, got {self.address!r}.")
        object.__setattr__(self, "workers", whole_number("workers", self.workers, COUNT))

    @property
    def local(self) -> bool:
        """Whether the workers are processes of this machine."""
        return self.address == LOCAL

    @property
    def authenticated(self) -> bool:
        """Whether nobody but the parties can give the workers something to run."""
        return self.local or self.address.startswith("tls://")


@contextmanager
def connected(options: ClusterOptions) -> Iterator[Any]:
    """A client of the scheduler; its certificates, for a tls:// address, are those of dask's own configuration."""
    try:
        dask, distributed = import_module("dask"), import_module("distributed")
    except ImportError:
        raise InputError("Expected dask to be installed, got none; install sordino[cluster].") from None
    with dask.config.set({"distributed.scheduler.allowed-failures": _LOSSES}), _silent("distributed"):
        try:
            client = distributed.Client(options.address, timeout=_FOUND_WITHIN)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0][:120]
            message = f"Expected a dask scheduler at {options.address!r}, got: {reason}; start it, or use local."
            raise InputError(message) from None
        with client:
            yield client


@contextmanager
def _silent(package: str) -> Iterator[None]:
    """The task that loses a connection reports it in one sentence; dask's own log of it is dropped."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == package]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


# How often the work is sent again when every worker that held it was lost.
_MOST_ROUNDS = 5
_PATIENCE = 60

# Told how many units are done and how many there are.
UnitsDone = Callable[[int, int], None]


class ClusterWork(Protocol):
    """All that a unit needs beside what makes it this unit; sent to every worker once."""

    def done(self, unit: Any) -> Saved:
        """Do one unit; the same unit always comes out the same."""
        ...


def all_done(
    work: ClusterWork,
    units: Sequence[Any],
    options: ClusterOptions | None,
    kept: Checkpoints | None = None,
    progress: UnitsDone | None = None,
) -> list[Saved]:
    """Every unit's result, in order; without options they are done here, one after another.

    Units that `kept` holds are not done again, and those done are kept there until all are.
    """
    loaded = {} if kept is None else {number: kept.load(number) for number in range(len(units))}
    results = {number: saved for number, saved in loaded.items() if saved is not None}

    def finished(number: int, saved: Saved) -> None:
        if kept is not None:
            kept.save(number, saved)
        results[number] = saved
        if progress is not None:
            progress(len(results), len(units))

    missing = [number for number in range(len(units)) if number not in results]
    if options is None:
        for number in missing:
            finished(number, work.done(units[number]))
    elif missing and options.local:
        done_in_processes(work, units, missing, options.workers, finished)
    elif missing:
        _on_scheduler(work, units, missing, options, finished)
    if kept is not None:
        kept.remove(len(units))
    return [results[number] for number in range(len(units))]


def _on_scheduler(
    work: ClusterWork,
    units: Sequence[Any],
    missing: Sequence[int],
    options: ClusterOptions,
    finished: Callable[[int, Saved], None],
) -> None:
    with connected(options) as client:
        left = list(missing)
        for _ in range(_MOST_ROUNDS):
            try:
                left = _round(client, work, units, left, finished)
            except SordinoError:
                raise
            except (OSError, TimeoutError, CancelledError, asyncio.CancelledError, RuntimeError) as error:
                raise _gone(options, f"{type(error).__name__}, {_first_line(error)}") from None
            if not left:
                return
            if client.status != "running":
                raise _gone(options, "the scheduler does not answer any more")
    raise _gone(options, f"every worker that held the work was lost {_MOST_ROUNDS} times")


def _round(
    client: Any, work: ClusterWork, units: Sequence[Any], missing: Sequence[int], finished: Callable[[int, Saved], None]
) -> list[int]:
    """Send the work to the workers and do the units; answers those that were lost together with all who held it."""
    lost = []
    sent = client.scatter(work, broadcast=True, hash=False, timeout=_PATIENCE)
    futures = {client.submit(type(work).done, sent, units[number], pure=False): number for number in missing}
    for future in import_module("distributed").as_completed(futures):
        if future.status == "finished":
            finished(futures[future], future.result(timeout=_PATIENCE))
        elif future.status == "error":
            failed = future.exception(timeout=_PATIENCE)
            if isinstance(failed, InputError):
                raise failed
            reason = f"{type(failed).__name__}: {_first_line(failed)}"
            raise SordinoError(f"A unit of the work failed on its worker: {reason}")
        else:  # cancelled or lost: what it needed is nowhere any more
            lost.append(futures[future])
        future.release()
    return lost


def _gone(options: ClusterOptions, reason: str) -> SordinoError:
    return SordinoError(
        f"The cluster at {options.address!r} was lost before the work was done ({reason}); start it again and run the "
        "same command: with --keep and --seed it goes on from the units that are done."
    )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


class Block(NamedTuple):
    """Models of one of the datasets, by its place, and their seeds."""

    side: int
    seeds: Seeds


@dataclass(frozen=True, eq=False)
class FitWork:
    """A mechanism, and the datasets it is run on."""

    fit_many: FitMany
    datasets: tuple[Any, ...]

    def done(self, unit: Block) -> Saved:
        """Fit the models of a block."""
        return Saved(1, fitted(self.fit_many, self.datasets[unit.side], unit.seeds), {})


@dataclass(frozen=True)
class FitOnCluster:
    """How `AuditOptions.fit_sides` fits on a cluster, or here where `options` is absent.

    With `partial_results` every finished block is kept in that folder, for its owner only, until all are: an audit
    that was killed and is started again with the same seed takes up where it was.
    """

    options: ClusterOptions | None
    partial_results: Path | None = None
    progress: UnitsDone | None = None

    def __call__(self, fit_many: FitMany, datasets: Sequence[Any], seeds: Sequence[Seeds]) -> list[Releases]:
        """The releases of each dataset's models, one row for each seed."""
        work = FitWork(fit_many, tuple(datasets))
        units = [Block(side, block) for side, own in enumerate(seeds) for block in blocks_of(fit_many, own)]
        parts = all_done(work, units, self.options, self._kept(work, units), self.progress)
        return [
            np.concatenate([part.theta for part, unit in zip(parts, units, strict=True) if unit.side == side])
            for side in range(len(work.datasets))
        ]

    def _kept(self, work: FitWork, units: Sequence[Block]) -> Checkpoints | None:
        if self.partial_results is None:
            return None
        sides = [(np.asarray(data.features), np.asarray(data.target)) for data in work.datasets]
        seeds = [unit.seeds for unit in units]
        return Checkpoints(self.partial_results, fingerprint({"mechanism": work.fit_many}, (sides, seeds)))
