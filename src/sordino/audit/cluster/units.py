"""Pieces of work on a cluster or here: each is kept once it is done, and a lost worker changes nothing."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

from sordino.audit.cluster.connection import ClusterOptions, connected
from sordino.audit.fleet.checkpoint import Checkpoints, Saved
from sordino.core.errors import SordinoError

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
    elif missing:
        _on_workers(work, units, missing, options, finished)
    if kept is not None:
        kept.remove(len(units))
    return [found[number] for number in range(len(units))]


def _on_workers(
    work: Work,
    units: Sequence[Any],
    missing: Sequence[int],
    options: ClusterOptions,
    finished: Callable[[int, Saved], None],
) -> None:
    with connected(options) as client:
        held = client.scatter(work, broadcast=True, hash=False)
        futures = {client.submit(_done, held, units[number], pure=False): number for number in missing}
        for future in import_module("distributed").as_completed(futures):
            if future.status != "finished":
                raise SordinoError(f"A unit of the work failed on its worker: {_told(future)}")
            finished(futures[future], future.result())
            future.release()


def _done(work: Work, unit: Any) -> Saved:
    return work.done(unit)


def _told(future: Any) -> str:
    return str(future.exception()).partition("\n")[0][:200]
