"""Pieces of work here, on processes of this machine or on a cluster: each is kept once it is done.

A lost worker changes nothing. Where a cluster is lost altogether, one sentence says so, and what was kept is not done
again.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any, Protocol

from sordino.audit.cluster.connection import ClusterOptions, connected
from sordino.audit.fleet.checkpoint import Checkpoints, Saved
from sordino.core.errors import InputError, SordinoError
from sordino.core.worker_processes import done_in_processes

# How often the work is sent again when every worker that held it was lost.
_MOST_ROUNDS = 5
_PATIENCE = 60

# Told how many units are done and how many there are.
UnitsDone = Callable[[int, int], None]


class Work(Protocol):
    """All that a unit needs beside what makes it this unit; sent to every worker once."""

    def done(self, unit: Any) -> Saved:
        """Do one unit; the same unit always comes out the same."""
        ...


def all_done(
    work: Work,
    units: Sequence[Any],
    options: ClusterOptions | None,
    kept: Checkpoints | None = None,
    progress: UnitsDone | None = None,
) -> list[Saved]:
    """Every unit's result, in order; without options they are done here, one after another.

    Units that `kept` holds are not done again, and those done are kept there until all are.
    """
    found: dict[int, Saved] = {}
    for number in range(len(units)):
        saved = None if kept is None else kept.load(number)
        if saved is not None:
            found[number] = saved

    def finished(number: int, saved: Saved) -> None:
        if kept is not None:
            kept.save(number, saved)
        found[number] = saved
        if progress is not None:
            progress(len(found), len(units))

    missing = [number for number in range(len(units)) if number not in found]
    if options is None:
        for number in missing:
            finished(number, work.done(units[number]))
    elif missing and options.local:
        done_in_processes(work, units, missing, options.workers, finished)
    elif missing:
        _on_scheduler(work, units, missing, options, finished)
    if kept is not None:
        kept.remove(len(units))
    return [found[number] for number in range(len(units))]


def _on_scheduler(
    work: Work,
    units: Sequence[Any],
    missing: Sequence[int],
    options: ClusterOptions,
    finished: Callable[[int, Saved], None],
) -> None:
    with connected(options) as client:
        left = list(missing)
        for _ in range(_MOST_ROUNDS):
            left = _round(client, work, units, left, options, finished)
            if not left:
                return
    raise _gone(options, f"every worker that held the work was lost {_MOST_ROUNDS} times")


def _round(
    client: Any,
    work: Work,
    units: Sequence[Any],
    missing: Sequence[int],
    options: ClusterOptions,
    finished: Callable[[int, Saved], None],
) -> list[int]:
    """Send the work to the workers and do the units; answers those that were lost together with all who held it."""
    lost = []
    try:
        held = client.scatter(work, broadcast=True, hash=False, timeout=_PATIENCE)
        futures = {client.submit(_done, held, units[number], pure=False): number for number in missing}
        for future in import_module("distributed").as_completed(futures):
            if future.status == "finished":
                finished(futures[future], future.result(timeout=_PATIENCE))
            elif future.status == "error":
                _refuse(future.exception(timeout=_PATIENCE))
            else:  # cancelled or lost: what it needed is nowhere any more
                lost.append(futures[future])
            future.release()
    except SordinoError:
        raise
    except (OSError, TimeoutError, CancelledError, asyncio.CancelledError, RuntimeError) as error:
        raise _gone(options, f"{type(error).__name__}, {_first_line(error)}") from None
    if lost and client.status != "running":
        raise _gone(options, "the scheduler does not answer any more")
    return lost


def _done(work: Work, unit: Any) -> Saved:
    return work.done(unit)


def _refuse(error: BaseException) -> None:
    if isinstance(error, InputError):
        raise error
    raise SordinoError(f"A unit of the work failed on its worker: {type(error).__name__}: {_first_line(error)}")


def _gone(options: ClusterOptions, reason: str) -> SordinoError:
    return SordinoError(
        f"The cluster at {options.address!r} was lost before the work was done ({reason}); start it again and run the "
        "same command: with --keep and --seed it goes on from the units that are done."
    )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
