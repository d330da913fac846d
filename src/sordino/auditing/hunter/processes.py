"""Calls of a user's callable or program, in processes that may hang or die: outputs in order, or one clear sentence.

Workers hear from this process alone, through pipes. A call that hangs is ended after a while, a process that dies is
started again, and both are outputs like any other: a mechanism that dies on one dataset only tells it from its
neighbour. What no audit can work with (nothing can be imported, an output that is no data, random numbers that are the
same in every process) is refused.
"""

import contextlib
import json
import math
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, cast

import numpy as np
from scipy.stats import rankdata

from sordino.auditing.hunter import worker
from sordino.core.validate import InputError

Table = tuple[Any, ...]
MOST_HANGS, MOST_DEATHS, PATIENCE = 3, 24, 120.0
_NO_LINE, _DEVIATIONS, _SURE = 1.0, 6.0, 64
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "PYTHONUNBUFFERED": "1",
}


class CallOutput(NamedTuple):
    """What one call gave: types, lengths and keys; numbers; texts."""

    shape: str
    numbers: tuple[float, ...]
    texts: tuple[str, ...]


class Runner(Protocol):
    """Something that can be asked for outputs of a mechanism on tables."""

    def run(self, tables: Sequence[Table]) -> list[CallOutput]:
        """One output for each table, in order."""
        ...


@dataclass(frozen=True)
class HunterTarget:
    """What is audited: a callable by module or file, or a program that answers lines of JSON.

    `place` is "module", "file" or "program", `where` the module or path, `attribute` the callable's name inside.
    """

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
                raise InputError(f"Expected a Python file in {text!r}, got {where!r}, which is none.")
            return HunterTarget(text, "file", os.path.abspath(where), attribute)
        return HunterTarget(text, "module", where, attribute)

    @staticmethod
    def of(mechanism: Any) -> "HunterTarget":
        """The target of a function at hand: importable by name, or a top-level function of a file."""
        module, name = getattr(mechanism, "__module__", None), getattr(mechanism, "__qualname__", "")
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        if not module or not name or "<" in name:
            raise InputError(
                "Expected a function that another process can import, got one made inside another function or a "
                "lambda; put it at the top level of a module or a file."
            )
        if file is None and module == "__main__":
            raise InputError("Expected a function in a file, got one typed into a session; save it in a module first.")
        if file is None or (module != "__main__" and _importable(module)):
            return HunterTarget(f"python:{module}:{name}", "module", module, name)
        return HunterTarget(f"python:{file}:{name}", "file", os.path.abspath(file), name)


def _importable(module: str) -> bool:
    parts = module.split(".")
    spots = [Path(place or ".").joinpath(*parts) for place in sys.path]
    return any(spot.with_suffix(".py").exists() or (spot / "__init__.py").exists() for spot in spots)


class _Process:
    """One child, what it was asked and has not answered, and what it has written of the next line."""

    def __init__(self, target: HunterTarget, python: str, folders: Sequence[str]) -> None:
        own = python == sys.executable
        command = [target.where] if target.place == "program" else [python, worker.__file__]
        kept = {name: value for name, value in os.environ.items() if own or not name.startswith("PYTHON")}
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # A worker looks for the callable where it is told to; how a program finds its modules is its own affair.
            env=kept | ONE_THREAD | ({} if target.place == "program" else {"PYTHONSAFEPATH": "1"}),
            start_new_session=True,  # what the callable starts ends with it
        )
        # Both are pipes, as was asked for.
        self.requests, self.answers = cast("IO[bytes]", self.child.stdin), cast("IO[bytes]", self.child.stdout)
        self.asked: deque[int] = deque()
        self.history: deque[tuple[int, CallOutput]] = deque(maxlen=20_000)  # the table of each call and its output
        self.known: set[int] = set()
        self._written = b""
        self.heard_at = time.monotonic()
        self.answered = 0
        if target.place != "program":
            path = [*folders, os.getcwd(), *(place for place in sys.path if own and place)]
            self.send({"target": [target.place, target.where, target.attribute], "path": path})

    def send(self, message: Any) -> None:
        # A process that is gone is noticed when it is read from.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.requests.write(json.dumps(message).encode() + b"\n")
            self.requests.flush()

    def end_input(self) -> None:
        """Nothing more will be sent."""
        with contextlib.suppress(BrokenPipeError):
            self.requests.close()

    def lines(self) -> list[bytes] | None:
        """What it has answered since; None when its output has ended."""
        piece = os.read(self.answers.fileno(), 1 << 20)
        if not piece:
            return None
        self.heard_at = time.monotonic()
        *lines, self._written = (self._written + piece).split(b"\n")
        return lines

    def end(self) -> str:
        """Stop it with all it started; how it ended, in words."""
        code = self.child.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        final = self.child.wait()
        for pipe in (self.requests, self.answers):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        code = final if code is None else code
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


class Workers:
    """So many processes of one target; use as a context, so that none is left behind.

    `python` is the interpreter of the environment the callable lives in, this one if absent. A call that takes longer
    than `call_seconds` is ended. `folders` are searched for modules before all others.
    """

    def __init__(
        self,
        target: HunterTarget,
        *,
        python: str | None = None,
        processes: int = 2,
        call_seconds: float = 10.0,
        folders: Sequence[str] = (),
    ) -> None:
        self._target, self._python, self._folders = target, python or sys.executable, folders
        if shutil.which(self._python) is None:
            raise InputError(f"Expected the path of a Python interpreter, got {self._python!r}, which cannot be run.")
        self._call_seconds, self._count = call_seconds, processes
        self._tables: list[Table] = []
        self._numbers: dict[Table, int] = {}
        self._processes: list[_Process] = []
        self._reads_to_the_end = False
        self.declared: Any = None  # what the callable's own module says that it claims
        self.hangs = self.deaths = self.answers = 0

    def __enter__(self) -> "Workers":
        try:
            self._processes = [self._started() for _ in range(self._count)]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.end()
        self._processes = []

    def _started(self) -> _Process:
        process = _Process(self._target, self._python, self._folders)
        if self._target.place != "program":
            words = self._first_words(process)
            if "refused" in words:
                process.end()
                raise InputError(f"Expected {self._target.words} to be a callable, got {words['refused']}.")
            self.declared = words.get("claim")
        return process

    def _first_words(self, process: _Process) -> dict[str, Any]:
        """What a worker says once its module is imported, or how it ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(process.answers, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                return {"refused": f"an import that was not finished after {PATIENCE:g} s"}
        lines = process.lines()
        return {"refused": f"a process that ended ({process.end()})"} if not lines else json.loads(lines[0])

    def run(self, tables: Sequence[Table]) -> list[CallOutput]:
        """One output for each table, in order; the calls are spread over the processes."""
        numbers = [self._number(table) for table in tables]
        outputs: list[CallOutput | None] = [None] * len(numbers)
        waiting = deque(range(len(numbers)))
        share = 1 if self._target.place == "program" else max(1, min(64, len(numbers) // (4 * self._count)))
        while waiting or any(process.asked for process in self._processes):
            for process in self._processes:
                if not process.asked and waiting:
                    self._ask(process, [waiting.popleft() for _ in range(min(share, len(waiting)))], numbers)
            self._hear(outputs, waiting, numbers)
        return [output for output in outputs if output is not None]

    def run_in_each(self, table: Table, calls: int) -> list[list[CallOutput]]:
        """So many outputs on one table from every process, to compare what processes begin with."""
        everything, found = self._processes, []
        for process in everything:
            self._processes = [process]
            try:
                found.append(self.run([table] * calls))
            finally:
                everything = [self._processes[0] if one is process else one for one in everything]
                self._processes = everything
        return found

    @property
    def histories(self) -> list[Sequence[tuple[int, CallOutput]]]:
        """What each process was asked and answered since it started, in order."""
        return [process.history for process in self._processes]

    def _number(self, table: Table) -> int:
        if table not in self._numbers:
            self._numbers[table] = len(self._tables)
            self._tables.append(table)
        return self._numbers[table]

    def _ask(self, process: _Process, calls: list[int], numbers: list[int]) -> None:
        process.asked.extend(calls)
        process.heard_at = time.monotonic()
        if self._target.place == "program":
            process.send(_plain(self._tables[numbers[calls[0]]]))
            if self._reads_to_the_end:
                process.end_input()
            return
        wanted = {numbers[call] for call in calls} - process.known
        process.known |= wanted
        tables = {str(number): _special(_listed(self._tables[number])) for number in wanted}
        process.send({"tables": tables, "calls": [numbers[call] for call in calls]})

    def _hear(self, outputs: list[CallOutput | None], waiting: deque[int], numbers: list[int]) -> None:
        busy = [process for process in self._processes if process.asked]
        with selectors.DefaultSelector() as selector:
            for process in busy:
                selector.register(process.answers, selectors.EVENT_READ, process)
            ready = [key.data for key, _ in selector.select(0.2)]
        now = time.monotonic()
        for process in busy:
            if self._target.place == "program" and process not in ready and now - process.heard_at > _NO_LINE:
                self._reads_to_the_end = True  # it has a line and says nothing: it waits for the end of its input
                process.end_input()
            lines = process.lines() if process in ready else []
            for line in lines or ():
                self._take(line, process, outputs, numbers)
            if lines is None:
                self._lost(process, outputs, waiting, hung=False)
            elif process.asked and process not in ready and now - process.heard_at > self._call_seconds:
                self._lost(process, outputs, waiting, hung=True)

    def _take(self, line: bytes, process: _Process, outputs: list[CallOutput | None], numbers: list[int]) -> None:
        try:
            answer = json.loads(line)
        except ValueError:
            raise InputError(f"{self._target.words} must write one line of JSON.") from None
        if self._target.place == "program":
            answer = worker.encode(answer)
        elif isinstance(answer, dict):
            raise InputError(
                f"Expected {self._target.words} to return numbers, texts, lists, dicts or arrays, but "
                f"{answer['refused']}; return data."
            )
        if process.asked:
            process.answered += 1
            self.answers += 1
            call, output = process.asked.popleft(), _output(answer)
            outputs[call] = output
            process.history.append((numbers[call], output))

    def _lost(self, process: _Process, outputs: list[CallOutput | None], waiting: deque[int], *, hung: bool) -> None:
        """A process hangs or has ended: its call in hand has that for an output, the others wait again."""
        words = process.end()
        in_hand = process.asked.popleft()
        waiting.extendleft(reversed(process.asked))
        place = self._processes.index(process)
        if self._target.place == "program" and not hung and process.answered and words == "exit code 0":
            waiting.appendleft(in_hand)  # a program may answer once and end: it is started again for the next call
        else:
            outputs[in_hand] = CallOutput("hung" if hung else f"died ({words})", (), ())
            self.hangs, self.deaths = self.hangs + hung, self.deaths + (not hung)
        self._processes[place] = self._started()
        if self.hangs >= MOST_HANGS:
            raise InputError(
                f"Expected calls of {self._target.words} to end within {self._call_seconds:g} s, got {self.hangs} that "
                "did not; allow longer calls, or declare a domain of smaller tables."
            )
        if self.deaths >= MOST_DEATHS and not self.answers:
            raise InputError(
                f"Expected {self._target.words} to return, got a process that ended in {self.deaths} calls ({words})."
            )


def refuse_seeded(workers: Workers, table: Table, words: str) -> None:
    """Refuse random numbers that are the same in every process, and a first answer that is kept for later calls."""
    first, second = workers.run_in_each(table, 8)[:2]
    if first == second and len(set(first)) > 1:
        # Eight answers of a fair coin agree in one of 256 hunts, all of these in none.
        first, second = workers.run_in_each(table, _SURE)[:2]
    if first == second and len(set(first)) > 1:
        raise InputError(
            f"Expected {words} to draw fresh random numbers, got the same outputs in every process: its generator is "
            "seeded, so its noise can be subtracted; draw the seed from the operating system."
        )
    if len(set(first)) == len(set(second)) == 1 and first != second:
        raise InputError(
            f"Expected calls of {words} to be independent, got one answer in a process for all of its calls: it keeps "
            "state between calls; make each call start afresh."
        )


def refuse_dependent(workers: Workers, words: str) -> None:
    """Refuse calls that depend on earlier ones; calls were made in random order, so chance does so once in 10^7."""
    for history in workers.histories:
        if dependence(history) > _DEVIATIONS:
            raise InputError(
                f"Expected calls of {words} to be independent, got outputs that depend on the calls before: it keeps "
                "state between calls; make each call start afresh."
            )


def dependence(history: Sequence[tuple[int, CallOutput]]) -> float:
    """By how many deviations outputs follow the number of the call, the output before or the table before.

    Outputs are compared by ranks within their table, so that tables with different laws in a random order show nothing.
    """
    tables = np.array([table for table, _ in history])
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


def _listed(table: Table) -> list[Any]:
    return [list(row) if isinstance(row, tuple) else row for row in table]


def _special(value: Any) -> Any:
    if isinstance(value, list):
        return [_special(part) for part in value]
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _plain(table: Table) -> list[Any]:
    """For programs: NaN and infinities as null, which is all that JSON has."""
    listed = _listed(table)
    return [[_null(cell) for cell in row] if isinstance(row, list) else _null(row) for row in listed]


def _null(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _output(encoded: Sequence[Any]) -> CallOutput:
    shape, numbers, texts = encoded
    return CallOutput(shape, tuple(float(number) for number in numbers), tuple(texts))
