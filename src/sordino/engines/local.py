"""The engine of this machine: a part for each core, a few rows at a time.

After a while processes beside this one answer for parts, because threads share an address space and wait for each other
where memory is taken. They are children behind pipes, so nobody else can reach them, and they end with their parent.
Where a helper cannot answer (it was killed, or the question holds something that only this process knows) the part is
answered here: its answer is counted once in any case, by its key.
"""

import copyreg
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from sordino.core.validate import InputError, SordinoError
from sordino.data.sources.registry import TablePart
from sordino.engines.totals import Engine, PartAnswer, Work, register_engine
from sordino.noise.randomness import cores

# Seconds of reading after which helpers are worth their start.
PATIENCE = 3.0


Answered = TypeVar("Answered")


def _in_order(threads: int, asked: Iterable[Callable[[], Answered]], stop: Callable[[], None]) -> Iterator[Answered]:
    """The answers of several threads, in the order of the questions; few of them wait, so that memory holds few."""
    # Every thread computes on one core: a matrix product that spreads over all of them would only get in their way.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Answered]] = deque()
        try:
            for one in asked:
                waiting.append(pool.submit(one))
                while len(waiting) > threads + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            if waiting:  # nobody takes their answers any more
                stop()


class Streamed(Engine):
    """A part for each core, a few rows at a time; after `patience` seconds processes beside this one read on.

    Where it `replaces` processes that are lost, no part of theirs is answered here.
    """

    def __init__(self, threads: int | None = None, *, patience: float = PATIENCE, replaces: bool = False) -> None:
        self._threads = threads or cores()
        self._patience, self._spent, self._helpers = patience, 0.0, Helpers(replaces=replaces)

    def answers(self, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
        if self._threads == 1:  # in the thread that an interrupt ends
            yield from (work.answer(part, key) for key, part in parts.items())
            return
        begun = time.monotonic()

        def answer(key: str, part: TablePart) -> PartAnswer:
            if self._spent + time.monotonic() - begun < self._patience:
                return work.answer(part, key)
            return self._helpers.answer(work, part, key)

        asked = (partial(answer, key, part) for key, part in parts.items())
        yield from _in_order(self._threads, asked, self._helpers.stop)
        self._spent += time.monotonic() - begun

    def close(self) -> None:
        self._helpers.close()
        super().close()


register_engine("streamed", lambda _: Streamed())


# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt, in bytes.
_KEPT = {-1: 2**27, -3: 2**25}
_BEGIN = "from sordino.engines.local import serve; serve()"
# The environment of worker processes: products on one core, no device taken, memory that Arrow has freed stays, and
# nothing is imported from the working folder.
WORKERS_OWN = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "MIMALLOC_PURGE_DELAY": "-1",
    "PYTHONSAFEPATH": "1",
}
_ENDS_IN, _LOOK_EVERY = 5.0, 1.0
MOST_LOSSES = 5  # a part that has ended so many helpers is not tried again: something about it ends them


class Unanswered(Exception):
    """A question that holds something only this process knows, or no helper to ask."""


class Ended(Unanswered):
    """A helper that ended before it answered."""


class Helper:
    """One process that answers questions, one after the other."""

    def __init__(self) -> None:
        found = os.pathsep.join(path for path in sys.path if path)
        environment = os.environ | WORKERS_OWN | {"PYTHONPATH": found}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # a trace may quote a cell
                env=environment,
            )
        except OSError:
            raise Unanswered from None

    def answer(self, work: Work, part: TablePart, key: str) -> PartAnswer:
        """What a thread would answer."""
        try:
            sent = pickle.dumps((work, part, key), protocol=5)
        except Exception:  # whatever an object of another package says of being pickled
            raise Unanswered from None
        if self._process.stdin is None or self._process.stdout is None:
            raise Unanswered
        try:
            self._process.stdin.write(sent)
            self._process.stdin.flush()
            kind, found = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise Ended from None
        if kind == "unknown":
            raise Unanswered
        if kind == "refused":
            raise InputError(found)
        return PartAnswer(*found)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End the process, which ends by itself where nothing more can be sent to it."""
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with suppress(OSError):  # it is gone already
                pipe.close()
        try:
            self._process.wait(_ENDS_IN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _read_only(given: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(given)


# Settings of a fit are mappings that cannot be written to, which pickle only with this registration.
copyreg.pickle(MappingProxyType, lambda given: (_read_only, (dict(given),)))


class Helpers:
    """As many helpers as threads ask at once, started when they are first needed, until one could not answer.

    Where it `replaces` them, one that ended is followed by another, and only what cannot travel is answered here.
    """

    def __init__(self, make: Callable[[], Helper] = Helper, *, replaces: bool = False) -> None:
        self._make, self._replaces, self._lock = make, replaces, threading.Lock()
        self._idle, self._busy = list[Helper](), list[Helper]()
        self._use, self._stopped = True, False

    def answer(self, work: Work, part: TablePart, key: str) -> PartAnswer:
        """The answer of a helper, or of this thread where no helper has one."""
        losses = 0
        while self._use and part.shared:
            try:
                return self._asked(work, part, key)
            except Ended:
                losses += 1
                self._use = self._replaces
                if self._stopped:
                    raise
                if losses == MOST_LOSSES:
                    raise SordinoError(
                        f"{part.name} ended the process that worked on it {losses} times. Give the machine more memory "
                        "or fewer workers; with --keep finished parts are not done again."
                    ) from None
            except Unanswered:
                self._use = False
        return work.answer(part, key)

    def _asked(self, work: Work, part: TablePart, key: str) -> PartAnswer:
        with self._lock:
            helper = self._idle.pop() if self._idle else None
        helper, whole = helper or self._make(), True
        self._busy.append(helper)
        if self._stopped:
            helper.kill()
        try:
            return helper.answer(work, part, key)
        except BaseException as error:
            whole = isinstance(error, InputError)
            raise
        finally:
            with self._lock:
                self._busy.remove(helper)
                self._idle += [helper] if whole else []
            if not whole:
                helper.close()

    def stop(self) -> None:
        """End the helpers that are at work."""
        self._stopped = True
        for helper in tuple(self._busy):
            helper.kill()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for helper in idle:
            helper.close()


def serve() -> None:
    """What a helper does until nothing more can be sent to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt ends who asks, and with that the helper
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    keep_memory()
    # What libraries print does not get between answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            work, part, key = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        except Exception:  # it holds something that this process cannot import, so what follows makes no sense either
            _send(answers, "unknown", None)
            return
        try:
            _send(answers, "found", tuple(work.answer(part, key)))
        except InputError as error:
            _send(answers, "refused", str(error))
        except Exception:  # who asks meets it as well, and says what it is
            _send(answers, "unknown", None)


def _end_with(parent: int) -> None:
    """A parent that was killed cannot say so, and nobody reads what is still computed."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)


def _send(answers: Any, kind: str, found: Any) -> None:
    pickle.dump((kind, found), answers, protocol=5)
    answers.flush()


@cache
def keep_memory() -> None:
    """Let this process, which works for others, keep up to 128 MiB of the memory that arrays come and go in."""
    try:
        change = ctypes.CDLL(None).mallopt  # of the GNU library
    except (OSError, AttributeError, TypeError):
        return
    for what, size in _KEPT.items():
        change(what, size)
