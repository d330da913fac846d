"""Processes beside this one that answer for parts, because threads of one process wait for each other.

Threads share an address space: every page that one of them takes or gives back stops the others, and Arrow and NumPy
take and give back many. A process of its own keeps the memory that it once had, which it may, because nobody else works
in it. A helper is sent a question and a part, and answers as a thread would, in the same bytes. Where it cannot (it was
killed, or the question holds something that only this process knows) the part is answered here: its answer is counted
once in any case, by its key.
"""

import ctypes
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache
from types import MappingProxyType
from typing import Any

from sordino.algorithm.engines.work import PartAnswer, Work
from sordino.core.validate import InputError
from sordino.data.sources.part import Part

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt, in bytes.
_KEPT = {-1: 2**27, -3: 2**25}
_BEGIN = "from sordino.algorithm.engines.helpers import serve; serve()"
# Of processes that work for others: products on one core, no device taken, memory that Arrow has freed stays, and
# nothing is imported from the working folder.
WORKERS_OWN = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "MIMALLOC_PURGE_DELAY": "-1",
    "PYTHONSAFEPATH": "1",
}
_ENDS_IN = 5.0


class Unanswered(Exception):
    """A helper that cannot answer; whether another one could."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


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
            raise Unanswered(again=False) from None

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def answer(self, work: Work, part: Part, key: str) -> PartAnswer:
        """What a thread would answer."""
        try:
            sent = pickled((work, part, key))
        except Exception:  # whatever an object of another package says of being pickled
            raise Unanswered(again=False) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(sent)
            self._process.stdin.flush()
            kind, found = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise Unanswered(again=True) from None
        if kind == "unknown":
            raise Unanswered(again=False)
        if kind == "refused":
            raise InputError(found)
        return PartAnswer(*found)

    def close(self) -> None:
        """End the process, which ends by itself where nothing more can be sent to it."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # it is gone already
                continue
        try:
            self._process.wait(_ENDS_IN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Pickler(pickle.Pickler):
    """Settings of a fit are mappings that cannot be written to, which are not pickled without being told how."""

    def reducer_override(self, obj: Any) -> Any:
        return (_read_only, (dict(obj),)) if isinstance(obj, MappingProxyType) else NotImplemented


def _read_only(given: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(given)


def pickled(given: Any) -> bytes:
    """What is sent to a helper."""
    text = io.BytesIO()
    _Pickler(text, protocol=5).dump(given)
    return text.getvalue()


class Helpers:
    """As many helpers as threads ask at once, started when they are first needed."""

    def __init__(self, make: Callable[[], Helper] = Helper) -> None:
        self._make, self._lock = make, threading.Lock()
        self._idle: list[Helper] = []
        self._use = True

    def answer(self, work: Work, part: Part, key: str) -> PartAnswer:
        """The answer of a helper, or of this thread where no helper has one."""
        if not (self._use and part.shared):
            return work.answer(part, key)
        helper = None
        try:
            with self._lock:
                helper = self._idle.pop() if self._idle else None
            helper = helper or self._make()
            found = helper.answer(work, part, key)
        except Unanswered as unanswered:
            if helper is not None:
                helper.close()
            self._use = self._use and unanswered.again
            return work.answer(part, key)
        except InputError:
            self._back(helper)
            raise
        except BaseException:
            if helper is not None:
                helper.close()
            raise
        self._back(helper)
        return found

    def _back(self, helper: Helper | None) -> None:
        if helper is not None:
            with self._lock:
                self._idle.append(helper)

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            idle, self._idle = self._idle, []
        for helper in idle:
            helper.close()


def serve() -> None:
    """What a helper does until nothing more can be sent to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt ends who asks, and with that the helper
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


def _send(answers: Any, kind: str, found: Any) -> None:
    pickle.dump((kind, found), answers, protocol=5)
    answers.flush()


@cache
def keep_memory() -> None:
    """Let this process, which works for others, keep some of the memory that arrays come and go in.

    Otherwise the system clears a fresh page for each few rows that are summed. Dask has its workers give back every 64
    KiB, which costs half as much again as what is computed of rows. With this up to 128 MiB stay.
    """
    try:
        change = ctypes.CDLL(None).mallopt  # of the GNU library
    except (OSError, AttributeError, TypeError):
        return
    for what, size in _KEPT.items():
        change(what, size)
