"""Engines of this machine: a part for each core, or rows for each core as DuckDB or Polars reads them.

Reading is the engine's, computing is not: DuckDB and Polars give Arrow batches, and the one kernel computes
contributions from them in threads, so that no engine's own exponential decides a bit.

After a while processes beside this one answer for parts, because threads share an address space: every page that one of
them takes or gives back stops the others, and Arrow and NumPy take and give back many. A helper is sent a question and
a part, and answers as a thread would, in the same bytes. Where it cannot (it was killed, or the question holds
something that only this process knows) the part is answered here: its answer is counted once in any case, by its key.
"""

import ctypes
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from sordino.core.validate import InputError
from sordino.data.sources.databases import connected, needed, quoted_list
from sordino.data.sources.in_memory import from_arrow
from sordino.data.sources.parquet_files import ParquetPart, opened_parquet
from sordino.data.sources.registry import ROWS_AT_ONCE, TablePart, read_without_quoting
from sordino.data.table import Table
from sordino.engines.totals import Engine, PartAnswer, Sum, Work, register_engine, summed
from sordino.engines.unit_buckets import Spread
from sordino.noise.randomness import cores

# Seconds of reading after which helpers are worth their start.
PATIENCE = 3.0


Answered = TypeVar("Answered")


def _in_order(threads: int, asked: Iterable[Callable[[], Answered]]) -> Iterator[Answered]:
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


class Streamed(Engine):
    """A part for each core, a few rows at a time; memory holds those alone.

    Args:
        threads: how many parts at once; absent: one for each core.
        patience: after so many seconds of reading, processes beside this one read on, see `Helper`; starting them
            takes a second or two of each core.
    """

    def __init__(self, threads: int | None = None, *, patience: float = PATIENCE) -> None:
        self._threads = threads or cores()
        self._patience, self._spent, self._helpers = patience, 0.0, Helpers()

    def answers(self, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
        begun = time.monotonic()

        def answer(key: str, part: TablePart) -> PartAnswer:
            if self._threads == 1 or self._spent + time.monotonic() - begun < self._patience:
                return work.answer(part, key)
            return self._helpers.answer(work, part, key)

        yield from _in_order(self._threads, (partial(answer, key, part) for key, part in parts.items()))
        self._spent += time.monotonic() - begun

    def close(self) -> None:
        self._helpers.close()
        super().close()


Scan = Callable[[Sequence[str], Sequence[str]], Iterator[Any]]


class Scanned(Engine):
    """Whole Parquet files as another library scans them, other parts by Sordino's readers; all cores compute."""

    def __init__(self, scan: Scan, threads: int | None = None) -> None:
        self._scan = scan
        self._threads = threads or cores()

    def answers(self, work: Work, parts: dict[str, TablePart]) -> Iterator[PartAnswer]:
        if not work.adds:
            yield from Streamed(self._threads).answers(work, parts)
            return
        for key, part in parts.items():
            total = Sum(work)
            tables = self._tables(work, part)
            for found in _in_order(self._threads, (partial(summed, work, (one,), part.name) for one in tables)):
                total.add_sum(found)
            yield total.answer(key)

    def _tables(self, work: Work, part: TablePart) -> Iterator[Table]:
        if isinstance(part, ScannedFiles):
            for batch in read_without_quoting(part.name, self._scan(part.paths, work.columns)):
                yield from_arrow(batch)
        else:
            yield from work.tables(part)

    def arranged(self, parts: Sequence[TablePart], spread: Spread | None) -> list[TablePart]:
        """The library scans plain Parquet files of one schema together; all others are read part by part.

        Folders whose names say columns are such others. So are files of several types: DuckDB would cast the cells of
        all files to the types of the first.
        """
        files = [part for part in parts if isinstance(part, ParquetPart) and not part.keys]
        if spread is None and len(files) == len(parts) and len({_types(path) for path in _paths(files)}) == 1:
            return [ScannedFiles(files)]
        return super().arranged(parts, spread)


def _paths(parts: Sequence[ParquetPart]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.path for part in parts))


def _types(path: str) -> str:
    with opened_parquet(path) as file:
        return str(file.schema_arrow.remove_metadata())


class ScannedFiles(TablePart):
    """Parquet files that are scanned together."""

    def __init__(self, parts: Sequence[ParquetPart]) -> None:
        self.paths = _paths(parts)
        self._parts = parts

    @property
    def name(self) -> str:
        return f"{self.paths[0]!r}" + (f" and {len(self.paths) - 1} more files" if len(self.paths) > 1 else "")

    def names(self) -> tuple[str, ...]:
        return self._parts[0].names()

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for part in self._parts:
            yield from part.tables(columns)


def _duckdb(paths: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    files = [_plain(path) for path in paths]
    with connected(files=files) as connection:
        asked = f"SELECT {quoted_list(columns)} FROM read_parquet($1, hive_partitioning = false)"
        found = connection.sql(asked, params=[files])
        yield from found.to_arrow_reader(ROWS_AT_ONCE)


def _polars(paths: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    polars = needed("polars", "polars")
    # Without a selector Polars takes a name between ^ and $ for a pattern.
    frame = polars.scan_parquet(list(paths), glob=False, hive_partitioning=False)
    frame = frame.select(polars.selectors.by_name(*columns))
    yield from frame.collect_batches(chunk_size=ROWS_AT_ONCE, maintain_order=False)


def _plain(path: str) -> str:
    """A path in which DuckDB sees no pattern."""
    if any(mark in path for mark in "*?["):
        raise InputError(f"Expected paths without *, ? and [ for the engine 'duckdb', got {path!r}; rename the file.")
    return path


def _scanned(package: str, extra: str, scan: Scan) -> Callable[[str], Engine]:
    def make(_: str) -> Engine:
        needed(package, extra)  # an engine that is not there is refused before anything is debited
        return Scanned(scan)

    return make


register_engine("streamed", lambda _: Streamed())
register_engine("duckdb", _scanned("duckdb", "duckdb", _duckdb))
register_engine("polars", _scanned("polars", "polars", _polars))


# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt, in bytes.
_KEPT = {-1: 2**27, -3: 2**25}
_BEGIN = "from sordino.engines.local import serve; serve()"
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

    def answer(self, work: Work, part: TablePart, key: str) -> PartAnswer:
        """What a thread would answer."""
        try:
            sent = pickled((work, part, key))
        except Exception:  # whatever an object of another package says of being pickled
            raise Unanswered(again=False) from None
        if self._process.stdin is None or self._process.stdout is None:
            raise Unanswered(again=False)
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

    def answer(self, work: Work, part: TablePart, key: str) -> PartAnswer:
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
