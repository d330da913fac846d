"""Calls of a user's callable or program, in processes that may hang or die: outputs in order, or one clear sentence.

A call that hangs is ended after a while, a process that dies is started again, and both are outputs like any other: a
mechanism that dies on one dataset only tells it from its neighbour. What no audit can work with (nothing can be
imported, an output that is no data, random numbers that are the same in every process) is refused.
"""

import contextlib
import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Annotated, Any, NamedTuple, cast

import numpy as np
from scipy.stats import rankdata

from sordino.auditing.hunter import worker
from sordino.core.validate import OPEN_UNIT, POSITIVE, Declared, InputError, Interval

Cell = float | int | str
Record = Cell | tuple[Cell, ...]
Table = tuple[Record, ...]
MOST_HANGS, MOST_DEATHS, PATIENCE = 3, 24, 120.0
_AFRESH = "It keeps state between calls; make each call start afresh."
# Tables of one request at most; deviations of a dependence; answers that a seeded generator is judged by.
_PIECE, _DEVIATIONS, _SURE = 64, 6.0, 64
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "PYTHONUNBUFFERED": "1",
    "PYTHONSAFEPATH": "1",  # a worker looks for the callable in the folder it was given
}


class CallOutput(NamedTuple):
    """What one call gave: types, lengths and keys; numbers; texts."""

    shape: str
    numbers: tuple[float, ...]
    texts: tuple[str, ...]

    @staticmethod
    def of(encoded: Sequence[Any]) -> "CallOutput":
        shape, numbers, texts = encoded
        return CallOutput(shape, tuple(map(float, numbers)), tuple(texts))


@dataclass(frozen=True)
class HunterTarget:
    """What is audited: an `attribute` of the "module" or "file" (`place`) `where`, or a "program"."""

    words: str
    place: str
    where: str
    attribute: str = ""

    @staticmethod
    def named(text: str) -> bool:
        """Whether a text names a callable or a program, and no file."""
        return text.partition(":")[0] in {"python", "program"} and ":" in text

    @staticmethod
    def parse(text: str) -> "HunterTarget":
        """`python:module:callable`, `python:path/file.py:callable` or `program:path`."""
        kind, _, rest = text.partition(":")
        if kind == "program" and rest:
            path = shutil.which(rest) or rest
            if not os.path.isfile(path) or not os.access(path, os.X_OK):
                raise InputError(f"Expected program: with the path of a program that can be run, got {rest!r}.")
            return HunterTarget(text, "program", os.path.abspath(path))
        where, _, attribute = rest.rpartition(":")
        if kind != "python" or not where or not all(part.isidentifier() for part in attribute.split(".")):
            raise InputError(f"Expected python:module:callable or program:path, got {text!r}.")
        if where.endswith(".py"):
            if not os.path.isfile(where):
                raise InputError(f"{text!r} names no Python file: {where!r}.")
            return HunterTarget(text, "file", os.path.abspath(where), attribute)
        return HunterTarget(text, "module", where, attribute)

    @staticmethod
    def of(mechanism: Any) -> "HunterTarget":
        """The target of a function at hand: a top-level function of a file."""
        module, name = getattr(mechanism, "__module__", None), getattr(mechanism, "__qualname__", "")
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        if not module or not name or "<" in name:
            raise InputError("No other process can import a lambda or an inner function. Put it at a file's top level.")
        if module == "__main__" and file is None:
            raise InputError("Another process cannot import what is typed into a session. Save it in a file.")
        if module == "__main__":
            return HunterTarget(f"python:{file}:{name}", "file", os.path.abspath(str(file)), name)
        return HunterTarget(f"python:{module}:{name}", "module", module, name)


@dataclass(frozen=True, kw_only=True)
class HunterOptions(Declared):
    """How long and how surely to hunt: `confidence` is joint over all that is tried; `calls` replace `seconds`.

    A call that takes longer than `call_seconds` is ended. `python` is the interpreter of the callable; `folders` are
    searched for modules first.
    """

    confidence: Annotated[float, OPEN_UNIT] = 0.999
    seconds: Annotated[float, POSITIVE] = 60.0
    calls: Annotated[int | None, Interval(100)] = None
    seed: Annotated[int | None, Interval(0, 2**128 - 1)] = None
    processes: Annotated[int, Interval(1, 64)] = 2
    call_seconds: Annotated[float, POSITIVE] = 10.0
    python: str | None = None
    folders: tuple[str, ...] = ()


class Workers:
    """Processes of one target, each call for `call_seconds` at most; use as a context, so that none is left behind."""

    def __init__(self, target: HunterTarget, options: HunterOptions) -> None:
        self.target, self.options, self.python = target, options, options.python or sys.executable
        if shutil.which(self.python) is None:
            raise InputError(f"Expected the path of a Python interpreter, got {self.python!r}, which cannot be run.")
        self.processes: list[_Process] = []
        self._free: SimpleQueue[_Process] = SimpleQueue()
        self.hangs = self.deaths = self.answers = 0

    def __enter__(self) -> "Workers":
        try:
            for _ in range(self.options.processes):
                self.processes.append(_Process(self))
                self._free.put(self.processes[-1])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.end()
        self.processes = []

    def run(self, tables: Sequence[Table]) -> list[CallOutput]:
        size = max(1, min(_PIECE, len(tables) // (4 * self.options.processes)))
        pieces = [tables[first : first + size] for first in range(0, len(tables), size)]

        def answered(piece: Sequence[Table]) -> list[CallOutput]:
            process = self._free.get()
            try:
                return process.outputs(piece)
            finally:
                self._free.put(process)

        with ThreadPoolExecutor(self.options.processes) as threads:
            return [output for outputs in threads.map(answered, pieces) for output in outputs]

    def run_in_each(self, table: Table, calls: int) -> list[list[CallOutput]]:
        """So many outputs on one table from every process, to compare what processes begin with."""
        return [process.outputs([table] * calls) for process in self.processes]


class _Process:
    """A worker; when a call ends it, another takes its place."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._start()

    def _start(self) -> None:
        workers, self._unread = self._workers, b""
        own, target = workers.python == sys.executable, workers.target
        kept = {name: value for name, value in os.environ.items() if own or not name.startswith("PYTHON")}
        self._child = subprocess.Popen(
            [workers.python, worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept | ONE_THREAD,
            start_new_session=True,  # what the callable starts ends with it
        )
        # Both are pipes, as was asked for.
        self._requests, self._answers = cast("IO[bytes]", self._child.stdin), cast("IO[bytes]", self._child.stdout)
        self.history: deque[tuple[Table, CallOutput]] = deque(maxlen=20_000)
        path = [*workers.options.folders, os.getcwd(), *(place for place in sys.path if own and place)]
        self._send({"target": [target.place, target.where, target.attribute], "path": path})
        first = self._line(PATIENCE)
        if isinstance(first, str) or "refused" in first:
            reason = f"a process that ended ({first})" if isinstance(first, str) else first["refused"]
            self.end()
            raise InputError(f"Expected {target.words} to be a callable, got {reason}.")
        self.declared = first["claim"]

    def outputs(self, tables: Sequence[Table]) -> list[CallOutput]:
        """One output for each table; a call that ends the process has that for an output."""
        workers, found, sent = self._workers, list[CallOutput](), False
        while len(found) < len(tables):
            if not sent:
                self._send(tables[len(found) :])
            answer = self._line(workers.options.call_seconds)
            sent = not isinstance(answer, str)
            if isinstance(answer, dict):
                raise InputError(
                    f"{workers.target.words} must return numbers, texts or collections of them: {answer['refused']}."
                )
            if isinstance(answer, str):
                workers.hangs, workers.deaths = workers.hangs + (answer == "hung"), workers.deaths + (answer != "hung")
                if workers.hangs >= MOST_HANGS:
                    raise InputError(
                        f"{MOST_HANGS} calls of {workers.target.words} did not end within "
                        f"{workers.options.call_seconds:g} s. Allow longer calls, or declare smaller tables."
                    )
                if workers.deaths >= MOST_DEATHS and not workers.answers:
                    raise InputError(f"The process of {workers.target.words} {answer} in {MOST_DEATHS} calls.")
                self._start()
                found.append(CallOutput(answer, (), ()))
            else:
                workers.answers += 1
                found.append(CallOutput.of(answer))
                self.history.append((tables[len(found) - 1], found[-1]))
        return found

    def _send(self, message: Any) -> None:
        # A process that is gone is noticed when it is read from.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._requests.write(json.dumps(message).encode() + b"\n")
            self._requests.flush()

    def _line(self, seconds: float) -> Any:
        """The next line that the worker writes, or how the process ended, as text."""
        end = time.monotonic() + seconds
        while b"\n" not in self._unread:
            if not select.select([self._answers], [], [], max(0.0, end - time.monotonic()))[0]:
                self.end()
                return "hung"
            piece = os.read(self._answers.fileno(), 1 << 20)
            if not piece:
                return f"died ({self.end()})"
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def end(self) -> str:
        """Stop it with all it started; how it ended, in words."""
        code = self._child.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        final = self._child.wait()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        code = final if code is None else code
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


def refuse_seeded(workers: Workers, table: Table, words: str) -> None:
    """Refuse random numbers that are the same in every process, and a first answer that is kept for later calls."""
    first, second = workers.run_in_each(table, 8)[:2]
    if first == second and len(set(first)) > 1:
        # Eight answers of a fair coin agree in one of 256 hunts, all of these in none.
        first, second = workers.run_in_each(table, _SURE)[:2]
    if first == second and len(set(first)) > 1:
        raise InputError(f"{words} gives the same outputs in every process. Do not seed its generator.")
    if len(set(first)) == len(set(second)) == 1 and first != second:
        raise InputError(f"{words} gives one answer for all calls in a process. {_AFRESH}")


def refuse_dependent(workers: Workers, words: str) -> None:
    """Refuse calls that depend on earlier ones; calls were made in random order, so chance does so once in 10^7."""
    for process in workers.processes:
        if dependence(process.history) > _DEVIATIONS:
            raise InputError(f"The outputs of {words} depend on earlier calls. {_AFRESH}")


def dependence(history: Sequence[tuple[Table, CallOutput]]) -> float:
    """By how many deviations outputs, as ranks in their table, follow the call's number, the output or table before."""
    places: dict[Table, int] = {}
    tables = np.array([places.setdefault(table, len(places)) for table, _ in history])
    first = np.array([output.numbers[0] if output.numbers else np.nan for _, output in history])
    ranks = np.zeros(len(tables))
    for table in np.unique(tables):
        own = (tables == table) & ~np.isnan(first)
        if own.sum() >= 20:
            found = rankdata(first[own])
            ranks[own] = (found - found.mean()) / max(found.std(), 1e-300)
    if len(ranks) < 100 or not ranks.any():
        return 0.0
    before, after = ranks[:-1], ranks[1:]
    root = math.sqrt(len(after))
    trend = np.linspace(-math.sqrt(3), math.sqrt(3), len(ranks))
    found = [abs(float(before @ after)) / root, abs(float(trend @ ranks)) / math.sqrt(len(ranks))]
    for table in np.unique(tables[:-1]):
        chosen = after[tables[:-1] == table]
        if chosen.size >= 20:
            found.append(abs(float(chosen.sum())) / math.sqrt(chosen.size))
    return max(found)
