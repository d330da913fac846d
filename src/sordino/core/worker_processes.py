"""Units of work on child processes, each behind its own pipe; a lost worker is replaced and its unit done again."""

import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from sordino.core.validate import InputError, SordinoError

MOST_LOSSES = 5  # a unit that has lost its worker this often is not tried again: something about it ends workers
_PATIENCE, _LOOK_EVERY = 10.0, 1.0

Ended = Callable[[int, Any], None]


def done_in_processes(work: Any, units: Sequence[Any], missing: Sequence[int], workers: int, finished: Ended) -> None:
    """Do the units with these numbers on so many processes; `finished` receives each number and its result."""
    pool = _Pool(work, units, missing)
    try:
        for _ in range(min(workers, len(missing))):
            pool.add_worker()
        while pool.busy:
            for number, result in pool.results():
                finished(number, result)
    finally:
        pool.end()


@contextmanager
def _safe_path() -> Iterator[None]:
    """Interpreters that start inside import nothing from the working folder, where anybody's file may lie."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


class _Worker:
    """A child process, the parent's end of its pipe, and the unit it has in hand."""

    def __init__(self, work: Any) -> None:
        context = get_context("spawn")  # a fork would share the threads and locks of JAX
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        with _safe_path():
            self.process.start()
        theirs.close()
        self.number: int | None = None

    @property
    def end(self) -> str:
        self.process.join(_PATIENCE)
        code = self.process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


class _Pool:
    """Workers with a unit each, and the units that wait for one."""

    def __init__(self, work: Any, units: Sequence[object], missing: Sequence[int]) -> None:
        self._work, self._units, self._waiting = work, units, deque(missing)
        self._losses: Counter[int] = Counter()
        self.busy: list[_Worker] = []

    def add_worker(self) -> None:
        """A new process with the next unit; none where no unit waits."""
        if self._waiting:
            self._give(_Worker(self._work))

    def results(self) -> list[tuple[int, object]]:
        """Wait for something to happen; the units that are done, with their results."""
        done = []
        ready = wait([worker.pipe for worker in self.busy])
        for worker in [worker for worker in self.busy if worker.pipe in ready]:
            try:
                kind, answer = worker.pipe.recv()
            except (EOFError, OSError):
                self.busy.remove(worker)
                self._lost(worker)
                continue
            if kind is not None:
                raise kind(answer)
            self.busy.remove(worker)
            done.append((worker.number, answer))
            self._give(worker)
        return done

    def _give(self, worker: _Worker) -> None:
        """The next unit, or the end of a worker that is not needed any more."""
        worker.number = self._waiting.popleft() if self._waiting else None
        try:
            worker.pipe.send(None if worker.number is None else self._units[worker.number])
        except OSError:
            self._lost(worker)
            return
        if worker.number is None:
            worker.pipe.close()
            worker.process.join(_PATIENCE)
        else:
            self.busy.append(worker)

    def _lost(self, worker: _Worker) -> None:
        worker.pipe.close()
        if worker.number is None:
            return
        self._losses[worker.number] += 1
        if self._losses[worker.number] >= MOST_LOSSES:
            raise SordinoError(
                f"A task lost its worker process {MOST_LOSSES} times, the last one by {worker.end}; "
                "give the machine more memory or fewer workers, and with --keep the finished units are not done again."
            )
        self._waiting.appendleft(worker.number)
        self.add_worker()

    def end(self) -> None:
        for worker in self.busy:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self.busy:
            worker.process.join(_PATIENCE)
            if worker.process.is_alive():
                worker.process.kill()


def _serve(pipe: Connection, work: Any) -> None:
    """A worker's life: units come in, results go out, until its parent has no more or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent answers it
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with suppress(EOFError, OSError):
        while (unit := pipe.recv()) is not None:
            pipe.send(_answered(work, unit))
    # Nothing is left to do, and a library's native threads must not outlive what they use.
    os._exit(0)


def _end_with(parent: int) -> None:
    """A parent that was killed cannot say so, and nobody reads what its workers still compute."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)


def _answered(work: Any, unit: object) -> tuple[type[SordinoError] | None, object]:
    try:
        return None, work.done(unit)
    except InputError as error:
        return InputError, str(error)
    except Exception as error:  # the parent says it in one sentence, whatever it was
        message = str(error).partition("\n")[0][:200]
        return SordinoError, f"A unit of the work failed on its worker: {type(error).__name__}: {message}"
